/* SPDX-License-Identifier: MIT */
/* TCP sockets, and the network that Open MPI's TCP transport was told to use. Not collective. */
#ifndef CLUSTER_WATCH_TCP_H
#define CLUSTER_WATCH_TCP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* Fills in a socket address and returns its length.
 *
 *   family  AF_INET or AF_INET6
 *   bytes   4 or 16 in network order; NULL: any address */
socklen_t tcp_address(int family, const uint8_t *bytes, int port, struct sockaddr_storage *out);

/* Binds a socket to the address, and listens. Returns the socket, or -1 with errno: it is then closed. */
int tcp_listen(int fd, int family, const uint8_t *bytes, int port);

/* The port that a socket is bound to; 0: unknown. */
int tcp_port(int fd);

/* Whether the first n bits are equal. */
bool tcp_same_bits(const uint8_t *a, const uint8_t *b, int n);

/* Whether a value of btl_tcp_if_include or …_exclude, a list of interfaces and subnets, names an address.
 *
 *   max_prefix  subnets with more bits do not count */
bool tcp_list_names(const char *list, const char *interface, int family, const uint8_t *bytes,
                    int max_prefix);

#endif
