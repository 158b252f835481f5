/* SPDX-License-Identifier: MIT */
/* The emulated device: kernels with and without barriers, order of lazy streams, memory, capture. RUN (needs no GPU) */
#include <vector>

#include "cuda_runtime.h"
#include "cuda_bf16.h"

#include "check.h"

static const int N = 1000;

template <typename... P, typename... A>
static cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

__global__ void scale(float *x, int n, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}

__global__ void __launch_bounds__(128) reverse_block(const float *__restrict__ x, float *__restrict__ y, bool forget)
{
    __shared__ float tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    tile[threadIdx.x] = x[i];
    if (!forget) __syncthreads();
    y[i] = tile[127 - threadIdx.x];
    __syncthreads();
}

template <typename T> __global__ void block_sum(const T *x, T *sums, int n)
{
    __shared__ T part[32];
    T sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : T(0);
        for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}

__global__ void lanes(int *out)
{
    int t = threadIdx.x;
    out[t] = __shfl_up_sync(0xffffffffu, t, 1, 8);
    out[32 + t] = __shfl_sync(0xffffffffu, t, 3, 8);
    out[64 + t] = __ballot_sync(0xffffffffu, t % 2) == 0xaaaaaaaau && __any_sync(0xffffffffu, t == 7) &&
                  !__all_sync(0xffffffffu, t == 7);
    out[96 + t] = __syncthreads_count(t < 5);
    atomicAdd(&out[128], t);
}

__global__ void to_bf16(const float *x, __nv_bfloat16 *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(x[i]);
}

__global__ void diverge(int how)
{
    if (how == 0 && threadIdx.x == 3) return;
    if (how == 1 && threadIdx.x % 2) __syncthreads();
    else __syncthreads();
    if (how == 2 && threadIdx.x < 16) __syncwarp();
}

__global__ void write_at(float *x, long i)
{
    x[i] = 1.0f;
}

