/* SPDX-License-Identifier: MIT */
/* Opens and closes the communicator over MPI, and parts of it: MPI itself, its communicators, the hosts and each rank's place,
 * the host's shared page, the watchdog, and its side channel, over which it exchanges names, processes, rank 0's address and
 * a secret. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/sim.h"
#include "cluster/comm/mpi/impl.h"
#include "cluster/watch/deadline.h"
#include "text/figure.h"

/* ---- The topology, and CPUs of this process ---- */
static err_t topo_fill(MPI_Comm world, MPI_Comm host, topo_t *topo, rank_place_t *places)
{
    rank_place_t mine = {.host_index = topo->rank};
    memcpy(mine.host, topo->host_name, sizeof mine.host);
    E_MPI(MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    E_MPI(MPI_Comm_rank(host, &topo->local_rank), "MPI_Comm_rank");
    E_MPI(MPI_Comm_size(host, &topo->local_size), "MPI_Comm_size");
    /* The lowest rank. Not a broadcast: after one message that only one of two ranks has sent, their slots in Open MPI's
     * shared memory (two to a cache line) are out of step, and an allreduce of 8 B took 0.56 us in place of 0.49. */
    E_MPI(MPI_Allreduce(MPI_IN_PLACE, &mine.host_index, 1, MPI_INT32_T, MPI_MIN, host),
          "finding the ranks of each host");
    E_MPI(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, places, sizeof mine, MPI_BYTE, world),
          "finding the hosts");
    /* Hosts get numbers in place of their lowest ranks, by which the ranks tell them apart. */
    for (int r = 0; r < topo->size; r++) {
        const int lowest = places[r].host_index;
        places[r].host_index = lowest == r ? topo->n_hosts++ : places[lowest].host_index;
    }
    topo->host = places[topo->rank].host_index;
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

/* Collective over `world`. As topo_discover, for the ranks of `world`.
 *
 *   places  [size], of all ranks; from mem_new */
static err_t topo_discover_in(MPI_Comm world, int ranks_per_host, topo_t *out, rank_place_t **places)
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

/* ---- The side channel ---- */
static const char opening[] = "opening the side channel";

/* What each rank tells the others. */
typedef struct member {
    char host[TOPO_HOST_MAX];
    int32_t host_index, speaks; /* speaks: for its group */
    int64_t pid, pid_namespace;
} member_t;

/* What rank 0 tells. */
typedef struct offer {
    side_address_t address; /* port 0: no channel */
    uint8_t token[SIDE_TOKEN];
} offer_t;

static int64_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (int64_t)st.st_ino : -1;
}

static err_t make_offer(offer_t *offer, int *listen_fd)
{
    if (getrandom(offer->token, sizeof offer->token, 0) != (ssize_t)sizeof offer->token)
        RAISE(ERR_SYSTEM, "no random numbers for the channel's secret");
    return side_offer(&offer->address, listen_fd);
}

/* Lists the groups, in order of their first ranks. */
static void list_groups(const member_t *members, int size, int rank, side_setup_t *setup, side_peer_t *peers)
{
    for (int r = 0; r < size; r++) {
        if (!members[r].speaks) continue;
        side_peer_t *peer = &peers[setup->n_groups];
        *peer = (side_peer_t){.rank = r, .status.ended.rank = -1};
        memcpy(peer->host, members[r].host, sizeof peer->host);
        if (r == rank || (members[r].host_index == members[rank].host_index && !members[rank].speaks))
            setup->group = setup->n_groups;
        setup->n_groups++;
    }
    for (int g = 0; g < setup->n_groups; g++)
        for (int r = peers[g].rank; r < size; r++)
            peers[g].n_ranks +=
                r == peers[g].rank ||
                (!members[r].speaks && members[r].host_index == members[peers[g].rank].host_index);
}

/* A descriptor that becomes readable when the process ends; -1 on kernels before 5.3. */
static int open_pid(pid_t pid)
{
#ifdef SYS_pidfd_open
    if (pid > 0) return (int)syscall(SYS_pidfd_open, pid, 0);
#endif
    (void)pid;
    return -1;
}

static err_t set_up(const comm_t *comm, const member_t *members, side_setup_t *setup, side_t **out)
{
    side_peer_t *peers = NULL;
    int *local = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(comm->size, sizeof *peers, "the side channel", &peers));
    TRY_OUT(err, mem_new_array(comm->size, sizeof *local, "the side channel", &local));
    list_groups(members, comm->size, comm->rank, setup, peers);
    /* Processes of the same host that this rank speaks for, by local rank. */
    const bool lists = members[comm->rank].speaks && setup->n_groups > 1;
    for (int r = comm->rank; lists && r < comm->size; r++) {
        bool own = r == comm->rank;
        if (!own && (members[r].speaks || members[r].host_index != members[comm->rank].host_index)) continue;
        bool seen = !own && members[r].pid_namespace == members[comm->rank].pid_namespace;
        local[setup->n_local++] = seen ? open_pid((pid_t)members[r].pid) : -1;
    }
    setup->peers = peers;
    setup->local = local;
    setup->role = comm->rank == 0 ? SIDE_HUB : members[comm->rank].speaks ? SIDE_SPOKE : SIDE_SILENT;
    if (setup->n_groups > 1) {
        err = side_new(setup, out);
        setup->listen_fd = -1; /* the channel's */
    }
out:
    mem_free(&local);
    mem_free(&peers);
    return err;
}

