/* The watchdog: nobody waits for ever. A thread per rank looks at what the rank is waiting in; each rank
 * notes its phase in a page that the ranks of its host share. When a wait passes its deadline, the first rank
 * to notice on its host says which collective, who did not arrive, and what each was last doing; then the job
 * is aborted with ERR_PEER. Not collective, but for start and stop. */
#ifndef CLUSTER_COMM_WATCHDOG_H
#define CLUSTER_COMM_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/comm/topo.h"

enum { WATCHDOG_TEXT = 48 };

/* One rank's line in the shared page; on cache lines of its own. All zero at the start. */
typedef struct watchdog_slot {
    atomic_int rank_plus_1; /* whose slot; 0: not started */
    atomic_int waiting;     /* 1: inside the wait named by `doing` */
    atomic_llong sequence;  /* collectives entered so far */
    atomic_llong pulse_ms;  /* when its watchdog last woke (clock_sec, the host's): shows a stopped process */
    atomic_llong on_device; /* collectives given to its GPU so far */
    atomic_int speaker;     /* slot 0 only: 1 + rank that took the word */
    char doing[WATCHDOG_TEXT]; /* last phase or wait */
    char pad[128 - 4 * 4 - 3 * 8 - WATCHDOG_TEXT];
} watchdog_slot_t;

/* slots: topo->local_size of them in host-shared memory (or only this rank's own, n_slots = 1). They must
 * outlive watchdog_stop. */
err_t watchdog_start(watchdog_slot_t *slots, int n_slots, int my_slot, const topo_t *topo, double timeout_sec,
                     void (*abort_job)(err_t code));
void watchdog_stop(void);

/* Around every blocking wait on peers, by one thread. Nests not. Cheap: a few stores. `what` is a constant
 * string: the same address means the same words, which are then not copied again. No-ops when the watchdog is
 * not started. */
void watchdog_enter(const char *what);
void watchdog_leave(void);
/* The same; an error then also says what was waited for. Returns it. */
err_t watchdog_leave_with(err_t err, const char *what);

/* Waits entered so far; after ranks have waited apart from each other, set to a number that all share. */
long long watchdog_sequence(void);
void watchdog_set_sequence(long long sequence);

/* What this rank does between collectives ("reading data", "step 120"), for the message. */
void watchdog_phase(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Collectives of the ranks' GPUs, which no host waits in: the number of those that this rank has given to its
 * GPU, and what is said when the last of them has not ended timeout_sec later. From a thread that looks again
 * and again: over_sec have passed since then. Like the end of a wait it names who of this host did not
 * arrive, and ends the job, on the rank that takes the word; so it may return. */
enum { WATCHDOG_RECORDED = -1 }; /* for `expired`: the collectives of a recorded step are not counted */
void watchdog_device_entered(long long sequence);
void watchdog_device_expired(const char *what, long long sequence, double over_sec);
/* Whether this rank is the one of its host that says why the job ends. */
bool watchdog_take_word(void);
/* A number that stays as it is while this rank neither waits anew nor begins anything new. */
long long watchdog_progress(void);

/* How long a wait has lasted, gap_sec after the last look. A gap far beyond the interval between looks means
 * that this process was suspended (batch systems stop whole jobs): only one interval of it counts. */
double watchdog_add_gap(double waited_sec, double gap_sec, double interval_sec);

#endif
