/* SPDX-License-Identifier: MIT */
/* The watchdog's thread on simulated hosts: an actor, which a message of one byte wakes. In builds with SMPI=1, in place
 * of watchdog_thread.c. */
#include "base/sim.h"
#include "cluster/comm/watchdog_thread.h"

err_t watchdog_thread_start(watchdog_thread_t *w, void *(*run)(void *))
{
    w->wake_fd = -1;
    if (!sim_watch(run)) RAISE(ERR_SYSTEM, "cannot start the watchdog: out of memory");
    return ERR_OK;
}

void watchdog_thread_wake(const watchdog_thread_t *w)
{
    (void)w;
    sim_send(sim_rank(), "", 1);
}

/* The message has been received. */
void watchdog_thread_awoke(const watchdog_thread_t *w)
{
    (void)w;
}

void watchdog_thread_join(watchdog_thread_t *w)
{
    (void)w;
    sim_watch_join();
}

bool watchdog_thread_is_self(const watchdog_thread_t *w)
{
    (void)w;
    return sim_is_watcher();
}

double watchdog_thread_sec(const watchdog_thread_t *w)
{
    (void)w;
    return 0;
}
