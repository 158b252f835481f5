/* SPDX-License-Identifier: MIT */
/* The watchdog thread: times the wait its rank is in, and on expiry builds one message per host from the
 * shared slots and aborts the job. GPU collectives are timed by nccl/watch.c, which reports here. */
#include "cluster/comm/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

_Static_assert(sizeof(watchdog_slot_t) == 128, "slots sit on cache lines of their own");

enum { MAX_NAMED = 4 };                                 /* ranks named in a message */
static const double other_host_sec = 2, silent_sec = 3; /* see report_expiry() */

static struct {
    watchdog_slot_t *slots;
    int n_slots;
    watchdog_slot_t *mine;
    topo_t topo;
    double timeout_sec, interval_sec;
    void (*abort_job)(err_t code);
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* under lock */
    atomic_bool running;
    const char *_Atomic what; /* full name of the wait; a slot holds only its beginning */
    const char *noted;        /* the name stored in `doing`; NULL: a phase */
    atomic_llong n_phases;
} dog;

/* A collective that did not finish in time. */
typedef struct overdue {
    const char *what;
    long long sequence;
    /* No host waits in it; `sequence` is from watchdog_device_entered, or WATCHDOG_RECORDED. */
    bool on_device;
} overdue_t;

/* A message built piece by piece; overflow is cut. */
typedef struct message {
    char text[ERR_MESSAGE_MAX];
    size_t n;
} message_t;

