/* SPDX-License-Identifier: MIT */
/* The watchdog thread: times the wait its rank is in, warns of a stall, and on expiry reports once per host
 * and aborts the job. GPU collectives are timed by nccl/watch.c, which reports here. */
#include "cluster/comm/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/thread.h"
#include "cluster/comm/watchdog_report.h"

_Static_assert(sizeof(watchdog_slot_t) == 128, "slots sit on cache lines of their own");

static const double other_host_sec = 2, silent_sec = 3; /* see report_expiry() */

/* Of one kind of wait: on the host, or on the GPU. */
typedef struct stall {
    double waited_sec, next_sec; /* so far; when to warn next */
    int n_warnings;              /* due so far in this wait */
    bool warned;                 /* by this rank */
} stall_t;

static struct {
    watchdog_slot_t *slots;
    int n_slots;
    watchdog_slot_t *mine;
    topo_t topo;
    watchdog_limits_t limits;
    double interval_sec;
    stall_t on_host, on_device;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* under lock */
    atomic_bool running;
    const char *_Atomic what; /* full name of the wait; a slot holds only its beginning */
    const char *noted;        /* the name stored in `doing`; NULL: a phase */
    atomic_llong n_phases;
} dog;

double watchdog_add_gap(double waited_sec, double gap_sec, double interval_sec)
{
    return waited_sec + (gap_sec > 3 * interval_sec ? interval_sec : gap_sec);
}

static _Noreturn void leave_job(void)
{
    dog.limits.abort_job(ERR_PEER);
    _exit(ERR_PEER);
}

static watchdog_view_t view(void)
{
    return (watchdog_view_t){dog.slots, dog.mine, dog.n_slots, &dog.topo, dog.limits.timeout_sec};
}

/* Seconds to leave the warning to ranks and hosts that know more, or come first; below 0: say nothing. */
static double stall_patience(int n_absent)
{
    bool elected = dog.n_slots == dog.topo.local_size;
    double patience = dog.topo.local_rank > 0 ? 2 * dog.interval_sec : 0;
    if (!elected && dog.topo.local_rank > 1) return -1;
    if (n_absent || dog.topo.n_hosts == 1) return patience;
    /* A rank is missing on another host. Should it be host 0's only rank, host 1 warns. */
    return dog.topo.host > 1 ? -1 : patience + other_host_sec;
}

/* One warning when the wait reaches the limit, and each time it has doubled. */
static void look_for_stall(stall_t *s, double waited_sec, const overdue_t *overdue)
{
    if (waited_sec < s->waited_sec || waited_sec <= 0) {
        if (s->warned) log_rank_warn("stall: the wait of %.*f s is over", s->waited_sec < 10, s->waited_sec);
        *s = (stall_t){.next_sec = dog.limits.stall_sec};
    }
    s->waited_sec = waited_sec;
    if (dog.limits.stall_sec <= 0 || waited_sec < s->next_sec || waited_sec >= dog.limits.timeout_sec) return;
    watchdog_view_t v = view();
    double patience = stall_patience(watchdog_count_absent(&v, overdue));
    if (patience < 0 || waited_sec < s->next_sec + patience) return;
    s->next_sec *= 2;
    /* The rank of this host that enters the warning's number speaks. */
    long long key = (overdue->sequence + 1) * 64 + ++s->n_warnings;
    if (overdue->on_device) key = -key;
    long long before = atomic_load(&dog.slots[0].stall);
    if (before == key || !atomic_compare_exchange_strong(&dog.slots[0].stall, &before, key)) return;
    char text[ERR_MESSAGE_MAX];
    watchdog_describe_stall(&v, overdue, waited_sec, text, sizeof text);
    log_rank_warn("%s", text);
    s->warned = true;
}

bool watchdog_take_word(void)
{
    int none = 0;
    if (!atomic_load(&dog.running)) return true;
    return atomic_compare_exchange_strong(&dog.slots[0].speaker, &none, dog.topo.rank + 1);
}

