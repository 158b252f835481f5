/* SPDX-License-Identifier: MIT */
/* The stand-in for libcudart: devices, errors, launches. DPTRAIN_EMU_* describe the machine (README.md). */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emu.h"

namespace emu
{
namespace
{

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device = 0;
std::atomic<int> sticky_error{cudaSuccess};

struct name_t {
    cudaError_t error;
    const char *name, *text;
};
#define ENTRY(error, text) {error, #error, text}
const name_t names[] = {
    ENTRY(cudaSuccess, "no error"),
    ENTRY(cudaErrorInvalidValue, "invalid argument"),
    ENTRY(cudaErrorMemoryAllocation, "out of memory"),
    ENTRY(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ENTRY(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    ENTRY(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    ENTRY(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ENTRY(cudaErrorInvalidDevice, "invalid device ordinal"),
    ENTRY(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ENTRY(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ENTRY(cudaErrorNotReady, "device not ready"),
    ENTRY(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ENTRY(cudaErrorLaunchFailure, "unspecified launch failure"),
    ENTRY(cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    ENTRY(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ENTRY(cudaErrorNotSupported, "operation not supported"),
    ENTRY(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ENTRY(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ENTRY(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    ENTRY(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ENTRY(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ENTRY(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ENTRY(cudaErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"),
    ENTRY(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    ENTRY(cudaErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
};

const char *driver()
{
    const char *text = std::getenv("DPTRAIN_EMU_DRIVER");
    return text ? text : "";
}

bool valid(int d)
{
    return d >= 0 && d < device_count();
}

} // namespace

int64_t env_number(const char *name, int64_t fallback)
{
    const char *text = std::getenv(name);
    return text && *text ? std::strtoll(text, nullptr, 10) : fallback;
}

void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    std::fflush(stdout);
    std::fprintf(stderr, "emulated CUDA: ");
    std::vfprintf(stderr, format, arguments);
    std::fprintf(stderr, "\n");
    va_end(arguments);
    std::abort();
}

cudaError_t fail(cudaError_t error)
{
    if (error) last_error = error;
    return error;
}

void set_sticky(cudaError_t error)
{
    sticky_error = error;
}

cudaError_t sticky()
{
    return static_cast<cudaError_t>(sticky_error.load());
}

cudaError_t usable()
{
    int n;
    if (sticky()) return fail(sticky());
    return *driver() ? cudaGetDeviceCount(&n) : cudaSuccess;
}

int device_count()
{
    static const int n = [] {
        int all = static_cast<int>(env_number("DPTRAIN_EMU_GPUS", 1));
        const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
        if (!visible) return all;
        return std::min(all, *visible ? 1 + static_cast<int>(std::count(visible, visible + std::strlen(visible), ',')) : 0);
    }();
    return n;
}

int current_device()
{
    return device;
}

int64_t device_memory()
{
    return env_number("DPTRAIN_EMU_MEMORY", int64_t{4} << 30);
}

uint64_t device_id(int d)
{
    return 0x1000 + static_cast<uint64_t>(d);
}

} // namespace emu

using namespace emu;

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 0;
    if (!std::strcmp(driver(), "old")) return fail(cudaErrorInsufficientDriver);
    if (!std::strcmp(driver(), "none") || device_count() == 0) return fail(cudaErrorNoDevice);
    *n = device_count();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int d)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!valid(d)) return fail(cudaErrorInvalidDevice);
    device = d;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *d)
{
    cudaError_t error = usable();
    if (!error) *d = device;
    return error;
}

static int capability()
{
    const char *text = std::getenv("DPTRAIN_EMU_CC");
    int major = 9, minor = 0;
    if (text) std::sscanf(text, "%d.%d", &major, &minor);
    return major * 10 + minor;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int d)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!valid(d)) return fail(cudaErrorInvalidDevice);
    std::memset(p, 0, sizeof *p);
    std::snprintf(p->name, sizeof p->name, "emulated GPU");
    std::memcpy(p->uuid.bytes, "dptrain-emu-GPU", 15);
    p->uuid.bytes[15] = static_cast<char>(d);
    p->totalGlobalMem = static_cast<size_t>(device_memory());
    p->sharedMemPerBlock = 48 << 10;
    p->sharedMemPerBlockOptin = p->sharedMemPerMultiprocessor = 227 << 10;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = capability() / 10;
    p->minor = capability() % 10;
    p->multiProcessorCount = 4;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
    p->concurrentKernels = p->canMapHostMemory = p->unifiedAddressing = p->hostRegisterSupported = 1;
    p->asyncEngineCount = 2;
    p->streamPrioritiesSupported = 1;
    p->pciBusID = 0x10 + d;
    p->memoryBusWidth = 5120;
    p->l2CacheSize = 1 << 20;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int d)
{
    cudaDeviceProp p;
    cudaError_t error = cudaGetDeviceProperties(&p, d);
    if (error) return error;
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(p.sharedMemPerMultiprocessor); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrClockRate: *value = 1500000; break;
    case cudaDevAttrMemoryClockRate: *value = 2600000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
    case cudaDevAttrPciBusId: *value = p.pciBusID; break;
    case cudaDevAttrPciDeviceId: *value = p.pciDeviceID; break;
    case cudaDevAttrPciDomainId: *value = p.pciDomainID; break;
    case cudaDevAttrAsyncEngineCount: *value = p.asyncEngineCount; break;
    case cudaDevAttrConcurrentKernels: case cudaDevAttrUnifiedAddressing: case cudaDevAttrHostRegisterSupported:
        *value = 1;
        break;
    default: *value = 0; break;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int n, int d)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!valid(d)) return fail(cudaErrorInvalidDevice);
    if (!text || n < 13) return fail(cudaErrorInvalidValue);
    std::snprintf(text, static_cast<size_t>(n), "0000:%02X:00.0", 0x10 + d);
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!valid(a) || !valid(b)) return fail(cudaErrorInvalidDevice);
    *can = a != b;
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    return cudaDeviceSynchronize();
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = !std::strcmp(driver(), "none") ? 0 : !std::strcmp(driver(), "old") ? 11000 : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = sticky() ? sticky() : last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return sticky() ? sticky() : last_error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (const name_t &n : names)
        if (n.error == error) return n.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (const name_t &n : names)
        if (n.error == error) return n.text;
    return "unrecognized error code";
}

cudaError_t emu_launch(const cudaLaunchConfig_t *config, const void *function, std::function<void()> thread)
{
    static std::atomic<int64_t> n_launched{0}, n_executed{0};
    cudaError_t error = usable();
    if (error) return error;
    const dim3 &g = config->gridDim, &b = config->blockDim;
    uint64_t n_threads = uint64_t{b.x} * b.y * b.z;
    if (!g.x || !g.y || !g.z || g.x > 0x7fffffff || g.y > 65535 || g.z > 65535 || !n_threads || n_threads > 1024 || b.z > 64)
        return fail(cudaErrorInvalidConfiguration);
    if (config->dynamicSmemBytes) return fail(cudaErrorInvalidValue); /* dynamic shared memory is not supported */
    if (++n_launched == env_number("DPTRAIN_EMU_FAIL_LAUNCH", 0)) return fail(cudaErrorLaunchFailure);
    op_t op;
    op.name = "a kernel";
    op.run = [launch = launch_t{function, std::move(thread), g, b}] {
        if (++n_executed == env_number("DPTRAIN_EMU_FAIL_KERNEL", 0)) {
            set_sticky(cudaErrorIllegalAddress);
            return;
        }
        run_kernel(launch);
    };
    return submit(config->stream, std::move(op));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    op_t op;
    op.name = "cudaLaunchHostFunc";
    op.run = [=] { function(data); };
    return submit(stream, std::move(op));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *, int block_size, size_t)
{
    cudaError_t error = usable();
    if (error) return error;
    if (block_size <= 0 || block_size > 1024) return fail(cudaErrorInvalidValue);
    *n = std::min(2048 / block_size, 32);
    return cudaSuccess;
}
