/* SPDX-License-Identifier: MIT */
/* Gradients on GPUs, summed by NCCL: opens and closes the communicator, neither of which may hang; buffers and their
 * allreduce, or reduce-scatter and allgather, in pieces on the communication stream, ordered by events. Which pieces, and when,
 * is decided by the caller. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/nccl/nccl.h"
#include "cluster/comm/nccl_report.h"
#include "cluster/watch/watchdog.h"
#include "text/figure.h"

/* ---- Buffers ---- */
/* GPU memory, allocated by NCCL and registered with it if possible. */
typedef struct block {
    void *data;
    bool is_nccl;
    void *registration;
} block_t;

/* A buffer's `owner`. */
typedef struct nccl_buffer {
    block_t floats, wire; /* wire: the same elements as bf16, with wire_bf16 */
} nccl_buffer_t;

static void block_free(nccl_impl_t *impl, block_t *block)
{
    bool failed = false;
    if (block->registration && nccl_lock(impl) == ERR_OK) {
        failed = nccl_lib.CommDeregister(impl->handle, block->registration) != ncclSuccess;
        nccl_unlock(impl);
    }
    if (block->data)
        failed |= block->is_nccl ? nccl_lib.MemFree(block->data) != ncclSuccess
                                 : cudaFree(block->data) != cudaSuccess;
    if (failed) log_warn("cannot free a gradient buffer on the GPU");
    *block = (block_t){0};
}

/* Allocates registered memory from NCCL; `data` stays NULL if that is not possible. */
static void block_try_register(nccl_impl_t *impl, size_t n_bytes, block_t *out)
{
    *out = (block_t){.is_nccl = true};
    if (!nccl_lib.can_register || nccl_lib.MemAlloc(&out->data, n_bytes) != ncclSuccess) {
        cudaGetLastError();
        *out = (block_t){0};
        return;
    }
    if (nccl_lock(impl) != ERR_OK) return;
    ncclResult_t status = nccl_lib.CommRegister(impl->handle, out->data, n_bytes, &out->registration);
    nccl_unlock(impl);
    if (nccl_settle(impl, status, "registering the gradient buffer") != ERR_OK || !out->registration)
        block_free(impl, out);
}

static err_t block_new_plain(size_t n_bytes, block_t *out)
{
    cudaError_t status = cudaMalloc(&out->data, n_bytes);
    if (status == cudaErrorMemoryAllocation) {
        size_t n_free = 0, n_all = 0;
        out->data = NULL;
        cudaGetLastError();
        cudaMemGetInfo(&n_free, &n_all);
        RAISE(ERR_SYSTEM,
              "not enough GPU memory for the gradients: %s needed, %s of %s free; lower --batch or "
              "--workspace, or stop other programs on the GPU",
              figure_bytes((double)n_bytes).text, figure_bytes((double)n_free).text,
              figure_bytes((double)n_all).text);
    }
    E_CUDART(status, "creating the gradient buffer");
    return ERR_OK;
}

/* Collective. Registered on all ranks or on none, since NCCL chooses its transport by it. */
static err_t block_new(nccl_impl_t *impl, size_t n_bytes, bool *registered, block_t *out)
{
    static const char what[] = "registering gradient buffers";
    *out = (block_t){0};
    if (impl->comm->options.nccl_register) block_try_register(impl, n_bytes, out);
    int32_t all = out->registration != NULL;
    TRY(comm_allreduce(impl->comm, &all, 1, DTYPE_I32, COMM_MIN, what));
    *registered = all;
    if (!all) block_free(impl, out);
    TRY(comm_agree(impl->comm, all ? ERR_OK : block_new_plain(n_bytes, out), "creating gradient buffers"));
    E_CUDART(cudaMemsetAsync(out->data, 0, n_bytes, impl->device.stream), "clearing the gradient buffer");
    return ERR_OK;
}

typedef enum exchange { SUM_ALL, SUM_SLICES, GATHER_SLICES } exchange_t;

