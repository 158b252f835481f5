/* SPDX-License-Identifier: MIT */
/* The definition of each operator with attributes, independent of the backend: formula, tensors, attributes.
 * What a call passes beyond tensors is in op_args_t. Operators without attributes are defined in the head of their file
 * in this folder. Images are NHWC: [n, h, w, c]; matrices are [n, features]. */
#ifndef COMPUTE_OPS_OP_ATTR_H
#define COMPUTE_OPS_OP_ATTR_H

#include <stdbool.h>
#include <stdint.h>

/* Operations that a fused layer (graph_fuse) applies to its result before it stores y: OP_RELU,
 * then, for images, OP_POOL2D's maximum over adjacent windows without padding. Results equal those of the
 * separate operators. Supported by kernels with `fuses`. All 0: none. */
typedef struct epilogue {
    bool relu;
    int pool_h, pool_w; /* 0: no pooling; only with relu, and only after conv2d */
} epilogue_t;

/* y[n,oh,ow,k] = b[k] + Σ_{r,s,c} x[n, oh·stride−pad+r·dilation, …, g·C+c] · w[k,r,s,c], C = channels/groups,
 * g the group of k. Cross-correlation, which every framework calls convolution. Outside the image x is 0.
 * Output size: (in + 2·pad − dilation·(kernel−1) − 1) / stride + 1, rounded down.
 * param 0: weight [out_channels, kernel_h, kernel_w, in_channels/groups]
 * param 1: bias [out_channels], absent unless has_bias */
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

/* y[n,o] = b[o] + Σ_i x[n,i] · w[o,i]. x with more dimensions is flattened in memory order.
 * param 0: weight [out_features, in_features]
 * param 1: bias [out_features], absent unless has_bias */
typedef struct linear_attr {
    int64_t out_features;
    bool has_bias;
    epilogue_t epilogue;
} linear_attr_t;

/* Per channel. Max: pixels outside the image never win; of equal pixels the first in row-major order of the
 * window gets the gradient; a NaN in the window gives NaN. Average: over the pixels inside the image only;
 * padding is not counted. Sizes as for conv2d with dilation 1; pad < kernel. Global pooling is a window as
 * large as the image. */
typedef enum pool_mode { POOL_MAX, POOL_AVG } pool_mode_t;
typedef struct pool2d_attr {
    pool_mode_t mode;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int pad_h, pad_w;
} pool2d_attr_t;

/* Training: y = x · keep_i / (1 − rate), where element i is kept if its word of rng_dropout_block
 * (base/rng.h; key, layer and step from the call, sample = first_sample + row; i counts within the sample) is
 * < (1−rate)·2^32, rounded down. Evaluation: y = x. */
typedef struct dropout_attr {
    double rate; /* in [0, 1) */
} dropout_attr_t;

/* Over (n, h, w) per channel, the last dimension. Training: samples are divided into groups in order; y =
 * γ·(x−mean)/√(var+epsilon) + β with the group's mean and biased variance; running ← running +
 * momentum·(average over the groups − running), with the unbiased variance (m/(m−1), m = n·h·w of the group;
 * equal to the biased one if m is 1). With sum_shared the sums over a group, here and in backward's dx,
 * include the groups of all ranks that share statistics. Evaluation: with the running values. Ioffe &
 * Szegedy, "Batch normalization", 2015; groups: Hoffer et al., "Train longer, generalize better", 2017,
 * section 4.
 * param 0: γ [c], param 1: β [c]
 * state 0: running mean [c], state 1: running variance [c]
 * Frozen: training uses the running values, as evaluation does, and leaves them; dx = dy·γ/√(running
 * variance+epsilon); γ and β have no gradients; epsilon may be 0.
 * Fused: with a second input of the same shape, OP_ADD's sum of both, then the epilogue; in float32, y and
 * all gradients are bitwise those of the separate operators. Kernels with `fuses` support both. */
typedef struct batch_norm_attr {
    double momentum, epsilon;
    int64_t group; /* samples normalized together, the last group may be smaller; 0: the full batch */
    epilogue_t epilogue;
    bool frozen;
} batch_norm_attr_t;

