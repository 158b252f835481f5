/* SPDX-License-Identifier: MIT */
/* Recorded steps (CUDA graphs) and the values passed to them, and the marks that time parts of a step. What
 * is recorded is decided by train/run. */
#include <string.h>

#include "base/mem.h"
#include "kernels/cuda/cuda.h"

static struct {
    backend_step_t *values; /* on the device; allocated with the first recording */
    backend_step_t *slots;  /* pinned: BACKEND_SLOTS */
    bool recording;
    cudaEvent_t marks[BACKEND_MARKS];
} self;

static err_t make_values(void)
{
    void *block = NULL;
    if (!self.slots) {
        TRY(cuda_memory.alloc_host(BACKEND_SLOTS * sizeof *self.slots, "a step's values", &block));
        self.slots = block;
    }
    if (self.values) return ERR_OK;
    TRY(cuda_memory.alloc(sizeof *self.values, "a step's values", &block));
    self.values = block;
    return ERR_OK;
}

const void *cuda_recorded(size_t offset)
{
    return self.recording ? (const char *)self.values + offset : NULL;
}

static err_t end_graph(bool failed, void **out)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    *out = NULL;
    self.recording = false;
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
    ASSERT(slot >= 0 && slot < BACKEND_SLOTS);
    TRY(make_values());
    E_CUDA(cudaStreamBeginCapture(cuda_stream(), cudaStreamCaptureModeThreadLocal), "recording a step");
    self.recording = true;
    err_t err = cuda_memory.upload(self.values, &self.slots[slot], sizeof *self.slots);
    if (err != ERR_OK) end_graph(true, &(void *){NULL});
    return err;
}

static err_t launch_graph(void *graph, int slot, const backend_step_t *values)
{
    self.slots[slot] = *values;
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
    if (!self.marks[i]) E_CUDA(cudaEventCreate(&self.marks[i]), "creating an event");
    /* In a recorded step this is an external event, recorded each time the step runs. */
    unsigned flags = self.recording ? cudaEventRecordExternal : cudaEventRecordDefault;
    E_CUDA(cudaEventRecordWithFlags(self.marks[i], cuda_stream(), flags), "marking a time");
    return ERR_OK;
}

err_t cuda_wait(int mark)
{
    E_CUDA(cudaEventSynchronize(self.marks[mark]), "waiting for the GPU");
    return ERR_OK;
}

err_t cuda_seconds(int from, int to, double *out)
{
    float milliseconds = 0;
    E_CUDA(cudaEventElapsedTime(&milliseconds, self.marks[from], self.marks[to]), "reading a time");
    *out = 1e-3 * (double)milliseconds;
    return ERR_OK;
}

void cuda_graph_close(void)
{
    for (int i = 0; i < BACKEND_MARKS; i++) {
        if (self.marks[i]) cudaEventDestroy(self.marks[i]);
        self.marks[i] = NULL;
    }
    if (self.values) cuda_memory.release(self.values);
    if (self.slots) cuda_memory.release_host(self.slots);
    self.values = self.slots = NULL;
}
