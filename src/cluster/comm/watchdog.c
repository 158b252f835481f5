/* SPDX-License-Identifier: MIT */
/* The watchdog thread: times the wait its rank is in, warns of a stall, and on expiry reports once per host
 * and aborts the job. GPU collectives are timed by nccl/watch.c, which reports here. */
#include "cluster/comm/watchdog.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/sim.h"
#include "cluster/comm/watchdog_report.h"
#include "cluster/comm/watchdog_side.h"
#include "cluster/comm/watchdog_thread.h"

_Static_assert(sizeof(watchdog_slot_t) == 128, "slots sit on cache lines of their own");

static const double other_host_sec = 2, silent_sec = 3; /* see report_expiry() */
static const double speaker_sec = 8; /* for the rank that speaks for this group on the side channel */

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
    watchdog_side_t side; /* channel NULL: none */
    watchdog_thread_t thread;
    atomic_bool stop, leaves, said_goodbye;
    atomic_bool running;
    const char *_Atomic what; /* full name of the wait; a slot holds only its beginning */
    const char *_Atomic device_what;
    const char *noted; /* the name stored in `doing`; NULL: a phase */
    bool times_calls;
    double calls_sec;
    atomic_llong n_phases;
} dog;

static _Noreturn void leave_job(void)
{
    dog.limits.abort_job(ERR_PEER);
    _exit(ERR_PEER);
}

static watchdog_view_t view(void)
{
    return (watchdog_view_t){.slots = dog.slots,
                             .mine = dog.mine,
                             .n_slots = dog.n_slots,
                             .topo = &dog.topo,
                             .timeout_sec = dog.limits.timeout_sec};
}

/* Whether the watchdog of this rank serves the side channel. */
static bool speaks_for_group(void)
{
    return dog.side.channel && side_role(dog.side.channel) != SIDE_SILENT;
}