static void message_append(message_t *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void message_append(message_t *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(m->text + m->n, sizeof m->text - m->n, format, args);
    va_end(args);
    if (n > 0) m->n += (size_t)n;
    if (m->n >= sizeof m->text) m->n = sizeof m->text - 1;
}

double watchdog_add_gap(double waited_sec, double gap_sec, double interval_sec)
{
    return waited_sec + (gap_sec > 3 * interval_sec ? interval_sec : gap_sec);
}

/* Seconds since the watchdog of a rank last woke; 0 if too short to mean anything. */
static double stopped_sec(const watchdog_slot_t *slot)
{
    long long pulse = atomic_load(&slot->pulse_ms);
    double sec = clock_sec() - 1e-3 * (double)pulse;
    double limit = dog.timeout_sec / 2 < 2 ? dog.timeout_sec / 2 : 2;
    return pulse && sec > limit ? sec : 0;
}

/* The first three hold the others up; the next three are reported only if no rank is one of those. HELD_UP is
 * at least one collective behind because another rank is missing there. */
typedef enum presence { NOT_STARTED, MISSING, STOPPED, HELD_UP, GONE_ON, ELSEWHERE, HERE } presence_t;

/* State of a rank of this host with regard to the overdue collective. */
static presence_t presence_of(const watchdog_slot_t *slot, const overdue_t *overdue)
{
    if (slot == dog.mine) return HERE;
    if (atomic_load(&slot->rank_plus_1) == 0) return NOT_STARTED;
    bool waiting = atomic_load(&slot->waiting), stopped = stopped_sec(slot) > 0;
    if (overdue->on_device && overdue->sequence == WATCHDOG_RECORDED)
        return stopped                                                     ? STOPPED
               : strncmp(slot->doing, dog.mine->doing, WATCHDOG_TEXT) == 0 ? HERE
                                                                           : ELSEWHERE;
    long long its = atomic_load(overdue->on_device ? &slot->on_device : &slot->sequence);
    if (its < overdue->sequence) return waiting && !stopped ? HELD_UP : MISSING;
    if (stopped) return STOPPED;
    return its == overdue->sequence && (waiting || overdue->on_device) ? HERE : GONE_ON;
}

static int count_absent(const overdue_t *overdue)
{
    int n = 0;
    for (int i = 0; i < dog.n_slots; i++) n += presence_of(&dog.slots[i], overdue) <= STOPPED;
    return n;
}

static void describe_rank(message_t *m, int i, presence_t p)
{
    const watchdog_slot_t *slot = &dog.slots[i];
    const char *host = dog.topo.host_name;
    int rank = atomic_load(&slot->rank_plus_1) - 1;
    char doing[WATCHDOG_TEXT];
    memcpy(doing, slot->doing, sizeof doing); /* may be torn; never unterminated */
    doing[WATCHDOG_TEXT - 1] = '\0';
    double stopped = stopped_sec(slot);
    if (p == NOT_STARTED) {
        message_append(m, "; local rank %d of %s has not started", i, host);
        return;
    }
    message_append(m, "; rank %d on %s %s", rank, host,
                   p == MISSING     ? "did not arrive"
                   : p == STOPPED   ? "arrived but then stopped"
                   : p == HELD_UP   ? "is itself held up"
                   : p == ELSEWHERE ? "is elsewhere"
                                    : "has left it");
    message_append(m, doing[0] ? "; it was last in \"%s\"" : "; its last activity is unknown", doing);
    if (stopped > 0) message_append(m, " and has not run for %.0f s", stopped);
}

/* Builds the message from what this host knows. */
static void build_message(message_t *m, const overdue_t *overdue, int n_absent)
{
    bool recorded = overdue->on_device && overdue->sequence == WATCHDOG_RECORDED;
    message_append(m, "timed out after %g s in \"%s\" (", dog.timeout_sec, overdue->what);
    message_append(m,
                   recorded             ? "in a recorded step)"
                   : overdue->on_device ? "the GPU's collective %lld)"
                                        : "collective %lld)",
                   overdue->sequence);
    int n_named = 0, n_more = 0;
    for (int i = 0; i < dog.n_slots; i++) {
        presence_t p = presence_of(&dog.slots[i], overdue);
        if (p == HERE || (p > STOPPED && n_absent)) continue;
        if (n_named++ < MAX_NAMED) {
            describe_rank(m, i, p);
        } else {
            n_more++;
        }
    }
    if (n_more) message_append(m, "; and %d more on %s", n_more, dog.topo.host_name);
    if (n_absent || (recorded && n_named)) return;
    if (dog.n_slots < dog.topo.local_size)
        message_append(m, "; the ranks of %s share no memory, so the missing ranks are unknown",
                       dog.topo.host_name);
    else if (dog.topo.n_hosts > 1)
        message_append(m, "; no rank is missing on %s; check the other hosts", dog.topo.host_name);
    else
        message_append(m, "; no rank is missing, so the transport between the ranks is stuck");
}

static _Noreturn void leave_job(void)
{
    dog.abort_job(ERR_PEER);
    _exit(ERR_PEER);
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
    int n_absent = count_absent(overdue);
    double patience = 0;
    if (!n_absent && dog.topo.n_hosts > 1)
        patience = dog.topo.host == 0 ? other_host_sec : 2 * other_host_sec;
    /* Without shared memory the ranks cannot elect a speaker; lower local ranks are given time to report
     * instead. */
    if (dog.n_slots < dog.topo.local_size)
        patience += 0.5 * (dog.topo.local_rank < 8 ? dog.topo.local_rank : 8);
    if (over_sec < patience) return;
    if (watchdog_take_word()) {
        message_t m = {.n = 0};
        build_message(&m, overdue, n_absent);
        log_rank_error("%s", m.text);
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
        long long sequence = atomic_load(&dog.mine->waiting) ? atomic_load(&dog.mine->sequence) : -1;
        waited = sequence >= 0 && sequence == timed ? watchdog_add_gap(waited, gap, dog.interval_sec) : 0;
        timed = sequence;
        if (waited < dog.timeout_sec) continue;
        overdue_t overdue = {.what = atomic_load(&dog.what), .sequence = sequence};
        report_expiry(waited - dog.timeout_sec, &overdue);
    }
    pthread_mutex_unlock(&dog.lock);
    return NULL;
}

err_t watchdog_start(watchdog_slot_t *slots, int n_slots, int my_slot, const topo_t *topo, double timeout_sec,
                     void (*abort_job)(err_t code))
{
    ASSERT(!atomic_load(&dog.running) && my_slot >= 0 && my_slot < n_slots && timeout_sec > 0 && abort_job);
    dog.slots = slots;
    dog.n_slots = n_slots;
    dog.mine = &slots[my_slot];
    dog.topo = *topo;
    dog.timeout_sec = timeout_sec;
    dog.interval_sec = timeout_sec < 0.4 ? 0.02 : timeout_sec < 10 ? timeout_sec / 20 : 0.5;
    dog.abort_job = abort_job;
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
    /* Signals are for the main thread. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&dog.thread, NULL, watchdog_loop, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
void watchdog_enter(const char *what)
{
    if (!atomic_load_explicit(&dog.running, memory_order_relaxed)) return;
    if (what != dog.noted) {
        atomic_store(&dog.what, what);
        snprintf(dog.mine->doing, sizeof dog.mine->doing, "%s", what);
        dog.noted = what;
    }
    long long sequence = atomic_load_explicit(&dog.mine->sequence, memory_order_relaxed);
    atomic_store_explicit(&dog.mine->sequence, sequence + 1, memory_order_relaxed);
    atomic_store_explicit(&dog.mine->waiting, 1, memory_order_release);
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
