#include "cluster/comm/comm.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/launch.h"
#include "base/mem.h"
#include "cluster/comm/device.h"
#include "cluster/comm/impl.h"
#include "cluster/comm/watchdog.h"

const char *const comm_names[] = {"auto", "self", "mpi", "nccl", NULL};
const char *const comm_allreduce_names[] = {"auto", "host", "mpi", NULL};

static err_t open_by_name(const comm_options_t *options, comm_t *comm)
{
    const char *name = options->name;
    if (strcmp(name, "auto") == 0) name = launch_present() ? "mpi" : "self";
    if (strcmp(name, "mpi") == 0) return comm_mpi_open(options, comm);
#ifdef DPTRAIN_CUDA
    if (strcmp(name, "nccl") == 0) return comm_mpi_open(options, comm);
#else
    if (strcmp(name, "nccl") == 0)
        RAISE(ERR_USAGE,
              "--comm nccl can't be had: this build has no CUDA backend (make CUDA=1); use --comm mpi");
#endif
    if (strcmp(name, "self") != 0)
        RAISE(ERR_USAGE, "--comm %s: no such communicator; choose auto, self, mpi or nccl", name);
    if (launch_size() > 1)
        RAISE(ERR_USAGE,
              "--comm self is for one process, but the launcher started %d; use --comm mpi or auto",
              launch_size());
    if (options->allreduce && strcmp(options->allreduce, "auto") != 0)
        RAISE(ERR_USAGE, "--allreduce %s can't be had: there is one process; use --allreduce auto",
              options->allreduce);
    return comm_self_open(comm);
}

err_t comm_open(const comm_options_t *options, comm_t **out)
{
    comm_t *comm = NULL;
    TRY(mem_new(sizeof *comm, "the communicator", &comm));
    comm->options = *options;
    err_t err = open_by_name(options, comm);
    if (err == ERR_OK) {
        *out = comm;
    } else {
        mem_free(&comm);
    }
    return err;
}

void comm_close(comm_t **comm)
{
    if (!*comm) return;
    if ((*comm)->nccl) (*comm)->nccl->ops->close((*comm)->nccl);
    mem_free(&(*comm)->gpus);
    (*comm)->ops->close(*comm);
    mem_free(comm);
}

void comm_describe(const comm_t *comm, char *out, size_t n_bytes)
{
    comm->ops->describe(out, n_bytes);
}

/* The end of every wait: the watchdog hears of it, and a failure says what the user was waiting for. */
static err_t leave(err_t err, const char *what)
{
    watchdog_leave();
    return err == ERR_OK ? err : err_context(err, "%s", what);
}

err_t comm_barrier(comm_t *comm, const char *what)
{
    watchdog_enter(what);
    return leave(comm->ops->barrier(comm), what);
}

err_t comm_barrier_asleep(comm_t *comm, const char *what)
{
    watchdog_enter(what);
    return leave(comm->ops->barrier_asleep(comm), what);
}

err_t comm_broadcast(comm_t *comm, void *data, int64_t n_bytes, int root, const char *what)
{
    ASSERT(n_bytes >= 0 && root >= 0 && root < comm->size);
    watchdog_enter(what);
    return leave(comm->ops->broadcast(comm, data, n_bytes, root), what);
}

err_t comm_allreduce(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op, const char *what)
{
    ASSERT(count >= 0 && dtype <= DTYPE_I64 && op <= COMM_MIN);
    watchdog_enter(what);
    return leave(comm->ops->allreduce(comm, data, count, dtype, op), what);
}

err_t comm_allgather(comm_t *comm, const void *send, int64_t n_bytes, void *recv, const char *what)
{
    ASSERT(n_bytes >= 0);
    watchdog_enter(what);
    return leave(comm->ops->allgather(comm, send, n_bytes, recv), what);
}

err_t comm_alltoall(comm_t *comm, const void *send, int64_t n_bytes, void *recv, const char *what)
{
    ASSERT(n_bytes >= 0);
    watchdog_enter(what);
    return leave(comm->ops->alltoall(comm, send, n_bytes, recv), what);
}

/* What one allreduce with MAX tells of everybody's result; the usual case, nobody failed, costs no more. */
typedef struct verdict {
    int64_t worst;       /* highest code */
    int64_t before_last; /* size - rank of the lowest failing rank; 0: none */
    int64_t someone_ok;
    int64_t hash_high, hash_low; /* equal when all who failed say the same: max of h, and -max of -h */
} verdict_t;

