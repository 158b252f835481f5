/* SPDX-License-Identifier: MIT */
/* Catches a signal and remembers it; acting on it is left to the training loop. */
#include "cluster/session/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

static atomic_bool requested, noticed;

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

const char *stop_words(void)
{
    static const char *const words[] = {"stopped by SIGUSR1", "stopped by SIGINT", "stopped by SIGTERM",
                                        "stopped by SIGHUP"};
    const char *path = getenv("DPTRAIN_ASKED");
    char name[16];
    if (!path || !path[0]) return words[0];
    fs_read_line(path, name, sizeof name);
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        if (strcmp(words[i] + strlen("stopped by "), name) == 0) return words[i];
    return "stopped on request";
}

bool stop_requested(void)
{
    const bool is = atomic_load_explicit(&requested, memory_order_relaxed);
    if (is) atomic_store(&noticed, true);
    return is;
}

void stop_request(void)
{
    atomic_store(&requested, true);
}

bool stop_was_noticed(void)
{
    return atomic_load(&noticed);
}
