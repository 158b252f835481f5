/* SPDX-License-Identifier: MIT */
/* Words of the watchdog: which ranks of this host, and which other hosts, are missing in an overdue collective, and what each
 * was last doing; and what a host tells the others of its ranks. When to speak is left to watchdog.c. */
#include "cluster/watch/watchdog_report.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { WATCHDOG_MAX_NAMED = 4 }; /* ranks named in a message */

/* State of a rank with regard to an overdue collective; ENDED, SILENT and UNKNOWN are of other hosts. Those up
 * to STOPPED hold the others up; the later ones are reported only if no rank is one of those. HELD_UP is at
 * least one collective behind because another rank is missing there. */
typedef enum presence {
    NOT_STARTED,
    ENDED,
    MISSING,
    STOPPED,
    SILENT,
    HELD_UP,
    GONE_ON,
    ELSEWHERE,
    UNKNOWN,
    HERE
} presence_t;

double watchdog_stopped_sec(const watchdog_view_t *v, const watchdog_slot_t *slot)
{
    long long pulse = atomic_load(&slot->pulse_ms);
    double sec = clock_sec() - 1e-3 * (double)pulse;
    double limit = v->timeout_sec / 2 < 2 ? v->timeout_sec / 2 : 2;
    return pulse && sec > limit ? sec : 0;
}

static side_rank_t read_slot(const watchdog_view_t *v, const watchdog_slot_t *slot, bool on_device)
{
    side_rank_t out = {.rank = atomic_load(&slot->rank_plus_1) - 1,
                       .waiting = atomic_load(&slot->waiting) != 0,
                       .sequence = atomic_load(on_device ? &slot->on_device : &slot->sequence),
                       .stopped_sec = watchdog_stopped_sec(v, slot)};
    memcpy(out.doing, slot->doing, sizeof out.doing); /* may be torn; never unterminated */
    out.doing[WATCHDOG_TEXT - 1] = '\0';
    return out;
}

/* Of a rank that has started. */
static presence_t presence_of_rank(const watchdog_view_t *v, const side_rank_t *rank,
                                   const overdue_t *overdue)
{
    bool stopped = rank->stopped_sec > 0;
    if (overdue->on_device && overdue->sequence == WATCHDOG_RECORDED)
        return stopped                                                                ? STOPPED
               : !v->mine || strncmp(rank->doing, v->mine->doing, WATCHDOG_TEXT) == 0 ? HERE
                                                                                      : ELSEWHERE;
    if (rank->sequence < overdue->sequence) return rank->waiting && !stopped ? HELD_UP : MISSING;
    if (stopped) return STOPPED;
    return rank->sequence == overdue->sequence && (rank->waiting || overdue->on_device) ? HERE : GONE_ON;
}

/* State of a rank of this host with regard to the overdue collective. */
static presence_t presence_of(const watchdog_view_t *v, const watchdog_slot_t *slot, const overdue_t *overdue)
{
    if (slot == v->mine) return HERE;
    if (atomic_load(&slot->rank_plus_1) == 0) return NOT_STARTED;
    side_rank_t rank = read_slot(v, slot, overdue->on_device);
    return presence_of_rank(v, &rank, overdue);
}

int watchdog_count_absent(const watchdog_view_t *v, const overdue_t *overdue)
{
    int n = 0;
    for (int i = 0; i < v->n_slots; i++) n += presence_of(v, &v->slots[i], overdue) <= STOPPED;
    return n;
}

static void describe_rank(message_t *m, const char *host, const side_rank_t *rank, presence_t presence)
{
    message_append(m, "; rank %d on %s %s", rank->rank, host,
                   presence == MISSING     ? "did not arrive"
                   : presence == STOPPED   ? "arrived but then stopped"
                   : presence == HELD_UP   ? "is itself held up"
                   : presence == ELSEWHERE ? "is elsewhere"
                                           : "has left it");
    message_append(m, rank->doing[0] ? "; it was last in \"%s\"" : "; its last activity is unknown",
                   rank->doing);
    if (rank->stopped_sec > 0) message_append(m, " and has not run for %.0f s", rank->stopped_sec);
}

/* ---- Other hosts ---- */
/* Whether a is more likely than b to hold others up. */
static bool is_behind(const side_rank_t *a, const side_rank_t *b)
{
    if (a->sequence != b->sequence) return a->sequence < b->sequence;
    bool a_stopped = a->stopped_sec > 0, b_stopped = b->stopped_sec > 0;
    if (a_stopped != b_stopped) return a_stopped;
    return !a->waiting && b->waiting;
}

static void note_wait(const watchdog_slot_t *slot, const char *what, side_status_t *out)
{
    double on_host = 1e-3 * (double)atomic_load(&slot->waited_ms);
    double on_device = 1e-3 * (double)atomic_load(&slot->device_ms);
    int waiting = atomic_load(&slot->waiting);
    if (waiting && on_host > out->waited_sec) {
        out->waited_sec = on_host;
        out->sequence = atomic_load(&slot->sequence);
        out->on_device = false;
        out->planned = waiting == WAIT_PLANNED;
        snprintf(out->what, sizeof out->what, "%.*s", WATCHDOG_TEXT - 1, slot->doing);
    }
    if (on_device > out->waited_sec) {
        out->waited_sec = on_device;
        out->sequence = atomic_load(&slot->device_sequence);
        out->on_device = true;
        out->planned = false;
        snprintf(out->what, sizeof out->what, "%s", what);
    }
}