/* The failing rank's words as everybody will hear them. */
static void announce(const comm_t *comm, const verdict_t *all, err_t mine, err_info_t *out)
{
    *out = (err_info_t){0};
    if (comm->rank != comm->size - all->before_last) return;
    err_take(mine, out);
    bool same = !all->someone_ok && all->hash_high == -all->hash_low;
    if (comm->size == 1 || same) return;
    err_context(mine, "rank %d on %s", comm->rank, comm->topo.host_name);
    err_take(mine, out);
}

static err_t agree(comm_t *comm, err_t mine, err_t *out)
{
    const char *words = err_message();
    int64_t hash = mine == ERR_OK ? 0 : (int64_t)(XXH3_64bits(words, strlen(words)) >> 1);
    verdict_t all = {
        .worst = mine,
        .before_last = mine == ERR_OK ? 0 : comm->size - comm->rank,
        .someone_ok = mine == ERR_OK,
        .hash_high = hash,
        .hash_low = -hash,
    };
    TRY(comm->ops->allreduce(comm, &all, sizeof all / sizeof(int64_t), DTYPE_I64, COMM_MAX));
    *out = (err_t)all.worst;
    if (all.worst == ERR_OK) return ERR_OK;
    err_info_t info;
    announce(comm, &all, mine, &info);
    TRY(comm->ops->broadcast(comm, &info, sizeof info, comm->size - (int)all.before_last));
    info.code = *out;
    err_put(&info);
    return ERR_OK;
}

err_t comm_agree(comm_t *comm, err_t mine, const char *what)
{
    err_t agreed = mine;
    watchdog_enter(what);
    TRY(leave(agree(comm, mine, &agreed), what));
    comm->agreed = agreed;
    return agreed;
}

err_t comm_alone(comm_t **out)
{
    TRY(mem_new(sizeof **out, "a communicator of one rank", out));
    return comm_self_open(*out);
}

/* Collective over the part. */
static err_t give_part_devices(const comm_t *comm, int n, comm_t *part)
{
    part->options = comm->options;
    TRY(mem_new_array(n, sizeof *part->gpus, "the GPUs of some ranks", &part->gpus));
    memcpy(part->gpus, comm->gpus, (size_t)n * sizeof *part->gpus);
    return comm->nccl->ops->subset(comm->nccl, part);
}

err_t comm_subset(comm_t *comm, int n, comm_t **out)
{
    static const char what[] = "making a communicator of some ranks";
    ASSERT(n > 0 && n <= comm->size);
    *out = NULL;
    if (n == 1) return comm_agree(comm, comm->rank == 0 ? comm_alone(out) : ERR_OK, what);
    TRY(comm_agree(comm, comm->rank < n ? mem_new(sizeof **out, "a communicator", out) : ERR_OK, what));
    watchdog_enter(what);
    err_t err = leave(comm->ops->subset(comm, n, *out), what);
    if (err != ERR_OK) mem_free(out);
    if (err != ERR_OK || !comm->nccl) return err;
    err = comm_agree(comm, *out ? give_part_devices(comm, n, *out) : ERR_OK, what);
    if (err != ERR_OK) comm_close(out);
    return err;
}

err_t comm_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    static const char what[] = "making the gradient buffers";
    *out = (comm_buffer_t){0};
    if (comm->nccl) return comm_agree(comm, comm->nccl->ops->buffer_new(comm, n_bytes, out), what);
    watchdog_enter(what);
    err_t err = leave(comm->ops->buffer_new(comm, n_bytes, out), what);
    return comm_agree(comm, err, what);
}

bool comm_buffer_by_host(const comm_buffer_t *buffer, int64_t count)
{
    bool by_host = buffer->n_timings > 0 ? buffer->timings[0].by_host : buffer->by_host;
    for (int i = 1; i < buffer->n_timings && buffer->timings[i].n_bytes <= 4 * count; i++)
        by_host = buffer->timings[i].by_host;
    return by_host;
}

err_t comm_buffer_allreduce(comm_t *comm, comm_buffer_t *buffer, int64_t count, const char *what)
{
    ASSERT(count >= 0 && count <= (int64_t)(buffer->n_bytes / sizeof(float)));
    if (buffer->device) {
        TRY(comm_buffer_begin(comm, buffer, 0, count));
        return comm_buffer_finish(comm, buffer);
    }
    if (!buffer->shared) return comm_allreduce(comm, buffer->data, count, DTYPE_F32, COMM_SUM, what);
    watchdog_enter(what);
    return leave(comm->ops->buffer_allreduce(comm, buffer, count), what);
}

void comm_buffer_free(comm_t *comm, comm_buffer_t *buffer)
{
    if (buffer->device) comm->nccl->ops->buffer_free(comm->nccl, buffer);
    if (!buffer->data) return;
    watchdog_enter("freeing the gradient buffers");
    comm->ops->buffer_free(comm, buffer);
    watchdog_leave();
}
