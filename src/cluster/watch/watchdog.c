/* SPDX-License-Identifier: MIT */
/* The watchdog thread: times the wait its rank is in, warns of a stall, and on expiry reports once per host and aborts the
 * job; for a rank that speaks for its group on the side channel, decides when to ask the other groups and to speak for the
 * job. The words are in watchdog_report.c. GPU collectives are timed by cluster/comm/nccl/nccl.c, which reports here. */
#include "cluster/watch/watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/sim.h"
#include "cluster/watch/deadline.h"
#include "cluster/watch/watchdog_report.h"
#include "text/progress.h"

/* ---- A rank that speaks for its group on the side channel ---- */
/* answer_sec: for an answer, before a group counts as silent. local_sec: more time for a host whose other ranks
 * may name their first. turn_sec: between the groups that would speak without rank 0's. loss_sec: a launcher
 * that ends all ranks is given time to end this one. hub_sec: between two answers of rank 0's group, each of which
 * goes to all groups: in a job that hangs, all ask at once. */
static const double answer_sec = 2, local_sec = 1, turn_sec = 2.2, loss_sec = 0.3, unanswered_sec = 8,
                    hub_sec = 0.25;
static const double settled_sec = 30;

/* The longest wait that this rank has to act on: of all groups, or of its own. */
static side_status_t longest_wait(const watchdog_side_t *w, bool planned)
{
    int n, own = side_group(w->channel);
    const side_peer_t *peers = side_peers(w->channel, &n);
    side_status_t out = {0};
    for (int g = 0; g < n; g++) {
        const side_status_t *status = &peers[g].status;
        bool counts = g == own || (side_role(w->channel) == SIDE_HUB && peers[g].state == SIDE_UP);
        if (counts && (planned || !status->planned) && status->waited_sec > out.waited_sec) out = *status;
    }
    return out;
}

static void publish(watchdog_side_t *w, double now, bool ask)
{
    side_status_t mine;
    int n, own = side_group(w->channel), ended = side_ended(w->channel);
    watchdog_sum_up(&w->view, w->device_what ? w->device_what : "a collective", &mine);
    const side_peer_t *peers = side_peers(w->channel, &n);
    mine.ended = peers[own].status.ended;
    if (ended >= 0 && mine.ended.rank < 0 && !atomic_load(&w->view.slots[ended].leaving)) {
        mine.ended.rank = atomic_load(&w->view.slots[ended].rank_plus_1) - 1;
        memcpy(mine.ended.doing, w->view.slots[ended].doing, sizeof mine.ended.doing);
        mine.ended.doing[WATCHDOG_TEXT - 1] = '\0';
    }
    side_publish(w->channel, &mine, ask);
    w->published_sec = now;
}

void watchdog_side_start(watchdog_side_t *w, side_t *channel, const watchdog_view_t *view, double stall_sec)
{
    *w = (watchdog_side_t){
        .channel = channel, .view = *view, .stall_sec = stall_sec, .next_stall_sec = stall_sec};
    w->started_sec = clock_sec();
    if (channel && side_role(channel) != SIDE_SILENT) publish(w, 0, false); /* what a connection says first */
}

/* Names processes that have ended, each once. */
static void report_losses(watchdog_side_t *w, double now, bool hurry)
{
    int n, own = side_group(w->channel);
    const side_peer_t *peers = side_peers(w->channel, &n);
    double patience = own > 1 ? loss_sec + turn_sec * (own - 1) : loss_sec;
    if (w->expiry_asked_sec > 0) return; /* its message names them */
    if (side_role(w->channel) != SIDE_HUB) n = 1;
    if (hurry && own > 1) return;
    for (int g = 0; g < n; g++) {
        char text[ERR_MESSAGE_MAX];
        double since = g == own || peers[g].state != SIDE_LOST ? peers[g].heard_sec : peers[g].changed_sec;
        if (side_role(w->channel) != SIDE_HUB && peers[g].state != SIDE_LOST) continue;
        if (peers[g].told || !watchdog_describe_loss(&peers[g], w->view.mine->doing, text, sizeof text))
            continue;
        if (!hurry && now - since < patience && peers[g].state == SIDE_LOST) continue;
        side_set_told(w->channel, g);
        log_rank_error("%s", text);
    }
}

/* Whether all groups have answered what was asked at asked_sec, or had the time to. A process that has just ended
 * was probably ended with the job, by a rank that has named the cause. */
static bool hub_is_ready(const watchdog_side_t *w, double now, double asked_sec)
{
    int n, own = side_group(w->channel);
    const side_peer_t *peers = side_peers(w->channel, &n);
    for (int g = 0; g < n; g++) {
        bool ended = peers[g].state == SIDE_LOST || peers[g].state == SIDE_LEFT;
        double patience = answer_sec + (peers[g].n_ranks > 1 ? local_sec : 0);
        if (g == own || peers[g].heard_sec <= 0) continue;
        if (ended && now - peers[g].changed_sec < answer_sec + local_sec) return false;
        if (!ended && peers[g].heard_sec < asked_sec && now - asked_sec < patience) return false;
    }
    return true;
}

