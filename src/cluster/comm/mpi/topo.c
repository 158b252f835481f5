/* SPDX-License-Identifier: MIT */
/* Finds the hosts of a job and each rank's place through MPI, and counts usable CPUs. */
#include "cluster/comm/mpi/topo.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/process.h"
#include "cluster/comm/mpi/call.h"

void topo_self(topo_t *out)
{
    *out = (topo_t){.size = 1, .n_hosts = 1, .local_size = 1, .max_local_size = 1};
    out->simulated = !launch_owns_process();
    launch_host_name(out->host_name, sizeof out->host_name);
}

/* Numbers the hosts in place of their lowest ranks, by which the ranks tell them apart. */
static void number_hosts(rank_place_t *places, topo_t *topo)
{
    for (int r = 0; r < topo->size; r++) {
        const int lowest = places[r].host_index;
        places[r].host_index = lowest == r ? topo->n_hosts++ : places[lowest].host_index;
    }
    topo->host = places[topo->rank].host_index;
}

static err_t topo_fill(MPI_Comm world, MPI_Comm host, topo_t *topo, rank_place_t *places)
{
    rank_place_t mine = {.host_index = topo->rank};
    memcpy(mine.host, topo->host_name, sizeof mine.host);
    E_MPI(MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    E_MPI(MPI_Comm_rank(host, &topo->local_rank), "MPI_Comm_rank");
    E_MPI(MPI_Comm_size(host, &topo->local_size), "MPI_Comm_size");
    E_MPI(MPI_Bcast(&mine.host_index, 1, MPI_INT32_T, 0, host), "finding the ranks of each host");
    E_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, places, sizeof mine, MPI_BYTE, world),
          "finding the hosts");
    number_hosts(places, topo);
    E_MPI(MPI_Allreduce(&topo->local_size, &topo->max_local_size, 1, MPI_INT, MPI_MAX, world),
          "finding the largest host");
    return ERR_OK;
}

/* The ranks that count as one host. The caller frees *out, also after an error. */
static err_t split_hosts(MPI_Comm world, int rank, int ranks_per_host, MPI_Comm *out)
{
    E_MPI(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, out),
          "finding the ranks that share this host");
    if (ranks_per_host <= 0) return ERR_OK;
    int place;
    MPI_Comm whole = *out;
    E_MPI(MPI_Comm_rank(whole, &place), "MPI_Comm_rank");
    err_t err = mpi_check(MPI_Comm_split(whole, place / ranks_per_host, rank, out), "MPI_Comm_split");
    E_MPI(MPI_Comm_free(&whole), "MPI_Comm_free");
    return err;
}

err_t topo_discover_in(MPI_Comm world, int ranks_per_host, topo_t *out, rank_place_t **places)
{
    *out = (topo_t){.simulated = !launch_owns_process()};
    *places = NULL;
    launch_host_name(out->host_name, sizeof out->host_name);
    E_MPI(MPI_Comm_rank(world, &out->rank), "MPI_Comm_rank");
    E_MPI(MPI_Comm_size(world, &out->size), "MPI_Comm_size");
    MPI_Comm host = MPI_COMM_NULL;
    TRY(split_hosts(world, out->rank, ranks_per_host, &host));
    err_t err = mem_new_array(out->size, sizeof **places, "the list of hosts", places);
    if (err == ERR_OK) err = topo_fill(world, host, out, *places);
    if (err == ERR_OK) err = mpi_check(MPI_Comm_free(&host), "MPI_Comm_free");
    if (err != ERR_OK) mem_free(places);
    return err;
}

err_t topo_discover(int ranks_per_host, topo_t *out)
{
    rank_place_t *places;
    err_t err = topo_discover_in(MPI_COMM_WORLD, ranks_per_host, out, &places);
    mem_free(&places);
    return err;
}

int topo_cpus(void)
{
    /* The kernel's mask may exceed cpu_set_t's 1024 CPUs; EINVAL means that ours is too small. */
    for (int n_cpus = 1024; n_cpus <= 1 << 20; n_cpus *= 2) {
        cpu_set_t *mask = CPU_ALLOC((size_t)n_cpus);
        if (!mask) break;
        size_t n_bytes = CPU_ALLOC_SIZE((size_t)n_cpus);
        int count = sched_getaffinity(0, n_bytes, mask) == 0 ? CPU_COUNT_S(n_bytes, mask) : 0;
        CPU_FREE(mask);
        if (count > 0) return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
