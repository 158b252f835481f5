/* SPDX-License-Identifier: MIT */
/* Opens and closes the NCCL communicator for gradients; neither may hang. Loading the library is left to
 * lib.c, the allreduce to buffer.c. */
#include "cluster/comm/nccl/nccl.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/comm/arrival.h"
#include "cluster/comm/debug_log.h"
#include "cluster/comm/watchdog.h"

/* Limit for calls that need no peer, or none with work left. */
static const double end_sec = 10;

err_t nccl_lock(nccl_impl_t *impl)
{
    pthread_mutex_lock(&impl->lock);
    if (!impl->broken) return ERR_OK;
    pthread_mutex_unlock(&impl->lock);
    /* The watcher has reported the cause and is ending the job; a second message would only distract. */
    clock_sleep(end_sec);
    RAISE(ERR_PEER, "NCCL failed earlier");
}

void nccl_unlock(nccl_impl_t *impl)
{
    pthread_mutex_unlock(&impl->lock);
}

/* *done: false if `sec` were not enough. */
static err_t settle_within(nccl_impl_t *impl, ncclResult_t status, const char *what, double sec, bool *done)
{
    double end = clock_sec() + sec;
    *done = true;
    for (int n = 0; status == ncclInProgress; n++) {
        /* A collective takes a moment, start-up seconds. */
        if (n < 1000)
            sched_yield();
        else
            clock_sleep(0.001);
        TRY(nccl_lock(impl));
        ncclResult_t asked = nccl_lib.CommGetAsyncError(impl->handle, &status);
        nccl_unlock(impl);
        if (asked != ncclSuccess) status = asked;
        if (status == ncclInProgress && clock_sec() > end) {
            *done = false;
            return ERR_OK;
        }
    }
    E_NCCL(status, what);
    return ERR_OK;
}

err_t nccl_settle(nccl_impl_t *impl, ncclResult_t status, const char *what)
{
    bool done;
    double sec = impl->comm->options.timeout_sec;
    TRY(settle_within(impl, status, what, sec, &done));
    if (!done) RAISE(ERR_PEER, "timed out after %g s in \"%s\": NCCL cannot reach a peer", sec, what);
    return ERR_OK;
}

typedef ncclResult_t (*end_call_t)(ncclComm_t);

typedef struct ending {
    end_call_t call;
    ncclComm_t handle;
} ending_t;

static void *end_handle(void *arg)
{
    ending_t *ending = arg;
    ending->call(ending->handle);
    return NULL;
}

/* Calls a function that frees the communicator. If it does not return in time, its thread is abandoned,
 * together with `ending`. */
static bool end_within(end_call_t call, ncclComm_t handle, double sec)
{
    ending_t *ending = NULL;
    pthread_t thread;
    if (mem_new(sizeof *ending, "the end of NCCL", &ending) != ERR_OK) return false;
    *ending = (ending_t){.call = call, .handle = handle};
    if (pthread_create(&thread, NULL, end_handle, ending) != 0) {
        mem_free(&ending);
        return false;
    }
    struct timespec until = thread_time_after(sec);
    if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
        pthread_detach(thread);
        return false;
    }
    mem_free(&ending);
    return true;
}

void nccl_abort(nccl_impl_t *impl)
{
    pthread_mutex_lock(&impl->lock);
    ncclComm_t handle = impl->broken ? NULL : impl->handle, direct = impl->broken ? NULL : impl->direct;
    impl->broken = true;
    pthread_mutex_unlock(&impl->lock);
    if (direct) end_within(nccl_lib.CommAbort, direct, end_sec);
    if (handle) end_within(nccl_lib.CommAbort, handle, end_sec);
}

static ncclResult_t error_of(ncclComm_t handle)
{
    ncclResult_t status = ncclSuccess, asked = nccl_lib.CommGetAsyncError(handle, &status);
    if (asked != ncclSuccess) return asked;
    return status == ncclInProgress ? ncclSuccess : status;
}