/* Whether it is this rank's turn to speak of an overdue wait, about which it first asks. *asked_sec is 0 before
 * the first call. */
static bool has_turn(watchdog_side_t *w, double now, double *asked_sec)
{
    int n, own = side_group(w->channel);
    const side_peer_t *peers = side_peers(w->channel, &n);
    if (*asked_sec <= 0) {
        *asked_sec = now;
        publish(w, now, true);
        return false;
    }
    if (side_role(w->channel) == SIDE_HUB) return hub_is_ready(w, now, *asked_sec);
    if (peers[0].heard_sec >= *asked_sec) return false;
    double patience = answer_sec + (peers[0].n_ranks > 1 ? local_sec : 0) + turn_sec * (own - 1);
    return own <= 3 && now - *asked_sec >= patience;
}

static watchdog_view_t full_view(const watchdog_side_t *w, double asked_sec, const side_status_t *wait)
{
    watchdog_view_t v = w->view;
    v.peers = side_peers(w->channel, &v.n_peers);
    v.group = side_group(w->channel);
    v.asked_sec = asked_sec;
    if (side_role(w->channel) != SIDE_HUB) v.n_peers = 1;
    bool recorded = wait->on_device && wait->sequence == WATCHDOG_RECORDED;
    bool waits = atomic_load(&v.mine->waiting) && atomic_load(&v.mine->sequence) >= wait->sequence;
    if (wait->on_device) waits = atomic_load(&v.mine->on_device) >= wait->sequence;
    if (!recorded && !waits) v.mine = NULL;
    return v;
}

static overdue_t overdue_of(const watchdog_side_t *w, const side_status_t *wait, const char *what)
{
    bool own = !wait->on_device && atomic_load(&w->view.mine->sequence) == wait->sequence;
    return (overdue_t){
        .what = own ? what : wait->what, .sequence = wait->sequence, .on_device = wait->on_device};
}

static void look_for_group_stall(watchdog_side_t *w, double now, const char *what)
{
    side_status_t wait = longest_wait(w, false);
    bool hub = side_role(w->channel) == SIDE_HUB;
    if (wait.waited_sec < w->stalled_sec || wait.waited_sec <= 0) {
        if (w->warned)
            log_rank_warn("stall: the wait of %.*f s is over", w->stalled_sec < 10, w->stalled_sec);
        w->warned = false;
        w->stall_asked_sec = 0;
        w->next_stall_sec = w->stall_sec;
    }
    w->stalled_sec = wait.waited_sec;
    if (w->stall_sec <= 0 || wait.waited_sec < w->next_stall_sec || wait.waited_sec >= w->view.timeout_sec)
        return;
    if (!hub && side_group(w->channel) > 1) return;
    if (!has_turn(w, now, &w->stall_asked_sec)) return;
    watchdog_view_t v = full_view(w, w->stall_asked_sec, &wait);
    overdue_t overdue = overdue_of(w, &wait, what);
    char text[ERR_MESSAGE_MAX];
    watchdog_describe_stall(&v, &overdue, wait.waited_sec, text, sizeof text);
    log_rank_warn("%s", text);
    w->warned = true;
    w->stall_asked_sec = 0;
    while (w->next_stall_sec <= wait.waited_sec) w->next_stall_sec *= 2;
}

static watchdog_act_t look_for_expiry(watchdog_side_t *w, double now, const char *what, char *error)
{
    side_status_t wait = longest_wait(w, true);
    if (wait.waited_sec < w->view.timeout_sec) {
        w->expiry_asked_sec = 0;
        return WATCHDOG_GO_ON;
    }
    if (!has_turn(w, now, &w->expiry_asked_sec))
        return now - w->expiry_asked_sec < unanswered_sec ? WATCHDOG_GO_ON : WATCHDOG_LEAVE;
    watchdog_view_t v = full_view(w, w->expiry_asked_sec, &wait);
    overdue_t overdue = overdue_of(w, &wait, what);
    watchdog_describe_expiry(&v, &overdue, error, ERR_MESSAGE_MAX);
    return WATCHDOG_SPEAK;
}

/* Once, when every host has had time to connect. */
static void report_unconnected(watchdog_side_t *w, double now)
{
    int n, n_missing = 0, first = 0;
    const side_peer_t *peers = side_peers(w->channel, &n);
    if (w->checked || side_role(w->channel) != SIDE_HUB || now - w->started_sec < settled_sec) return;
    w->checked = true;
    for (int g = n - 1; g > 0; g--) {
        if (peers[g].heard_sec > 0) continue;
        first = g;
        n_missing++;
    }
    if (n_missing)
        log_detail(
            "%d of %d hosts have not connected to the side channel, the first is %s (rank %d): if they hang, "
            "their ranks are not named; is TCP between the hosts blocked?",
            n_missing, n, peers[first].host, peers[first].rank);
}

