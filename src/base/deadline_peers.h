/* SPDX-License-Identifier: MIT */
/* The other ranks of this host as /proc shows them, without MPI. Internal to base/deadline.c. */
#ifndef BASE_DEADLINE_PEERS_H
#define BASE_DEADLINE_PEERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/deadline.h"
#include "base/err.h"

typedef struct deadline_peers {
    int n_seen;      /* ranks of this job on this host, including this one; 0: unknown */
    int n_absent;    /* of them: stopped, or in an earlier stage; and those that do not run */
    bool first;      /* no lower rank of this host is waiting in the same stage */
    message_t found; /* "; rank 1 on node-a is stopped", … */
} deadline_peers_t;

/* Name of the thread that shows a stage. */
const char *deadline_stage_name(deadline_stage_t stage);

void deadline_peers_look(deadline_stage_t stage, deadline_peers_t *out);

#endif
