/* SPDX-License-Identifier: MIT */
/* When to ask the other groups, to warn, and to speak for the job. The words are in watchdog_report.c and
 * watchdog_hosts.c. */
#include "cluster/comm/watchdog_side.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* answer_sec: for an answer, before a group counts as silent. local_sec: more time for a host whose other ranks
 * may name their first. turn_sec: between the groups that would speak without rank 0's. loss_sec: a launcher
 * that ends all ranks is given time to end this one. hub_sec: between two answers of rank 0's group, each of which
 * goes to all groups: in a job that hangs, all ask at once. */
static const double answer_sec = 2, local_sec = 1, turn_sec = 2.2, loss_sec = 0.3, silent_sec = 8,
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

static void look_for_stall(watchdog_side_t *w, double now, const char *what)
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
        return now - w->expiry_asked_sec < silent_sec ? WATCHDOG_GO_ON : WATCHDOG_LEAVE;
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
    look_for_stall(w, now, what);
    return look_for_expiry(w, now, what, error);
}

void watchdog_side_end(watchdog_side_t *w)
{
    report_losses(w, clock_sec(), true);
    side_say_goodbye(w->channel);
}
