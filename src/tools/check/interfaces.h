/* SPDX-License-Identifier: MIT */
/* Network interfaces of all hosts, grouped into subnets. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_INTERFACES_H
#define TOOLS_CHECK_INTERFACES_H

#include "tools/check/check.h"

typedef struct net_address {
    char interface[16];
    uint8_t family; /* 4 or 6 */
    uint8_t prefix; /* bits of the subnet */
    uint8_t bytes[16];
} net_address_t;

enum { NET_MAX = 16, NET_SELECTION = 160 };

/* The addresses of a host's active interfaces, except loopback and link-local ones. */
typedef struct net_host {
    int32_t n;
    net_address_t address[NET_MAX];
    char include[NET_SELECTION], exclude[NET_SELECTION]; /* Open MPI's btl_tcp_if_…; "": not set */
} net_host_t;

/* Reads this host's addresses, and MPI's selection from the environment. */
void net_host_read(net_host_t *out);

typedef struct net_subnet {
    net_address_t first; /* the address of the first host in it */
    int n_hosts;         /* hosts with an address in it */
    bool bridge;         /* several hosts have the same address in it: a local bridge such as Docker's */
    bool used;           /* MPI's selection includes it */
} net_subnet_t;

/* Lists the subnets, the most common first, up to NET_SUBNETS; returns their number. Skips IPv6 if all hosts
 * have IPv4. */
enum { NET_SUBNETS = 32 };
int net_subnets(const net_host_t *hosts, int n_hosts, net_subnet_t out[NET_SUBNETS]);

/* A host's address in a subnet, or NULL. */
const net_address_t *net_find(const net_host_t *host, const net_subnet_t *subnet);

/* "10.0.0.0/24" */
typedef struct net_text {
    char text[64];
} net_text_t;
net_text_t net_subnet_text(const net_address_t *address);
net_text_t net_address_text(const net_address_t *address);

/* Adds lines about the interfaces of all hosts; called on one rank.
 *
 *   routed  without a shared subnet: hosts reach each other nevertheless */
void net_judge(check_t *check, const net_host_t *hosts, const net_subnet_t *subnets, int n_subnets,
               bool routed);

#endif
