/* Operators: what each one computes, its attributes and shapes, independent of who computes it.
 *
 * Pictures are NHWC, [n, h, w, c]; matrices are [n, features]. */
#ifndef COMPUTE_OPS_OP_DESC_H
#define COMPUTE_OPS_OP_DESC_H

#include <stdbool.h>
#include <stdint.h>

#include "compute/tensor/dtype.h"
#include "compute/tensor/shape.h"

enum { OP_MAX_INPUTS = 2, OP_MAX_PARAMS = 2, OP_MAX_STATES = 2 };

typedef enum op_kind {
    OP_CONV2D,
    OP_LINEAR,
    OP_POOL2D,
    OP_RELU,
    OP_DROPOUT,
    OP_ADD,
    OP_BATCH_NORM,
    OP_SOFTMAX_XENT,
    OP_SIGMOID_BCE,
    OP_KIND_COUNT
} op_kind_t;

/* What a fused layer (compute/graph/fuse.h) does to its products before they are y, as the operators of these
 * names would: OP_RELU, then, of pictures, OP_POOL2D's maximum over windows side by side without padding.
 * Backends whose kernel has `fuses` know it. All 0: nothing. */
typedef struct epilogue {
    bool relu;
    int pool_h, pool_w; /* 0: no pooling; only with relu, and behind conv2d */
} epilogue_t;

/* y[n,oh,ow,k] = b[k] + Σ_{r,s,c} x[n, oh·stride−pad+r·dilation, …, g·C+c] · w[k,r,s,c], C = channels/groups,
 * g the group of k. Cross-correlation, as every framework calls convolution. Outside the picture x is 0.
 * Output size: (in + 2·pad − dilation·(kernel−1) − 1) / stride + 1, rounded down.
 * param 0: weight [out_channels, kernel_h, kernel_w, in_channels/groups]; param 1: bias [out_channels],
 * absent unless has_bias. */
typedef struct conv2d_attr {
    int64_t out_channels;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int pad_h, pad_w;           /* both sides */
    int dilation_h, dilation_w; /* 1: dense */
    int groups;
    bool has_bias;
    epilogue_t epilogue;
} conv2d_attr_t;

/* y[n,o] = b[o] + Σ_i x[n,i] · w[o,i]. x of more dimensions is flattened in its memory order.
 * param 0: weight [out_features, in_features]; param 1: bias [out_features], absent unless has_bias. */
typedef struct linear_attr {
    int64_t out_features;
    bool has_bias;
    epilogue_t epilogue;
} linear_attr_t;

/* Per channel. Max: cells outside the picture never win; of equal cells the first in row-major order of the
 * window gets the gradient; a NaN in the window gives NaN. Average: over the cells inside the picture only
 * (padding is not counted). Sizes as conv2d with dilation 1; pad < kernel. Global pooling is a window as
 * large as the picture. */
typedef enum pool_mode { POOL_MAX, POOL_AVG } pool_mode_t;
typedef struct pool2d_attr {
    pool_mode_t mode;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int pad_h, pad_w;
} pool2d_attr_t;

/* Training: y = x · keep_i / (1 − rate), where element i is kept when its word of rng_dropout_block
 * (base/rng.h; key, layer, step, sample from op_args_t; i counts inside the sample) is < (1−rate)·2^32,
 * rounded down. Evaluation: y = x. */
typedef struct dropout_attr {
    double rate; /* in [0, 1) */
} dropout_attr_t;

/* Over (n, h, w) per channel, the last dimension. Training: samples fall into groups in their order; y =
 * γ·(x−mean)/√(var+epsilon) + β with the group's mean and biased variance; running ← running +
 * momentum·(average over the groups − running), with the unbiased variance (m/(m−1), m = n·h·w of the group;
 * equal to the biased one where m is 1). With op_args_t.sum_shared the sums over a group, here and in
 * backward's dx, go over the groups of all who share. Evaluation: with the running values. param 0: γ [c];
 * param 1: β [c]; state 0: running mean [c]; state 1: running variance [c]. Ioffe & Szegedy, "Batch
 * normalization", 2015; groups: Hoffer et al., "Train longer, generalize better", 2017, section 4.
 * Fused: with a second input of the same shape, OP_ADD's sum of both, then the epilogue; in float32 y and all
 * gradients are bit for bit those of the operators one after another. Kernels with `fuses` know both. */
