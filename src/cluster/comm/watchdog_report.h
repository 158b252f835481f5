/* SPDX-License-Identifier: MIT */
/* What the watchdog says. Internal to watchdog.c. */
#ifndef CLUSTER_COMM_WATCHDOG_REPORT_H
#define CLUSTER_COMM_WATCHDOG_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
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
    watchdog_slot_t *slots, *mine;
    int n_slots;
    const topo_t *topo;
    double timeout_sec;
} watchdog_view_t;

/* Ranks of this host that hold the others up. */
int watchdog_count_absent(const watchdog_view_t *v, const overdue_t *overdue);

/* The error at the deadline, and the warning before it. */
void watchdog_describe_expiry(const watchdog_view_t *v, const overdue_t *overdue, char *out, size_t n_bytes);
void watchdog_describe_stall(const watchdog_view_t *v, const overdue_t *overdue, double waited_sec, char *out,
                             size_t n_bytes);

#endif
