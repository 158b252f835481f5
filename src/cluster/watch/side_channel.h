/* SPDX-License-Identifier: MIT */
/* The side channel: what the hosts' first watchdogs tell each other, so that a message names a rank of another
 * host. A star of TCP connections around rank 0's host, used by the watchdog's thread alone. It only informs:
 * without it, or when it breaks, a job goes on, and messages name ranks of their own host only.
 *
 * A group is a host, or a rank of a host whose ranks share no memory. */
#ifndef CLUSTER_WATCH_SIDE_CHANNEL_H
#define CLUSTER_WATCH_SIDE_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/hosts/topo.h"
#include "cluster/watch/watchdog_slot.h"

/* ---- What it carries, and what it knows of each group ---- */
enum { SIDE_TOKEN = 16, SIDE_ON_HOST = 0, SIDE_ON_DEVICE = 1 };

typedef struct side_rank {
    int32_t rank;       /* -1: none */
    int32_t waiting;    /* in a collective */
    int64_t sequence;   /* collectives entered */
    double stopped_sec; /* its watchdog has not run for so long; 0: it runs */
    char doing[WATCHDOG_TEXT];
} side_rank_t;

typedef struct side_status {
    /* The longest wait of a rank of the group. */
    double waited_sec;
    int64_t sequence;
    int32_t on_device, planned;
    char what[64];
    side_rank_t behind[2]; /* the rank that has entered the fewest collectives: SIDE_ON_HOST, …_ON_DEVICE */
    side_rank_t ended;     /* a rank other than the first whose process has ended unexpectedly */
} side_status_t;

typedef enum side_state {
    SIDE_UNKNOWN, /* never connected, or the network failed */
    SIDE_UP,
    SIDE_LOST, /* the connection was closed without a goodbye: the process has ended */
    SIDE_LEFT
} side_state_t;

typedef struct side_peer {
    char host[TOPO_HOST_MAX];
    int rank, n_ranks; /* the first, and the number of ranks that it speaks for */
    side_state_t state;
    bool connected;     /* at a spoke, the hub: connected, even if it has never answered */
    double changed_sec; /* when it entered the state, by clock_sec */
    double heard_sec;   /* when the status arrived; 0: never */
    bool told;          /* side_set_told */
    side_status_t status;
} side_peer_t;

/* The one who listens; the others that speak for a group; a rank whose group another speaks for. */
typedef enum side_role { SIDE_HUB, SIDE_SPOKE, SIDE_SILENT } side_role_t;

typedef struct side side_t;

/* ---- Addresses of a host: those of the network that Open MPI was told to use ---- */
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

/* ---- The channel ---- */
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

/* Of rank 0: side_listen. Simulated hosts have an address, but no socket, so *fd is left alone. */
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
