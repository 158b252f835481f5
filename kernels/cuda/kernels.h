/* The kernels as C sees them: one launcher each, defined in the .cu file named above it. Buffers are device
 * memory; a launcher returns the error of the launch and does not wait. */
#ifndef KERNELS_CUDA_KERNELS_H
#define KERNELS_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "tensor/affine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A number that changes from step to step: the value, or, in a recorded step, where it will be. */
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

/* relu.cu */
cudaError_t relu_forward(const float *x, float *y, int64_t n, cudaStream_t stream);
cudaError_t relu_backward(const float *y, const float *dy, float *dx, int64_t n, cudaStream_t stream);

/* add.cu */
cudaError_t add_forward(const float *a, const float *b, float *y, int64_t n, cudaStream_t stream);

/* batch_norm.cu. A row is all channels of one cell. With dy it goes backward. */
typedef struct norm {
    int64_t n_c, n_groups, n_rows, group_rows; /* the last group may have fewer rows */
    int n_sum_parts, n_apply_parts;            /* blocks that share a group's rows */
    bool shared;                               /* the sums go through the host before they are used */
    double momentum, epsilon;
    const float *x, *dy, *gamma, *beta;
    float *y, *dx, *dgamma, *dbeta, *running_mean, *running_variance;
    double *partial;   /* [groups, c, parts, 2] */
    double *sums;      /* [groups, 2, c], and of one group the number of its rows */
    float *moments;    /* [groups, 2, c]: mean, 1/std; NULL: y with the running values */
    float *correction; /* [groups, 2, c], backward: taken from dy as it is, and times x − mean */
} norm_t;
/* The sums of each group: of x and x², or of dy and dy · (x − mean). Of one group that is not shared also what
 * batch_norm_finish does. */
cudaError_t batch_norm_sum(const norm_t *n, cudaStream_t stream);
/* From the sums: moments and running values, or correction, dgamma and dbeta (of one group they are known
 * since batch_norm_sum, from our rows alone). */
cudaError_t batch_norm_finish(const norm_t *n, cudaStream_t stream);
/* y, or dx */
cudaError_t batch_norm_apply(const norm_t *n, cudaStream_t stream);

/* conv2d.cu */

/* dropout.cu. mask: as dropout.c says; may be NULL forward. Both may be in place. */
typedef struct dropout {
    int64_t n_samples, n_sample; /* n_sample: elements of one */
    uint64_t threshold, key;     /* kept: words below the threshold */
    uint32_t layer;
    float scale; /* of what is kept */
    step_u64_t step, first_sample;
} dropout_t;
cudaError_t dropout_forward(const dropout_t *d, const float *x, float *y, uint8_t *mask, cudaStream_t stream);
cudaError_t dropout_backward(const dropout_t *d, const float *dy, const uint8_t *mask, float *dx,
                             cudaStream_t stream);

/* elementwise.cu */
cudaError_t elementwise_accumulate(float *dst, const float *src, int64_t n, cudaStream_t stream);
cudaError_t elementwise_swap(float *a, float *b, int64_t n, cudaStream_t stream);
cudaError_t elementwise_narrow(const float *from, uint16_t *to, int64_t n, cudaStream_t stream);
cudaError_t elementwise_widen(const uint16_t *from, float *to, int64_t n, cudaStream_t stream);

/* linear.cu */

/* optim.cu: optim_args_t of ops/backend.h, with what changes from step to step as it is found. */
typedef struct optim_range {
    float *weight;
    const float *gradient;
    float *state[2];
    float *average; /* NULL: none */
    int64_t n;
    step_f64_t lr, gradient_scale, average_decay, correction[2];
    double weight_decay, momentum, rho, beta[2], epsilon, trust_ratio;
    bool nesterov;
} optim_range_t;
cudaError_t optim_sgd(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_adadelta(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_adamw(const optim_range_t *range, cudaStream_t stream);
cudaError_t optim_lars(const optim_range_t *range, cudaStream_t stream);

/* pixels.cu: pixels_args_t of ops/backend.h. height × width < 2^31. */
typedef struct pixels_batch {
    const uint8_t *bytes;
    const affine_t *maps; /* NULL: as they are */
    int64_t n, height, width, channels;
    double mean, std;
    float *pixels;
} pixels_batch_t;
cudaError_t pixels_prepare(const pixels_batch_t *batch, cudaStream_t stream);

/* pool2d.cu */
typedef struct pool {
    int64_t n, n_c;
    int in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
    bool max;        /* or the average */
    bool wide_index; /* saved is int32_t, not uint8_t */
    void *saved;     /* of max, as pool2d.c says; may be NULL forward */
} pool_t;
cudaError_t pool2d_forward(const pool_t *p, const float *x, float *y, cudaStream_t stream);
cudaError_t pool2d_backward(const pool_t *p, const float *dy, float *dx, cudaStream_t stream);

/* reduce.cu: sum_squares keeps the sums of its blocks in partial[REDUCE_MAX_PARTIALS]; *out is on the device.
 */
enum { REDUCE_MAX_PARTIALS = 1024 };
cudaError_t reduce_sum_squares(const float *x, int64_t n, double *partial, double *out, cudaStream_t stream);
cudaError_t reduce_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                         float *totals, cudaStream_t stream);

/* softmax_xent.cu */
typedef struct softmax {
    int64_t n, n_class;
    double smoothing;
    const float *x;
    const int32_t *labels;
    float *loss;
    int32_t *predictions; /* may be NULL */
    float *saved;         /* softmax(x) − t, [n, classes]; may be NULL */
} softmax_t;
cudaError_t softmax_xent_forward(const softmax_t *s, cudaStream_t stream);
cudaError_t softmax_xent_backward(const float *saved, step_f32_t loss_scale, float *dx, int64_t n,
                                  cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
