/* SPDX-License-Identifier: MIT */
/* The watchdog of a rank that speaks for its group on the side channel: tells the others how the group's ranks
 * stand, and decides when to name a rank of another group. Rank 0's group speaks for the job; if it does not
 * answer, the next one does. Internal to watchdog.c, on its thread alone. */
#ifndef CLUSTER_COMM_WATCHDOG_SIDE_H
#define CLUSTER_COMM_WATCHDOG_SIDE_H

#include "cluster/comm/watchdog_report.h"

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

/* Before this process ends on purpose: names processes that ended before, and says goodbye. */
void watchdog_side_end(watchdog_side_t *w);

#endif