static float *device_floats(const std::vector<float> &values)
{
    float *p = nullptr;
    cudaMalloc(&p, values.size() * sizeof(float));
    cudaMemcpy(p, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
    return p;
}

static std::vector<float> host_floats(const float *p, size_t n)
{
    std::vector<float> values(n);
    cudaMemcpy(values.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost);
    return values;
}

static void test_kernels()
{
    std::vector<float> values(1024);
    for (int i = 0; i < 1024; i++) values[i] = static_cast<float>(i);
    float *x = device_floats(values), *y = device_floats(values);
    OK(launch(scale, 4, 256, nullptr, x, N, 2.0f) == cudaSuccess, "a kernel is launched");
    std::vector<float> got = host_floats(x, 1024);
    bool good = true;
    for (int i = 0; i < 1024; i++) good = good && got[i] == (i < N ? 2.0f : 1.0f) * static_cast<float>(i);
    OK(good, "each thread ran");

    launch(reverse_block, 8, 128, nullptr, x, y, false);
    got = host_floats(y, 1024);
    good = true;
    for (int i = 0; i < N - 128; i++) good = good && got[i] == 2.0f * static_cast<float>(i / 128 * 128 + 127 - i % 128);
    OK(good, "threads of a block synchronize at a barrier");
    launch(reverse_block, 8, 128, nullptr, x, y, true);
    got = host_floats(y, 1024);
    int wrong = 0;
    for (int i = 0; i < N - 128; i++) wrong += got[i] != 2.0f * static_cast<float>(i / 128 * 128 + 127 - i % 128);
    OK(wrong > 0, "a missing barrier shows");

    cudaMemcpy(x, values.data(), 4096, cudaMemcpyHostToDevice);
    launch(block_sum<float>, 4, 96, nullptr, x, y, 250);
    got = host_floats(y, 4);
    good = true;
    for (int b = 0; b < 4; b++) good = good && got[b] == static_cast<float>(250 * b * 250 + 249 * 125);
    OK(good, "sums by shuffles");

    int *out = nullptr, host[129];
    cudaMalloc(&out, sizeof host);
    cudaMemset(out, 0, sizeof host);
    launch(lanes, 1, 32, nullptr, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    good = host[128] == 31 * 16;
    for (int t = 0; t < 32; t++)
        good = good && host[t] == (t % 8 ? t - 1 : t) && host[32 + t] == t / 8 * 8 + 3 && host[64 + t] == 1 && host[96 + t] == 5;
    OK(good, "shuffles within parts of a warp, votes, counts, atomics");

    __nv_bfloat16 *b = nullptr, round_trip[4];
    cudaMalloc(&b, 8);
    launch(to_bf16, 1, 32, nullptr, x, b, 4);
    cudaMemcpy(round_trip, b, 8, cudaMemcpyDeviceToHost);
    OK(__bfloat162float(round_trip[3]) == 3.0f, "bfloat16 by CUDA's header");
    for (void *p : {static_cast<void *>(x), static_cast<void *>(y), static_cast<void *>(out), static_cast<void *>(b)}) cudaFree(p);
    OK(launch(scale, 1, 1025, nullptr, x, 1, 1.0f) == cudaErrorInvalidConfiguration, "a block of 1025 threads is refused");
    OK(cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess, "the last error is returned once");
}

static bool dies(const std::function<void()> &work, const char *message)
{
    int status = 0;
    std::string text = check_fork(work, &status);
    bool good = (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 1)) && text.find(message) != std::string::npos;
    if (!good) std::printf("# status %d, expected '%s' in:\n# %s\n", status, message, text.c_str());
    return good;
}

static void test_mistakes()
{
    auto run_diverged = [](int how) { launch(diverge, 1, 64, nullptr, how), cudaDeviceSynchronize(); };
    OK(dies([=] { run_diverged(0); }, "in kernel diverge(int), block (0,0,0): thread (0,0,0) waits at __syncthreads"),
       "a thread that returns before a barrier is named");
    OK(dies([=] { run_diverged(1); }, "different barriers"), "two barriers at once");
    OK(dies([=] { run_diverged(2); }, "waits for its warp"), "half of a warp");
    float *p = nullptr;
    cudaMalloc(&p, 400);
    OK(dies([=] { p[0] = 1.0f; }, "host code touched device memory"), "the host cannot write to device memory");
    OK(dies([=] { std::printf("%f\n", static_cast<double>(*const_cast<volatile float *>(p))); }, "host code touched device memory"),
       "the host cannot read it");
#if defined(__SANITIZE_ADDRESS__)
    const char *beyond = "AddressSanitizer";
#else
    const char *beyond = "a write beyond an allocation of 400 bytes: 0 bytes from its end";
#endif
    OK(dies([=] { launch(write_at, 1, 1, nullptr, p, 100L), cudaDeviceSynchronize(); }, beyond), "a write beyond the end");
    OK(dies([=] { launch(write_at, 1, 1, nullptr, reinterpret_cast<float *>(64), 2L), cudaDeviceSynchronize(); }, "in kernel write_at"),
       "a bad address in a kernel");
    std::vector<float> fresh = host_floats(p, 100);
    OK(fresh[0] != fresh[0] && fresh[99] != fresh[99], "fresh memory is NaN");
    cudaFree(p);
}

static void test_lazy()
{
    cudaStream_t a, b;
    cudaEvent_t ready;
    float *pinned = nullptr, *x = device_floats({1, 1, 1, 1}), *y = device_floats({0, 0, 0, 0});
    cudaMallocHost(&pinned, 16);
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);

    pinned[0] = 5.0f;
    cudaMemcpyAsync(x, pinned, 4, cudaMemcpyHostToDevice, a);
    pinned[0] = 6.0f;
    cudaStreamSynchronize(a);
    OK(host_floats(x, 1)[0] == 6.0f, "pinned memory is read when the copy runs");
    float pageable = 7.0f;
    cudaMemcpyAsync(x, &pageable, 4, cudaMemcpyHostToDevice, a);
    pageable = 8.0f;
    cudaStreamSynchronize(a);
    OK(host_floats(x, 1)[0] == 7.0f, "pageable memory is read at the call");

    launch(scale, 1, 32, a, x, 1, 2.0f);
    cudaMemcpyAsync(y, x, 4, cudaMemcpyDeviceToDevice, b);
    cudaStreamSynchronize(b);
    OK(host_floats(y, 1)[0] == 7.0f, "a missing event shows: the other stream's work was not done");
    cudaEventRecord(ready, a);
    OK(cudaEventQuery(ready) == cudaErrorNotReady && cudaEventQuery(ready) == cudaSuccess, "a query first returns cudaErrorNotReady");
    launch(scale, 1, 32, a, x, 1, 2.0f);
    cudaEventRecord(ready, a);
    launch(scale, 1, 32, a, x, 1, 100.0f);
    cudaStreamWaitEvent(b, ready, 0);
    cudaMemcpyAsync(y, x, 4, cudaMemcpyDeviceToDevice, b);
    cudaStreamSynchronize(b);
    OK(host_floats(y, 1)[0] == 28.0f, "waiting for an event runs the work before it, and no more");
    cudaDeviceSynchronize();
    OK(host_floats(x, 1)[0] == 2800.0f, "waiting for the device runs the rest");
    cudaMemcpyAsync(pinned, x, 4, cudaMemcpyDeviceToHost, a);
    OK(pinned[0] == 6.0f, "a copy to pinned memory has not run before a wait");
    cudaStreamSynchronize(a);
    OK(pinned[0] == 2800.0f, "… and has run after it");
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaEventDestroy(ready);
    cudaFreeHost(pinned);
    cudaFree(x);
    cudaFree(y);
}

