/* SPDX-License-Identifier: MIT */
/* Planning and running the operators of compute/ops/op_desc.h on any backend.
 *
 *   op_infer                 checks the input shapes and infers all others
 *   op_plan                  binds the operator to a backend: creates primitives, chooses algorithms,
 *                            computes buffer sizes. A planned operator serves one batch size
 *   op_forward, op_backward  run it
 *   op_free                  frees it
 *
 * Not collective. All buffers belong to the caller. */
#ifndef COMPUTE_OPS_OP_H
#define COMPUTE_OPS_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "compute/ops/op_desc.h"

enum { OP_KEY_MAX = 192 };       /* bytes of op_key's text */
enum { OP_MAX_ALGORITHMS = 16 }; /* per pass */
enum { OP_ALGORITHM_MAX = 24 };  /* bytes of a name */

/* A backend may have several algorithms for an operator and choose one separately for each pass: y, dx, and
 * the gradients of the parameters. */
typedef enum op_pass { OP_FORWARD, OP_BACKWARD_DATA, OP_BACKWARD_WEIGHTS, OP_PASS_COUNT } op_pass_t;

/* "forward", "backward_data", "backward_weights" */
extern const char *const op_pass_names[OP_PASS_COUNT];

/* Names of algorithms, defined by the backend; "": its default. */
typedef struct op_algorithms {
    char name[OP_PASS_COUNT][OP_ALGORITHM_MAX];
} op_algorithms_t;

struct backend;

typedef struct op {
    op_desc_t desc;
    const struct backend *backend;
    bool training;            /* planned for backward too */
    bool converts;            /* the kernel gets float32 copies of bfloat16 tensors: compute/ops/narrow.h */
    size_t n_kernel_bytes;    /* offset of these copies in the workspace */
    size_t n_saved_bytes;     /* kept from forward to backward; set by the backend's plan */
    size_t n_workspace_bytes; /* scratch within a call; not preserved between calls */
    void *plan;               /* private to the kernel */
    /* Set by the backend's plan: the algorithm of each planned pass, "" if it has only one. */
    op_algorithms_t algorithms;
} op_t;

typedef struct op_args {
    const void *x[OP_MAX_INPUTS];
    void *y;
    const void *dy;
    void *dx[OP_MAX_INPUTS]; /* NULL: this gradient is not needed */
    const void *param[OP_MAX_PARAMS];
    /* Overwritten, not accumulated. All NULL: not needed; only for operators with several algorithms. */
    void *dparam[OP_MAX_PARAMS];
    void *state[OP_MAX_STATES];
    void *saved;     /* n_saved_bytes, 64-byte aligned */
    void *workspace; /* n_workspace_bytes, 64-byte aligned */
    bool training;   /* forward only: training or evaluation mode */
    /* OP_DROPOUT */
    uint64_t dropout_key;  /* rng_key(seed, RNG_DROPOUT) */
    uint32_t layer;        /* index of the layer in its graph */
    uint64_t step;         /* optimizer step */
    uint64_t first_sample; /* index of this batch's sample 0 in the global batch */
    /* OP_BATCH_NORM in training with one group: sums n values over all ranks that share statistics, which all
     * make the same calls. NULL: not shared. */
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

/* Properties of a kind of operator, among them which buffers backward reads: the memory plan reuses the rest.
 * Backward always reads dy, except in a loss, and may always read parameters. */
typedef struct op_traits {
    const char *name;      /* such as "conv2d" */
    bool backward_needs_x; /* the first input */
    bool backward_needs_y;
    /* If both have the same type, y may share memory with x[0], unless backward needs x, and dx[0]
     * with dy. */
    bool in_place;
    bool loss;     /* y is one loss per sample: the end of a graph */
    bool products; /* computed in op_desc_t.compute; other operators are passes over memory */
} op_traits_t;
const op_traits_t *op_traits(op_kind_t kind);

/* Checks desc->x and the attributes, and infers the rest. ERR_USAGE names the operator and the shapes that do
 * not fit. */
err_t op_infer(op_desc_t *desc);

/* Whether any of x and y is stored as bfloat16. */
bool op_is_narrow(const op_desc_t *desc);

/* The epilogue of conv2d, linear or batch_norm; empty for other operators. */
epilogue_t op_epilogue(const op_desc_t *desc);

/* Output height and width of conv2d before its epilogue. desc must be inferred. */
void op_conv2d_cells(const op_desc_t *desc, int64_t *height, int64_t *width);

/* Multiply-adds of one forward call; 0 for operators without products. */
int64_t op_macs(const op_desc_t *desc);

/* One line with everything that determines which algorithms exist and which is fast:
 *
 *   conv2d float32 n=64 x=12x12x20 k=50x5x5 stride=1x1 pad=0x0 dilation=1x1 groups=1
 *   conv2d bfloat16 … narrow=xy
 *
 * The type is that of products; narrow lists the tensors that are stored as bfloat16. desc must be
 * inferred. */
void op_key(const op_desc_t *desc, char out[OP_KEY_MAX]);

/* Lists the algorithms for a pass, at most `max`, the backend's default first. Returns their number; 0: the
 * backend offers no choice. The names are static. desc must be inferred, the backend open. */
int op_list_algorithms(const struct backend *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                       const char **names, int max);

/* Binds an operator to a backend.
 *
 *   desc    inferred
 *   wanted  NULL, or a name from op_list_algorithms or "" for each pass; passes that are not planned are
 *           ignored
 *
 * ERR_SYSTEM if the backend lacks the operator or cannot set it up. ERR_USAGE if it does not support the type
 * of products, or if an algorithm is unknown or does not fit: the message names the operator, its shape and
 * the choices. */
err_t op_plan(const struct backend *backend, const op_desc_t *desc, bool training,
              const op_algorithms_t *wanted, op_t **out);
void op_free(op_t **op);

/* Forward, then backward, of one batch:
 *
 *   forward   reads x, param, (state); writes y, saved (if planned for training), predictions, (state)
 *   backward  reads dy, saved, param and what op_traits says; writes dx if not NULL, and dparam
 *
 * Errors: ERR_SYSTEM from the backend's library. */
err_t op_forward(const op_t *op, const op_args_t *args);
err_t op_backward(const op_t *op, const op_args_t *args);

#endif
