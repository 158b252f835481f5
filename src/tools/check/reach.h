/* SPDX-License-Identifier: MIT */
/* Tests by plain sockets whether each host reaches a port of every other: behind a firewall or without a
 * route, MPI would just wait. Private to src/tools/check. */
#ifndef TOOLS_CHECK_REACH_H
#define TOOLS_CHECK_REACH_H

#include "tools/check/check.h"
#include "tools/check/interfaces.h"

typedef enum reach { REACH_OK, REACH_REFUSED, REACH_TIMEOUT, REACH_NO_ROUTE, REACH_ERROR } reach_t;

/* A range of ports; both 0: the kernel chooses. */
typedef struct reach_ports {
    int low, high;
} reach_ports_t;
/* Parses "LO-HI"; NULL gives zeros. ERR_USAGE names `option`. */
err_t reach_ports_parse(const char *option, const char *text, reach_ports_t *out);
/* The range set by Open MPI's btl_tcp_port_min_v4 and …_range_v4, if any. */
reach_ports_t reach_ports_environment(void);

/* Listens on all addresses of a family (4 or 6), on the first free port of the range. Returns the
 * socket, or -1 with errno. */
int reach_listen(int family, reach_ports_t ports, int *port);

/* Connects to n hosts concurrently, for up to timeout_sec. */
typedef struct reach_target {
    const net_address_t *to; /* NULL: skip */
    int port;
    reach_t result;
} reach_target_t;
void reach_connect(reach_target_t *targets, int n, double timeout_sec);

/* Adds lines about hosts and pairs that fail; called on one rank. Returns the number of failing pairs.
 *
 *   results  [n_hosts × n_hosts] of reach_t, from the row's host to the column's
 *   what     name of the lines */
int reach_judge(check_t *check, const int32_t *results, const char *what);

#endif
