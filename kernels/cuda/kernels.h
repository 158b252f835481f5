/* SPDX-License-Identifier: MIT */
/* C interface of the kernels: one launcher each, defined in the .cu file named above it. Buffers are device
 * memory; a launcher returns the error of the launch and does not wait. void * tensors are float32, or, if
 * `narrow`, all of them are bfloat16. This header has the operators, without those of detectors, which are in
 * kernels_detection.h, and parts of convolutions and linear layers, in kernels_product.h. Everything else a step
 * needs is in kernels_step.h. */
#ifndef KERNELS_CUDA_KERNELS_H
#define KERNELS_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cuda/step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* relu.cu */
cudaError_t relu_forward(const void *x, void *y, int64_t n, bool narrow, cudaStream_t stream);
cudaError_t relu_backward(const void *y, const void *dy, void *dx, int64_t n, bool narrow,
                          cudaStream_t stream);

/* batch_norm.cu. A row is all channels of one pixel. With dy the calls compute the gradient. */
typedef struct norm {
    int64_t n_c, n_groups, n_rows, group_rows; /* the last group may be smaller */
    int n_sum_parts, n_apply_parts;            /* blocks per group */
    bool shared;                               /* the sums go through the host before use */
    bool narrow, relu;
    double momentum, epsilon;
    const void *x, *shortcut,
        *dy;                  /* shortcut: what is added before ReLU; NULL: nothing. 16-byte aligned if the
                                      channels are whole packs of 16 bytes, and so are y, dx and dshortcut */
    void *y, *dx, *dshortcut; /* dx, dshortcut: may be NULL */
    const float *gamma, *beta;
    float *dgamma, *dbeta, *running_mean, *running_variance;
    /* With a shortcut and ReLU: a bit for each element that ReLU passed, in batch_norm_mask_bytes. NULL: forward
     * writes none, and backward computes y again. */
    uint8_t *mask;
    double *partial; /* [groups, c, parts, 2] */
    double *sums;    /* [groups, 2, c], and for one group its row count */
    float *moments;  /* [groups, 2, c]: mean, 1/std; NULL: use the running values */
    float
        *correction; /* [groups, 2, c], backward: subtracted from dy directly, and times x − mean; NULL: 0 */
} norm_t;
/* Sets n_sum_parts and n_apply_parts from the shape. */
void batch_norm_divide(norm_t *n);
size_t batch_norm_mask_bytes(const norm_t *n);
/* The sums of each group: of x and x², or of dy and dy · (x − mean). For one group that is not shared, also
 * does the work of batch_norm_finish. */
cudaError_t batch_norm_sum(const norm_t *n, cudaStream_t stream);
/* From the sums: moments and running values, or correction, dgamma and dbeta (for one group these come from
 * batch_norm_sum, from this rank's rows only). */
cudaError_t batch_norm_finish(const norm_t *n, cudaStream_t stream);
/* Computes y, or dx and dshortcut. */
cudaError_t batch_norm_apply(const norm_t *n, cudaStream_t stream);

/* dropout.cu. mask: see dropout.c; may be NULL in forward. Both may work in place. */
typedef struct dropout {
    int64_t n_samples, n_sample; /* n_sample: elements per sample */
    uint64_t threshold, key;     /* words below the threshold are kept */
    uint32_t layer;
    float scale; /* of kept elements */
    bool narrow;
    step_u64_t step, first_sample;
} dropout_t;
cudaError_t dropout_forward(const dropout_t *d, const void *x, void *y, uint8_t *mask, cudaStream_t stream);
cudaError_t dropout_backward(const dropout_t *d, const void *dy, const uint8_t *mask, void *dx,
                             cudaStream_t stream);

/* pool2d.cu */
typedef struct pool {
    int64_t n, n_c;
    int in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    bool narrow;
    bool max;        /* else average */
    bool wide_index; /* saved is int32_t, else uint8_t */
    void *saved;     /* max only, see pool2d.c; may be NULL in forward */
} pool_t;
cudaError_t pool2d_forward(const pool_t *p, const void *x, void *y, cudaStream_t stream);
cudaError_t pool2d_backward(const pool_t *p, const void *dy, void *dx, cudaStream_t stream);

/* softmax_xent.cu */
typedef struct softmax {
    int64_t n, n_class;
    double smoothing;
    const float *x;
    const int32_t *labels;
    const float *weights; /* NULL: 1 */
    float *loss;
    int32_t *predictions; /* may be NULL */
    float *saved;         /* weight · (softmax(x) − t), [n, classes]; may be NULL */
} softmax_t;
cudaError_t softmax_xent_forward(const softmax_t *s, cudaStream_t stream);
cudaError_t softmax_xent_backward(const float *saved, step_f32_t loss_scale, float weight, float *dx,
                                  int64_t n, cudaStream_t stream);

/* sigmoid_bce.cu */
typedef struct bce {
    int64_t n, n_class;
    const float *x, *targets;
    float *loss;
} bce_t;
cudaError_t sigmoid_bce_forward(const bce_t *b, cudaStream_t stream);
/* dx = (σ(x) − t) · loss_scale · factor; n: elements. */
cudaError_t sigmoid_bce_backward(const float *x, const float *targets, step_f32_t loss_scale, float factor,
                                 float *dx, int64_t n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
