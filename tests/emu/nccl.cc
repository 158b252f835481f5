/* SPDX-License-Identifier: MIT */
/* The stand-in for libnccl: the interface over nccl_shm.cc. Operations queue on streams like kernels. */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

#include "nccl_shm.h"

using namespace emu;

struct ncclComm {
    std::shared_ptr<comm_t> comm;
};

namespace
{

struct grouped_t {
    std::shared_ptr<comm_t> comm;
    cudaStream_t stream;
    std::vector<piece_t> pieces;
};

thread_local int group_depth;
thread_local std::vector<grouped_t> grouped;
thread_local std::string last_error;

ncclResult_t fail_with(ncclResult_t result, const std::string &text)
{
    last_error = text;
    return result;
}

ncclResult_t usable_comm(ncclComm_t comm)
{
    if (!comm) return fail_with(ncclInvalidArgument, "the communicator is NULL");
    ncclResult_t state = comm->comm->advance();
    if (state == ncclInProgress) return fail_with(ncclInvalidUsage, "the communicator is not initialized yet");
    return state;
}

/* The debug log, as far as the program reads it. Settings are read once, and again after a reset. */
std::mutex log_lock;
FILE *log_file;
bool log_known;
std::atomic<int> n_lines;

void open_log() /* under the lock */
{
    if (log_known) return;
    const char *level = std::getenv("NCCL_DEBUG"), *path = std::getenv("NCCL_DEBUG_FILE");
    if (log_file) std::fclose(log_file);
    log_file = level && !std::strcmp(level, "INFO") && path ? std::fopen(path, "a") : nullptr;
    log_known = true;
}

void log_collective(const comm_t &comm, const collective_t &c)
{
    std::lock_guard<std::mutex> lock(log_lock);
    open_log();
    if (!log_file || comm.rank != 0 || c.kind != collective_t::ALL_REDUCE) return;
    std::fprintf(log_file, "emu:1:1 [0] NCCL INFO AllReduce: %zu Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}\n",
                 c.count * type_size(c.type));
    std::fflush(log_file);
    n_lines++;
}

ncclResult_t queue(const std::shared_ptr<comm_t> &comm, cudaStream_t stream, op_t op)
{
    comm_t *raw = comm.get(); /* kept by the op's closures */
    op.queued = [raw](const mark_t &mark) { raw->pending.push_back(mark); };
    cudaError_t error = submit(stream, std::move(op));
    return error ? fail_with(ncclUnhandledCudaError, cudaGetErrorString(error)) : ncclSuccess;
}

ncclResult_t collective(ncclComm_t handle, collective_t c, cudaStream_t stream)
{
    ncclResult_t result = usable_comm(handle);
    if (result) return result;
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream, &capturing)) return fail_with(ncclInvalidArgument, "no such stream");
    handle->comm->called = true;
    if (handle->comm->blocking && env_number("DPTRAIN_EMU_NCCL_CALL_HANG", -1) == handle->comm->rank)
        for (;;) usleep(1000);
    c.captured = capturing != cudaStreamCaptureStatusNone;
    log_collective(*handle->comm, c);
    std::shared_ptr<comm_t> comm = handle->comm;
    if (!type_size(c.type) || c.op < 0 || c.op >= ncclNumOps || c.root < 0 || c.root >= comm->size)
        return fail_with(ncclInvalidArgument, "unknown data type, operation or root");
    if (c.count && ((c.kind != collective_t::REDUCE && !c.recv) || (c.kind != collective_t::BROADCAST && !c.send)))
        return fail_with(ncclInvalidArgument, "a buffer is NULL");
    op_t op;
    op.name = "an NCCL collective";
    std::shared_ptr<void> held; /* by the graph */
    if (c.captured) {
        comm->n_recorded++;
        held = std::shared_ptr<void>(nullptr, [comm](void *) { comm->n_recorded--; });
    }
    op.run = [comm, c, held] { comm->run(c); };
    op.ready = [comm, c] { return comm->error || comm->aborted || comm->announce(c); };
    return queue(comm, stream, std::move(op));
}

ncclResult_t flush_group()
{
    std::vector<grouped_t> all;
    all.swap(grouped);
    for (grouped_t &g : all) {
        auto pieces = std::make_shared<std::vector<piece_t>>(std::move(g.pieces));
        std::shared_ptr<comm_t> comm = g.comm;
        op_t op;
        op.name = "NCCL's sends and receives";
        op.run = [comm, pieces] { comm->run_pieces(*pieces); };
        op.ready = [comm, pieces] { return comm->error || comm->aborted || comm->step(*pieces); };
        ncclResult_t result = queue(comm, g.stream, std::move(op));
        if (result) return result;
    }
    return ncclSuccess;
}

ncclResult_t point_to_point(ncclComm_t handle, bool send, void *data, size_t count, ncclDataType_t type, int peer,
                            cudaStream_t stream)
{
    ncclResult_t result = usable_comm(handle);
    if (result) return result;
    if (!type_size(type) || peer < 0 || peer >= handle->comm->size || (count && !data))
        return fail_with(ncclInvalidArgument, "unknown data type, peer or buffer");
    ncclGroupStart();
    grouped_t *group = nullptr;
    for (grouped_t &g : grouped)
        if (g.comm == handle->comm && g.stream == stream) group = &g;
    if (!group) {
        grouped.push_back({handle->comm, stream, {}});
        group = &grouped.back();
    }
    group->pieces.push_back({send, peer, static_cast<char *>(data), count * type_size(type), 0});
    return ncclGroupEnd();
}

} // namespace

