/* SPDX-License-Identifier: MIT */
/* Whether each host reaches a port of each other, by plain sockets: what a firewall or a missing route stops,
 * MPI only waits for. Private to src/tools/check. */
#ifndef TOOLS_CHECK_REACH_H
#define TOOLS_CHECK_REACH_H

#include "tools/check/check.h"
#include "tools/check/interfaces.h"

typedef enum reach { REACH_OK, REACH_REFUSED, REACH_TIMEOUT, REACH_NO_ROUTE, REACH_ERROR } reach_t;

/* A range of ports, "LO-HI". ERR_USAGE naming `option`. Both are 0 for NULL: the kernel chooses. */
typedef struct reach_ports {
    int low, high;
} reach_ports_t;
err_t reach_ports_parse(const char *option, const char *text, reach_ports_t *out);
/* Of Open MPI's btl_tcp_port_min_v4 and …_range_v4, where they are set. */
reach_ports_t reach_ports_environment(void);

/* Listens at all addresses of a family (4 or 6), on the first free port of the range. -1: none could be had,
 * errno says why. */
int reach_listen(int family, reach_ports_t ports, int *port);

/* Connects to n others at once, for up to timeout_sec; to[i] NULL: not. */
typedef struct reach_target {
    const net_address_t *to;
    int port;
    reach_t result;
} reach_target_t;
void reach_connect(reach_target_t *targets, int n, double timeout_sec);

/* Says lines. results: n_hosts × n_hosts of reach_t, from the row's host to the column's; on one rank.
 * Returns how many pairs fail. */
int reach_judge(check_t *check, const int32_t *results, const char *what);

#endif
