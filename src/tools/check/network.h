/* SPDX-License-Identifier: MIT */
/* Paths between hosts. Private to src/tools/check. */
#ifndef TOOLS_CHECK_NETWORK_H
#define TOOLS_CHECK_NETWORK_H

#include "base/figure.h"
#include "tools/check/check.h"
#include "tools/check/interfaces.h"
#include "tools/check/pairs.h"

/* State shared by the parts of the check; the same on all ranks. */
typedef struct network {
    check_t *check;
    int n;        /* hosts */
    int *leaders; /* [n]: first rank of each host */
    net_host_t *hosts;
    net_subnet_t subnets[NET_SUBNETS];
    int n_subnets;
    bool reached;     /* every pair connected, or that was not tested */
    double slack;     /* pairs_judge's slack for per_byte, seconds per byte */
    double *latency;  /* [n × n], seconds; NaN: not measured */
    double *per_byte; /* [n × n], seconds per byte */
    bool *alone;      /* [n × n]: measured while all other hosts slept */
} network_t;

/* Collective. network_reach compares interfaces and connects ports. network_measure measures every pair
 * through MPI, then all ranks in a ring. */
err_t network_reach(network_t *network);
err_t network_measure(network_t *network);

/* pairs_judge's slack for latency: interrupts and other processes cost as much. */
extern const double network_latency_slack;

/* Adds lines about latency or bandwidth; called on one rank.
 *
 *   sec  [n_hosts × n_hosts], in seconds or seconds per byte */
typedef struct network_unit {
    const char *name;               /* "latency" */
    figure_t (*figure)(double sec); /* of a value of `sec` */
} network_unit_t;
extern const network_unit_t network_latency, network_bandwidth;
void network_judge(check_t *check, const pairs_t *pairs, const double *sec, const network_unit_t *unit);

#endif