/* One of NCCL's collectives, in place, on the communication stream. Of slices: the rank's own is data + rank * count. */
static err_t exchange(nccl_impl_t *impl, exchange_t how, void *data, int64_t count, ncclDataType_t type)
{
    const size_t n = (size_t)count, n_bytes = n * (type == ncclDouble ? 8 : type == ncclFloat ? 4 : 2);
    char *own = (char *)data + (size_t)impl->comm->rank * n_bytes;
    ncclResult_t status = ncclSuccess;
    TRY(nccl_lock(impl));
    switch (how) {
    case SUM_ALL:
        status = nccl_lib.AllReduce(data, data, n, type, ncclSum, impl->handle, impl->stream);
        break;
    case SUM_SLICES:
        status = nccl_lib.ReduceScatter(data, own, n, type, ncclSum, impl->handle, impl->stream);
        break;
    case GATHER_SLICES:
        status = nccl_lib.AllGather(own, data, n, type, impl->handle, impl->stream);
        break;
    }
    nccl_unlock(impl);
    /* Later work on the stream must come after it. */
    return nccl_settle(impl, status, impl->exchange);
}

/* The communication stream waits for the work on the device's stream so far. */
static err_t begin_exchange(nccl_impl_t *impl)
{
    E_CUDART(cudaEventRecord(impl->begun, impl->device.stream), "marking where gradients are ready");
    E_CUDART(cudaStreamWaitEvent(impl->stream, impl->begun, 0), "waiting for gradients");
    impl->has_begun = true;
    return ERR_OK;
}

/* The device's stream waits for what was begun. */
static err_t end_exchange(nccl_impl_t *impl)
{
    enum cudaStreamCaptureStatus recording;
    if (!impl->has_begun) return ERR_OK;
    impl->has_begun = false;
    /* Marks the end for the watcher thread. In a recorded step this event is recorded each time the step runs,
     * since the events of the step itself cannot be queried. */
    E_CUDART(cudaStreamIsCapturing(impl->device.stream, &recording), "asking whether a step is recorded");
    bool is_recorded = recording != cudaStreamCaptureStatusNone;
    unsigned flags = is_recorded ? cudaEventRecordExternal : cudaEventRecordDefault;
    atomic_store(&impl->is_recorded, is_recorded);
    atomic_store(&impl->doing, atomic_load(&impl->exchange));
    E_CUDART(cudaEventRecordWithFlags(impl->watched, impl->stream, flags), "marking the end of a sum");
    /* A recorded step runs any number of times, or never. */
    if (!is_recorded) watchdog_device_entered(atomic_fetch_add(&impl->n_finished, 1) + 1);
    E_CUDART(cudaEventRecord(impl->done, impl->stream), "marking the end of a sum");
    E_CUDART(cudaStreamWaitEvent(impl->device.stream, impl->done, 0), "waiting for the sum of gradients");
    return ERR_OK;
}

/* Of a bucket that is shared out: wire is its place there, NULL without. */
static err_t sum_slices(nccl_impl_t *impl, float *data, uint16_t *wire, int64_t length)
{
    const int64_t own = impl->comm->rank * length;
    if (!wire) return exchange(impl, SUM_SLICES, data, length, ncclFloat);
    TRY(impl->device.narrow(data, wire, impl->comm->size * length, impl->stream));
    TRY(exchange(impl, SUM_SLICES, wire, length, ncclBfloat16));
    return impl->device.widen(wire + own, data + own, length, impl->stream);
}

static err_t nccl_buffer_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    nccl_impl_t *impl = comm->library;
    const nccl_buffer_t *own = buffer->owner;
    const comm_slices_t *slices = &buffer->slices;
    float *data = buffer->device;
    uint16_t *wire = own->wire.data;
    int64_t n_shared = slices->size ? comm_slices_padded(slices) : 0, n_rounded = 0;
    TRY(begin_exchange(impl));
    while (offset < n_shared && count > 0) {
        const int64_t length = comm_slices_length(slices, offset / slices->n_bucket), n = length * comm->size;
        ASSERT(offset % slices->n_bucket == 0 && n <= count);
        TRY(sum_slices(impl, data + offset, wire ? wire + offset : NULL, length));
        offset += n;
        count -= n;
    }
    if (wire) {
        n_rounded = (int64_t)(buffer->n_bytes / sizeof(float)) - buffer->n_exact - offset;
        n_rounded = n_rounded < 0 ? 0 : n_rounded > count ? count : n_rounded;
    }
    if (n_rounded > 0) {
        /* Rounds to bf16 for the transfer; NCCL rounds every partial sum, too. */
        TRY(impl->device.narrow(data + offset, wire + offset, n_rounded, impl->stream));
        TRY(exchange(impl, SUM_ALL, wire + offset, n_rounded, ncclBfloat16));
        TRY(impl->device.widen(wire + offset, data + offset, n_rounded, impl->stream));
    }
    if (n_rounded < count)
        TRY(exchange(impl, SUM_ALL, data + offset + n_rounded, count - n_rounded, ncclFloat));
    return ERR_OK;
}

