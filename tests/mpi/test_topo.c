/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3,4
 *
 * The topologies of all ranks are consistent, and so is that of a single process. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/mpi/impl.h"
#include "tests/mpi/everyone.h"

enum { MAX_RANKS = 64 };

/* Whether the topologies of all ranks are consistent. */
static bool fits_together(const topo_t *all, int size)
{
    int n_hosts = 0, max_local = 0;
    for (int r = 0; r < size; r++) {
        if (all[r].rank != r || all[r].size != size) return false;
        if (all[r].host > n_hosts) return false; /* hosts are numbered by their lowest rank */
        if (all[r].host == n_hosts) n_hosts++;
        if (all[r].local_size > max_local) max_local = all[r].local_size;
        int n_before = 0, n_mates = 0;
        for (int other = 0; other < size; other++) {
            if (all[other].host != all[r].host) continue;
            n_mates++;
            n_before += other < r;
            if (strcmp(all[other].host_name, all[r].host_name) != 0) return false;
        }
        if (all[r].local_rank != n_before || all[r].local_size != n_mates) return false;
    }
    for (int r = 0; r < size; r++)
        if (all[r].n_hosts != n_hosts || all[r].max_local_size != max_local) return false;
    return true;
}

int main(int argc, char **argv)
{
    topo_t alone, mine, all[MAX_RANKS];
    topo_self(&alone);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    tap_quiet = !log_speaks();
    tap_plan(6);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    OK_ALL(topo_discover(0, &mine) == ERR_OK, "discover");
    OK_ALL(mine.rank == rank && mine.size == size && size <= MAX_RANKS, "MPI's rank and size");
    MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
    OK_ALL(fits_together(all, size), "hosts, local ranks and sizes are consistent");
    topo_t cut;
    bool discovered = topo_discover(2, &cut) == ERR_OK;
    MPI_Allgather(&cut, sizeof cut, MPI_BYTE, all, sizeof cut, MPI_BYTE, MPI_COMM_WORLD);
    OK_ALL(discovered && fits_together(all, size) && cut.max_local_size <= 2 &&
               (mine.n_hosts > 1 || cut.n_hosts == (size + 1) / 2),
           "hosts split into groups of two ranks");
    OK_ALL(alone.rank == 0 && alone.size == 1 && alone.n_hosts == 1 && alone.host == 0 &&
               alone.local_rank == 0 && alone.local_size == 1 && alone.max_local_size == 1 &&
               strcmp(alone.host_name, mine.host_name) == 0,
           "one process without MPI");
    OK_ALL(topo_cpus() >= 1 && mem_live() == 0, "at least one CPU; all memory was freed");
    MPI_Finalize();
    return tap_done();
}
