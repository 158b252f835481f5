/* SPDX-License-Identifier: MIT */
/* What the side channel carries, and what it knows of each group. */
#ifndef CLUSTER_COMM_SIDE_TYPES_H
#define CLUSTER_COMM_SIDE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/comm/topo.h"
#include "cluster/comm/watchdog_slot.h"

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

#endif