void watchdog_sum_up(const watchdog_view_t *v, const char *what, side_status_t *out)
{
    *out = (side_status_t){.behind[0].rank = -1, .behind[1].rank = -1, .ended.rank = -1};
    for (int i = 0; i < v->n_slots; i++) {
        const watchdog_slot_t *slot = &v->slots[i];
        if (atomic_load(&slot->rank_plus_1) == 0) continue;
        for (int k = 0; k < 2; k++) {
            side_rank_t rank = read_slot(v, slot, k == SIDE_ON_DEVICE);
            if (out->behind[k].rank < 0 || is_behind(&rank, &out->behind[k])) out->behind[k] = rank;
        }
        if (slot == v->mine || watchdog_stopped_sec(v, slot) <= 0) note_wait(slot, what, out);
    }
}

static presence_t judge(const watchdog_view_t *v, const side_peer_t *peer, const overdue_t *overdue)
{
    const side_rank_t *rank = &peer->status.behind[overdue->on_device];
    if (peer->state == SIDE_LOST || peer->state == SIDE_LEFT || peer->status.ended.rank >= 0) return ENDED;
    if (peer->heard_sec <= 0) return peer->connected ? SILENT : UNKNOWN;
    if (peer->heard_sec < v->asked_sec) return SILENT;
    if (rank->rank < 0) return UNKNOWN;
    return presence_of_rank(v, rank, overdue);
}

static void describe_age(message_t *m, const side_peer_t *peer, const side_rank_t *rank, const char *when,
                         double until_sec)
{
    double age = until_sec - peer->heard_sec;
    if (peer->heard_sec <= 0 || rank->rank < 0) return;
    const int n_digits = age < 10;
    if (age < 0) age = 0;
    message_append(m, "; %.*f s %s %s", n_digits, age, when, rank->rank == peer->rank ? "it was in" : "");
    if (rank->rank != peer->rank) message_append(m, "rank %d was in", rank->rank);
    message_append(m, rank->doing[0] ? " \"%s\"" : " an unknown activity", rank->doing);
}

static void describe_end(message_t *m, const side_peer_t *peer, const char *separator)
{
    const side_rank_t *ended = &peer->status.ended;
    bool first = ended->rank < 0;
    message_append(m, "%sthe process of rank %d on %s has ended", separator, first ? peer->rank : ended->rank,
                   peer->host);
    if (first)
        describe_age(m, peer, &peer->status.behind[SIDE_ON_HOST], "before,", peer->changed_sec);
    else
        message_append(m, "; it was last in \"%s\"", ended->doing);
}

static void describe_peer(message_t *m, const side_peer_t *peer, presence_t presence, bool on_device)
{
    const side_rank_t *rank = &peer->status.behind[on_device];
    if (presence == ENDED) {
        describe_end(m, peer, "; ");
        return;
    }
    if (presence == SILENT) {
        message_append(m,
                       "; rank %d on %s does not answer: it is stopped, its host is down, or its link is cut",
                       peer->rank, peer->host);
        describe_age(m, peer, rank, "ago,", clock_sec());
        return;
    }
    describe_rank(m, peer->host, rank, presence);
}

/* Names the groups with presences from..to; returns their number. */
static int name_groups(const watchdog_view_t *v, message_t *m, const overdue_t *overdue, presence_t from,
                       presence_t to)
{
    int n = 0;
    for (int g = 0; g < v->n_peers; g++) {
        presence_t presence = g == v->group ? HERE : judge(v, &v->peers[g], overdue);
        if (presence < from || presence > to) continue;
        if (n++ < WATCHDOG_MAX_NAMED) describe_peer(m, &v->peers[g], presence, overdue->on_device);
    }
    if (n > WATCHDOG_MAX_NAMED) message_append(m, "; and %d more hosts", n - WATCHDOG_MAX_NAMED);
    return n;
}

static int count_groups(const watchdog_view_t *v, const overdue_t *overdue, presence_t wanted)
{
    int n = 0;
    for (int g = 0; g < v->n_peers; g++) n += g != v->group && judge(v, &v->peers[g], overdue) == wanted;
    return n;
}

