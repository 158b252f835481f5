/* The communicator over MPI: plain blocking collectives, and gradient buffers in memory that the ranks of a
 * host share. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/mpi_error.h"
#include "comm/comm_impl.h"
#include "comm/watchdog.h"

/* Bytes in one MPI call: MPI counts are int, and a call this long is as fast as a longer one. */
enum { CHUNK_BYTES = 1 << 25 };

/* OpenMPI's own shared segments sit in the same folder and get their pages late; this much a rank is left. */
enum { ROOM_LEFT_BYTES = 4 << 20 };

typedef struct mpi_impl {
    MPI_Comm world, host;
    bool we_began; /* MPI was initialised here, so it is finalised here */
    bool warned;   /* of gradient buffers that are not shared */
    MPI_Win slots_win;
    watchdog_slot_t *own_slot; /* where the host shares no page */
} mpi_impl_t;

/* A shared buffer's `owner`. */
typedef struct shared_part {
    MPI_Win win;
} shared_part_t;

static MPI_Datatype mpi_type(dtype_t dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return MPI_FLOAT;
    case DTYPE_F64:
        return MPI_DOUBLE;
    case DTYPE_I32:
        return MPI_INT32_T;
    case DTYPE_I64:
        return MPI_INT64_T;
    default:
        ASSERT(!"a type that is never reduced");
        return MPI_DATATYPE_NULL;
    }
}

static err_t mpi_barrier(comm_t *comm)
{
    mpi_impl_t *impl = comm->impl;
    E_MPI(MPI_Barrier(impl->world), "MPI_Barrier");
    return ERR_OK;
}

static err_t mpi_broadcast(comm_t *comm, void *data, int64_t n_bytes, int root)
{
    mpi_impl_t *impl = comm->impl;
    for (int64_t at = 0; at < n_bytes; at += CHUNK_BYTES) {
        int n = narrow_int(n_bytes - at < CHUNK_BYTES ? n_bytes - at : CHUNK_BYTES);
        E_MPI(MPI_Bcast((char *)data + at, n, MPI_BYTE, root, impl->world), "MPI_Bcast");
    }
    return ERR_OK;
}

static err_t mpi_allreduce(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op)
{
    mpi_impl_t *impl = comm->impl;
    MPI_Op mpi_op = op == COMM_SUM ? MPI_SUM : op == COMM_MAX ? MPI_MAX : MPI_MIN;
    int64_t n_element = (int64_t)dtype_size(dtype), per_call = CHUNK_BYTES / n_element;
    for (int64_t at = 0; at < count; at += per_call) {
        int n = narrow_int(count - at < per_call ? count - at : per_call);
        E_MPI(MPI_Allreduce(MPI_IN_PLACE, (char *)data + at * n_element, n, mpi_type(dtype), mpi_op,
                            impl->world),
              "MPI_Allreduce");
    }
    return ERR_OK;
}

static err_t mpi_allgather(comm_t *comm, const void *send, int64_t n_bytes, void *recv)
{
    mpi_impl_t *impl = comm->impl;
    if (n_bytes == 0) return ERR_OK;
    char *own = (char *)recv + comm->rank * n_bytes;
    if (n_bytes <= CHUNK_BYTES) {
        int n = narrow_int(n_bytes);
        const void *from = send == own ? MPI_IN_PLACE : send;
        E_MPI(MPI_Allgather(from, n, MPI_BYTE, recv, n, MPI_BYTE, impl->world), "MPI_Allgather");
        return ERR_OK;
    }
    memmove(own, send, (size_t)n_bytes);
    for (int r = 0; r < comm->size; r++) TRY(mpi_broadcast(comm, (char *)recv + r * n_bytes, n_bytes, r));
    return ERR_OK;
}

static err_t mpi_alltoall(comm_t *comm, const void *send, int64_t n_bytes, void *recv)
{
    mpi_impl_t *impl = comm->impl;
    int n = narrow_int(n_bytes);
    E_MPI(MPI_Alltoall(send, n, MPI_BYTE, recv, n, MPI_BYTE, impl->world), "MPI_Alltoall");
    return ERR_OK;
}

