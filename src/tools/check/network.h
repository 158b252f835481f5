/* SPDX-License-Identifier: MIT */
/* Paths between hosts. Private to src/tools/check. */
#ifndef TOOLS_CHECK_NETWORK_H
#define TOOLS_CHECK_NETWORK_H

#include "base/figure.h"
#include "tools/check/check.h"
#include "tools/check/interfaces.h"
#include "tools/check/pairs.h"

/* What the parts of the check share; the same on all ranks. */
typedef struct network {
    check_t *check;
    int n;        /* hosts */
    int *leaders; /* [n]: their first ranks */
    net_host_t *hosts;
    net_subnet_t subnets[NET_SUBNETS];
    int n_subnets;
    bool reached;    /* every pair, where that was tried */
    double slack;    /* seconds a byte that do not matter, as pairs_judge takes it */
    double *latency; /* n × n, seconds; NaN: not measured */
    double *per_byte;
} network_t;

/* Collective. network_reach: interfaces and ports. network_measure: every pair by MPI, then all in a ring. */
err_t network_reach(network_t *network);
err_t network_measure(network_t *network);

/* Seconds of latency that do not matter: interrupts and other processes take as much. */
extern const double network_latency_slack;

/* Says lines about latency and bandwidth; on one rank. The matrices are n_hosts × n_hosts. */
typedef struct network_unit {
    const char *name;               /* "latency" */
    figure_t (*figure)(double sec); /* of seconds, or of seconds a byte */
} network_unit_t;
extern const network_unit_t network_latency, network_bandwidth;
void network_judge(check_t *check, const pairs_t *pairs, const double *sec, const network_unit_t *unit);

#endif