typedef struct batch_norm_attr {
    double momentum, epsilon;
    int64_t group; /* samples normalised together, the last group may have fewer; 0: all of the batch */
    epilogue_t epilogue;
} batch_norm_attr_t;

/* x: logits [n, classes]; labels from op_args_t. Target t_k = (1−s)·[k = label] + s/classes, s =
 * label_smoothing. y[n] = −Σ_k t_k · log softmax(x)_k, computed with the row's maximum subtracted; NaN or
 * infinite logits give a non-finite loss. prediction[n] = index of the largest logit (the first of equals).
 * Backward: dx = (softmax(x) − t) · loss_scale; dy is not read. */
typedef struct softmax_xent_attr {
    double label_smoothing; /* in [0, 1) */
} softmax_xent_attr_t;

/* OP_SIGMOID_BCE, for samples that have any number of classes: x: logits [n, classes]; targets t [n, classes]
 * in [0, 1] from op_args_t. y[n] = 1/classes · Σ_k max(x,0) − x·t + log(1 + e^−|x|), which is −t·log σ(x) −
 * (1−t)·log(1−σ(x)) without overflow: what PyTorch's MultiLabelSoftMarginLoss is of a sample, and the mean
 * over samples its BCEWithLogitsLoss. NaN or infinite logits give a non-finite loss. Backward: dx = (σ(x) −
 * t) · loss_scale / classes; dy is not read. No attributes, and no predictions: who ranks samples takes the
 * logits.
 *
 * OP_RELU: y = max(x, 0), NaN stays NaN; backward: dx = dy where y > 0, else 0. OP_ADD: y = x0 + x1, equal
 * shapes; backward: dx0 = dx1 = dy. Neither has attributes. */

typedef struct op_desc {
    op_kind_t kind;
    dtype_t dtype; /* of parameters and their gradients, and of what is computed: DTYPE_F32 */
    /* How x[i] and its gradient, y and its gradient lie in memory: DTYPE_F32, or DTYPE_BF16 on backends that
     * have it (backend_t.stores_bf16), of conv2d only where its products are of that, too. What lies there as
     * bfloat16 is read as it is, and rounded as bf16_round does when it is written (a CPU's instructions for
     * products may write 0 for denormal numbers). */
    dtype_t x_dtype[OP_MAX_INPUTS], y_dtype;
    /* Of products: DTYPE_F32, or, for conv2d and linear, DTYPE_TF32 or DTYPE_BF16.
     * TF32: float32 in memory; a GPU may cut the fractions of x, the weight and dy to 10 bits where it
     * multiplies, sums stay float32. Backends that have it say so (op_kernel_t.tf32).
     * BF16: x, the weight and dy are rounded as
     * bf16_round does (compute/tensor/bf16.h) wherever a formula reads them; dy also where it is only added
     * up, for the bias. Sums, the bias and all gradients of parameters stay float32. Instructions of the CPU
     * for it may take denormal numbers for 0. */
    dtype_t compute;
    int n_inputs;
    shape_t x[OP_MAX_INPUTS]; /* set by the caller, batch included */
    union {
        conv2d_attr_t conv2d;
        linear_attr_t linear;
        pool2d_attr_t pool2d;
        dropout_attr_t dropout;
        batch_norm_attr_t batch_norm;
        softmax_xent_attr_t softmax_xent;
    } attr;
    /* Filled in by op_infer. */
    shape_t y;
    int n_params, n_states;
    shape_t param[OP_MAX_PARAMS];
    shape_t state[OP_MAX_STATES];
} op_desc_t;

#endif