bool nccl_find_broken(nccl_impl_t *impl, ncclResult_t *why)
{
    *why = ncclSuccess;
    pthread_mutex_lock(&impl->lock);
    if (!impl->broken) *why = error_of(impl->handle);
    if (!impl->broken && *why == ncclSuccess && impl->direct) *why = error_of(impl->direct);
    if (*why != ncclSuccess) impl->broken = true;
    bool broken = impl->broken;
    pthread_mutex_unlock(&impl->lock);
    return broken;
}

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

/* Waits a little for the work on the stream; returns whether all of it has run. */
static bool drain_stream(const nccl_impl_t *impl)
{
    double end = clock_sec() + end_sec;
    cudaError_t status;
    while ((status = cudaStreamQuery(impl->stream)) == cudaErrorNotReady && clock_sec() < end)
        clock_sleep(0.001);
    return status == cudaSuccess;
}

static bool nccl_finalize(nccl_impl_t *impl)
{
    bool done = false;
    if (!drain_stream(impl)) return false;
    if (impl->direct && !end_within(nccl_lib.CommDestroy, impl->direct, end_sec)) return false;
    impl->direct = NULL;
    ncclResult_t status = nccl_lib.CommFinalize(impl->handle);
    return settle_within(impl, status, "ending NCCL", end_sec, &done) == ERR_OK && done;
}

static void nccl_close(comm_t *comm)
{
    nccl_impl_t *impl = comm->library;
    nccl_watch_stop(impl);
    if (!impl->broken && nccl_finalize(impl)) {
        impl->broken = true;
        if (!end_within(nccl_lib.CommDestroy, impl->handle, end_sec))
            log_warn("NCCL did not shut down in %g s", end_sec);
    } else {
        log_warn("NCCL could not be shut down cleanly and was aborted");
        nccl_abort(impl);
    }
    free_impl(&impl);
    comm->library = NULL;
    comm->gradients = comm->ops->gradients;
}

void nccl_describe_way(const comm_t *comm, char *out, size_t n_bytes)
{
    debug_facts_t facts;
    char version[32];
    debug_log_read(&facts);
    nccl_version(version, sizeof version);
    bool way = facts.transport[0], net = !way && facts.network[0] && comm->size > 1;
    snprintf(out, n_bytes, "NCCL %s%s%s", version,
             way   ? ", "
             : net ? ", network "
                   : "",
             way   ? facts.transport
             : net ? facts.network
                   : "");
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

/* Opens this rank's communicator, or fails to; the others wait for the report. */
static void join_ranks(nccl_impl_t *impl, const ncclUniqueId *id, arrival_t *out)
{
    static const char what[] = "starting NCCL";
    const comm_t *comm = impl->comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    bool done = false;
    config.blocking = 0;
    watchdog_phase(what);
    ncclResult_t status = nccl_lib.CommInitRankConfig(&impl->handle, comm->size, *id, comm->rank, &config);
    err_t err = settle_within(impl, status, what, comm->options.timeout_sec, &done);
    *out = (arrival_t){.state = err != ERR_OK ? ARRIVAL_FAILED
                                : done        ? ARRIVAL_UP
                                              : ARRIVAL_UNDER_WAY,
                       .code = err};
    if (err != ERR_OK) snprintf(out->words, sizeof out->words, "%s", err_message());
    /* Aborting tells peers that wait for this rank at once. */
    if (err != ERR_OK) nccl_abort(impl);
}

/* Collective. MPI still works, so the ranks that did not come up can be named. */
static err_t await_all(nccl_impl_t *impl, const ncclUniqueId *id)
{
    static const char what[] = "collecting the start-up results of NCCL";
    comm_t *comm = impl->comm;
    arrival_t mine, *all = NULL;
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, "the ranks of NCCL", &all), what));
    join_ranks(impl, id, &mine);
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, what);
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
    atomic_init(&impl->doing, "gradient allreduce");
    pthread_mutex_init(&impl->lock, NULL);
    err_t err;
    TRY_OUT(err, comm_agree(comm, nccl_prepare(impl, &id), "starting NCCL"));
    TRY_OUT(err, comm_broadcast(comm, &id, sizeof id, 0, "sharing NCCL's unique id"));
    TRY_OUT(err, await_all(impl, &id));
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
    .buffer_free = nccl_buffer_free,
    .check = nccl_check_sums,
    .singles = singles,
    .describe = nccl_describe,
};
