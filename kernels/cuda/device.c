/* SPDX-License-Identifier: MIT */
/* Chooses and opens the GPU of this process: its streams, description and limits. Allocations and copies are
 * in memory.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dnn.h"
#include "kernels/cuda/lt.h"

enum { MIN_CAPABILITY = 80 };
static const int64_t default_workspace = (int64_t)1 << 30;

static struct {
    bool open;
    backend_device_t device;
    cudaStream_t stream, copy_stream;
    cudaEvent_t copied;
    int64_t workspace_bytes, l2_bytes;
} self;

err_t cuda_check(cudaError_t status, const char *what, const char *file, int line)
{
    if (status == cudaSuccess) return ERR_OK;
    /* Clears the last error, which the next launch would otherwise report. */
    cudaGetLastError();
    return err_raise(ERR_SYSTEM, file, line, "CUDA: %s: %s (%s)", what, cudaGetErrorString(status),
                     cudaGetErrorName(status));
}

/* 13000 → "13.0" */
static void version_text(int version, char out[16])
{
    snprintf(out, 16, "%d.%d", version / 1000, version % 1000 / 10);
}

static void say_why(cudaError_t status, char *why, size_t n_bytes)
{
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
}

bool cuda_usable(char *why, size_t n_bytes)
{
    int n = 0;
    cudaError_t status = cudaGetDeviceCount(&n);
    if (status == cudaSuccess && n == 0) status = cudaErrorNoDevice;
    if (status != cudaSuccess) {
        say_why(status, why, n_bytes);
        return false;
    }
    if (lt_load() == ERR_OK) return true;
    snprintf(why, n_bytes, "%s", err_message());
    return false;
}

/* The GPU for this local rank in a list such as "0,2,3", which repeats if there are more ranks. */
static err_t pick_from_list(const char *list, int local_rank, int n_visible, int *out)
{
    int n_listed = 1;
    for (const char *p = list; *p; p++) n_listed += *p == ',';
    const char *at = list;
    for (int skip = local_rank % n_listed; skip > 0; skip--) at = strchr(at, ',') + 1;
    char *end;
    long gpu = strtol(at, &end, 10);
    if (end == at || (*end && *end != ',') || gpu < 0)
        RAISE(ERR_USAGE, "invalid --gpus '%s': expected a comma-separated list such as 0,1,2", list);
    if (gpu >= n_visible)
        RAISE(ERR_USAGE, "--gpus %s names GPU %ld, but %d %s visible here (numbered from 0)", list, gpu,
              n_visible, n_visible == 1 ? "is" : "are");
    *out = (int)gpu;
    return ERR_OK;
}

static err_t choose_gpu(const backend_options_t *options, int *out)
{
    int n = 0;
    E_CUDA(cudaGetDeviceCount(&n), "looking for GPUs");
    if (options->gpus && options->gpus[0]) return pick_from_list(options->gpus, options->local_rank, n, out);
    *out = options->local_rank % n;
    return ERR_OK;
}

static void format_uuid(const char *bytes, char out[40])
{
    size_t used = (size_t)snprintf(out, 40, "GPU-");
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(out + used, 40 - used, "%02x", (unsigned char)bytes[i]);
}

static err_t describe_device(int index, backend_device_t *out)
{
    struct cudaDeviceProp properties;
    E_CUDA(cudaGetDeviceProperties(&properties, index), "reading the GPU's properties");
    *out = (backend_device_t){.index = index,
                              .memory_bytes = (int64_t)properties.totalGlobalMem,
                              .capability = 10 * properties.major + properties.minor};
    snprintf(out->name, sizeof out->name, "%.63s", properties.name);
    format_uuid(properties.uuid.bytes, out->uuid);
    E_CUDA(cudaDeviceGetPCIBusId(out->pci, sizeof out->pci, index), "reading the GPU's PCI id");
    return ERR_OK;
}

err_t cuda_device_open(const backend_options_t *options)
{
    int index = 0, l2 = 0;
    TRY(choose_gpu(options, &index));
    TRY(describe_device(index, &self.device));
    E_CUDA(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, index), "reading the GPU's properties");
    self.l2_bytes = l2;
    if (self.device.capability < MIN_CAPABILITY)
        RAISE(
            ERR_USAGE,
            "GPU %d, %s, has compute capability %d.%d; 8.0 (Ampere) or later is required: choose another with "
            "--gpus, or use --device cpu",
            index, self.device.name, self.device.capability / 10, self.device.capability % 10);
    E_CUDA(cudaSetDevice(index), "selecting the GPU");
    E_CUDA(cudaStreamCreateWithFlags(&self.stream, cudaStreamNonBlocking), "creating a stream");
    self.open = true;
    E_CUDA(cudaStreamCreateWithFlags(&self.copy_stream, cudaStreamNonBlocking), "creating the copy stream");
    E_CUDA(cudaEventCreateWithFlags(&self.copied, cudaEventDisableTiming), "creating an event");
    self.device.stream = self.stream;
    self.workspace_bytes = options->workspace_bytes > 0 ? options->workspace_bytes : default_workspace;
    return ERR_OK;
}

void cuda_device_pretend(const backend_options_t *options)
{
    self.open = options != NULL;
    if (!options) return;
    self.device = (backend_device_t){.name = "no GPU", .memory_bytes = (int64_t)140 << 30, .capability = 90};
    self.workspace_bytes = options->workspace_bytes > 0 ? options->workspace_bytes : default_workspace;
    self.l2_bytes = (int64_t)50 << 20;
}

void cuda_device_close(void)
{
    if (!self.open) return;
    bool ok = cudaStreamDestroy(self.stream) == cudaSuccess;
    if (self.copy_stream) ok = cudaStreamDestroy(self.copy_stream) == cudaSuccess && ok;
    if (self.copied) ok = cudaEventDestroy(self.copied) == cudaSuccess && ok;
    if (!ok) log_warn("cannot close the GPU's streams");
    self.copy_stream = NULL;
    self.copied = NULL;
    self.open = false;
}

const backend_device_t *cuda_device(void)
{
    return self.open ? &self.device : NULL;
}

cudaStream_t cuda_stream(void)
{
    return self.stream;
}

cudaStream_t cuda_copy_stream(void)
{
    return self.copy_stream;
}

cudaEvent_t cuda_copied(void)
{
    return self.copied;
}

int64_t cuda_workspace_bytes(void)
{
    return self.workspace_bytes;
}

int64_t cuda_l2_bytes(void)
{
    return self.l2_bytes;
}

void cuda_describe(char *out, size_t n_bytes)
{
    char cuda[16], blas[32], dnn[96];
    backend_device_t first;
    version_text(CUDART_VERSION, cuda);
    lt_version(blas, sizeof blas);
    const backend_device_t *device = cuda_device();
    dnn_describe(!device, dnn, sizeof dnn);
    if (!device && describe_device(0, &first) == ERR_OK) device = &first;
    snprintf(out, n_bytes, "%s, CUDA %s, cuBLASLt %s%s%s", device ? device->name : "no GPU", cuda, blas,
             dnn[0] ? ", " : "", dnn);
}
