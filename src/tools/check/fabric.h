/* SPDX-License-Identifier: MIT */
/* Ports to other hosts and what they have sent, as the kernel counts. Private to src/tools/check. Not
 * collective. Counters tell which way data went, whatever libraries say of themselves. */
#ifndef TOOLS_CHECK_FABRIC_H
#define TOOLS_CHECK_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

/* RoCE: RDMA over Ethernet; used through the same libraries as InfiniBand. */
typedef enum fabric_kind { FABRIC_TCP, FABRIC_IB, FABRIC_ROCE, FABRIC_EFA, FABRIC_KINDS } fabric_kind_t;
extern const char *const fabric_kind_names[FABRIC_KINDS]; /* "TCP", "InfiniBand", "RoCE", "EFA" */

typedef struct fabric_port {
    char name[48]; /* "eth0", "mlx5_0:1" */
    fabric_kind_t kind;
    bool active;
    char driver[24]; /* "mlx5_core", "efa"; "": not known */
    int64_t sent;    /* bytes since some time ago; -1: not counted */
} fabric_port_t;

enum { FABRIC_MAX = 64 };

typedef struct fabric {
    int n;
    fabric_port_t port[FABRIC_MAX];
} fabric_t;

/* infiniband, net: the kernel's folders of devices, /sys/class/infiniband and /sys/class/net. */
void fabric_read(const char *infiniband, const char *net, fabric_t *out);

/* What sent a known amount between two readings. */
typedef struct fabric_use {
    bool known;
    fabric_kind_t kind;
    char names[96]; /* "mlx5_0:1, mlx5_1:1" */
} fabric_use_t;

/* after - before is compared with n_bytes that this host surely sent to others. Where both a network
 * interface and an RDMA port moved so much, it was TCP over the port (IPoIB) if the library says that it uses
 * sockets; else the interface has other traffic. */
fabric_use_t fabric_compare(const fabric_t *before, const fabric_t *after, int64_t n_bytes, bool sockets);

#endif
