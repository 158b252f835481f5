/* SPDX-License-Identifier: MIT */
/* Kernels of a training step other than operators; conventions as in kernels.h. */
#ifndef KERNELS_CUDA_KERNELS_STEP_H
#define KERNELS_CUDA_KERNELS_STEP_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "compute/ops/optim_args.h"
#include "compute/tensor/pixels.h"
#include "kernels/cuda/step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* elementwise.cu */
/* name: for traffic_count. y may be a. */
cudaError_t elementwise_add(const char *name, const void *a, const void *b, void *y, int64_t n, bool narrow,
                            cudaStream_t stream);
cudaError_t elementwise_swap(float *a, float *b, int64_t n, cudaStream_t stream);
cudaError_t elementwise_narrow(const float *from, uint16_t *to, int64_t n, cudaStream_t stream);
cudaError_t elementwise_widen(const uint16_t *from, float *to, int64_t n, cudaStream_t stream);

/* optim.cu: optim_args_t of compute/ops/optim_args.h, with values that change between steps by value or
 * address. With spans, trust_ratio.at is an array. */
typedef struct optim_range {
    float *weight;
    const float *gradient;
    float *state[2];
    float *average; /* NULL: none */
    int64_t n;
    const optim_span_t *spans; /* NULL: all elements are treated alike */
    int n_spans;
    step_f64_t lr, gradient_scale, average_decay, correction[2], trust_ratio;
    double weight_decay, momentum, rho, beta[2], epsilon;
    bool nesterov;
    const float *guard; /* if it or the gradients' scale is not finite, nothing is changed */
    float *halted;
} optim_range_t;
cudaError_t optim_sgd(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_adadelta(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_adamw(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_lars(const optim_range_t *range, cudaStream_t stream);

/* pixels.cu: pixels_args_t of compute/ops/backend.h. height × width < 2^31, at most PIXEL_MAX_CHANNELS
 * channels. */
typedef struct pixels_batch {
    const uint8_t *bytes;
    const affine_t *maps; /* NULL: no map */
    int64_t n, height, width, channels;
    pixel_norm_t norm;
    float *pixels;
} pixels_batch_t;
cudaError_t pixels_prepare(const pixels_batch_t *batch, cudaStream_t stream);

/* pixels.cu: an image [height, width, channels] on its canvas; less than 2^31 values. */
typedef struct pixels_placed {
    const uint8_t *bytes;
    int64_t height, width, channels, canvas_height, canvas_width;
    pixel_norm_t norm;
    float *pixels;
} pixels_placed_t;
cudaError_t pixels_place(const pixels_placed_t *image, cudaStream_t stream);

/* reduce.cu: norms of n_sums = 1 or 2 arrays (gradients, then weights) × spans, at most REDUCE_MAX_SUMS;
 * partial[REDUCE_MAX_PARTIALS] receives the sums of blocks, sums[n_sums] those of spans. predictions may be NULL. */
enum { REDUCE_MAX_SUMS = 2048, REDUCE_MAX_PARTIALS = 8 * REDUCE_MAX_SUMS };
cudaError_t reduce_norms(const optim_norms_t *norms, double *partial, double *sums, cudaStream_t stream);
/* reduce.cu: adds the terms of word_hash (base/hash.h) to *sum, which is on the device; bytes: 8-byte aligned. */
cudaError_t reduce_hash(const void *bytes, size_t n_bytes, uint64_t *sum, cudaStream_t stream);
cudaError_t reduce_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                         float *totals, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