static err_t mpi_send(comm_t *comm, const void *data, int64_t n_bytes, int to)
{
    mpi_impl_t *impl = comm->impl;
    E_MPI(MPI_Send(data, narrow_int(n_bytes), MPI_BYTE, to, 0, impl->world), "MPI_Send");
    return ERR_OK;
}

static err_t mpi_receive(comm_t *comm, void *data, int64_t n_bytes, int from)
{
    mpi_impl_t *impl = comm->impl;
    E_MPI(MPI_Recv(data, narrow_int(n_bytes), MPI_BYTE, from, 0, impl->world, MPI_STATUS_IGNORE), "MPI_Recv");
    return ERR_OK;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The folder where OpenMPI puts windows: its osc_sm_backing_directory as it stands now (command line,
 * environment and files together), which MPI's tool interface tells. */
static void window_folder(char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "/dev/shm");
    int provided, index, count;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return;
    MPI_T_cvar_handle handle;
    if (MPI_T_cvar_get_index("osc_sm_backing_directory", &index) == MPI_SUCCESS &&
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
        char value[4096] = "";
        if (count < (int)sizeof value && MPI_T_cvar_read(handle, value) == MPI_SUCCESS && value[0])
            snprintf(out, n_bytes, "%s", value);
        MPI_T_cvar_handle_free(&handle);
    }
    MPI_T_finalize();
}

/* What a host without room tells the others. */
typedef struct room {
    int64_t free_bytes, need_bytes;
    char host[TOPO_HOST_MAX], folder[256];
} room_t;

/* Collective. Whether every host has room for what its ranks ask; if not, `room` tells of one that has not.
 */
static err_t room_everywhere(comm_t *comm, size_t n_bytes, bool *enough, room_t *room)
{
    mpi_impl_t *impl = comm->impl;
    memset(room, 0, sizeof *room);
    memcpy(room->host, comm->topo.host_name, sizeof room->host);
    window_folder(room->folder, sizeof room->folder);
    int64_t mine = (int64_t)n_bytes + ROOM_LEFT_BYTES;
    E_MPI(MPI_Allreduce(&mine, &room->need_bytes, 1, MPI_INT64_T, MPI_SUM, impl->host), "MPI_Allreduce");
    struct statvfs fs;
    if (statvfs(room->folder, &fs) == 0) room->free_bytes = (int64_t)(fs.f_bavail * fs.f_frsize);
    int first = room->free_bytes < room->need_bytes ? comm->rank : comm->size;
    E_MPI(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, impl->world), "MPI_Allreduce");
    *enough = first == comm->size;
    if (!*enough) TRY(mpi_broadcast(comm, room, sizeof *room, first));
    return ERR_OK;
}

/* Collective over `group`: whether all can say yes. */
static err_t all_agree(MPI_Comm group, bool mine, bool *all)
{
    int yes = mine;
    E_MPI(MPI_Allreduce(MPI_IN_PLACE, &yes, 1, MPI_INT, MPI_MIN, group), "MPI_Allreduce");
    *all = yes;
    return ERR_OK;
}

/* Gives the pages of a block to this process now. Where the folder's file system has filled up meanwhile, a
 * plain store would be a bus error; the kernel (5.14 and later) can say so instead. */
static bool populate(char *data, size_t n_bytes)
{
#ifdef MADV_POPULATE_WRITE
    if (((uintptr_t)data & (page_bytes() - 1)) == 0 && madvise(data, n_bytes, MADV_POPULATE_WRITE) != 0 &&
        (errno == EFAULT || errno == ENOMEM))
        return false;
#endif
    memset(data, 0, n_bytes);
    return true;
}

/* Collective. One window on each host, `n_bytes` of it this rank's, starting on a page of its own, zeroed.
 * All ranks of the job get theirs or (ok = false) none does. */
