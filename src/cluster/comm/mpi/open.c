/* SPDX-License-Identifier: MIT */
/* Opens and closes the communicator over MPI, and parts of it: MPI itself, its communicators, the host's
 * shared page, the watchdog. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "base/figure.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/sim.h"
#include "cluster/comm/mpi/call.h"
#include "cluster/comm/mpi/impl.h"
#include "cluster/comm/mpi/topo.h"
#include "cluster/comm/side_open.h"

/* Collective. Allocates the host's page: the watchdog's slots, then those of the host allreduce, in the first
 * local rank's part, so that each is one array. */
static err_t open_page(comm_t *comm, watchdog_slot_t **slots, int *n_slots)
{
    mpi_impl_t *impl = comm->impl;
    int n = comm->topo.local_size;
    size_t n_watchdog = ((size_t)n * sizeof **slots + HOST_LINE - 1) / HOST_LINE * HOST_LINE;
    size_t n_bytes = n_watchdog + (size_t)n * sizeof(host_slot_t);
    shared_room_t room;
    bool ok = false;
    if (comm->topo.max_local_size > 1)
        TRY(shared_window_new(&impl->ranks, comm->topo.local_rank == 0 ? n_bytes : 0, &impl->page, &ok,
                              &room));
    if (!ok) {
        if (strcmp(impl->choice, "host") == 0)
            RAISE(ERR_USAGE, "--allreduce host is not available: %s; use --allreduce auto",
                  comm->topo.max_local_size > 1 ? "the ranks of a host cannot share memory (/dev/shm)"
                                                : "no two ranks are on one host");
        *n_slots = 1;
        TRY(mem_new(sizeof **slots, "the watchdog's page", &impl->own_slot));
        *slots = impl->own_slot;
        return ERR_OK;
    }
    char *base;
    TRY(shared_window_part(&impl->page, 0, n_bytes, &base));
    *slots = (watchdog_slot_t *)(void *)base;
    *n_slots = n;
    impl->host.slots = (host_slot_t *)(void *)(base + n_watchdog);
    return ERR_OK;
}

/* Collective over the host. Whether the host has fewer CPUs for its ranks than ranks. */
static err_t cores_are_shared(MPI_Comm host, int n_ranks, bool *out)
{
    cpu_set_t cpus;
    *out = false;
    CPU_ZERO(&cpus);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        memset(&cpus, 0xff, sizeof cpus); /* beyond 1024 CPUs */
    E_MPI(MPI_Allreduce(MPI_IN_PLACE, &cpus, sizeof cpus, MPI_BYTE, MPI_BOR, host), "MPI_Allreduce");
    *out = CPU_COUNT(&cpus) < n_ranks;
    return ERR_OK;
}

