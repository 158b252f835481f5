/* SPDX-License-Identifier: MIT */
/* What a rank tells the watchdogs of its host. Internal to the watchdog, except for the sizes. */
#ifndef CLUSTER_WATCH_WATCHDOG_SLOT_H
#define CLUSTER_WATCH_WATCHDOG_SLOT_H

#include <stdatomic.h>

enum { WATCHDOG_TEXT = 48 };

/* A rank's slot in the shared page, on its own cache lines. Initially zero. */
typedef struct watchdog_slot {
    atomic_int rank_plus_1;       /* 1 + rank of the owner; 0: not started */
    atomic_int waiting;           /* not 0: inside the wait named by `doing`; see watchdog_enter_planned */
    atomic_llong sequence;        /* collectives entered so far */
    atomic_llong pulse_ms;        /* last wake-up of its watchdog, by clock_sec: reveals a stopped process */
    atomic_llong on_device;       /* collectives enqueued on its GPU so far */
    atomic_int speaker;           /* slot 0 only: 1 + the rank that reports; 0: none yet */
    atomic_int leaving;           /* the process ends on purpose */
    atomic_llong stall;           /* slot 0 only: number of the last warning of a stall on this host */
    atomic_llong waited_ms;       /* in the present wait, as of the last wake-up */
    atomic_llong device_ms;       /* the same for the GPU's collective … */
    atomic_llong device_sequence; /* … of this number */
    char doing[WATCHDOG_TEXT];    /* last phase or wait */
    char pad[128 - 4 * 4 - 7 * 8 - WATCHDOG_TEXT];
} watchdog_slot_t;

enum { WAIT_FOR_PEERS = 1, WAIT_PLANNED = 2 };

/* Number of a collective in a recorded step, whose collectives are not counted. */
enum { WATCHDOG_RECORDED = -1 };

#endif