static err_t nccl_buffer_finish(comm_t *comm, comm_buffer_t *buffer)
{
    (void)buffer;
    return end_exchange(comm->library);
}

static err_t nccl_buffer_gather(comm_t *comm, comm_buffer_t *buffer)
{
    const comm_slices_t *slices = &buffer->slices;
    float *data = buffer->weights->device;
    TRY(begin_exchange(comm->library));
    for (int64_t b = 0; b < comm_slices_buckets(slices); b++)
        TRY(exchange(comm->library, GATHER_SLICES, data + b * slices->n_bucket, comm_slices_length(slices, b),
                     ncclFloat));
    return end_exchange(comm->library);
}

static err_t nccl_sum_doubles(comm_t *comm, double *data, int64_t n)
{
    TRY(begin_exchange(comm->library));
    TRY(exchange(comm->library, SUM_ALL, data, n, ncclDouble));
    return end_exchange(comm->library);
}

/* Exchanges zeros once: NCCL connects with the first call of each kind, which allocates memory and may fail, and with the
 * first allreduce reports transport and algorithm. Blocks the host, which only the creation of a buffer may do. */
static err_t exchange_once(comm_t *comm, comm_buffer_t *buffer)
{
    const nccl_impl_t *impl = comm->library;
    cudaError_t status;
    TRY(nccl_buffer_begin(comm, buffer, 0, (int64_t)(buffer->n_bytes / sizeof(float))));
    TRY(nccl_buffer_finish(comm, buffer));
    if (buffer->slices.size) TRY(nccl_buffer_gather(comm, buffer));
    double sec = comm->options.timeout_sec, end = clock_sec() + sec;
    while ((status = cudaEventQuery(impl->done)) == cudaErrorNotReady) {
        if (clock_sec() > end)
            RAISE(ERR_PEER,
                  "timed out after %g s in the first %s through NCCL; run again with "
                  "NCCL_DEBUG=INFO, or try NCCL_P2P_DISABLE=1",
                  sec, impl->exchange);
        clock_sleep(0.0005);
    }
    E_CUDART(status, "summing gradients for the first time");
    return ERR_OK;
}

/* The buffer is still zero, and all ranks have the same weights, if any. */
static err_t nccl_buffer_share(comm_t *comm, comm_buffer_t *buffer)
{
    nccl_impl_t *impl = comm->library;
    atomic_store(&impl->exchange, "exchange of gradients and weights");
    return exchange_once(comm, buffer);
}

static err_t nccl_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    nccl_impl_t *impl = comm->library;
    nccl_buffer_t *own = NULL;
    bool registered = true, wire_too = true;
    size_t n_room = n_bytes ? mem_round(n_bytes) : MEM_ALIGN;
    TRY(comm_agree(comm, mem_new(sizeof *own, "a gradient buffer", &own), "creating gradient buffers"));
    err_t err = block_new(impl, n_room, &registered, &own->floats);
    if (err == ERR_OK && comm->options.wire_bf16) err = block_new(impl, n_room / 2, &wire_too, &own->wire);
    *out =
        (comm_buffer_t){.ops = &gradients_nccl, .device = own->floats.data, .n_bytes = n_bytes, .owner = own};
    if (err == ERR_OK && n_bytes >= sizeof(float))
        err = comm_agree(comm, exchange_once(comm, out), "the first sum of gradients");
    if (err == ERR_OK) {
        impl->registered = registered && wire_too;
        debug_log_quiet(nccl_lib.reset_debug);
        return ERR_OK;
    }
    block_free(impl, &own->wire);
    block_free(impl, &own->floats);
    mem_free(&own);
    *out = (comm_buffer_t){0};
    return err;
}