/* Collective. Sets up the rest of host_t. */
static err_t open_host(comm_t *comm)
{
    mpi_impl_t *impl = comm->impl;
    const topo_t *topo = &comm->topo;
    host_t *host = &impl->host;
    host->rank = topo->local_rank;
    host->size = host->n_slices = topo->local_size;
    host->n_hosts = topo->n_hosts;
    host->ranks = impl->ranks.host;
    if (!host->slots) return ERR_OK;
    contention_open(&host->contention);
    TRY(cores_are_shared(host->ranks, host->size, &host->shares_cores));
    if (host->n_hosts == 1) return ERR_OK;
    MPI_Comm world = impl->ranks.world;
    E_MPI(MPI_Allreduce(MPI_IN_PLACE, &host->n_slices, 1, MPI_INT, MPI_MIN, world), "MPI_Allreduce");
    int color = host->rank < host->n_slices ? host->rank : MPI_UNDEFINED;
    E_MPI(MPI_Comm_split(world, color, topo->host, &host->peers), "MPI_Comm_split");
    if (host->peers == MPI_COMM_NULL) return ERR_OK;
    return mpi_check(MPI_Comm_set_errhandler(host->peers, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

static err_t close_communicator(MPI_Comm *group)
{
    return *group == MPI_COMM_NULL ? ERR_OK : mpi_check(MPI_Comm_free(group), "MPI_Comm_free");
}

void mpi_close(comm_t *comm)
{
    mpi_impl_t *impl = comm->impl;
    bool saved = comm->agreed == ERR_OK;
    /* The last wait under the watchdog: a rank lost now is still reported. */
    err_t err = comm_barrier(comm, impl->is_part ? "closing a communicator" : "the end of the job");
    if (!impl->is_part) {
        watchdog_stop();
        deadline_enter(DEADLINE_FINALIZE, saved ? "; all ranks had finished and saved their work" : "");
    }
    side_free(&impl->side);
    if (impl->host.slots) contention_close(&impl->host.contention);
    if (err == ERR_OK) err = shared_window_free(&impl->page);
    mem_free(&impl->own_slot);
    mem_free(&impl->gather_counts);
    if (err == ERR_OK) err = close_communicator(&impl->host.peers);
    if (err == ERR_OK) err = close_communicator(&impl->ranks.host);
    if (err == ERR_OK) err = close_communicator(&impl->ranks.world);
    if (err != ERR_OK) log_warn("at the end of the job: %s", err_message());
    if (impl->we_began) MPI_Finalize();
    if (!impl->is_part) deadline_enter(DEADLINE_EXIT, "");
    mem_free(&impl);
    comm->impl = NULL;
}

/* With a lower limit, MPI_Init or a window hangs in Open MPI's messages about it. */
static err_t check_file_limit(void)
{
    enum { LEAST_BYTES = 8 << 20 };
    if (fs_size_limit() < LEAST_BYTES)
        RAISE(ERR_SYSTEM,
              "the file size limit (ulimit -f) is %s, but MPI's shared memory needs files of %s; "
              "raise the limit",
              figure_bytes((double)fs_size_limit()).text, figure_bytes(LEAST_BYTES).text);
    return ERR_OK;
}

/* Where the kernel refuses that ranks copy from each other's memory, Open MPI prints a line for every large message. What
 * the user set, also by mpirun --mca, counts. */
static void avoid_peer_memory(void)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0, major = 0;
    if (!launch_present() || !peer_memory()->refused) return;
    MPI_Get_library_version(library, &n);
    if (sscanf(library, "Open MPI v%d", &major) == 1 && major < 5)
        setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    else
        setenv("OMPI_MCA_smsc", "^cma", 0);
}

/* A rank that MPI sees alone leaves it here: nobody waits for it, and MPI_Abort would have words of its own. */
static err_t check_launch(const launch_t *launch, bool *we_began)
{
    int n_seen;
    E_MPI(MPI_Comm_size(MPI_COMM_WORLD, &n_seen), "MPI_Comm_size");
    err_t err = comm_check_launch(launch, n_seen);
    if (err == ERR_OK || n_seen > 1 || !*we_began) return err;
    MPI_Finalize();
    *we_began = false;
    return err;
}

/* Initializes MPI unless the caller has. */
static err_t init_mpi(bool *we_began)
{
    int begun, ended, level = MPI_THREAD_SINGLE;
    const launch_t launch = launch_read();
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (ended) RAISE(ERR_SYSTEM, "MPI cannot be initialized again after MPI_Finalize");
    if (begun) {
        MPI_Query_thread(&level);
    } else {
        TRY(check_file_limit());
        avoid_peer_memory();
        E_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
        *we_began = true;
        process_survive_lost_peers();
    }
    TRY(check_launch(&launch, we_began));
    E_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    E_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (level < MPI_THREAD_FUNNELED && !sim_is_rank())
        RAISE(ERR_SYSTEM, "this MPI was built without thread support (MPI_THREAD_FUNNELED is needed)");
    return ERR_OK;
}

/* Collective over `from`. */
static err_t open_communicators(MPI_Comm from, comm_t *comm, mpi_impl_t *impl)
{
    TRY(topo_discover_in(from, impl->ranks_per_host, &comm->topo, &comm->places));
    comm->rank = comm->topo.rank;
    comm->size = comm->topo.size;
    E_MPI(MPI_Comm_dup(from, &impl->ranks.world), "MPI_Comm_dup");
    E_MPI(MPI_Comm_set_errhandler(impl->ranks.world, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    E_MPI(MPI_Comm_split(impl->ranks.world, comm->topo.host, comm->rank, &impl->ranks.host),
          "MPI_Comm_split");
    E_MPI(MPI_Comm_set_errhandler(impl->ranks.host, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return mem_new_array(2 * comm->size, sizeof *impl->gather_counts, "counts of a gather",
                         &impl->gather_counts);
}

static err_t impl_new(comm_t *comm, int ranks_per_host, const char *choice, mpi_impl_t **out)
{
    mpi_impl_t *impl = NULL;
    TRY(mem_new(sizeof *impl, "the MPI communicator", &impl));
    impl->page.win = MPI_WIN_NULL;
    impl->host.peers = MPI_COMM_NULL;
    impl->ranks.topo = &comm->topo;
    impl->ranks_per_host = ranks_per_host;
    impl->choice = choice;
    comm->ops = &comm_mpi;
    *out = comm->impl = impl;
    return ERR_OK;
}

/* Called by the ranks of a subset. If MPI itself fails, what was created is left to MPI_Finalize. */
static err_t open_part(MPI_Comm from, const mpi_impl_t *whole, comm_t *out)
{
    mpi_impl_t *impl;
    watchdog_slot_t *slots;
    int n_slots;
    TRY(impl_new(out, whole->ranks_per_host, whole->choice, &impl));
    impl->is_part = true;
    err_t err = open_communicators(from, out, impl);
    /* --allreduce host applies to the complete job; a subset may have no two ranks on a host. */
    if (out->topo.max_local_size == 1) impl->choice = "auto";
    if (err == ERR_OK) err = open_page(out, &slots, &n_slots);
    if (err == ERR_OK) err = open_host(out);
    if (err == ERR_OK) return ERR_OK;
    mem_free(&impl->own_slot);
    mem_free(&impl->gather_counts);
    mem_free(&out->places);
    mem_free(&impl);
    out->impl = NULL;
    return err;
}

err_t mpi_subset(comm_t *comm, int n, comm_t *out)
{
    const mpi_impl_t *whole = comm->impl;
    MPI_Comm part;
    E_MPI(MPI_Comm_split(whole->ranks.world, comm->rank < n ? 0 : MPI_UNDEFINED, comm->rank, &part),
          "MPI_Comm_split");
    if (part == MPI_COMM_NULL) return ERR_OK;
    err_t err = open_part(part, whole, out);
    return err == ERR_OK ? close_communicator(&part) : err;
}

err_t mpi_open(const comm_options_t *options, comm_t *comm)
{
    mpi_impl_t *impl;
    TRY(impl_new(comm, options->ranks_per_host, options->allreduce ? options->allreduce : "auto", &impl));
    err_t err;
    watchdog_slot_t *slots = NULL;
    int n_slots = 0;
    TRY_OUT(err, init_mpi(&impl->we_began));
    TRY_OUT(err, open_communicators(MPI_COMM_WORLD, comm, impl));
    log_set_rank(comm->rank, comm->size, comm->topo.host_name);
    TRY_OUT(err, open_page(comm, &slots, &n_slots));
    TRY_OUT(err, open_host(comm));
    TRY_OUT(err, side_open(comm, n_slots == comm->topo.local_size, &impl->side));
    watchdog_limits_t limits = {options->timeout_sec, options->stall_sec, options->abort_job, impl->side};
    err = watchdog_start(slots, n_slots, n_slots == 1 ? 0 : comm->topo.local_rank, &comm->topo, &limits);
    /* A single rank may lack the memory for a thread. */
    TRY_OUT(err, comm_agree(comm, err, "starting the watchdog"));
    return ERR_OK;
out:
    watchdog_stop();
    side_free(&impl->side);
    mem_free(&impl->own_slot);
    mem_free(&impl->gather_counts);
    mem_free(&comm->places);
    mem_free(&impl);
    comm->impl = NULL;
    return err;
}