/* Called at every check after the deadline, which passed over_sec ago. A host that misses one of its own
 * ranks knows the most and reports at once. Hosts on which all ranks arrived wait, host 0 the shortest, so
 * that normally a single host reports. One rank of a host reports; the others leave later, silently. */
static void report_expiry(double over_sec, const overdue_t *overdue)
{
    watchdog_view_t v = view();
    int n_absent = watchdog_count_absent(&v, overdue);
    double patience = 0;
    if (!n_absent && dog.topo.n_hosts > 1)
        patience = dog.topo.host == 0 ? other_host_sec : 2 * other_host_sec;
    /* Without shared memory the ranks cannot elect a speaker; lower local ranks are given time to report
     * instead. */
    if (dog.n_slots < dog.topo.local_size)
        patience += 0.5 * (dog.topo.local_rank < 8 ? dog.topo.local_rank : 8);
    if (over_sec < patience) return;
    if (watchdog_take_word()) {
        deadline_leave(ERR_PEER, DEADLINE_LEAVE_SEC); /* the message may never be read */
        char text[ERR_MESSAGE_MAX];
        watchdog_describe_expiry(&v, overdue, text, sizeof text);
        log_rank_error("%s", text);
        leave_job();
    }
    if (over_sec >= patience + silent_sec) leave_job();
}

static void sleep_until_next_check(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long ns = until.tv_nsec + (long)(1e9 * dog.interval_sec);
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&dog.wake, &dog.lock, &until);
}

static void *watchdog_loop(void *unused)
{
    (void)unused;
    double last = clock_sec(), waited = 0;
    long long timed = -1; /* sequence number of the timed wait */
    pthread_mutex_lock(&dog.lock);
    while (!dog.stop) {
        sleep_until_next_check();
        double now = clock_sec(), gap = now - last;
        last = now;
        atomic_store(&dog.mine->pulse_ms, (long long)(1e3 * now));
        int waiting = atomic_load(&dog.mine->waiting);
        long long sequence = waiting ? atomic_load(&dog.mine->sequence) : -1;
        waited = sequence >= 0 && sequence == timed ? watchdog_add_gap(waited, gap, dog.interval_sec) : 0;
        timed = sequence;
        overdue_t overdue = {.what = atomic_load(&dog.what), .sequence = sequence};
        look_for_stall(&dog.on_host, waiting == WAIT_PLANNED ? 0 : waited, &overdue);
        if (waited >= dog.limits.timeout_sec) report_expiry(waited - dog.limits.timeout_sec, &overdue);
    }
    pthread_mutex_unlock(&dog.lock);
    return NULL;
}

err_t watchdog_start(watchdog_slot_t *slots, int n_slots, int my_slot, const topo_t *topo,
                     const watchdog_limits_t *limits)
{
    ASSERT(!atomic_load(&dog.running) && my_slot >= 0 && my_slot < n_slots && limits->timeout_sec > 0 &&
           limits->abort_job);
    dog.slots = slots;
    dog.n_slots = n_slots;
    dog.mine = &slots[my_slot];
    dog.topo = *topo;
    dog.limits = *limits;
    double shortest = limits->timeout_sec;
    if (limits->stall_sec > 0 && limits->stall_sec < shortest) shortest = limits->stall_sec;
    dog.interval_sec = shortest < 0.4 ? 0.02 : shortest < 10 ? shortest / 20 : 0.5;
    dog.on_host = dog.on_device = (stall_t){.next_sec = limits->stall_sec};
    dog.stop = false;
    atomic_store(&dog.what, "");
    dog.noted = NULL;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&dog.lock, NULL);
    pthread_cond_init(&dog.wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    atomic_store(&dog.mine->pulse_ms, (long long)(1e3 * clock_sec()));
    atomic_store(&dog.mine->rank_plus_1, topo->rank + 1);
    int status = thread_start(&dog.thread, watchdog_loop, NULL);
    if (status != 0) RAISE(ERR_SYSTEM, "cannot start the watchdog thread: %s", strerror(status));
    atomic_store(&dog.running, true);
    return ERR_OK;
}

