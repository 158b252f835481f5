/* Operators: what each computes (attributes, shapes, buffers), independent of who computes it.
 *
 * The life of one operator: op_infer checks the input shapes and fills in every other one; op_plan binds it
 * to a backend (primitives made, algorithms chosen, buffer sizes known); op_forward and op_backward run it;
 * op_free ends it. One planned operator serves one batch size. All calls are Not collective.
 *
 * Pictures are NHWC, [n, h, w, c]; matrices are [n, features]. Every buffer belongs to the caller. */
#ifndef OPS_OP_H
#define OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

enum { OP_MAX_INPUTS = 2, OP_MAX_PARAMS = 2, OP_MAX_STATES = 2, OP_KEY_MAX = 192 };
enum { OP_MAX_ALGORITHMS = 16, OP_ALGORITHM_MAX = 24 }; /* for one pass; bytes of a name */

typedef enum op_kind {
    OP_CONV2D,
    OP_LINEAR,
    OP_POOL2D,
    OP_RELU,
    OP_DROPOUT,
    OP_ADD,
    OP_BATCH_NORM,
    OP_SOFTMAX_XENT,
    OP_KIND_COUNT
} op_kind_t;

/* What a fused layer (nn/fuse.h) does to its products before they are y, as the operators of these names
 * would: OP_RELU, then, of pictures, OP_POOL2D's maximum over windows side by side without padding. Backends
 * whose kernel has `fuses` know it. All 0: nothing. */
