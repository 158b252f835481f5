/* SPDX-License-Identifier: MIT */
/* What the watchdog says. Internal to watchdog.c. */
#ifndef CLUSTER_COMM_WATCHDOG_REPORT_H
#define CLUSTER_COMM_WATCHDOG_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cluster/comm/side_channel.h"
#include "cluster/comm/topo.h"
#include "cluster/comm/watchdog_slot.h"

/* A collective that did not finish in time. */
typedef struct overdue {
    const char *what;
    long long sequence;
    /* No host waits in it; `sequence` is from watchdog_device_entered, or WATCHDOG_RECORDED. */
    bool on_device;
} overdue_t;

/* What this host knows. */
typedef struct watchdog_view {
    watchdog_slot_t *slots, *mine; /* mine NULL: this rank is not in the overdue wait */
    int n_slots;
    const topo_t *topo;
    double timeout_sec;
    /* By the side channel: the groups to judge, without this one's entry. n_peers 0: no channel. */
    const side_peer_t *peers;
    int n_peers, group;
    double asked_sec; /* when they were asked; one not heard since does not answer */
} watchdog_view_t;

enum { WATCHDOG_MAX_NAMED = 4 }; /* ranks named in a message */

/* Seconds since the watchdog of a rank last woke; 0 if too short to mean anything. */
double watchdog_stopped_sec(const watchdog_view_t *v, const watchdog_slot_t *slot);

side_rank_t watchdog_read_slot(const watchdog_view_t *v, const watchdog_slot_t *slot, bool on_device);

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

/* Of a rank that has started. */
presence_t watchdog_presence(const watchdog_view_t *v, const side_rank_t *rank, const overdue_t *overdue);
void watchdog_describe_rank(message_t *m, const char *host, const side_rank_t *rank, presence_t presence);

/* Ranks of this host that hold the others up. */
int watchdog_count_absent(const watchdog_view_t *v, const overdue_t *overdue);

/* In watchdog_hosts.c. This host, for the others; what: the name of the GPU's collective. */
void watchdog_sum_up(const watchdog_view_t *v, const char *what, side_status_t *out);
/* Names the ranks of other hosts; n_absent ranks of this one have been. */
void watchdog_describe_hosts(const watchdog_view_t *v, message_t *m, const overdue_t *overdue, int n_absent);
/* The process of a group that has ended unexpectedly; false: none has.
 *
 *   own  what this rank does, which tells most of a process that ended before its first status */
bool watchdog_describe_loss(const side_peer_t *peer, const char *own, char *out, size_t n_bytes);

/* The error at the deadline, and the warning before it. */
void watchdog_describe_expiry(const watchdog_view_t *v, const overdue_t *overdue, char *out, size_t n_bytes);
void watchdog_describe_stall(const watchdog_view_t *v, const overdue_t *overdue, double waited_sec, char *out,
                             size_t n_bytes);

#endif
