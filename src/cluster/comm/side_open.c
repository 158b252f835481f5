/* SPDX-License-Identifier: MIT */
/* Opens the side channel of a job: exchanges names, processes, rank 0's address and a secret over the
 * communicator. */
#include "cluster/comm/side_open.h"

#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"

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

/* Processes of the same host that this rank speaks for, by local rank. */
static void list_processes(const member_t *members, int size, int rank, side_setup_t *setup, int *fds)
{
    for (int r = rank; r < size; r++) {
        bool own = r == rank;
        if (!own && (members[r].speaks || members[r].host_index != members[rank].host_index)) continue;
        bool seen = !own && members[r].pid_namespace == members[rank].pid_namespace;
        fds[setup->n_local++] = seen ? open_pid((pid_t)members[r].pid) : -1;
    }
}

static err_t set_up(const comm_t *comm, const member_t *members, side_setup_t *setup, side_t **out)
{
    side_peer_t *peers = NULL;
    int *local = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, mem_new_array(comm->size, sizeof *peers, "the side channel", &peers));
    TRY_OUT(err, mem_new_array(comm->size, sizeof *local, "the side channel", &local));
    list_groups(members, comm->size, comm->rank, setup, peers);
    if (members[comm->rank].speaks && setup->n_groups > 1)
        list_processes(members, comm->size, comm->rank, setup, local);
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

err_t side_open(comm_t *comm, bool shares_memory, side_t **out)
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