/* Whether another rank's watchdog does, and runs. */
static bool has_speaker(void)
{
    watchdog_view_t v = view();
    return dog.side.channel && !speaks_for_group() && watchdog_stopped_sec(&v, &dog.slots[0]) <= 0;
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
    if (has_speaker()) return;
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

/* Without the side channel, or if its speaker has stopped: called at every check after the deadline, which passed over_sec
 * ago. A host that misses one of its own ranks knows the most and reports at once. Hosts on which all ranks arrived wait,
 * host 0 the shortest, so that normally a single host reports. One of its ranks reports; the others leave silently. */
static void report_expiry(double over_sec, const overdue_t *overdue)
{
    if (has_speaker()) {
        if (over_sec >= speaker_sec) leave_job();
        return;
    }
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

/* Returns at the next check, or earlier. */
static void sleep_until_next_check(void)
{
    side_wait(dog.side.channel, dog.thread.wake_fd, dog.interval_sec);
    if (!atomic_load(&dog.leaves) || atomic_load(&dog.said_goodbye)) return;
    watchdog_thread_awoke(&dog.thread);
    if (speaks_for_group()) {
        side_wait(dog.side.channel, -1, 0);
        watchdog_side_end(&dog.side);
    }
    atomic_store(&dog.said_goodbye, true);
}

/* The rank that speaks for its group acts on the waits of all. */
static void serve_group(void)
{
    char error[ERR_MESSAGE_MAX];
    dog.side.device_what = atomic_load(&dog.device_what);
    watchdog_act_t act = watchdog_side_tick(&dog.side, atomic_load(&dog.what), error);
    if (act == WATCHDOG_GO_ON) return;
    bool speaks = watchdog_take_word();
    if (act == WATCHDOG_SPEAK && speaks) log_rank_error("%s", error);
    leave_job();
}

static void *watchdog_loop(void *unused)
{
    (void)unused;
    double last = clock_sec(), waited = 0;
    long long timed = -1; /* sequence number of the timed wait */
    while (!atomic_load(&dog.stop)) {
        sleep_until_next_check();
        double now = clock_sec(), gap = now - last;
        last = now;
        atomic_store(&dog.mine->pulse_ms, (long long)(1e3 * now));
        int waiting = atomic_load(&dog.mine->waiting);
        long long sequence = waiting ? atomic_load(&dog.mine->sequence) : -1;
        waited = sequence >= 0 && sequence == timed ? clock_add_gap(waited, gap, dog.interval_sec) : 0;
        timed = sequence;
        atomic_store(&dog.mine->waited_ms, (long long)(1e3 * waited));
        if (atomic_load(&dog.leaves) || atomic_load(&dog.stop)) continue;
        if (speaks_for_group()) {
            serve_group();
            continue;
        }
        overdue_t overdue = {.what = atomic_load(&dog.what), .sequence = sequence};
        look_for_stall(&dog.on_host, waiting == WAIT_PLANNED ? 0 : waited, &overdue);
        if (waited >= dog.limits.timeout_sec) report_expiry(waited - dog.limits.timeout_sec, &overdue);
    }
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
    dog.interval_sec = clock_check_interval(shortest);
    dog.on_host = dog.on_device = (stall_t){.next_sec = limits->stall_sec};
    atomic_store(&dog.stop, false);
    atomic_store(&dog.leaves, false);
    atomic_store(&dog.said_goodbye, false);
    atomic_store(&dog.what, "");
    dog.noted = NULL;
    snprintf(dog.mine->doing, sizeof dog.mine->doing, "starting");
    atomic_store(&dog.mine->pulse_ms, (long long)(1e3 * clock_sec()));
    atomic_store(&dog.mine->rank_plus_1, topo->rank + 1);
    watchdog_view_t v = view();
    watchdog_side_start(&dog.side, limits->side, &v, limits->stall_sec);
    TRY(watchdog_thread_start(&dog.thread, watchdog_loop));
    atomic_store(&dog.running, true);
    return ERR_OK;
}

void watchdog_stop(void)
{
    if (!atomic_load(&dog.running)) return;
    atomic_store(&dog.mine->leaving, true);
    atomic_store(&dog.stop, true);
    watchdog_thread_wake(&dog.thread);
    watchdog_thread_join(&dog.thread);
    dog.side.channel = NULL;
    last_phase_note("ending");
    atomic_store(&dog.running, false);
}

void watchdog_say_goodbye(void)
{
    if (!atomic_load(&dog.running) || atomic_load(&dog.said_goodbye)) return;
    atomic_store(&dog.mine->leaving, true);
    if (watchdog_thread_is_self(&dog.thread)) {
        if (speaks_for_group()) side_say_goodbye(dog.side.channel);
        atomic_store(&dog.said_goodbye, true);
        return;
    }
    atomic_store(&dog.leaves, true);
    watchdog_thread_wake(&dog.thread);
    for (int i = 0; i < 20 && !atomic_load(&dog.said_goodbye); i++) clock_sleep(0.01);
}

static double call_begun(void)
{
    return dog.times_calls ? clock_sec() : 0;
}

static void call_ended(double start)
{
    if (dog.times_calls) dog.calls_sec += clock_sec() - start;
}

void watchdog_time_calls(bool on)
{
    dog.times_calls = on;
}

watchdog_cost_t watchdog_cost(void)
{
    double thread_sec = atomic_load(&dog.running) ? watchdog_thread_sec(&dog.thread) : 0;
    return (watchdog_cost_t){dog.calls_sec, thread_sec};
}

/* On simulated hosts, whose faults come at a collective. */
static void meet_fault(const char *what)
{
    if (!sim_is_rank() || !sim_collective(what, atomic_load(&dog.mine->sequence) + 1)) return;
    if (dog.side.channel) side_sim_lost(dog.side.channel, (int)(dog.mine - dog.slots));
    sim_lose();
}

/* Must not slow down a wait of half a microsecond: names are written only when they change, and counting
 * needs no locked instruction because a single thread waits. */
static void enter(const char *what, int waiting)
{
    if (!atomic_load_explicit(&dog.running, memory_order_relaxed)) return;
    meet_fault(what);
    const double start = call_begun();
    if (what != dog.noted) {
        atomic_store(&dog.what, what);
        snprintf(dog.mine->doing, sizeof dog.mine->doing, "%s", what);
        last_phase_note(what);
        progress_doing(what);
        dog.noted = what;
    }
    long long sequence = atomic_load_explicit(&dog.mine->sequence, memory_order_relaxed);
    atomic_store_explicit(&dog.mine->waited_ms, 0, memory_order_relaxed);
    atomic_store_explicit(&dog.mine->sequence, sequence + 1, memory_order_relaxed);
    atomic_store_explicit(&dog.mine->waiting, waiting, memory_order_release);
    call_ended(start);
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
    const double start = call_begun();
    atomic_store_explicit(&dog.mine->waiting, 0, memory_order_release);
    call_ended(start);
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
    if (!atomic_load(&dog.running)) return;
    atomic_store(&dog.device_what, what);
    atomic_store(&dog.mine->device_sequence, sequence);
    atomic_store(&dog.mine->device_ms, (long long)(1e3 * waited_sec));
    if (!speaks_for_group()) look_for_stall(&dog.on_device, waited_sec, &overdue);
}

void watchdog_device_expired(const char *what, long long sequence, double over_sec)
{
    overdue_t overdue = {.what = what, .sequence = sequence, .on_device = true};
    if (atomic_load(&dog.running) && !speaks_for_group()) report_expiry(over_sec, &overdue);
}

long long watchdog_progress(void)
{
    return watchdog_sequence() + atomic_load(&dog.n_phases);
}

void watchdog_phase(const char *format, ...)
{
    char text[WATCHDOG_TEXT];
    va_list args;
    const double start = call_begun();
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    atomic_fetch_add(&dog.n_phases, 1);
    progress_doing(text);
    if (!atomic_load_explicit(&dog.running, memory_order_relaxed)) return;
    memcpy(dog.mine->doing, text, sizeof text);
    last_phase_note(dog.mine->doing);
    dog.noted = NULL;
    call_ended(start);
}

void watchdog_swap_phase(char text[WATCHDOG_TEXT])
{
    char before[WATCHDOG_TEXT];
    atomic_fetch_add(&dog.n_phases, 1);
    if (!atomic_load_explicit(&dog.running, memory_order_relaxed)) return;
    memcpy(before, dog.mine->doing, sizeof before);
    memcpy(dog.mine->doing, text, sizeof before);
    memcpy(text, before, sizeof before);
    last_phase_note(dog.mine->doing);
    dog.noted = NULL;
}
