/* SPDX-License-Identifier: MIT */
/* The side channel: what the hosts' first watchdogs tell each other, so that a message names a rank of another
 * host. A star of TCP connections around rank 0's host, used by the watchdog's thread alone. It only informs:
 * without it, or when it breaks, a job goes on, and messages name ranks of their own host only.
 *
 * A group is a host, or a rank of a host whose ranks share no memory. */
#ifndef CLUSTER_COMM_SIDE_CHANNEL_H
#define CLUSTER_COMM_SIDE_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/comm/side_address.h"
#include "cluster/comm/side_types.h"

typedef struct side_setup {
    side_role_t role;
    int group, n_groups;
    const side_peer_t *peers; /* [n_groups] names and ranks; copied */
    side_address_t hub;
    int listen_fd; /* SIDE_HUB; the channel closes it, also after an error */
    uint8_t token[SIDE_TOKEN];
    /* Descriptors of the group's processes, readable when one has ended; -1: none. The channel closes them. */
    const int *local; /* [n_local] */
    int n_local;      /* 0 if another rank speaks for the group */
} side_setup_t;

/* Of rank 0: side_listen (side_address.h). Simulated hosts have an address, but no socket, so *fd is left alone. */
err_t side_offer(side_address_t *out, int *fd);

err_t side_new(const side_setup_t *setup, side_t **out);
/* Says goodbye. */
void side_free(side_t **side);

/* Serves the channel (NULL: none) for so long. Returns earlier if wake_fd is readable, or with news: another
 * group asks, waits for long, or was lost. */
void side_wait(side_t *side, int wake_fd, double sec);

/* Sends this group's status: to rank 0's group, or from it to all. ask: they are to answer at once. */
void side_publish(side_t *side, const side_status_t *status, bool ask);
/* Whether this group has been asked since side_publish. */
bool side_is_asked(const side_t *side);
/* Seconds between two calls of side_publish, while nobody asks. */
double side_interval(const side_t *side);
/* The others are not to report this process as lost. */
void side_say_goodbye(side_t *side);

side_role_t side_role(const side_t *side);
int side_group(const side_t *side);
/* [n_groups], this group included. On a spoke, only that of rank 0, the first, and its own are kept up. */
const side_peer_t *side_peers(const side_t *side, int *n_groups);
/* Notes that the user knows of a loss; a group that connects again clears it. */
void side_set_told(side_t *side, int group);
/* Index of a process of this group that has ended; -1: none. */
int side_ended(const side_t *side);

/* On simulated hosts: tells the others what their kernels would, that this process is ending.
 *
 *   local  its index in the group */
void side_sim_lost(side_t *side, int local);

#endif
