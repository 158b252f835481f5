/* SPDX-License-Identifier: MIT */
/* A signal handler that removes one temporary file and re-raises the signal. It makes only async-signal-safe
 * calls. */
#include "tools/pack/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fs.h"

static char victim[FS_PATH_MAX];
static atomic_bool armed;

static void on_signal(int number)
{
    if (atomic_load(&armed)) unlink(victim);
    raise(number); /* SA_RESETHAND restored the default action */
}

void interrupt_removes(const char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    static bool caught;
    atomic_store(&armed, false);
    if (!path) return;
    snprintf(victim, sizeof victim, "%s", path);
    atomic_store(&armed, true);
    if (caught) return;
    caught = true;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction before;
        /* Signals that the launcher or nohup ignores stay ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
    }
}