/* Names the ranks of other hosts; n_absent ranks of this one have been. */
static void describe_hosts(const watchdog_view_t *v, message_t *m, const overdue_t *overdue, int n_absent)
{
    if (name_groups(v, m, overdue, ENDED, STOPPED) + n_absent > 0) return;
    int n_silent = count_groups(v, overdue, SILENT);
    if (n_silent > 1 && n_silent == v->n_peers - 1) {
        message_append(m, "; no other host answers, so %s is cut off; rank %d on it was last in \"%.*s\"",
                       v->topo->host_name, v->topo->rank, WATCHDOG_TEXT - 1,
                       v->mine ? v->mine->doing : overdue->what);
        return;
    }
    if (n_silent > 0) {
        name_groups(v, m, overdue, SILENT, SILENT);
        return;
    }
    if (v->n_peers > 1 && count_groups(v, overdue, UNKNOWN) > 0) {
        int n = 0;
        message_append(m, "; no rank is missing on %s; check ", v->topo->host_name);
        for (int g = 0; g < v->n_peers; g++) {
            if (g == v->group || judge(v, &v->peers[g], overdue) != UNKNOWN) continue;
            if (n++ < WATCHDOG_MAX_NAMED)
                message_append(m, "%s%s (rank %d)", n > 1 ? ", " : "", v->peers[g].host, v->peers[g].rank);
        }
        if (n > WATCHDOG_MAX_NAMED) message_append(m, " and %d more hosts", n - WATCHDOG_MAX_NAMED);
        return;
    }
    if (v->n_peers == 1 && v->group != 0) {
        bool heard = judge(v, &v->peers[0], overdue) != UNKNOWN;
        message_append(m, "; no rank is missing on %s%s%s; check the other hosts", v->topo->host_name,
                       heard ? " or " : "", heard ? v->peers[0].host : "");
    } else if (name_groups(v, m, overdue, HELD_UP, ELSEWHERE) == 0)
        message_append(m, "; no rank is missing on any host, so the transport between the ranks is stuck");
}

bool watchdog_describe_loss(const side_peer_t *peer, const char *own, char *out, size_t n_bytes)
{
    message_t m = {.n = 0};
    const bool known =
        peer->status.ended.rank >= 0 || (peer->heard_sec > 0 && peer->status.behind[SIDE_ON_HOST].rank >= 0);
    if (peer->state != SIDE_LOST && peer->status.ended.rank < 0) return false;
    describe_end(&m, peer, "");
    if (!known) message_append(&m, "; this rank is in \"%s\"", own);
    snprintf(out, n_bytes, "%s", m.text);
    return true;
}

/* ---- The error and the warning ---- */
static void describe_slot(const watchdog_view_t *v, message_t *m, int i, presence_t presence)
{
    const char *host = v->topo->host_name;
    if (presence == NOT_STARTED) {
        message_append(m, "; local rank %d of %s has not started", i, host);
        return;
    }
    side_rank_t rank = read_slot(v, &v->slots[i], false);
    describe_rank(m, host, &rank, presence);
}

/* The wait's name and number. */
static void describe_wait(message_t *m, const overdue_t *overdue)
{
    bool recorded = overdue->on_device && overdue->sequence == WATCHDOG_RECORDED;
    message_append(m, "\"%s\" (", overdue->what);
    message_append(m,
                   recorded             ? "in a recorded step)"
                   : overdue->on_device ? "the GPU's collective %lld)"
                                        : "collective %lld)",
                   overdue->sequence);
}

/* The ranks of this host that are not in the wait. */
static void describe_ranks(const watchdog_view_t *v, message_t *m, const overdue_t *overdue)
{
    bool recorded = overdue->on_device && overdue->sequence == WATCHDOG_RECORDED;
    int n_absent = watchdog_count_absent(v, overdue);
    int n_named = 0, n_more = 0;
    for (int i = 0; i < v->n_slots; i++) {
        presence_t p = presence_of(v, &v->slots[i], overdue);
        if (p == HERE || (p > STOPPED && (n_absent || v->n_peers > 0))) continue;
        if (n_named++ < WATCHDOG_MAX_NAMED) {
            describe_slot(v, m, i, p);
        } else {
            n_more++;
        }
    }
    if (n_more) message_append(m, "; and %d more on %s", n_more, v->topo->host_name);
    if (v->n_peers > 0) {
        describe_hosts(v, m, overdue, n_absent);
        return;
    }
    if (n_absent || (recorded && n_named)) return;
    if (v->n_slots < v->topo->local_size)
        message_append(m, "; the ranks of %s share no memory, so the missing ranks are unknown",
                       v->topo->host_name);
    else if (v->topo->n_hosts > 1)
        message_append(m, "; no rank is missing on %s; check the other hosts", v->topo->host_name);
    else
        message_append(m, "; no rank is missing, so the transport between the ranks is stuck");
}

void watchdog_describe_expiry(const watchdog_view_t *v, const overdue_t *overdue, char *out, size_t n_bytes)
{
    message_t m = {.n = 0};
    message_append(&m, "timed out after %g s in ", v->timeout_sec);
    describe_wait(&m, overdue);
    describe_ranks(v, &m, overdue);
    snprintf(out, n_bytes, "%s", m.text);
}

void watchdog_describe_stall(const watchdog_view_t *v, const overdue_t *overdue, double waited_sec, char *out,
                             size_t n_bytes)
{
    message_t m = {.n = 0};
    message_append(&m, "stall: waiting for %.*f s in ", waited_sec < 10 ? 1 : 0, waited_sec);
    describe_wait(&m, overdue);
    describe_ranks(v, &m, overdue);
    message_append(&m, "; the job ends after %g s (--timeout)", v->timeout_sec);
    snprintf(out, n_bytes, "%s", m.text);
}
