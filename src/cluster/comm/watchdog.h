/* SPDX-License-Identifier: MIT */
/* The watchdog: no rank waits for ever. A thread per rank checks the wait that its rank is in; each rank
 * notes its phase in a page shared by the ranks of its host. When a wait exceeds its deadline, the first rank
 * of a host to notice reports which collective it was, which ranks did not arrive, and what each was last
 * doing; then the job is aborted with ERR_PEER. Not collective, except for start and stop. */
#ifndef CLUSTER_COMM_WATCHDOG_H
#define CLUSTER_COMM_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/comm/topo.h"

enum { WATCHDOG_TEXT = 48 };

/* One rank's slot in the shared page, on its own cache lines. Initially zero. */
typedef struct watchdog_slot {
    atomic_int rank_plus_1;    /* 1 + rank of the owner; 0: not started */
    atomic_int waiting;        /* 1: inside the wait named by `doing` */
    atomic_llong sequence;     /* collectives entered so far */
    atomic_llong pulse_ms;     /* last wake-up of its watchdog (clock_sec): reveals a stopped process */
    atomic_llong on_device;    /* collectives enqueued on its GPU so far */
    atomic_int speaker;        /* slot 0 only: 1 + rank that reports */
    char doing[WATCHDOG_TEXT]; /* last phase or wait */
    char pad[128 - 4 * 4 - 3 * 8 - WATCHDOG_TEXT];
} watchdog_slot_t;

/* Starts the watchdog thread. `slots` are topo->local_size slots in memory shared by the host, or only this
 * rank's (n_slots = 1); they must outlive watchdog_stop. */
err_t watchdog_start(watchdog_slot_t *slots, int n_slots, int my_slot, const topo_t *topo, double timeout_sec,
                     void (*abort_job)(err_t code));
void watchdog_stop(void);

/* Bracket every blocking wait on peers; called by one thread, not nested. Cheap: a few stores. `what` is a
 * constant string: the same address means the same text, which is then not copied again. No-ops if the
 * watchdog is not started. */
void watchdog_enter(const char *what);
void watchdog_leave(void);
/* As watchdog_leave; adds `what` to an error. Returns the error. */
err_t watchdog_leave_with(err_t err, const char *what);

/* Number of waits entered. After ranks have waited separately, it is set to a number common to all. */
long long watchdog_sequence(void);
void watchdog_set_sequence(long long sequence);

/* This rank's activity between collectives ("reading data", "step 120"), for the message. */
void watchdog_phase(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Collectives on GPUs, in which no host waits. watchdog_device_entered notes how many this rank has enqueued.
 * watchdog_device_expired is called repeatedly by a thread once the last of them is over_sec past its
 * deadline: like an expired wait it names the ranks of this host that did not arrive and ends the job, on the
 * rank that reports; on others it may return. Its sequence is WATCHDOG_RECORDED for the collectives of a
 * recorded step, which are not counted. */
enum { WATCHDOG_RECORDED = -1 };
void watchdog_device_entered(long long sequence);
void watchdog_device_expired(const char *what, long long sequence, double over_sec);
/* Whether this rank is the one of its host that reports why the job ends. */
bool watchdog_take_word(void);
/* A number that changes whenever this rank starts a wait or a phase. */
long long watchdog_progress(void);

/* Duration of a wait, gap_sec after the last check. A gap much longer than the interval between checks means
 * that the process was suspended (batch systems stop jobs): only one interval of it counts. */
double watchdog_add_gap(double waited_sec, double gap_sec, double interval_sec);

#endif