typedef struct epilogue {
    bool relu;
    int pool_h, pool_w; /* 0: no pooling; only with relu */
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
 * normalization", 2015; groups: Hoffer et al., "Train longer, generalize better", 2017, section 4. */
typedef struct batch_norm_attr {
    double momentum, epsilon;
    int64_t group; /* samples normalised together, the last group may have fewer; 0: all of the batch */
} batch_norm_attr_t;

/* x: logits [n, classes]; labels from op_args_t. Target t_k = (1−s)·[k = label] + s/classes, s =
 * label_smoothing. y[n] = −Σ_k t_k · log softmax(x)_k, computed with the row's maximum subtracted; NaN or
 * infinite logits give a non-finite loss. prediction[n] = index of the largest logit (the first of equals).
 * Backward: dx = (softmax(x) − t) · loss_scale; dy is not read. */
typedef struct softmax_xent_attr {
    double label_smoothing; /* in [0, 1) */
} softmax_xent_attr_t;

/* OP_RELU: y = max(x, 0), NaN stays NaN; backward: dx = dy where y > 0, else 0. OP_ADD: y = x0 + x1, equal
 * shapes; backward: dx0 = dx1 = dy. Neither has attributes. */

typedef struct op_desc {
    op_kind_t kind;
    dtype_t dtype; /* of x, y, parameters and gradients */
    /* Of products: DTYPE_F32, or, for conv2d and linear, DTYPE_BF16. Then x, the weight and dy are rounded as
     * bf16_round does (tensor/bf16.h) wherever a formula reads them; dy also where it is only added up, for
     * the bias. Sums, the bias, y and all gradients stay float32. Instructions of the CPU for it may take
     * denormal numbers for 0. */
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

/* A backend may know several algorithms for one operator and choose one for each pass apart: for y, for dx,
 * and for the gradients of the parameters. */
typedef enum op_pass { OP_FORWARD, OP_BACKWARD_DATA, OP_BACKWARD_WEIGHTS, OP_PASS_COUNT } op_pass_t;

/* "forward", "backward_data", "backward_weights" */
extern const char *const op_pass_names[OP_PASS_COUNT];

/* Names of algorithms, the backend's own; "": its own rule. */
typedef struct op_algorithms {
    char name[OP_PASS_COUNT][OP_ALGORITHM_MAX];
} op_algorithms_t;

struct backend;

typedef struct op {
    op_desc_t desc;
    const struct backend *backend;
    bool training;            /* planned for backward too */
    size_t n_saved_bytes;     /* kept from forward to backward; set by the backend's plan */
    size_t n_workspace_bytes; /* scratch inside one call; contents need not survive */
    void *plan;               /* the backend's own */
    /* Set by the backend's plan: what computes each planned pass, "" where there is no choice. */
    op_algorithms_t algorithms;
} op_t;

typedef struct op_args {
    const void *x[OP_MAX_INPUTS];
    void *y;
    const void *dy;
    void *dx[OP_MAX_INPUTS]; /* NULL: this gradient is not wanted */
    const void *param[OP_MAX_PARAMS];
    /* Overwritten, not added to. Operators that have a choice of algorithms take NULL in all: these gradients
     * are not wanted. */
    void *dparam[OP_MAX_PARAMS];
    void *state[OP_MAX_STATES];
    void *saved;     /* n_saved_bytes, 64-byte aligned */
    void *workspace; /* n_workspace_bytes, 64-byte aligned */
    bool training;   /* forward only: behave as in training; false in evaluation */
    /* OP_DROPOUT */
    uint64_t dropout_key;  /* rng_key(seed, RNG_DROPOUT) */
    uint32_t layer;        /* number of the layer in its graph */
    uint64_t step;         /* optimizer step */
    uint64_t first_sample; /* index in the global batch of this batch's sample 0 */
    /* OP_BATCH_NORM in training, with one group: adds up n values over all who share statistics, each of whom
     * calls it alike; NULL: nobody does. */
    err_t (*sum_shared)(void *context, double *values, int64_t n);
    void *share_context;
    /* OP_SOFTMAX_XENT */
    const int32_t *labels; /* [n], each in [0, classes) */
    int32_t *predictions;  /* [n], or NULL */
    float loss_scale;      /* usually 1 / samples in the global batch */
} op_args_t;

/* Which buffers backward reads, so that the memory plan can reuse the others. dy is always read (but for
 * OP_SOFTMAX_XENT); parameters always may be. */
typedef struct op_traits {
    const char *name; /* "conv2d", … */
    bool backward_needs_x;
    bool backward_needs_y;
    bool in_place; /* y may be x, and dx may be dy, in the same memory */
} op_traits_t;
const op_traits_t *op_traits(op_kind_t kind);

/* Checks desc->x and attributes, fills in the rest. ERR_USAGE with what does not fit (both shapes). */
err_t op_infer(op_desc_t *desc);

/* Of conv2d and linear; nothing for others. */
epilogue_t op_epilogue(const op_desc_t *desc);

/* Height and width of what conv2d computes before its epilogue. desc must be inferred. */
void op_conv2d_cells(const op_desc_t *desc, int64_t *height, int64_t *width);

/* Multiply-adds of one forward call; 0 for operators without products. */
int64_t op_macs(const op_desc_t *desc);

/* What decides which algorithms there are and which is fast, as one line: "conv2d float32 n=64 x=12x12x20
 * k=50x5x5 stride=1x1 pad=0x0 dilation=1x1 groups=1", or "conv2d bfloat16 …", the type of products. desc must
 * be inferred. */
void op_key(const op_desc_t *desc, char out[OP_KEY_MAX]);

/* Names of the algorithms that can compute this pass, at most `max`, the one that the backend's own rule
 * takes first; the return value is their number, 0 where there is no choice. Names live for ever. desc must
 * be inferred, the backend open. */
int op_list_algorithms(const struct backend *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                       const char **names, int max);

/* desc must be inferred. wanted: NULL, or names from op_list_algorithms; those of passes that are not planned
 * (backward without training) are not looked at. ERR_SYSTEM naming the operator when the backend can't have
 * it; ERR_USAGE naming operator, shape and what there is when an algorithm is unknown or does not fit. */
err_t op_plan(const struct backend *backend, const op_desc_t *desc, bool training,
              const op_algorithms_t *wanted, op_t **out);
void op_free(op_t **op);

/* forward: reads x, param, (state); writes y, saved (when planned for training), predictions, (state).
 * backward: reads dy, saved, param and what op_traits says; writes dx where wanted and dparam. In the order
 * forward, backward of one batch. Errors: ERR_SYSTEM from the backend's library. */
err_t op_forward(const op_t *op, const op_args_t *args);
err_t op_backward(const op_t *op, const op_args_t *args);

#endif
