/* SPDX-License-Identifier: MIT */
/* Addresses and sockets of the side channel: the network that Open MPI was told to use. Not collective. */
#ifndef CLUSTER_COMM_SIDE_ADDRESS_H
#define CLUSTER_COMM_SIDE_ADDRESS_H

#include <stdint.h>

#include "base/err.h"

enum { SIDE_MAX_ADDRESSES = 4 };

/* Where a host listens. */
typedef struct side_address {
    int32_t family; /* AF_INET or AF_INET6, of all addresses */
    int32_t port;   /* 0: it does not listen */
    int32_t n;
    uint8_t bytes[SIDE_MAX_ADDRESSES][16];
} side_address_t;

/* Listens, without blocking, on the addresses of this host that btl_tcp_if_include allows; without that
 * setting on all but loopback, or on loopback if there are no others. The port is in btl_tcp_port_min_v4's range
 * if one is set. */
err_t side_listen(side_address_t *out, int *fd);

/* Begins to connect to address i. Returns a descriptor that becomes writable, or -1. */
int side_connect(const side_address_t *to, int i);

/* Whether the connection has been made, once the descriptor is writable. */
int side_connected(int fd);

/* Accepts a connection without blocking; -1: none. */
int side_accept(int fd);

/* Raises the soft limit of open files: one connection per host may exceed it. */
void side_allow_sockets(int n);

#endif