watchdog_act_t watchdog_side_tick(watchdog_side_t *w, const char *what, char error[ERR_MESSAGE_MAX])
{
    double now = clock_sec(), interval = side_interval(w->channel);
    if (interval > w->view.timeout_sec / 4) interval = w->view.timeout_sec / 4;
    bool ended = side_ended(w->channel) >= 0 && !w->told_own;
    w->told_own |= ended;
    bool answers =
        side_is_asked(w->channel) && (side_role(w->channel) != SIDE_HUB || now - w->published_sec >= hub_sec);
    if (answers || ended || w->published_sec <= 0 || now - w->published_sec >= interval)
        publish(w, now, false);
    report_losses(w, now, false);
    report_unconnected(w, now);
    look_for_group_stall(w, now, what);
    return look_for_expiry(w, now, what, error);
}

/* ---- The watchdog of this rank ---- */
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
    pthread_t thread;
    int wake_fd; /* readable once the thread has been woken; -1: on simulated hosts a message wakes it */
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
    side_wait(dog.side.channel, dog.wake_fd, dog.interval_sec);
    if (!atomic_load(&dog.leaves) || atomic_load(&dog.said_goodbye)) return;
    eventfd_t count;
    if (!sim_is_rank()) eventfd_read(dog.wake_fd, &count); /* the next side_wait waits again */
    if (speaks_for_group()) {
        side_wait(dog.side.channel, -1, 0);
        report_losses(&dog.side, clock_sec(), true);
        side_say_goodbye(dog.side.channel);
    }
    atomic_store(&dog.said_goodbye, true);
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
            /* The rank that speaks for its group acts on the waits of all. */
            char error[ERR_MESSAGE_MAX];
            dog.side.device_what = atomic_load(&dog.device_what);
            watchdog_act_t act = watchdog_side_tick(&dog.side, atomic_load(&dog.what), error);
            if (act == WATCHDOG_GO_ON) continue;
            bool speaks = watchdog_take_word();
            if (act == WATCHDOG_SPEAK && speaks) log_rank_error("%s", error);
            leave_job();
        }
        overdue_t overdue = {.what = atomic_load(&dog.what), .sequence = sequence};
        look_for_stall(&dog.on_host, waiting == WAIT_PLANNED ? 0 : waited, &overdue);
        if (waited >= dog.limits.timeout_sec) report_expiry(waited - dog.limits.timeout_sec, &overdue);
    }
    return NULL;
}

/* ---- The thread; on simulated hosts, the rank's watcher, which a message of one byte wakes ---- */
static err_t start_thread(void)
{
    dog.wake_fd = -1;
    if (sim_is_rank()) {
        if (!sim_watch(watchdog_loop)) RAISE(ERR_SYSTEM, "cannot start the watchdog: out of memory");
        return ERR_OK;
    }
    dog.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (dog.wake_fd < 0) RAISE(ERR_SYSTEM, "cannot start the watchdog: eventfd: %s", strerror(errno));
    int status = thread_start(&dog.thread, watchdog_loop, NULL);
    if (status == 0) return ERR_OK;
    close(dog.wake_fd);
    RAISE(ERR_SYSTEM, "cannot start the watchdog thread: %s", strerror(status));
}

/* From any thread: side_wait returns. */
static void wake_thread(void)
{
    if (sim_is_rank())
        sim_send(sim_rank(), "", 1);
    else
        eventfd_write(dog.wake_fd, 1);
}

static void join_thread(void)
{
    if (sim_is_rank()) {
        sim_watch_join();
        return;
    }
    pthread_join(dog.thread, NULL);
    close(dog.wake_fd);
}

static bool is_thread(void)
{
    return sim_is_rank() ? sim_is_watcher() : pthread_equal(pthread_self(), dog.thread) != 0;
}

/* CPU time that it has used. */
static double thread_sec(void)
{
    struct timespec cpu = {0};
    clockid_t clock;
    if (sim_is_rank()) return 0;
    if (pthread_getcpuclockid(dog.thread, &clock) == 0) clock_gettime(clock, &cpu);
    return (double)cpu.tv_sec + 1e-9 * (double)cpu.tv_nsec;
}

/* ---- Start and stop ---- */
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
    TRY(start_thread());
    atomic_store(&dog.running, true);
    return ERR_OK;
}

void watchdog_stop(void)
{
    if (!atomic_load(&dog.running)) return;
    atomic_store(&dog.mine->leaving, true);
    atomic_store(&dog.stop, true);
    wake_thread();
    join_thread();
    dog.side.channel = NULL;
    last_phase_note("ending");
    atomic_store(&dog.running, false);
}

void watchdog_say_goodbye(void)
{
    if (!atomic_load(&dog.running) || atomic_load(&dog.said_goodbye)) return;
    atomic_store(&dog.mine->leaving, true);
    if (is_thread()) {
        if (speaks_for_group()) side_say_goodbye(dog.side.channel);
        atomic_store(&dog.said_goodbye, true);
        return;
    }
    atomic_store(&dog.leaves, true);
    wake_thread();
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
    return (watchdog_cost_t){dog.calls_sec, atomic_load(&dog.running) ? thread_sec() : 0};
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
