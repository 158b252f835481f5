/* SPDX-License-Identifier: MIT */
/* Words of the watchdog: which ranks of this host are missing in an overdue collective, and what each was
 * last doing. When to speak is left to watchdog.c. */
#include "cluster/comm/watchdog_report.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

double watchdog_stopped_sec(const watchdog_view_t *v, const watchdog_slot_t *slot)
{
    long long pulse = atomic_load(&slot->pulse_ms);
    double sec = clock_sec() - 1e-3 * (double)pulse;
    double limit = v->timeout_sec / 2 < 2 ? v->timeout_sec / 2 : 2;
    return pulse && sec > limit ? sec : 0;
}

side_rank_t watchdog_read_slot(const watchdog_view_t *v, const watchdog_slot_t *slot, bool on_device)
{
    side_rank_t out = {.rank = atomic_load(&slot->rank_plus_1) - 1,
                       .waiting = atomic_load(&slot->waiting) != 0,
                       .sequence = atomic_load(on_device ? &slot->on_device : &slot->sequence),
                       .stopped_sec = watchdog_stopped_sec(v, slot)};
    memcpy(out.doing, slot->doing, sizeof out.doing); /* may be torn; never unterminated */
    out.doing[WATCHDOG_TEXT - 1] = '\0';
    return out;
}

presence_t watchdog_presence(const watchdog_view_t *v, const side_rank_t *rank, const overdue_t *overdue)
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
    side_rank_t rank = watchdog_read_slot(v, slot, overdue->on_device);
    return watchdog_presence(v, &rank, overdue);
}

int watchdog_count_absent(const watchdog_view_t *v, const overdue_t *overdue)
{
    int n = 0;
    for (int i = 0; i < v->n_slots; i++) n += presence_of(v, &v->slots[i], overdue) <= STOPPED;
    return n;
}

void watchdog_describe_rank(message_t *m, const char *host, const side_rank_t *rank, presence_t presence)
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

static void describe_slot(const watchdog_view_t *v, message_t *m, int i, presence_t presence)
{
    const char *host = v->topo->host_name;
    if (presence == NOT_STARTED) {
        message_append(m, "; local rank %d of %s has not started", i, host);
        return;
    }
    side_rank_t rank = watchdog_read_slot(v, &v->slots[i], false);
    watchdog_describe_rank(m, host, &rank, presence);
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
        watchdog_describe_hosts(v, m, overdue, n_absent);
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
