/* SPDX-License-Identifier: MIT */
/* Internals of the CUDA backend: one GPU, one stream and one set of buffers per process. Calls enqueue on the
 * stream and do not wait unless a comment says so. */
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "compute/ops/backend.h"

/* Returns ERR_SYSTEM with CUDA's message unless the call succeeds. */
#define E_CUDA(call, what) TRY(cuda_check((call), (what), __FILE__, __LINE__))
err_t cuda_check(cudaError_t status, const char *what, const char *file, int line);

/* device.c */
bool cuda_usable(char *why, size_t n_bytes);
err_t cuda_device_open(const backend_options_t *options);
void cuda_device_close(void);
/* For traffic.c: an H200's description without a device; NULL ends it. */
void cuda_device_pretend(const backend_options_t *options);
const backend_device_t *cuda_device(void);
/* Such as "NVIDIA H200, CUDA 13.0, cuBLASLt 13.0.2, cuDNN 9.19.0". With an open device, cuDNN only if it has
 * been loaded. */
void cuda_describe(char *out, size_t n_bytes);
cudaStream_t cuda_stream(void);
/* For copies concurrent with the work, and the event that marks their end. */
cudaStream_t cuda_copy_stream(void);
cudaEvent_t cuda_copied(void);
/* backend_options_t.workspace_bytes, or the default for 0. */
int64_t cuda_workspace_bytes(void);
/* Size of the L2 cache. */
int64_t cuda_l2_bytes(void);

/* memory.c */
extern const backend_memory_t cuda_memory;

/* graph.c: recorded steps. While one is recorded, cuda_recorded returns the device address that will hold the
 * field of backend_step_t at `offset`; otherwise NULL. For step_u64_t and the like (step.h). */
extern const backend_graph_t cuda_graph;
const void *cuda_recorded(size_t offset);
void cuda_graph_close(void);
err_t cuda_mark(int i);
err_t cuda_wait(int mark);
err_t cuda_seconds(int from, int to, double *out);

/* optim.c */
err_t cuda_optim_sgd(const optim_args_t *args);
err_t cuda_optim_adadelta(const optim_args_t *args);
err_t cuda_optim_adamw(const optim_args_t *args);
err_t cuda_optim_lars(const optim_args_t *args);

/* reduce.c */
err_t cuda_reduce_open(void);
void cuda_reduce_close(void);
err_t cuda_norms(const optim_norms_t *args);
err_t cuda_hash(const void *device, size_t n_bytes, uint64_t seed, uint64_t *out);
err_t cuda_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                 float *totals);

/* elementwise.c */
err_t cuda_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype);
err_t cuda_swap(float *a, float *b, int64_t n);
err_t cuda_narrow(const float *from, uint16_t *to, int64_t n, void *stream);
err_t cuda_widen(const uint16_t *from, float *to, int64_t n, void *stream);

/* peak.c */
err_t cuda_peak_flops(dtype_t compute, backend_peak_t *out);
err_t cuda_peak_bytes(int64_t n_bytes, backend_peak_t *out);

/* traffic.c: backend_t.counted */
const backend_t *traffic_backend(backend_heard_t heard, void *context);

/* pixels.c */
err_t cuda_pixels(const pixels_args_t *args);

#endif
