/* SPDX-License-Identifier: MIT */
/* Where ranks run. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_TOPOLOGY_H
#define TOOLS_CHECK_TOPOLOGY_H

#include <sched.h>

#include "tools/check/check.h"

/* What a rank tells the others. Cores are known by their first hardware thread. */
typedef struct topology_facts {
    int host;
    bool known; /* the affinity mask could be read */
    bool bound; /* to fewer CPUs than the host has online */
    int n_cpus; /* that the rank may use */
    int n_host_cores, n_host_cpus;
    cpu_set_t cores; /* that it may use */
    uint64_t nodes;  /* NUMA nodes of these, bits */
    int n_host_nodes;
    int gpu_node;     /* NUMA node of its GPU; -1: no GPU, or not known */
    int gpu_distance; /* from the nearest of `nodes` to gpu_node, as the kernel has it (10: the same); 0: not
                         known */
} topology_facts_t;

/* "0-3,8,10-11" into a set; false where it is something else. */
bool topology_parse_list(const char *text, cpu_set_t *out);

/* Of this rank. */
void topology_read(const check_t *check, topology_facts_t *out);

/* Says lines about this rank and, on local rank 0, its host. all: [comm->size]. */
void topology_judge(check_t *check, const topology_facts_t *all);

#endif
