/* SPDX-License-Identifier: MIT */
/* Shared by the files of the side channel: side_channel.c, and side_links.c or, with SMPI=1, side_links_sim.c. */
#ifndef CLUSTER_COMM_SIDE_IMPL_H
#define CLUSTER_COMM_SIDE_IMPL_H

#include <poll.h>
#include <stddef.h>

#include "cluster/comm/side_address.h"
#include "cluster/comm/side_types.h"

enum { SIDE_MAGIC = 0x64704331 };

/* SIDE_CLOSED and SIDE_ENDED stand in for the kernel on simulated hosts: the process of a group has ended, and a
 * process of this group has. */
typedef enum side_kind { SIDE_STATUS, SIDE_ASK, SIDE_GOODBYE, SIDE_CLOSED, SIDE_ENDED } side_kind_t;

/* All messages have this form, in the byte order of the hosts, which run the same program. */
typedef struct side_message {
    uint32_t magic;
    int32_t kind, group;
    uint8_t token[SIDE_TOKEN];
    side_status_t status;
} side_message_t;

typedef struct side_link {
    int fd;    /* -1: unused */
    int group; /* -1: has sent nothing yet */
    bool connecting;
    double since_sec;
    size_t n_in, n_out; /* bytes received of a message, and left to send */
    side_message_t in, out;
} side_link_t;

struct side {
    side_role_t role;
    int group, n_groups, n_links, n_local, ended;
    side_address_t hub;
    uint8_t token[SIDE_TOKEN];
    int listen_fd, next_address; /* the latter is one of the hub's */
    double retry_sec;            /* when to connect again */
    bool asked, news, said_goodbye;
    side_peer_t *peers;   /* [n_groups] */
    side_link_t *links;   /* [n_links]; a spoke has one */
    int *pid_fds;         /* [n_local], -1: none */
    struct pollfd *polls; /* [2 + n_local + n_links] */
};

/* Fills in a message of this group; applies one of another group, which is_known. */
void side_write(const side_t *s, side_kind_t kind, side_message_t *out);
bool side_knows(const side_t *s, const side_message_t *m);
void side_apply(side_t *s, const side_message_t *m);
void side_set_state(side_t *s, int group, side_state_t state);

/* To all that have a connection to this group. */
void side_send_all(side_t *s, side_kind_t kind);

#endif
