/* SPDX-License-Identifier: MIT */
/* The topology of a job: rank → host → index on the host. */
#ifndef CLUSTER_HOSTS_TOPO_H
#define CLUSTER_HOSTS_TOPO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { TOPO_HOST_MAX = 64 };

typedef struct topo {
    int rank, size;
    int n_hosts;
    int host; /* index of this rank's host, in order of its lowest rank */
    int local_rank, local_size;
    int max_local_size; /* largest over the hosts */
    bool simulated;     /* by scripts/simulate.sh: hosts without sockets, CPUs and load of their own */
    char host_name[TOPO_HOST_MAX];
} topo_t;

/* Where a rank runs. */
typedef struct rank_place {
    char host[TOPO_HOST_MAX];
    int32_t host_index; /* topo_t.host */
} rank_place_t;

/* One rank, no MPI. */
void topo_self(topo_t *out);

/* CPUs that this process may use (its affinity mask). */
int topo_cpus(void);

#endif