static void nccl_buffer_free(comm_t *comm, comm_buffer_t *buffer)
{
    nccl_impl_t *impl = comm->library;
    nccl_buffer_t *own = buffer->owner;
    block_free(impl, &own->wire);
    block_free(impl, &own->floats);
    mem_free(&own);
    *buffer = (comm_buffer_t){0};
}

/* ---- The communicator ---- */
/* gradient_ops_t.check */
static err_t nccl_check_sums(comm_t *comm)
{
    ncclResult_t why;
    if (nccl_find_broken(comm->library, &why))
        RAISE(ERR_PEER, "NCCL lost a peer or its network: the sums of gradients may be wrong");
    return ERR_OK;
}

static void free_impl(nccl_impl_t **impl)
{
    nccl_impl_t *i = *impl;
    if (i->begun) cudaEventDestroy(i->begun);
    if (i->done) cudaEventDestroy(i->done);
    if (i->watched) cudaEventDestroy(i->watched);
    if (i->stream) cudaStreamDestroy(i->stream);
    pthread_mutex_destroy(&i->lock);
    debug_log_hide();
    mem_free(impl);
}

static bool nccl_finalize(nccl_impl_t *impl)
{
    bool done = false;
    /* Waits a little for the work on the stream. */
    double end = clock_sec() + nccl_end_sec;
    cudaError_t drained;
    while ((drained = cudaStreamQuery(impl->stream)) == cudaErrorNotReady && clock_sec() < end)
        clock_sleep(0.001);
    if (drained != cudaSuccess) return false;
    if (impl->direct && !nccl_end_within(nccl_lib.CommDestroy, impl->direct, nccl_end_sec)) return false;
    impl->direct = NULL;
    ncclResult_t status = nccl_lib.CommFinalize(impl->handle);
    return nccl_settle_within(impl, status, "ending NCCL", nccl_end_sec, &done) == ERR_OK && done;
}

static void nccl_close(comm_t *comm)
{
    nccl_impl_t *impl = comm->library;
    nccl_watch_stop(impl);
    if (!impl->broken && nccl_finalize(impl)) {
        impl->broken = true;
        if (!nccl_end_within(nccl_lib.CommDestroy, impl->handle, nccl_end_sec))
            log_warn("NCCL did not shut down in %g s", nccl_end_sec);
    } else {
        log_warn("NCCL could not be shut down cleanly and was aborted");
        nccl_abort(impl);
    }
    free_impl(&impl);
    comm->library = NULL;
    comm->gradients = comm->ops->gradients;
}

static void nccl_describe(const comm_t *comm, char *out, size_t n_bytes)
{
    const nccl_impl_t *impl = comm->library;
    debug_facts_t facts;
    char way[160];
    nccl_describe_way(comm, way, sizeof way);
    debug_log_read(&facts);
    snprintf(out, n_bytes, "%s%s%s, %s%s", way, facts.algorithm[0] ? ", " : "", facts.algorithm,
             impl->registered ? "registered" : "not registered",
             comm->options.wire_bf16 ? ", bf16 on the wire" : "");
}

/* Does everything that needs no peer. The communication stream has priority over the compute stream. */
static err_t nccl_prepare(nccl_impl_t *impl, ncclUniqueId *id)
{
    int least, greatest;
    E_CUDART(cudaSetDevice(impl->device.index), "selecting the GPU");
    E_CUDART(cudaDeviceGetStreamPriorityRange(&least, &greatest), "reading stream priorities");
    E_CUDART(cudaStreamCreateWithPriority(&impl->stream, cudaStreamNonBlocking, greatest),
             "creating the communication stream");
    cudaEvent_t *events[] = {&impl->begun, &impl->done, &impl->watched};
    for (int i = 0; i < 3; i++)
        E_CUDART(cudaEventCreateWithFlags(events[i], cudaEventDisableTiming), "creating an event");
    debug_log_open();
    if (impl->comm->rank == 0) E_NCCL(nccl_lib.GetUniqueId(id), "creating its unique id");
    return ERR_OK;
}

