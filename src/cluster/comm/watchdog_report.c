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

/* The first three hold the others up; the next three are reported only if no rank is one of those. HELD_UP is
 * at least one collective behind because another rank is missing there. */
typedef enum presence { NOT_STARTED, MISSING, STOPPED, HELD_UP, GONE_ON, ELSEWHERE, HERE } presence_t;

/* State of a rank of this host with regard to the overdue collective. */
static presence_t presence_of(const watchdog_view_t *v, const watchdog_slot_t *slot, const overdue_t *overdue)
{
    if (slot == v->mine) return HERE;
    if (atomic_load(&slot->rank_plus_1) == 0) return NOT_STARTED;
    bool waiting = atomic_load(&slot->waiting), stopped = watchdog_stopped_sec(v, slot) > 0;
    if (overdue->on_device && overdue->sequence == WATCHDOG_RECORDED)
        return stopped                                                                ? STOPPED
               : !v->mine || strncmp(slot->doing, v->mine->doing, WATCHDOG_TEXT) == 0 ? HERE
                                                                                      : ELSEWHERE;
    long long its = atomic_load(overdue->on_device ? &slot->on_device : &slot->sequence);
    if (its < overdue->sequence) return waiting && !stopped ? HELD_UP : MISSING;
    if (stopped) return STOPPED;
    return its == overdue->sequence && (waiting || overdue->on_device) ? HERE : GONE_ON;
}

int watchdog_count_absent(const watchdog_view_t *v, const overdue_t *overdue)
{
    int n = 0;
    for (int i = 0; i < v->n_slots; i++) n += presence_of(v, &v->slots[i], overdue) <= STOPPED;
    return n;
}

static void describe_rank(const watchdog_view_t *v, message_t *m, int i, presence_t p)
{
    const watchdog_slot_t *slot = &v->slots[i];
    const char *host = v->topo->host_name;
    int rank = atomic_load(&slot->rank_plus_1) - 1;
    char doing[WATCHDOG_TEXT];
    memcpy(doing, slot->doing, sizeof doing); /* may be torn; never unterminated */
    doing[WATCHDOG_TEXT - 1] = '\0';
    double stopped = watchdog_stopped_sec(v, slot);
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
            describe_rank(v, m, i, p);
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
