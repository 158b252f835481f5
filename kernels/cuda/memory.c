/* SPDX-License-Identifier: MIT */
/* Device and pinned memory, and copies ordered on the compute or the copy stream. Errors say how much was
 * needed and how much is free. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "kernels/cuda/cuda.h"

static err_t no_memory(size_t n_bytes, const char *what)
{
    size_t n_free = 0, n_all = 0;
    cudaGetLastError();
    cudaMemGetInfo(&n_free, &n_all);
    RAISE(ERR_SYSTEM,
          "not enough memory on GPU %d for %s: %.1f MiB needed, %.1f of %.1f MiB free; lower --batch (or "
          "raise --accumulate) or --workspace, or stop other programs on the GPU",
          cuda_device()->index, what, (double)n_bytes / (1 << 20), (double)n_free / (1 << 20),
          (double)n_all / (1 << 20));
}

static err_t memory_alloc(size_t n_bytes, const char *what, void **out)
{
    void *block = NULL;
    cudaError_t status = cudaMalloc(&block, n_bytes ? n_bytes : 1);
    if (status == cudaErrorMemoryAllocation) return no_memory(n_bytes, what);
    E_CUDA(status, what);
    err_t err = cuda_check(cudaMemsetAsync(block, 0, n_bytes, cuda_stream()), what, __FILE__, __LINE__);
    /* The block must be zeroed before any stream uses it. */
    if (err == ERR_OK) err = cuda_check(cudaStreamSynchronize(cuda_stream()), what, __FILE__, __LINE__);
    if (err == ERR_OK)
        *out = block;
    else
        cudaFree(block);
    return err;
}

/* After a kernel has failed, every release fails: that error is reported elsewhere, so no warning is
 * added. */
static void check_release(cudaError_t status, const char *what)
{
    if (status != cudaSuccess && cudaFree(NULL) == cudaSuccess) log_warn("%s", what);
}

static void memory_release(void *block)
{
    check_release(cudaFree(block), "cannot free GPU memory");
}

static err_t memory_alloc_host(size_t n_bytes, const char *what, void **out)
{
    void *block = NULL;
    cudaError_t status = cudaMallocHost(&block, n_bytes ? n_bytes : 1);
    if (status == cudaErrorMemoryAllocation)
        RAISE(ERR_SYSTEM, "no pinned host memory for %s: %.1f MiB needed; is ulimit -l too low?", what,
              (double)n_bytes / (1 << 20));
    E_CUDA(status, what);
    memset(block, 0, n_bytes);
    *out = block;
    return ERR_OK;
}

static void memory_release_host(void *block)
{
    check_release(cudaFreeHost(block), "cannot free pinned memory");
}

static bool memory_pin(void *host, size_t n_bytes)
{
    bool ok = cudaHostRegister(host, n_bytes, cudaHostRegisterDefault) == cudaSuccess;
    if (!ok) cudaGetLastError();
    return ok;
}

static void memory_unpin(void *host)
{
    check_release(cudaHostUnregister(host), "cannot unpin host memory");
}

static err_t copy_as(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind, const char *what)
{
    E_CUDA(cudaMemcpyAsync(to, from, n_bytes, kind, cuda_stream()), what);
    return ERR_OK;
}

static err_t memory_upload(void *device, const void *host, size_t n_bytes)
{
    return copy_as(device, host, n_bytes, cudaMemcpyHostToDevice, "copying to the GPU");
}

static err_t memory_download(void *host, const void *device, size_t n_bytes)
{
    return copy_as(host, device, n_bytes, cudaMemcpyDeviceToHost, "copying from the GPU");
}

static err_t memory_copy(void *to, const void *from, size_t n_bytes)
{
    if (traffic_counts) return traffic_report("copy", 2 * (int64_t)n_bytes), ERR_OK;
    return copy_as(to, from, n_bytes, cudaMemcpyDeviceToDevice, "copying on the GPU");
}

static err_t memory_zero(void *device, size_t n_bytes)
{
    if (traffic_counts) return traffic_report("zero", (int64_t)n_bytes), ERR_OK;
    E_CUDA(cudaMemsetAsync(device, 0, n_bytes, cuda_stream()), "clearing memory of the GPU");
    return ERR_OK;
}

static err_t memory_sync(void)
{
    E_CUDA(cudaStreamSynchronize(cuda_stream()), "waiting for the GPU");
    return ERR_OK;
}

static err_t memory_prefetch(void *device, const void *host, size_t n_bytes)
{
    E_CUDA(cudaMemcpyAsync(device, host, n_bytes, cudaMemcpyHostToDevice, cuda_copy_stream()),
           "copying to the GPU ahead");
    return ERR_OK;
}

static err_t memory_prefetched(void)
{
    E_CUDA(cudaEventRecord(cuda_copied(), cuda_copy_stream()), "noting a copy");
    E_CUDA(cudaStreamWaitEvent(cuda_stream(), cuda_copied(), 0), "waiting for a copy");
    return ERR_OK;
}

static err_t memory_prefetch_sync(void)
{
    E_CUDA(cudaStreamSynchronize(cuda_copy_stream()), "waiting for copies to the GPU");
    return ERR_OK;
}

const backend_memory_t cuda_memory = {
    .alloc = memory_alloc,
    .release = memory_release,
    .alloc_host = memory_alloc_host,
    .release_host = memory_release_host,
    .pin = memory_pin,
    .unpin = memory_unpin,
    .upload = memory_upload,
    .download = memory_download,
    .copy = memory_copy,
    .zero = memory_zero,
    .prefetch = memory_prefetch,
    .prefetched = memory_prefetched,
    .prefetch_sync = memory_prefetch_sync,
    .hash = cuda_hash,
    .sync = memory_sync,
};
