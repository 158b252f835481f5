/* SPDX-License-Identifier: MIT */
/* The emulated NCCL with three processes: collectives, sends, a rank that does not wait, failures. */
#include <cstring>
#include <vector>

#include <nccl.h>

#include "cuda_runtime.h"
#include "cuda_bf16.h"

#include "check.h"

static const int RANKS = 3;
static const size_t LONG = 300000; /* several rounds */

/* Runs `work(rank, id)` in three processes, each on its own GPU; true if all return true. */
static bool three(const std::function<bool(int, ncclUniqueId)> &work, bool own_gpus = true)
{
    ncclUniqueId id;
    pid_t pids[RANKS];
    ncclGetUniqueId(&id);
    std::fflush(stdout);
    for (int r = 0; r < RANKS; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            cudaSetDevice(own_gpus ? r : 0);
            std::exit(work(r, id) ? 7 : 1);
        }
    }
    bool good = true;
    for (int r = 0; r < RANKS; r++) {
        int status = 0;
        waitpid(pids[r], &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
            std::printf("# rank %d: status %d\n", r, status);
            good = false;
        }
    }
    return good;
}

struct buffers_t {
    float *in, *out;
    std::vector<float> host;

    buffers_t(size_t n, int rank) : host(n)
    {
        for (size_t i = 0; i < n; i++) host[i] = static_cast<float>(static_cast<int>(i % 100) + 1000 * rank);
        cudaMalloc(&in, n * sizeof(float));
        cudaMalloc(&out, n * sizeof(float));
        cudaMemcpy(in, host.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    }
    ~buffers_t()
    {
        cudaFree(in);
        cudaFree(out);
    }
    const std::vector<float> &result()
    {
        cudaMemcpy(host.data(), out, host.size() * sizeof(float), cudaMemcpyDeviceToHost);
        return host;
    }
};

static bool collectives(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    if (ncclCommInitRank(&comm, RANKS, id, rank)) return false;
    bool good = true;
    {
        buffers_t b(3 * LONG, rank);
        good = good && !ncclAllReduce(b.in, b.out, LONG, ncclFloat, ncclSum, comm, nullptr);
        good = good && b.result()[12345] == 3 * 45 + 3000 && b.result()[LONG - 1] == 3 * 99 + 3000;
        good = good && !ncclAllReduce(b.in, b.out, LONG, ncclFloat, ncclMax, comm, nullptr) && b.result()[45] == 2045;
        good = good && !ncclAllReduce(b.in, b.out, LONG, ncclFloat, ncclMin, comm, nullptr) && b.result()[45] == 45;
        good = good && !ncclAllReduce(b.in, b.out, LONG, ncclFloat, ncclAvg, comm, nullptr) && b.result()[45] == 1045;
        good = good && !ncclReduceScatter(b.in, b.out, LONG, ncclFloat, ncclSum, comm, nullptr) && b.result()[LONG - 1] == 3 * 99 + 3000;
        good = good && !ncclAllGather(b.in, b.out, LONG, ncclFloat, comm, nullptr);
        good = good && b.result()[5] == 5 && b.result()[LONG + 5] == 1005 && b.result()[3 * LONG - 1] == 2099;
        good = good && !ncclBroadcast(b.in, b.out, LONG, ncclFloat, 1, comm, nullptr) && b.result()[LONG - 1] == 1099;
        good = good && !ncclReduce(b.in, b.out, LONG, ncclFloat, ncclSum, 2, comm, nullptr);
        good = good && (b.result()[LONG - 1] == 3 * 99 + 3000) == (rank == 2);
    }
    ncclCommDestroy(comm);
    return good;
}

static bool bfloat16(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    if (ncclCommInitRank(&comm, RANKS, id, rank)) return false;
    __nv_bfloat16 *x = nullptr, host[2] = {__float2bfloat16(256.0f), __float2bfloat16(1.5f)};
    if (rank) host[0] = __float2bfloat16(1.0f);
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    ncclAllReduce(x, x, 2, ncclBfloat16, ncclSum, comm, nullptr);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(x);
    ncclCommDestroy(comm);
    return __bfloat162float(host[0]) == 256.0f && __bfloat162float(host[1]) == 4.5f; /* 256 + 1 is rounded away, twice */
}

static bool ring(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    if (ncclCommInitRank(&comm, RANKS, id, rank)) return false;
    bool good = true;
    {
        buffers_t b(LONG, rank);
        ncclGroupStart();
        ncclSend(b.in, LONG, ncclFloat, (rank + 1) % RANKS, comm, nullptr);
        ncclRecv(b.out, LONG, ncclFloat, (rank + 2) % RANKS, comm, nullptr);
        ncclGroupEnd();
        good = b.result()[LONG - 1] == static_cast<float>(99 + 1000 * ((rank + 2) % RANKS));
    }
    ncclCommDestroy(comm);
    return good;
}

/* Rank 2 queues its part and then waits for something other than its device. */
static bool idle_rank(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    if (ncclCommInitRank(&comm, RANKS, id, rank)) return false;
    bool good = true;
    {
        buffers_t b(LONG, rank);
        cudaDeviceSynchronize();
        ncclAllReduce(b.in, b.out, LONG, ncclFloat, ncclSum, comm, nullptr);
        if (rank == 2) sleep(1);
        else good = b.result()[5] == 3015;
    }
    ncclCommDestroy(comm);
    return good;
}

static bool replayed(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    if (ncclCommInitRank(&comm, RANKS, id, rank)) return false;
    float *x = nullptr, one = 1.0f, got = 0.0f;
    cudaMalloc(&x, 4);
    cudaMemcpy(x, &one, 4, cudaMemcpyHostToDevice);
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 3; i++) cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(&got, x, 4, cudaMemcpyDeviceToHost);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    cudaFree(x);
    ncclCommDestroy(comm);
    return got == 27.0f;
}

