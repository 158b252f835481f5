/* SPDX-License-Identifier: MIT */
/* Internals of the CUDA backend: one GPU, one stream and one set of buffers per process. Calls enqueue on the
 * stream and do not wait unless a comment says so. Included by C and, with the headers of C that operators need, by
 * .cu files. */
#ifndef KERNELS_CUDA_CUDA_H
#define KERNELS_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/mem.h"
#include "compute/ops/backend.h"
#include "compute/ops/list.h"
#include "compute/ops/op.h"
#include "compute/ops/optim_args.h"
#include "compute/ops/selected.h"

/* One operator each, in the file of its name. */
#define CUDA_DECLARE(KIND, name) extern const op_kernel_t cuda_##name;
OP_LIST_ALL(CUDA_DECLARE)
#undef CUDA_DECLARE

/* Returns ERR_SYSTEM with CUDA's message unless the call succeeds. */
#define E_CUDA(call, what) TRY(cuda_check((call), (what), __FILE__, __LINE__))
err_t cuda_check(cudaError_t status, const char *what, const char *file, int line);

/* device.c */
err_t cuda_device_open(const backend_options_t *options);
void cuda_device_close(void);
/* For the backend that counts: an H200's description without a device; NULL ends it. */
void cuda_device_pretend(const backend_options_t *options);
const backend_device_t *cuda_device(void);
err_t cuda_describe_device(int index, backend_device_t *out);
cudaStream_t cuda_stream(void);
/* For copies concurrent with the work, and the event that marks their end. */
cudaStream_t cuda_copy_stream(void);
cudaEvent_t cuda_copied(void);
/* backend_options_t.workspace_bytes, or the default for 0. */
int64_t cuda_workspace_bytes(void);
/* Size of the L2 cache. */
int64_t cuda_l2_bytes(void);

extern const backend_memory_t cuda_memory;

/* The bytes that kernels have to move. On a backend that counts (backend_t.counted) a launch reports them
 * instead of running. */
extern bool traffic_counts; /* launches are reported, not run */

/* Before each launch: its name, and the bytes of every array that it reads or writes, once each. What a cache
 * could save is not subtracted. Does nothing unless kernels are counted. */
void traffic_count(const char *kernel, int64_t n_bytes);
/* The launch itself; without traffic_count before it, it is reported as "unknown", with 0 bytes. */
void traffic_launch(void);
/* Both, for what is not launched by launch.cuh. */
void traffic_report(const char *kernel, int64_t n_bytes);
void traffic_listen(backend_heard_t heard, void *context);

/* Recorded steps. While one is recorded, cuda_recorded returns the device address that will hold the
 * field of backend_step_t at `offset`; otherwise NULL. For the following types. */
extern const backend_graph_t cuda_graph;
const void *cuda_recorded(size_t offset);

/* A value that changes from step to step and is not in a buffer, as passed to kernels; or, in a recorded step, the
 * address where it will be. */
typedef struct step_u64 {
    uint64_t value;
    const uint64_t *at;
} step_u64_t;
typedef struct step_f32 {
    float value;
    const float *at;
} step_f32_t;
typedef struct step_f64 {
    double value;
    const double *at;
} step_f64_t;

void cuda_graph_close(void);
err_t cuda_mark(int i);
err_t cuda_wait(int mark);
err_t cuda_seconds(int from, int to, double *out);

/* optim.cu */
err_t cuda_optim_sgd(const optim_args_t *args);
err_t cuda_optim_adadelta(const optim_args_t *args);
err_t cuda_optim_adamw(const optim_args_t *args);
err_t cuda_optim_lars(const optim_args_t *args);

/* reduce.cu */
err_t cuda_reduce_open(void);
void cuda_reduce_close(void);
err_t cuda_squares(const optim_norms_t *args);
err_t cuda_norms(const optim_norms_t *args);
err_t cuda_hash(const void *device, size_t n_bytes, uint64_t seed, uint64_t *out);
err_t cuda_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                 float *totals);

/* add.cu: dst += src */
err_t cuda_accumulate(void *dst, const void *src, int64_t n, dtype_t dtype);

/* elementwise.cu */
err_t cuda_swap(float *a, float *b, int64_t n);
err_t cuda_narrow(const float *from, uint16_t *to, int64_t n, void *stream);
err_t cuda_widen(const uint16_t *from, float *to, int64_t n, void *stream);

/* peak.c */
err_t cuda_peak_flops(dtype_t compute, backend_peak_t *out);
err_t cuda_peak_bytes(int64_t n_bytes, backend_peak_t *out);

/* pixels.cu */
err_t cuda_pixels(const pixels_args_t *args);

#ifdef __cplusplus
}
#endif

#endif