/* For each sample and each of `groups` runs of adjacent channels: y = γ·(x−mean)/√(var+epsilon) + β, with the mean
 * and biased variance of all pixels of these channels; in training and evaluation alike. Wu & He, "Group
 * normalization", 2018.
 * param 0: γ [c], param 1: β [c]; no states
 * Fused: as batch_norm. */
typedef struct group_norm_attr {
    double epsilon;
    int groups; /* a divisor of the channels */
    epilogue_t epilogue;
} group_norm_attr_t;

/* x0: logits [n, classes], x1: labels [n], int32, each in [0, classes), or -1; x2: weights w [n], optional: 1.
 * Target t_k = (1−s)·[k = label] + s/classes, s = label_smoothing. y0[n] = −w · Σ_k t_k · log softmax(x)_k,
 * computed after subtracting the row's maximum; NaN or infinite logits give a non-finite loss. y1[n], int32, may
 * be absent: the prediction, the index of the largest logit (the first of equals). Backward: dx0 = w · (softmax(x)
 * − t) · scale · weight; dy is not read. A row labelled -1 has a loss and a gradient of 0. */
typedef struct softmax_xent_attr {
    double label_smoothing; /* in [0, 1) */
} softmax_xent_attr_t;

/* Transposed convolution with stride = kernel = k, so that windows do not overlap: y[n, k·h+i, k·w+j, o] = b[o] +
 * Σ_c x[n,h,w,c] · w[i,j,o,c].
 * param 0: weight [kernel, kernel, out_channels, in_channels]
 * param 1: bias [out_channels], absent unless has_bias */
typedef struct deconv2d_attr {
    int64_t out_channels;
    int kernel;
    bool has_bias;
} deconv2d_attr_t;

/* Features of regions, from the level of a feature pyramid that fits their size (box_level): He et al., "Mask
 * R-CNN", 2017; torchvision's MultiScaleRoIAlign.
 * x0 to x3: levels [n, h, w, c] with strides of 4, 8, 16 and 32 pixels; x4: regions [rows, 5], float32: index of
 * the image, x1, y1, x2, y2 in pixels; no gradient. y: [rows, height, width, c]. A region is divided into height × width
 * bins. y is the mean over samples × samples points, in the middle of equal parts of the bin, of the level
 * interpolated between the centres of cells. A point more than one cell outside is 0. */
typedef struct roi_align_attr {
    int height, width;
    int samples; /* 0: as many as the bin has cells, rounded up */
    /* Cells have their centres at half numbers, as Detectron2's aligned RoIAlign has it. Otherwise at whole numbers,
     * and a region has at least one cell. */
    bool aligned;
} roi_align_attr_t;
enum { ROI_ALIGN_LEVELS = 4, ROI_ALIGN_LOWEST = 2, ROI_ALIGN_VALUES = 5 };

/* Loss of box regression, of those entries that have a label: Girshick, "Fast R-CNN", 2015. x0: predictions [n,
 * …], four for each entry and class; x1: labels, int32 [n, …], the class whose predictions count; x2: weights, as
 * many as labels; x3: targets [n, …], four an entry. Labels below `lowest` count for nothing; with one class all
 * others select it. Fewer labels than entries hold for as many consecutive entries each. y[n] = Σ weight · Σ_4 f(x − t), with f(d) = d²/2β if |d| < β, else |d| − β/2.
 * Backward: dx0 = f′ · the entry's weight · scale · weight, 0 elsewhere; dy is not read. */
typedef struct smooth_l1_attr {
    double beta; /* 0: |d| */
    int lowest;  /* 0; 1 if label 0 is the background */
} smooth_l1_attr_t;

typedef union op_attr {
    conv2d_attr_t conv2d;
    linear_attr_t linear;
    pool2d_attr_t pool2d;
    dropout_attr_t dropout;
    batch_norm_attr_t batch_norm;
    group_norm_attr_t group_norm;
    softmax_xent_attr_t softmax_xent;
    deconv2d_attr_t deconv2d;
    roi_align_attr_t roi_align;
    smooth_l1_attr_t smooth_l1;
} op_attr_t;

#endif