/* Collective. Opens each rank's communicator. MPI still works, so the ranks that did not come up can be named: this one also
 * reports its own failure, for which the others wait. */
static err_t join_ranks(nccl_impl_t *impl, const ncclUniqueId *id)
{
    static const char starting[] = "starting NCCL", collecting[] = "collecting the start-up results of NCCL";
    comm_t *comm = impl->comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    arrival_t mine, *all = NULL;
    bool done = false;
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, "the ranks of NCCL", &all), collecting));
    config.blocking = 0;
    watchdog_phase(starting);
    ncclResult_t status = nccl_lib.CommInitRankConfig(&impl->handle, comm->size, *id, comm->rank, &config);
    err_t err = nccl_settle_within(impl, status, starting, comm->options.timeout_sec, &done);
    mine = (arrival_t){.state = err != ERR_OK ? ARRIVAL_FAILED
                                : done        ? ARRIVAL_UP
                                              : ARRIVAL_UNDER_WAY,
                       .code = err};
    if (err != ERR_OK) {
        snprintf(mine.words, sizeof mine.words, "%s", err_message());
        nccl_abort(impl); /* tells peers that wait for this rank at once */
    }
    err = comm_allgather(comm, &mine, sizeof mine, all, collecting);
    if (err == ERR_OK)
        err = comm->agreed = arrival_judge(all, comm->gpus, comm->size, comm->options.timeout_sec);
    mem_free(&all);
    return err;
}

static err_t open_as(comm_t *comm, const comm_device_t *device, bool is_part)
{
    nccl_impl_t *impl = NULL;
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    TRY(comm_agree(comm, mem_new(sizeof *impl, "the NCCL communicator", &impl), "starting NCCL"));
    impl->comm = comm;
    impl->device = *device;
    impl->is_part = is_part;
    atomic_init(&impl->exchange, "gradient allreduce");
    atomic_init(&impl->doing, "gradient allreduce");
    pthread_mutex_init(&impl->lock, NULL);
    err_t err;
    TRY_OUT(err, comm_agree(comm, nccl_prepare(impl, &id), "starting NCCL"));
    TRY_OUT(err, comm_broadcast(comm, &id, sizeof id, 0, "sharing NCCL's unique id"));
    TRY_OUT(err, join_ranks(impl, &id));
    debug_log_hide();
    TRY_OUT(err, comm_agree(comm, nccl_watch_start(impl), "watching NCCL"));
    comm->gradients = &gradients_nccl;
    comm->library = impl;
    return ERR_OK;
out:
    nccl_watch_stop(impl);
    nccl_abort(impl);
    free_impl(&impl);
    return err;
}

static err_t nccl_subset(comm_t *comm, comm_t *part)
{
    const nccl_impl_t *impl = comm->library;
    return open_as(part, &impl->device, true);
}

static err_t nccl_open(comm_t *comm, const comm_device_t *device)
{
    return open_as(comm, device, false);
}

/* A library missing on one host is missing for all. */
static err_t nccl_load_all(comm_t *comm)
{
    return comm_agree(comm, nccl_load(), "looking for NCCL");
}

static const collective_ops_t *const singles[] = {&collective_nccl, NULL};

const gradient_ops_t gradients_nccl = {
    .name = "nccl",
    .on_device = true,
    .wire_bf16 = true,
    .load = nccl_load_all,
    .version = nccl_version,
    .open = nccl_open,
    .subset = nccl_subset,
    .close = nccl_close,
    .buffer_new = nccl_buffer_new,
    .buffer_begin = nccl_buffer_begin,
    .buffer_finish = nccl_buffer_finish,
    .buffer_share = nccl_buffer_share,
    .buffer_gather = nccl_buffer_gather,
    .sum_doubles = nccl_sum_doubles,
    .buffer_free = nccl_buffer_free,
    .check = nccl_check_sums,
    .singles = singles,
    .describe = nccl_describe,
};