static err_t window_new(mpi_impl_t *impl, size_t n_bytes, MPI_Win *win, char **data, bool *ok)
{
    size_t page = page_bytes(), n_rounded = (n_bytes + page - 1) / page * page;
    char *base = NULL;
    *win = MPI_WIN_NULL;
    /* A page more: OpenMPI puts its own header in front, so that base is on no boundary. */
    bool made = MPI_Win_allocate_shared((MPI_Aint)(n_rounded ? n_rounded + page : 0), 1, MPI_INFO_NULL,
                                        impl->host, &base, win) == MPI_SUCCESS;
    bool on_host;
    TRY(all_agree(impl->host, made, &on_host));
    bool mine = on_host;
    if (on_host) {
        E_MPI(MPI_Win_set_errhandler(*win, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
        *data = (char *)(((uintptr_t)base + page - 1) / page * page);
        if (n_rounded) mine = populate(*data, n_rounded);
    }
    TRY(all_agree(impl->world, mine, ok));
    /* Freeing is collective too: a window that only part of a host has is left to MPI_Finalize. */
    if (!*ok && on_host) E_MPI(MPI_Win_free(win), "MPI_Win_free");
    return ERR_OK;
}

static void warn_private(mpi_impl_t *impl, const room_t *room, bool enough)
{
    if (impl->warned) return;
    impl->warned = true;
    /* Tenths of MiB, rounded apart: a need must not look like the room that it exceeds. */
    int64_t tenth = (1 << 20) / 10, n_free = room->free_bytes / tenth, n_need = room->need_bytes / tenth + 1;
    if (enough)
        log_warn("gradient buffers are private, which makes the gradient exchange slower: MPI could not make "
                 "shared "
                 "memory in %s on every host",
                 room->folder);
    else
        log_warn(
            "gradient buffers are private, which makes the gradient exchange slower: %s on %s has room for "
            "%.1f MiB, its ranks need %.1f MiB (docker: --shm-size)",
            room->folder, room->host, 0.1 * (double)n_free, 0.1 * (double)n_need);
}

static err_t mpi_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    mpi_impl_t *impl = comm->impl;
    /* Nobody to share with anywhere. */
    if (comm->topo.max_local_size == 1) return comm_private_buffer_new(comm, n_bytes, out);
    room_t room;
    bool enough, ok = false;
    MPI_Win win = MPI_WIN_NULL;
    char *data = NULL;
    TRY(room_everywhere(comm, n_bytes + 2 * page_bytes(), &enough, &room));
    if (enough) TRY(window_new(impl, n_bytes ? n_bytes : 1, &win, &data, &ok));
    if (!ok) {
        warn_private(impl, &room, enough);
        return comm_private_buffer_new(comm, n_bytes, out);
    }
    shared_part_t *part = NULL;
    TRY(mem_new(sizeof *part, "a shared gradient buffer", &part));
    part->win = win;
    *out = (comm_buffer_t){.data = data, .n_bytes = n_bytes, .shared = true, .owner = part};
    return ERR_OK;
}

static void mpi_buffer_free(comm_t *comm, comm_buffer_t *buffer)
{
    if (!buffer->shared) {
        comm_private_buffer_free(comm, buffer);
        return;
    }
    shared_part_t *part = buffer->owner;
    if (mpi_check(MPI_Win_free(&part->win), "freeing a gradient buffer") != ERR_OK)
        log_warn("%s", err_message());
    mem_free(&part);
    *buffer = (comm_buffer_t){0};
}

/* Collective. The watchdog's page: all of it is the first local rank's part, so that the slots are one array.
 */
static err_t open_slots(comm_t *comm, watchdog_slot_t **slots, int *n_slots)
{
    mpi_impl_t *impl = comm->impl;
    int n = comm->topo.local_size;
    size_t n_bytes = comm->topo.local_rank == 0 ? (size_t)n * sizeof(watchdog_slot_t) : 0;
    room_t room;
    bool ok = false;
    char *data = NULL;
    if (comm->topo.max_local_size > 1) TRY(room_everywhere(comm, n_bytes + 2 * page_bytes(), &ok, &room));
    if (ok) TRY(window_new(impl, n_bytes, &impl->slots_win, &data, &ok));
    if (!ok) {
        *n_slots = 1;
        TRY(mem_new(sizeof **slots, "the watchdog's page", &impl->own_slot));
        *slots = impl->own_slot;
        return ERR_OK;
    }
    MPI_Aint n_first;
    int unit;
    char *base;
    E_MPI(MPI_Win_shared_query(impl->slots_win, 0, &n_first, &unit, &base), "MPI_Win_shared_query");
    /* Aligned as window_new does: the segment starts on a page in every process. */
    size_t page = page_bytes();
    *slots = (watchdog_slot_t *)(void *)(((uintptr_t)base + page - 1) / page * page);
    *n_slots = n;
    return ERR_OK;
}

static void mpi_close(comm_t *comm)
{
    mpi_impl_t *impl = comm->impl;
    /* The last wait under the watchdog: whoever is lost now is still named. */
    err_t err = comm_barrier(comm, "the end of the job");
    watchdog_stop();
    if (impl->slots_win != MPI_WIN_NULL && err == ERR_OK)
        err = mpi_check(MPI_Win_free(&impl->slots_win), "freeing the watchdog's page");
    mem_free(&impl->own_slot);
    if (err == ERR_OK) err = mpi_check(MPI_Comm_free(&impl->host), "MPI_Comm_free");
    if (err == ERR_OK) err = mpi_check(MPI_Comm_free(&impl->world), "MPI_Comm_free");
    if (err != ERR_OK) log_warn("at the end of the job: %s", err_message());
    if (impl->we_began) MPI_Finalize();
    mem_free(&impl);
    comm->impl = NULL;
}

/* "Open MPI v4.1.4": the first words of what the library says of itself. */
static void mpi_describe(char *out, size_t n_bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    text[strcspn(text, ",\n")] = '\0';
    snprintf(out, n_bytes, "%s", text);
}

static const comm_ops_t mpi_ops = {
    .name = "mpi",
    .barrier = mpi_barrier,
    .broadcast = mpi_broadcast,
    .allreduce = mpi_allreduce,
    .allgather = mpi_allgather,
    .alltoall = mpi_alltoall,
    .send = mpi_send,
    .receive = mpi_receive,
    .buffer_new = mpi_buffer_new,
    .buffer_free = mpi_buffer_free,
    .describe = mpi_describe,
    .close = mpi_close,
};

/* Begins MPI unless the caller has. */
static err_t begin(bool *we_began)
{
    int begun, ended, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (ended) RAISE(ERR_SYSTEM, "MPI can't begin again after it ended in this process");
    if (begun) {
        MPI_Query_thread(&level);
    } else {
        E_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
        *we_began = true;
    }
    E_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    E_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    if (level < MPI_THREAD_FUNNELED)
        RAISE(ERR_SYSTEM, "this MPI was built without thread support (MPI_THREAD_FUNNELED is needed)");
    return ERR_OK;
}

static err_t open_communicators(comm_t *comm, mpi_impl_t *impl)
{
    TRY(begin(&impl->we_began));
    TRY(topo_discover(&comm->topo));
    comm->rank = comm->topo.rank;
    comm->size = comm->topo.size;
    log_set_rank(comm->rank, comm->size, comm->topo.host_name);
    E_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &impl->world), "MPI_Comm_dup");
    E_MPI(MPI_Comm_set_errhandler(impl->world, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    E_MPI(MPI_Comm_split_type(impl->world, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &impl->host),
          "MPI_Comm_split_type");
    E_MPI(MPI_Comm_set_errhandler(impl->host, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    return ERR_OK;
}

err_t comm_mpi_open(const comm_options_t *options, comm_t *comm)
{
    mpi_impl_t *impl = NULL;
    TRY(mem_new(sizeof *impl, "the MPI communicator", &impl));
    impl->slots_win = MPI_WIN_NULL;
    comm->impl = impl;
    comm->ops = &mpi_ops;
    err_t err;
    watchdog_slot_t *slots = NULL;
    int n_slots = 0;
    TRY_OUT(err, open_communicators(comm, impl));
    TRY_OUT(err, open_slots(comm, &slots, &n_slots));
    err = watchdog_start(slots, n_slots, n_slots == 1 ? 0 : comm->topo.local_rank, &comm->topo,
                         options->timeout_sec, options->abort_job);
    /* One rank alone may lack the memory for a thread. */
    TRY_OUT(err, comm_agree(comm, err, "starting the watchdog"));
    return ERR_OK;
out:
    watchdog_stop();
    mem_free(&impl->own_slot);
    mem_free(&impl);
    comm->impl = NULL;
    return err;
}
