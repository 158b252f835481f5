/* SPDX-License-Identifier: MIT */
/* Catches a signal and remembers it; acting on it is left to the training loop. */
#include "cluster/session/stop.h"

#include <signal.h>
#include <stdatomic.h>

static atomic_bool requested;

static void on_signal(int number)
{
    (void)number;
    atomic_store(&requested, true);
}

void stop_catch(int number)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

bool stop_requested(void)
{
    return atomic_load_explicit(&requested, memory_order_relaxed);
}