/* Collective. Opens the channel; waits for no connection. *out stays NULL if there is a single group, or if
 * the channel is not available.
 *
 *   shares_memory  the ranks of each host share the watchdog's slots */
static err_t side_open(comm_t *comm, bool shares_memory, side_t **out)
{
    offer_t offer = {0};
    side_setup_t setup = {.listen_fd = -1};
    member_t *members = NULL, mine = {.host_index = comm->topo.host,
                                      .speaks = !shares_memory || comm->topo.local_rank == 0,
                                      .pid = launch_owns_process() ? getpid() : 0,
                                      .pid_namespace = pid_namespace()};
    *out = NULL;
    if (comm->topo.n_hosts == 1) return ERR_OK;
    memcpy(mine.host, comm->topo.host_name, sizeof mine.host);
    if (comm->rank == 0 && make_offer(&offer, &setup.listen_fd) != ERR_OK) {
        log_detail("no side channel between the watchdogs: %s", err_message());
        offer = (offer_t){0};
    }
    err_t err = mem_new_array(comm->size, sizeof *members, "the side channel", &members);
    TRY_OUT(err, comm_agree(comm, err, opening));
    TRY_OUT(err, comm_broadcast(comm, &offer, sizeof offer, 0, opening));
    if (!offer.address.port) goto out;
    TRY_OUT(err, comm_allgather(comm, &mine, sizeof mine, members, opening));
    setup.hub = offer.address;
    memcpy(setup.token, offer.token, sizeof setup.token);
    err = set_up(comm, members, &setup, out);
    err = comm_agree(comm, err, opening);
    if (err != ERR_OK) side_free(out);
out:
    if (setup.listen_fd >= 0) close(setup.listen_fd);
    mem_free(&members);
    return err;
}

/* ---- The communicator ---- */
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
    TRY(shared_window_part(&impl->page, 0, &base));
    *slots = (watchdog_slot_t *)(void *)base;
    *n_slots = n;
    impl->host.slots = (host_slot_t *)(void *)(base + n_watchdog);
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
    /* Whether the host has fewer CPUs for its ranks than ranks. */
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
        memset(&cpus, 0xff, sizeof cpus); /* beyond 1024 CPUs */
    E_MPI(MPI_Allreduce(MPI_IN_PLACE, &cpus, sizeof cpus, MPI_BYTE, MPI_BOR, host->ranks), "MPI_Allreduce");
    host->shares_cores = CPU_COUNT(&cpus) < host->size;
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

/* Such as "Open MPI v4.1.4": the library version up to the first comma. */
void mpi_describe(char *out, size_t n_bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = '\0';
    snprintf(out, n_bytes, "%s", text);
}

/* Initializes MPI unless the caller has. */
static err_t init_mpi(bool *we_began)
{
    enum { LEAST_BYTES = 8 << 20 };
    int begun, ended, level = MPI_THREAD_SINGLE, n_seen;
    char library[128];
    const launch_t launch = launch_read();
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (ended) RAISE(ERR_SYSTEM, "MPI cannot be initialized again after MPI_Finalize");
    if (begun) {
        MPI_Query_thread(&level);
    } else {
        /* With a lower limit, MPI_Init or a window hangs in Open MPI's messages about it. */
        if (fs_size_limit() < LEAST_BYTES)
            RAISE(ERR_SYSTEM,
                  "the file size limit (ulimit -f) is %s, but MPI's shared memory needs files of %s; "
                  "raise the limit",
                  figure_bytes((double)fs_size_limit()).text, figure_bytes(LEAST_BYTES).text);
        avoid_peer_memory();
        E_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
        *we_began = true;
        process_survive_lost_peers();
    }
    E_MPI(MPI_Comm_size(MPI_COMM_WORLD, &n_seen), "MPI_Comm_size");
    mpi_describe(library, sizeof library);
    err_t err = comm_check_launch(&launch, n_seen, library);
    if (err != ERR_OK && n_seen == 1 && *we_began) {
        /* Nobody waits for a rank that MPI sees alone, and MPI_Abort would have words of its own. */
        MPI_Finalize();
        *we_began = false;
    }
    TRY(err);
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
    *out = comm->impl = impl;
    return ERR_OK;
}

/* If MPI itself fails, what was created is left to MPI_Finalize. */
err_t mpi_subset(comm_t *comm, int n, comm_t *out)
{
    const mpi_impl_t *whole = comm->impl;
    MPI_Comm part;
    mpi_impl_t *impl;
    watchdog_slot_t *slots;
    int n_slots;
    E_MPI(MPI_Comm_split(whole->ranks.world, comm->rank < n ? 0 : MPI_UNDEFINED, comm->rank, &part),
          "MPI_Comm_split");
    if (part == MPI_COMM_NULL) return ERR_OK;
    TRY(impl_new(out, whole->ranks_per_host, whole->choice, &impl));
    impl->is_part = true;
    err_t err = open_communicators(part, out, impl);
    /* --allreduce host applies to the complete job; a subset may have no two ranks on a host. */
    if (out->topo.max_local_size == 1) impl->choice = "auto";
    if (err == ERR_OK) err = open_page(out, &slots, &n_slots);
    if (err == ERR_OK) err = open_host(out);
    if (err == ERR_OK) return close_communicator(&part);
    mem_free(&impl->own_slot);
    mem_free(&impl->gather_counts);
    mem_free(&out->places);
    mem_free(&impl);
    out->impl = NULL;
    return err;
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