void watchdog_stop(void)
{
    if (!atomic_load(&dog.running)) return;
    pthread_mutex_lock(&dog.lock);
    dog.stop = true;
    pthread_cond_signal(&dog.wake);
    pthread_mutex_unlock(&dog.lock);
    pthread_join(dog.thread, NULL);
    pthread_cond_destroy(&dog.wake);
    pthread_mutex_destroy(&dog.lock);
    atomic_store(&dog.running, false);
}

/* Must not slow down a wait of half a microsecond: names are written only when they change, and counting
 * needs no locked instruction because a single thread waits. */
static void enter(const char *what, int waiting)
{
    if (!atomic_load_explicit(&dog.running, memory_order_relaxed)) return;
    if (what != dog.noted) {
        atomic_store(&dog.what, what);
        snprintf(dog.mine->doing, sizeof dog.mine->doing, "%s", what);
        dog.noted = what;
    }
    long long sequence = atomic_load_explicit(&dog.mine->sequence, memory_order_relaxed);
    atomic_store_explicit(&dog.mine->sequence, sequence + 1, memory_order_relaxed);
    atomic_store_explicit(&dog.mine->waiting, waiting, memory_order_release);
}

void watchdog_enter(const char *what)
{
    enter(what, WAIT_FOR_PEERS);
}

void watchdog_enter_planned(const char *what)
{
    enter(what, WAIT_PLANNED);
}

void watchdog_leave(void)
{
    if (!atomic_load_explicit(&dog.running, memory_order_relaxed)) return;
    atomic_store_explicit(&dog.mine->waiting, 0, memory_order_release);
}

err_t watchdog_leave_with(err_t err, const char *what)
{
    watchdog_leave();
    return err == ERR_OK ? err : err_context(err, "%s", what);
}

long long watchdog_sequence(void)
{
    return dog.mine ? atomic_load(&dog.mine->sequence) : 0;
}

void watchdog_set_sequence(long long sequence)
{
    if (dog.mine) atomic_store(&dog.mine->sequence, sequence);
}

void watchdog_device_entered(long long sequence)
{
    if (atomic_load_explicit(&dog.running, memory_order_relaxed))
        atomic_store(&dog.mine->on_device, sequence);
}

void watchdog_device_waits(const char *what, long long sequence, double waited_sec)
{
    overdue_t overdue = {.what = what, .sequence = sequence, .on_device = true};
    if (atomic_load(&dog.running)) look_for_stall(&dog.on_device, waited_sec, &overdue);
}

void watchdog_device_expired(const char *what, long long sequence, double over_sec)
{
    overdue_t overdue = {.what = what, .sequence = sequence, .on_device = true};
    if (atomic_load(&dog.running)) report_expiry(over_sec, &overdue);
}

long long watchdog_progress(void)
{
    return watchdog_sequence() + atomic_load(&dog.n_phases);
}

void watchdog_phase(const char *format, ...)
{
    atomic_fetch_add(&dog.n_phases, 1);
    if (!atomic_load_explicit(&dog.running, memory_order_relaxed)) return;
    va_list args;
    va_start(args, format);
    vsnprintf(dog.mine->doing, sizeof dog.mine->doing, format, args);
    va_end(args);
    dog.noted = NULL;
}

void watchdog_swap_phase(char text[WATCHDOG_TEXT])
{
    char before[WATCHDOG_TEXT];
    atomic_fetch_add(&dog.n_phases, 1);
    if (!atomic_load_explicit(&dog.running, memory_order_relaxed)) return;
    memcpy(before, dog.mine->doing, sizeof before);
    memcpy(dog.mine->doing, text, sizeof before);
    memcpy(text, before, sizeof before);
    dog.noted = NULL;
}
