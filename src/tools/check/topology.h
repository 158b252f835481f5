/* SPDX-License-Identifier: MIT */
/* Placement of ranks on CPUs and NUMA nodes. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_TOPOLOGY_H
#define TOOLS_CHECK_TOPOLOGY_H

#include <sched.h>

#include "tools/check/check.h"

/* Facts about one rank, exchanged between ranks. A core is identified by its first hardware thread. */
typedef struct topology_facts {
    int host;
    bool known; /* the affinity mask could be read */
    bool bound; /* to fewer CPUs than are online */
    int n_cpus; /* available to the rank */
    int n_host_cores, n_host_cpus;
    cpu_set_t cores; /* available to the rank */
    uint64_t nodes;  /* their NUMA nodes, as bits */
    int n_host_nodes;
    int gpu_node;     /* NUMA node of its GPU; -1: no GPU, or unknown */
    int gpu_distance; /* NUMA distance from the nearest of `nodes` to gpu_node (10: the same); 0: unknown */
} topology_facts_t;

/* Reads the facts of this rank. */
void topology_read(const check_t *check, topology_facts_t *out);

/* Adds lines about this rank and, on local rank 0, its host.
 *
 *   all  [comm->size] */
void topology_judge(check_t *check, const topology_facts_t *all);

#endif
