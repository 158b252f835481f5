/* Operators: planning and running what compute/ops/op_desc.h describes, independent of who computes it.
 *
 * The life of one operator: op_infer checks the input shapes and fills in every other one; op_plan binds it
 * to a backend (primitives made, algorithms chosen, buffer sizes known); op_forward and op_backward run it;
 * op_free ends it. One planned operator serves one batch size. All calls are Not collective. Every
 * buffer belongs to the caller. */
#ifndef COMPUTE_OPS_OP_H
#define COMPUTE_OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "compute/ops/op_desc.h"

enum { OP_KEY_MAX = 192 };
enum { OP_MAX_ALGORITHMS = 16, OP_ALGORITHM_MAX = 24 }; /* for one pass; bytes of a name */

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
    bool converts;            /* what the kernel does not take as it lies: compute/ops/narrow.h, */
    size_t n_kernel_bytes;    /* in workspace from there on */
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
    /* OP_SIGMOID_BCE */
    const float *targets; /* [n, classes], each in [0, 1] */
    /* Both */
    float loss_scale; /* usually 1 / samples in the global batch */
} op_args_t;

/* Among others which buffers backward reads, so that the memory plan can reuse the rest. dy is always read
 * (but of a loss); parameters always may be. */
typedef struct op_traits {
    const char *name; /* "conv2d", … */
    bool backward_needs_x; /* the first */
    bool backward_needs_y;
    /* In the same memory y may be x[0], unless backward needs that, and dx[0] may be dy; where both lie there
     * alike (op_desc_t.x_dtype). */
    bool in_place;
    bool loss;     /* y is a loss for each sample: the end of a graph */
    bool products; /* op_desc_t.compute says of which type; the others are passes over memory */
} op_traits_t;
const op_traits_t *op_traits(op_kind_t kind);

/* Checks desc->x and attributes, fills in the rest. ERR_USAGE with what does not fit (both shapes). */
err_t op_infer(op_desc_t *desc);

/* Whether x or y are anything but float32 in memory. */
bool op_is_narrow(const op_desc_t *desc);

/* Of conv2d, linear and batch_norm; nothing for others. */
epilogue_t op_epilogue(const op_desc_t *desc);

/* Height and width of what conv2d computes before its epilogue. desc must be inferred. */
void op_conv2d_cells(const op_desc_t *desc, int64_t *height, int64_t *width);

/* Multiply-adds of one forward call; 0 for operators without products. */
int64_t op_macs(const op_desc_t *desc);

/* What decides which algorithms there are and which is fast, as one line: "conv2d float32 n=64 x=12x12x20
 * k=50x5x5 stride=1x1 pad=0x0 dilation=1x1 groups=1", or "conv2d bfloat16 … narrow=xy", the type of products
 * and what lies in memory as bfloat16. desc must be inferred. */
void op_key(const op_desc_t *desc, char out[OP_KEY_MAX]);

/* Names of the algorithms that can compute this pass, at most `max`, the one that the backend's own rule
 * takes first; the return value is their number, 0 where there is no choice. Names live for ever. desc must
 * be inferred, the backend open. */
int op_list_algorithms(const struct backend *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                       const char **names, int max);

/* desc must be inferred. wanted: NULL, or names from op_list_algorithms; those of passes that are not planned
 * (backward without training) are not looked at. ERR_SYSTEM naming the operator when the backend can't have
 * it; ERR_USAGE where it has no products of the wanted type; ERR_USAGE naming operator, shape and what there
 * is when an algorithm is unknown or does not fit. */
err_t op_plan(const struct backend *backend, const op_desc_t *desc, bool training,
              const op_algorithms_t *wanted, op_t **out);
void op_free(op_t **op);

/* forward: reads x, param, (state); writes y, saved (when planned for training), predictions, (state).
 * backward: reads dy, saved, param and what op_traits says; writes dx where wanted and dparam. In the order
 * forward, backward of one batch. Errors: ERR_SYSTEM from the backend's library. */
err_t op_forward(const op_t *op, const op_args_t *args);
err_t op_backward(const op_t *op, const op_args_t *args);

#endif