ncclResult_t ncclGetVersion(int *version)
{
    if (!version) return ncclInvalidArgument;
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static std::atomic<int> n;
    if (!id) return ncclInvalidArgument;
    std::memset(id, 0, sizeof *id);
    auto now = std::chrono::system_clock::now().time_since_epoch().count();
    std::snprintf(id->internal, sizeof id->internal, "/dptrain-emu-%d-%d-%llx", getpid(), n++, static_cast<unsigned long long>(now));
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *handle, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    if (!handle || size < 1 || size > MAX_RANKS || rank < 0 || rank >= size)
        return fail_with(ncclInvalidArgument, "invalid number of ranks or rank");
    *handle = nullptr;
    if (usable()) return fail_with(ncclUnhandledCudaError, "no usable device");
    {
        std::lock_guard<std::mutex> lock(log_lock);
        open_log();
    }
    auto comm = std::make_shared<comm_t>();
    comm->rank = rank;
    comm->size = size;
    comm->device = current_device();
    comm->blocking = !config || config->blocking != 0;
    comm->name = id.internal;
    comm->hangs = env_number("DPTRAIN_EMU_NCCL_INIT_HANG", -1) == rank;
    ncclResult_t result = comm->advance();
    for (int i = 0; comm->blocking && result == ncclInProgress && i < 20000; i++, result = comm->advance()) usleep(1000);
    if (comm->blocking && result == ncclInProgress) return fail_with(ncclSystemError, "not all ranks joined within 20 s");
    if (result && result != ncclInProgress) return fail_with(result, "Duplicate GPU detected");
    *handle = new ncclComm{comm};
    serve(comm);
    return comm->blocking ? ncclSuccess : result;
}

ncclResult_t ncclCommInitRank(ncclComm_t *handle, int size, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(handle, size, id, rank, nullptr);
}

ncclResult_t ncclCommFinalize(ncclComm_t handle)
{
    ncclResult_t result = usable_comm(handle);
    if (result) return result;
    for (;;) { /* runs what is queued */
        mark_t mark;
        {
            std::lock_guard<std::mutex> lock(state_mutex());
            if (handle->comm->pending.empty()) return ncclSuccess;
            mark = handle->comm->pending.front();
            handle->comm->pending.pop_front();
        }
        run_until(mark, false);
    }
}

static ncclResult_t release(ncclComm_t handle)
{
    stop_serving(handle->comm);
    if (handle->comm->shared) handle->comm->shared->ranks[handle->comm->rank].left = 1;
    std::lock_guard<std::mutex> lock(state_mutex());
    handle->comm->pending.clear();
    delete handle;
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle)
{
    if (!handle) return ncclSuccess;
    ncclCommFinalize(handle);
    return release(handle);
}

ncclResult_t ncclCommAbort(ncclComm_t handle)
{
    if (!handle) return ncclSuccess;
    handle->comm->aborted = 1;
    if (handle->comm->shared) handle->comm->shared->aborted = 1;
    int none = ncclSuccess;
    handle->comm->error.compare_exchange_strong(none, ncclInvalidUsage); /* queued ops then do nothing */
    if (handle->comm->n_recorded) {
        std::fprintf(stderr, "emulated NCCL: ncclCommAbort waits for the graphs that hold %d collectives\n",
                     handle->comm->n_recorded.load());
        while (handle->comm->n_recorded) usleep(1000);
    }
    return release(handle);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *error)
{
    if (!handle || !error) return ncclInvalidArgument;
    *error = handle->comm->state();
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
    }
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_error.c_str();
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int *n)
{
    if (!handle || !n) return ncclInvalidArgument;
    *n = handle->comm->size;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int *rank)
{
    if (!handle || !rank) return ncclInvalidArgument;
    *rank = handle->comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int *device)
{
    if (!handle || !device) return ncclInvalidArgument;
    *device = handle->comm->device;
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **p, size_t n)
{
    return cudaMalloc(p, n) ? fail_with(ncclUnhandledCudaError, "ncclMemAlloc failed") : ncclSuccess;
}

ncclResult_t ncclMemFree(void *p)
{
    return cudaFree(p) ? fail_with(ncclUnhandledCudaError, "ncclMemFree failed") : ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t handle, void *p, size_t n, void **registration)
{
    ncclResult_t result = usable_comm(handle);
    if (result) return result;
    if (!registration || !device_range(p, n)) return fail_with(ncclInvalidArgument, "the buffer is not device memory");
    *registration = new size_t(n);
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t handle, void *registration)
{
    if (!handle) return ncclInvalidArgument;
    delete static_cast<size_t *>(registration);
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective(comm, {collective_t::ALL_REDUCE, send, recv, count, type, op, 0}, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, {collective_t::ALL_GATHER, send, recv, count, type, ncclSum, 0}, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    return collective(comm, {collective_t::REDUCE_SCATTER, send, recv, count, type, op, 0}, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective(comm, {collective_t::BROADCAST, send, recv, count, type, ncclSum, root}, stream);
}

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return collective(comm, {collective_t::REDUCE, send, recv, count, type, op, root}, stream);
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return point_to_point(comm, true, const_cast<void *>(data), count, type, peer, stream);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return point_to_point(comm, false, data, count, type, peer, stream);
}

ncclResult_t ncclGroupStart()
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    if (group_depth == 0) return fail_with(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    return --group_depth == 0 ? flush_group() : ncclSuccess;
}

extern "C" void ncclResetDebugInit()
{
    std::lock_guard<std::mutex> lock(log_lock);
    log_known = false;
}

/* For tests: lines written to the debug log. */
extern "C" int emu_nccl_log_lines()
{
    return n_lines;
}
