/* SPDX-License-Identifier: MIT */
/* Network ports and the bytes they have sent, from the kernel's counters. These show which ports carried the
 * data, independent of what libraries report. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_FABRIC_H
#define TOOLS_CHECK_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

/* RoCE is RDMA over Ethernet, used through the same libraries as InfiniBand. */
typedef enum fabric_kind { FABRIC_TCP, FABRIC_IB, FABRIC_ROCE, FABRIC_EFA, FABRIC_KINDS } fabric_kind_t;
extern const char *const fabric_kind_names[FABRIC_KINDS]; /* "TCP", "InfiniBand", "RoCE", "EFA" */

typedef struct fabric_port {
    char name[48]; /* "eth0", "mlx5_0:1" */
    fabric_kind_t kind;
    bool active;
    char driver[24]; /* "mlx5_core", "efa"; "": unknown */
    int64_t sent;    /* bytes since boot or driver load; -1: not counted */
} fabric_port_t;

enum { FABRIC_MAX = 64 };

typedef struct fabric {
    int n;
    fabric_port_t port[FABRIC_MAX];
} fabric_t;

/* Reads all ports.
 *
 *   infiniband, net  /sys/class/infiniband and /sys/class/net */
void fabric_read(const char *infiniband, const char *net, fabric_t *out);

/* The kind of port that sent a known amount of data between two readings. */
typedef struct fabric_use {
    bool known;
    fabric_kind_t kind;
    char names[96]; /* "mlx5_0:1, mlx5_1:1" */
} fabric_use_t;

/* Finds the ports that carried a transfer. If both a network interface and an RDMA port sent that much,
 * `sockets` decides: TCP over the port (IPoIB), or other traffic on the interface.
 *
 *   n_bytes  that this host sent to others at least
 *   sockets  the library reports that it uses sockets */
fabric_use_t fabric_compare(const fabric_t *before, const fabric_t *after, int64_t n_bytes, bool sockets);

#endif
