/* SPDX-License-Identifier: MIT */
/* What the watchdog says. Internal to watchdog.c, whose part for the side channel is declared here for tests. */
#ifndef CLUSTER_WATCH_WATCHDOG_REPORT_H
#define CLUSTER_WATCH_WATCHDOG_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cluster/hosts/topo.h"
#include "cluster/watch/side_channel.h"
#include "cluster/watch/watchdog_slot.h"

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

/* Seconds since the watchdog of a rank last woke; 0 if too short to mean anything. */
double watchdog_stopped_sec(const watchdog_view_t *v, const watchdog_slot_t *slot);

/* Ranks of this host that hold the others up. */
int watchdog_count_absent(const watchdog_view_t *v, const overdue_t *overdue);

/* This host, for the others; what: the name of the GPU's collective. */
void watchdog_sum_up(const watchdog_view_t *v, const char *what, side_status_t *out);
/* The process of a group that has ended unexpectedly; false: none has.
 *
 *   own  what this rank does, which tells most of a process that ended before its first status */
bool watchdog_describe_loss(const side_peer_t *peer, const char *own, char *out, size_t n_bytes);

/* The error at the deadline, and the warning before it. */
void watchdog_describe_expiry(const watchdog_view_t *v, const overdue_t *overdue, char *out, size_t n_bytes);
void watchdog_describe_stall(const watchdog_view_t *v, const overdue_t *overdue, double waited_sec, char *out,
                             size_t n_bytes);

/* ---- A rank that speaks for its group on the side channel (watchdog.c) ----
 * It tells the others how the group's ranks stand, and decides when to name a rank of another group. Rank 0's group
 * speaks for the job; if it does not answer, the next one does. On the watchdog's thread alone. */
typedef struct watchdog_side {
    side_t *channel;
    watchdog_view_t view; /* without the channel's part */
    double stall_sec;
    const char *device_what;
    double published_sec, expiry_asked_sec; /* by clock_sec; 0: not yet */
    double stall_asked_sec, next_stall_sec, stalled_sec;
    double started_sec;
    bool warned, told_own, checked;
} watchdog_side_t;

void watchdog_side_start(watchdog_side_t *w, side_t *channel, const watchdog_view_t *view, double stall_sec);

/* What the rank is to do: nothing; print the error and end the job; end it silently. */
typedef enum watchdog_act { WATCHDOG_GO_ON, WATCHDOG_SPEAK, WATCHDOG_LEAVE } watchdog_act_t;

/* Called whenever the thread wakes. Prints warnings, and which processes have ended.
 *
 *   what    full name of this rank's wait
 *   error   of WATCHDOG_SPEAK */
watchdog_act_t watchdog_side_tick(watchdog_side_t *w, const char *what, char error[ERR_MESSAGE_MAX]);

#endif