static void test_capture()
{
    cudaStream_t a, b;
    cudaEvent_t fork_event, join_event;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    float *x = device_floats({1, 1, 1, 1}), factor = 2.0f;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&fork_event, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&join_event, cudaEventDisableTiming);
    cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
    launch(scale, 1, 32, a, x, 1, factor);
    cudaEventRecord(fork_event, a);
    cudaStreamWaitEvent(b, fork_event, 0);
    launch(scale, 1, 32, b, x + 1, 1, 3.0f);
    cudaEventRecord(join_event, b);
    factor = 50.0f;
    cudaStreamCaptureStatus status;
    cudaStreamIsCapturing(b, &status);
    OK(status == cudaStreamCaptureStatusActive, "a stream joins a capture by an event");
    cudaStreamWaitEvent(a, join_event, 0);
    OK(cudaStreamEndCapture(a, &graph) == cudaSuccess, "the capture ends");
    size_t n_nodes = 0;
    cudaGraphGetNodes(graph, nullptr, &n_nodes);
    OK(n_nodes == 2, "two nodes");
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    OK(host_floats(x, 2)[0] == 1.0f, "nothing ran during the capture");
    for (int i = 0; i < 3; i++) cudaGraphLaunch(exec, a);
    cudaStreamSynchronize(a);
    OK(host_floats(x, 2)[0] == 8.0f && host_floats(x, 2)[1] == 27.0f, "three launches with the captured values");
    cudaGraphExecDestroy(exec);

    cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal);
    OK(cudaStreamSynchronize(a) == cudaErrorStreamCaptureUnsupported, "waiting is refused during a capture");
    OK(launch(scale, 1, 32, a, x, 1, 1.0f) == cudaErrorStreamCaptureInvalidated, "which invalidates the capture");
    OK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureInvalidated && !graph, "and yields no graph");
    cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
    cudaEventRecord(fork_event, a);
    cudaStreamWaitEvent(b, fork_event, 0);
    launch(scale, 1, 32, b, x + 1, 1, 3.0f);
    OK(cudaStreamEndCapture(a, &graph) == cudaErrorStreamCaptureUnjoined, "a stream that was not joined is an error");
    cudaGetLastError();
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    cudaEventDestroy(fork_event);
    cudaEventDestroy(join_event);
    cudaFree(x);
}

static void test_failures()
{
    float *p = nullptr;
    OK(cudaMalloc(&p, size_t{1} << 40) == cudaErrorMemoryAllocation && !p, "out of memory");
    int status = 0;
    check_fork([] {
        setenv("DPTRAIN_EMU_FAIL_KERNEL", "2", 1);
        float *x = device_floats({1, 1});
        bool good = launch(scale, 1, 32, nullptr, x, 1, 2.0f) == cudaSuccess && launch(scale, 1, 32, nullptr, x, 1, 2.0f) == cudaSuccess;
        good = good && cudaDeviceSynchronize() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress;
        good = good && cudaFree(x) == cudaErrorIllegalAddress;
        _exit(good ? 7 : 1);
    }, &status);
    OK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a kernel's error is sticky");
    check_fork([] {
        setenv("DPTRAIN_EMU_FAIL_LAUNCH", "2", 1);
        float *x = device_floats({1, 1});
        bool good = launch(scale, 1, 32, nullptr, x, 1, 2.0f) == cudaSuccess && launch(scale, 1, 32, nullptr, x, 1, 2.0f) == cudaErrorLaunchFailure;
        _exit(good && cudaDeviceSynchronize() == cudaSuccess ? 7 : 1);
    }, &status);
    OK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a launch fails");
    check_fork([] {
        int n = 1;
        setenv("DPTRAIN_EMU_DRIVER", "none", 1);
        bool good = cudaGetDeviceCount(&n) == cudaErrorNoDevice && n == 0;
        setenv("DPTRAIN_EMU_DRIVER", "old", 1);
        _exit(good && cudaGetDeviceCount(&n) == cudaErrorInsufficientDriver ? 7 : 1);
    }, &status);
    OK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "no device, an old driver");
}

int main()
{
    const int planned = 38;
    std::printf("1..%d\n", planned);
    test_failures(); /* first, because they count launches */
    test_kernels();
    test_mistakes();
    test_lazy();
    test_capture();
    return check_done(planned);
}