/* Rank 1's second collective fails: the others notice it while polling, abort, and exit. */
static bool failing(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    cudaEvent_t event;
    ncclResult_t error = ncclSuccess;
    setenv("DPTRAIN_EMU_NCCL_ASYNC_ERROR", "1:2", 1);
    if (ncclCommInitRank(&comm, RANKS, id, rank)) return false;
    buffers_t b(100, rank);
    cudaEventCreate(&event);
    ncclAllReduce(b.in, b.out, 100, ncclFloat, ncclSum, comm, nullptr);
    bool good = b.result()[5] == 3015;
    ncclAllReduce(b.in, b.out, 100, ncclFloat, ncclSum, comm, nullptr);
    cudaEventRecord(event, nullptr);
    if (rank == 1) {
        good = good && !cudaEventSynchronize(event); /* ended by the others' abort */
        ncclCommGetAsyncError(comm, &error);
    } else {
        while (cudaEventQuery(event) == cudaErrorNotReady && error == ncclSuccess) ncclCommGetAsyncError(comm, &error);
    }
    ncclCommAbort(comm);
    cudaEventDestroy(event);
    return good && error == ncclRemoteError;
}

static bool absent(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t error = ncclSuccess;
    config.blocking = 0;
    setenv("DPTRAIN_EMU_NCCL_INIT_HANG", "2", 1);
    bool good = ncclCommInitRankConfig(&comm, RANKS, id, rank, &config) == ncclInProgress;
    usleep(50000);
    good = good && !ncclCommGetAsyncError(comm, &error) && error == ncclInProgress;
    ncclCommAbort(comm);
    return good;
}

/* The sums of ones on all ranks, one after another; `expected` of the first half of each, and of the second. */
static bool sums(int rank, ncclUniqueId id, const std::vector<std::pair<float, float>> &expected)
{
    ncclComm_t comm;
    if (ncclCommInitRank(&comm, RANKS, id, rank)) return false;
    bool good = true;
    for (auto [first, second] : expected) {
        float *x = nullptr, host[4] = {1, 1, 1, 1};
        cudaMalloc(&x, sizeof host);
        cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
        ncclAllReduce(x, x, 4, ncclFloat, ncclSum, comm, nullptr);
        cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
        for (int i = 0; i < 4; i++) good = good && host[i] == (i < 2 ? first : second);
        cudaFree(x);
    }
    ncclCommDestroy(comm);
    return good;
}

int main()
{
    std::printf("1..11\n");
    setenv("DPTRAIN_EMU_GPUS", "3", 1);
    OK(three(collectives), "collectives");
    OK(three(bfloat16), "bfloat16 is rounded at each hop");
    OK(three(ring), "sends and receives in a ring");
    OK(three(idle_rank), "a rank takes part although its host does not wait");
    OK(three(replayed), "an allreduce in a graph, three times");
    OK(three(failing), "an asynchronous error is seen by the others, and an abort ends the wait");
    OK(three(absent), "a rank that never comes: init stays in progress");
    auto duplicate = [](int rank, ncclUniqueId id) {
        ncclComm_t comm;
        return ncclCommInitRank(&comm, RANKS, id, rank) == ncclInvalidUsage && std::strstr(ncclGetLastError(nullptr), "Duplicate GPU");
    };
    OK(three(duplicate, false), "ranks that share a GPU are refused");
    auto host_ids = [](int rank, ncclUniqueId id) {
        setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
        return collectives(rank, id);
    };
    OK(three(host_ids, false), "unless each has its own NCCL_HOSTID");
    auto scaled = [](int rank, ncclUniqueId id) {
        setenv("DPTRAIN_EMU_NCCL_SCALE", "1:3", 1);
        return sums(rank, id, {{5, 3}, {5, 3}});
    };
    OK(three(scaled), "DPTRAIN_EMU_NCCL_SCALE: a rank adds three times its first half");
    auto twice = [](int rank, ncclUniqueId id) {
        setenv("DPTRAIN_EMU_NCCL_TWICE", "2", 1);
        return sums(rank, id, {{3, 3}, {9, 9}, {3, 3}, {9, 9}});
    };
    OK(three(twice), "DPTRAIN_EMU_NCCL_TWICE: every second sum is summed once more");
    return check_done(11);
}
