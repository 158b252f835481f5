/* SPDX-License-Identifier: MIT */
/* The watchdog: no rank waits forever. Each rank notes its phase in a page shared by the ranks of its host,
 * and has a thread that times its waits. When a wait exceeds the deadline, the first rank of a host to notice
 * reports the collective, the ranks that did not arrive, and what each was last doing; then the job is
 * aborted with ERR_PEER. Long before that it warns of a stall, in the same words. Not collective, except for
 * start and stop. */
#ifndef CLUSTER_WATCH_WATCHDOG_H
#define CLUSTER_WATCH_WATCHDOG_H

#include <stdbool.h>

#include "base/err.h"
#include "cluster/hosts/topo.h"
#include "cluster/watch/watchdog_slot.h"

typedef struct watchdog_limits {
    double timeout_sec;            /* of a wait; then the job ends */
    double stall_sec;              /* a warning after this long, and each time it has doubled; 0: none */
    void (*abort_job)(err_t code); /* ends the job from the watchdog's thread; must not return */
    struct side *side;             /* the channel to other hosts; must outlive watchdog_stop; NULL: none */
} watchdog_limits_t;

/* Starts the watchdog thread.
 *
 *   slots      [n_slots] must outlive watchdog_stop
 *   n_slots    topo->local_size, in memory shared by the host; or 1, this rank's only
 *   my_slot    index of this rank's slot */
err_t watchdog_start(watchdog_slot_t *slots, int n_slots, int my_slot, const topo_t *topo,
                     const watchdog_limits_t *limits);
void watchdog_stop(void);
/* To be called before this process ends early, for a reason of its own: others are not to report it as lost.
 * Names processes that ended before. Waits a moment for the watchdog's thread. */
void watchdog_say_goodbye(void);

/* Bracket every blocking wait for peers; called by one thread, not nested. They cost a few stores, and do
 * nothing if the watchdog is not started.
 *
 *   what  a constant string: it is copied only if its address differs from that of the call before */
void watchdog_enter(const char *what);
void watchdog_leave(void);
/* As watchdog_enter, for a wait while others work by plan: no stall. */
void watchdog_enter_planned(const char *what);
/* As watchdog_leave; returns err, with `what` added to its message. */
err_t watchdog_leave_with(err_t err, const char *what);

/* Number of waits entered. After ranks have waited separately, set it to the same number on all of them. */
long long watchdog_sequence(void);
void watchdog_set_sequence(long long sequence);

/* This rank's activity between collectives ("reading data", "step 120"), for the message. */
void watchdog_phase(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What the watchdog costs this rank: time in the calls above (enter, leave, phase), CPU time of its thread. Timing the
 * calls costs as much as they do, so calls_sec counts only while it is switched on. */
typedef struct watchdog_cost {
    double calls_sec, thread_sec;
} watchdog_cost_t;
void watchdog_time_calls(bool on);
watchdog_cost_t watchdog_cost(void);

/* Exchanges this rank's activity with `text`; call it again to return to the former one. */
void watchdog_swap_phase(char text[WATCHDOG_TEXT]);

/* Collectives on GPUs, in which no host waits.
 *
 *   watchdog_device_entered  notes how many this rank has enqueued
 *   watchdog_device_waits    warns of a stall; called repeatedly with the time that a collective has taken so
 *                            far, and with 0 when it has finished
 *   watchdog_device_expired  handles a collective that is over_sec past its deadline like an expired wait:
 *                            names the ranks of this host that did not arrive and ends the job. It may return
 *                            on ranks that do not report, so it is called repeatedly
 *   sequence                 number of the collective; WATCHDOG_RECORDED in a recorded step, whose
 *                            collectives are not counted */
void watchdog_device_entered(long long sequence);
void watchdog_device_waits(const char *what, long long sequence, double waited_sec);
void watchdog_device_expired(const char *what, long long sequence, double over_sec);
/* Claims the report of why the job ends; true for one rank of each host. */
bool watchdog_take_word(void);
/* A number that changes whenever this rank starts a wait or a phase. */
long long watchdog_progress(void);

#endif
