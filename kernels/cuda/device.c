/* SPDX-License-Identifier: MIT */
/* The GPU of this process: which one, its streams and limits; device and pinned memory, and copies ordered on the
 * compute or the copy stream; recorded steps (CUDA graphs) with the values passed to them, and the marks that time
 * parts of a step. train/run decides what to record. Launches can also be counted without a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kernels/cuda/cuda.h"

/* Bytes that kernels have to move. */
bool traffic_counts;

static struct {
    backend_heard_t heard;
    void *context;
    const char *kernel; /* of the next launch */
    int64_t n_bytes;
} traffic;

void traffic_listen(backend_heard_t heard, void *context)
{
    traffic.heard = heard;
    traffic.context = context;
}

void traffic_count(const char *kernel, int64_t n_bytes)
{
    traffic.kernel = kernel;
    traffic.n_bytes = n_bytes;
}

void traffic_launch(void)
{
    traffic.heard(traffic.context, traffic.kernel ? traffic.kernel : "unknown",
                  traffic.kernel ? traffic.n_bytes : 0);
    traffic.kernel = NULL;
}

void traffic_report(const char *kernel, int64_t n_bytes)
{
    traffic_count(kernel, n_bytes);
    traffic_launch();
}

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

err_t cuda_describe_device(int index, backend_device_t *out)
{
    struct cudaDeviceProp properties;
    E_CUDA(cudaGetDeviceProperties(&properties, index), "reading the GPU's properties");
    *out = (backend_device_t){.index = index,
                              .memory_bytes = (int64_t)properties.totalGlobalMem,
                              .capability = 10 * properties.major + properties.minor};
    snprintf(out->name, sizeof out->name, "%.63s", properties.name);
    size_t used = (size_t)snprintf(out->uuid, sizeof out->uuid, "GPU-");
    for (int i = 0; i < 16; i++)
        used += (size_t)snprintf(out->uuid + used, sizeof out->uuid - used, "%02x",
                                 (unsigned char)properties.uuid.bytes[i]);
    E_CUDA(cudaDeviceGetPCIBusId(out->pci, sizeof out->pci, index), "reading the GPU's PCI id");
    return ERR_OK;
}

err_t cuda_device_open(const backend_options_t *options)
{
    int n = 0, index = 0, l2 = 0;
    E_CUDA(cudaGetDeviceCount(&n), "looking for GPUs");
    if (options->gpus && options->gpus[0])
        TRY(pick_from_list(options->gpus, options->local_rank, n, &index));
    else
        index = options->local_rank % n;
    TRY(cuda_describe_device(index, &self.device));
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

/* Memory. Errors say how much was needed and how much is free. */

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
    .sync = memory_sync,
};

/* Recorded steps. */

static struct {
    backend_step_t *values; /* on the device; allocated with the first recording */
    backend_step_t *slots;  /* pinned: BACKEND_SLOTS */
    bool recording;
    cudaEvent_t marks[BACKEND_MARKS];
} steps;

const void *cuda_recorded(size_t offset)
{
    return steps.recording ? (const char *)steps.values + offset : NULL;
}

static err_t end_graph(bool failed, void **out)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *out = NULL;
    steps.recording = false;
    cudaError_t status = cudaStreamEndCapture(cuda_stream(), &graph);
    /* An error during recording takes precedence. */
    if (!failed && status == cudaSuccess) status = cudaGraphInstantiate(&exec, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (failed) {
        cudaGetLastError();
        return ERR_OK;
    }
    E_CUDA(status, "recording a step");
    *out = exec;
    return ERR_OK;
}

static err_t begin_graph(int slot)
{
    void *block = NULL;
    ASSERT(slot >= 0 && slot < BACKEND_SLOTS);
    if (!steps.slots) {
        TRY(cuda_memory.alloc_host(BACKEND_SLOTS * sizeof *steps.slots, "a step's values", &block));
        steps.slots = block;
    }
    if (!steps.values) {
        TRY(cuda_memory.alloc(sizeof *steps.values, "a step's values", &block));
        steps.values = block;
    }
    E_CUDA(cudaStreamBeginCapture(cuda_stream(), cudaStreamCaptureModeThreadLocal), "recording a step");
    steps.recording = true;
    err_t err = cuda_memory.upload(steps.values, &steps.slots[slot], sizeof *steps.slots);
    if (err != ERR_OK) end_graph(true, &(void *){NULL});
    return err;
}

static err_t launch_graph(void *graph, int slot, const backend_step_t *values)
{
    steps.slots[slot] = *values;
    E_CUDA(cudaGraphLaunch(graph, cuda_stream()), "running a recorded step");
    return ERR_OK;
}

static void release_graph(void *graph)
{
    cudaGraphExecDestroy(graph);
}

const backend_graph_t cuda_graph = {
    .begin = begin_graph, .end = end_graph, .launch = launch_graph, .release = release_graph};

err_t cuda_mark(int i)
{
    ASSERT(i >= 0 && i < BACKEND_MARKS);
    if (!steps.marks[i]) E_CUDA(cudaEventCreate(&steps.marks[i]), "creating an event");
    /* In a recorded step this is an external event, recorded each time the step runs. */
    unsigned flags = steps.recording ? cudaEventRecordExternal : cudaEventRecordDefault;
    E_CUDA(cudaEventRecordWithFlags(steps.marks[i], cuda_stream(), flags), "marking a time");
    return ERR_OK;
}

err_t cuda_wait(int mark)
{
    E_CUDA(cudaEventSynchronize(steps.marks[mark]), "waiting for the GPU");
    return ERR_OK;
}

err_t cuda_seconds(int from, int to, double *out)
{
    float milliseconds = 0;
    E_CUDA(cudaEventElapsedTime(&milliseconds, steps.marks[from], steps.marks[to]), "reading a time");
    *out = 1e-3 * (double)milliseconds;
    return ERR_OK;
}

void cuda_graph_close(void)
{
    for (int i = 0; i < BACKEND_MARKS; i++) {
        if (steps.marks[i]) cudaEventDestroy(steps.marks[i]);
        steps.marks[i] = NULL;
    }
    if (steps.values) cuda_memory.release(steps.values);
    if (steps.slots) cuda_memory.release_host(steps.slots);
    steps.values = steps.slots = NULL;
}
