/* SPDX-License-Identifier: MIT */
/* The cuda backend's table: what it says of the machine, the order in which device, libraries and buffers are opened
 * and closed; and the same backend without a device, which counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compute/ops/backend.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/gemm.h"

/* 13000 → "13.0" */
static void version_text(int version, char out[16])
{
    snprintf(out, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

static bool cuda_usable(char *why, size_t n_bytes)
{
    int n = 0;
    cudaError_t status = cudaGetDeviceCount(&n);
    if (status == cudaSuccess && n == 0) status = cudaErrorNoDevice;
    if (status == cudaSuccess) {
        if (lt_load() == ERR_OK) return true;
        snprintf(why, n_bytes, "%s", err_message());
        return false;
    }
    if (status == cudaErrorInsufficientDriver) {
        char has[16], wants[16];
        int driver = 0;
        cudaDriverGetVersion(&driver);
        version_text(driver, has);
        version_text(CUDART_VERSION, wants);
        if (driver == 0)
            snprintf(why, n_bytes, "no NVIDIA driver found");
        else
            snprintf(
                why, n_bytes,
                "the NVIDIA driver supports CUDA up to %s, this build is for %s (update the driver, or build "
                "with an older toolkit)",
                has, wants);
    } else if (status == cudaErrorNoDevice) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        snprintf(why, n_bytes, "no GPU is visible%s%s%s", visible ? " (CUDA_VISIBLE_DEVICES is '" : "",
                 visible ? visible : "", visible ? "')" : "");
    } else {
        snprintf(why, n_bytes, "CUDA: %s (%s)", cudaGetErrorString(status), cudaGetErrorName(status));
    }
    cudaGetLastError();
    return false;
}

/* Such as "NVIDIA H200, CUDA 13.0, cuBLASLt 13.0.2, cuDNN 9.19.0". With an open device, cuDNN only if it has
 * been loaded. */
static void cuda_describe(char *out, size_t n_bytes)
{
    char cuda[16], blas[32], dnn[96];
    backend_device_t first;
    version_text(CUDART_VERSION, cuda);
    lt_version(blas, sizeof blas);
    const backend_device_t *device = cuda_device();
    dnn_describe(!device, dnn, sizeof dnn);
    if (!device && cuda_describe_device(0, &first) == ERR_OK) device = &first;
    snprintf(out, n_bytes, "%s, CUDA %s, cuBLASLt %s%s%s", device ? device->name : "no GPU", cuda, blas,
             dnn[0] ? ", " : "", dnn);
}

static void describe_algorithms(char *out, size_t n_bytes)
{
    dnn_describe(true, out, n_bytes);
}

static void close_backend(void)
{
    cuda_graph_close();
    cuda_reduce_close();
    dnn_close();
    lt_close();
    cuda_device_close();
}

/* cuda_memory from open on, with the hash: a kernel, above that. */
static backend_memory_t memory;

static err_t open_backend(const backend_options_t *options)
{
    if (cuda_device()) return ERR_OK; /* opened again with another number of CPU threads */
    memory = cuda_memory, memory.hash = cuda_hash;
    err_t err = cuda_device_open(options);
    if (err == ERR_OK) err = lt_open();
    if (err == ERR_OK) err = cuda_reduce_open();
    if (err != ERR_OK) close_backend();
    return err;
}

/* The backend without a device: memory is addresses that nobody reads, and launches are reported to a listener. For an
 * H200's cache. */
static struct {
    uintptr_t next; /* free address */
    backend_t backend;
    backend_memory_t memory;
} counted;

static err_t counted_alloc(size_t n_bytes, const char *what, void **out)
{
    enum { BLOCK = 256 };
    (void)what;
    /* An address that is never read. */
    memcpy(out, &counted.next, sizeof *out);
    counted.next += (n_bytes / BLOCK + 1) * BLOCK;
    return ERR_OK;
}

static void counted_release(void *block)
{
    (void)block;
}

static err_t counted_alloc_host(size_t n_bytes, const char *what, void **out)
{
    return mem_new(n_bytes + 1, what, out);
}

static void counted_release_host(void *block)
{
    mem_free(&block);
}

static err_t counted_transfer(void *to, const void *from, size_t n_bytes)
{
    (void)to, (void)from, (void)n_bytes;
    return ERR_OK;
}

static err_t counted_sync(void)
{
    return ERR_OK;
}

static err_t counted_open(const backend_options_t *options)
{
    traffic_counts = true;
    counted.next = (uintptr_t)1 << 40;
    cuda_device_pretend(options);
    return ERR_OK;
}

static void counted_close(void)
{
    cuda_device_pretend(NULL);
    traffic_counts = false;
}

static const backend_t *counted_backend(backend_heard_t heard, void *context)
{
    traffic_listen(heard, context);
    counted.backend = backend_cuda;
    counted.memory = (backend_memory_t){.alloc = counted_alloc,
                                        .release = counted_release,
                                        .alloc_host = counted_alloc_host,
                                        .release_host = counted_release_host,
                                        .upload = counted_transfer,
                                        .download = counted_transfer,
                                        .copy = cuda_memory.copy,
                                        .zero = cuda_memory.zero,
                                        .sync = counted_sync};
    counted.backend.open = counted_open;
    counted.backend.close = counted_close;
    counted.backend.memory = &counted.memory;
    counted.backend.graph = NULL;
    return &counted.backend;
}

#define ROW(KIND, name) [OP_##KIND] = &cuda_##name,
const backend_t backend_cuda = {
    .name = "cuda",
    .usable = cuda_usable,
    .open = open_backend,
    .close = close_backend,
    .memory = &memory,
    .graph = &cuda_graph,
    .device = cuda_device,
    .kernel = {OP_LIST_ALL(ROW)},
    .optim =
        {
            [OPTIM_SGD] = cuda_optim_sgd,
            [OPTIM_ADADELTA] = cuda_optim_adadelta,
            [OPTIM_ADAMW] = cuda_optim_adamw,
            [OPTIM_LARS] = cuda_optim_lars,
        },
    .stores_bf16 = true,
    .squares = cuda_squares,
    .norms = cuda_norms,
    .accumulate = cuda_accumulate,
    .tally = cuda_tally,
    .swap = cuda_swap,
    .pixels = cuda_pixels,
    .narrow = cuda_narrow,
    .widen = cuda_widen,
    .mark = cuda_mark,
    .wait = cuda_wait,
    .seconds = cuda_seconds,
    .counted = counted_backend,
    .peak_flops = cuda_peak_flops,
    .peak_bytes = cuda_peak_bytes,
    .describe = cuda_describe,
    .describe_algorithms = describe_algorithms,
};
