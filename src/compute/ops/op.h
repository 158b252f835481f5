/* SPDX-License-Identifier: MIT */
/* The operators of compute/ops/list.h on any backend: descriptions, planning and running. op_attr.h defines those
 * with attributes.
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
#include "compute/ops/list.h"
#include "compute/ops/op_attr.h"
#include "compute/tensor/tensor.h"

enum { OP_MAX_INPUTS = 6, OP_MAX_OUTPUTS = 3, OP_MAX_PARAMS = 2, OP_MAX_STATES = 2 };

#define OP_KIND(KIND, name) OP_##KIND,
typedef enum op_kind { OP_LIST(OP_KIND) OP_KIND_COUNT } op_kind_t;
#undef OP_KIND

typedef struct op_desc {
    op_kind_t kind;
    dtype_t dtype; /* of parameters, their gradients and arithmetic: DTYPE_F32 */
    /* Storage of x[i] and its gradient, and of y[i] and its gradient: DTYPE_F32, or DTYPE_BF16 on backends
     * that support it (backend_t.stores_bf16), for conv2d only if its products are bfloat16, too. bfloat16 is
     * read as is, and rounded as bf16_round does when written (a CPU's matrix instructions may write 0 for
     * denormals). op_infer sets the type of integer tensors. */
    dtype_t x_dtype[OP_MAX_INPUTS], y_dtype[OP_MAX_OUTPUTS];
    /* Type of products: DTYPE_F32, or, for conv2d and linear, one of the following.
     *
     *   DTYPE_TF32  float32 in memory; a GPU may cut the mantissas of x, the weight and dy to 10 bits when it
     *               multiplies. Sums stay float32. Supported by kernels with `tf32`
     *   DTYPE_BF16  x, the weight and dy are rounded as bf16_round does (compute/tensor/float16.h) wherever a
     *               formula reads them, also where dy is only summed, for the bias. Sums, the bias and all
     *               gradients of parameters stay float32. The CPU's bfloat16 instructions may treat denormals
     *               as 0 */
    dtype_t compute;
    int n_inputs;
    shape_t x[OP_MAX_INPUTS]; /* set by the caller, batch included */
    op_attr_t attr;
    /* Filled in by op_infer. */
    int n_outputs;
    shape_t y[OP_MAX_OUTPUTS];
    int n_params, n_states;
    shape_t param[OP_MAX_PARAMS];
    shape_t state[OP_MAX_STATES];
} op_desc_t;

/* What the shared code asks of a kind of operator: each row of list.h has op_NAME_traits, in NAME.c of this folder. Among
 * its properties are the buffers that backward reads: the memory plan reuses the rest. Backward always reads dy, except
 * in a loss, and may always read parameters. */
typedef struct op_traits {
    const char *name; /* such as "conv2d" */
    int n_inputs;
    int n_optional; /* further inputs, which may be left out */
    /* Inputs from this one on have no gradient: labels, targets. More than n_inputs: op_absorb may add
     * inputs, up to this number. */
    int n_gradients;
    unsigned backward_needs_x; /* bit i: input i */
    unsigned backward_needs_y; /* bit i: output i */
    /* If both have the same type, y[0] may share memory with x[0], unless backward needs x[0], and dx[0]
     * with dy[0]. */
    bool in_place;
    bool loss;        /* y[0] is one loss per sample */
    bool products;    /* computed in op_desc_t.compute; other operators are passes over memory */
    bool copies_dy;   /* dx[0] is dy: where they share memory, nothing moves */
    bool counts_rows; /* kernels compute the first op_rows rows only; that is at least one */
    int rows_input;   /* of counts_rows: the first dimension of this input counts them */
    /* The shape rule: checks x and the attributes, sets y, param and state, n_outputs if not 1, and the types
     * of integer tensors. Inputs are known not to be empty. */
    err_t (*infer)(op_desc_t *desc);
    /* Of an inferred description. NULL of macs: the operator has no products; of key: " x=SHAPE"; of the others: no
     * epilogue; absorbs nothing. */
    int64_t (*macs)(const op_desc_t *desc);
    /* The multiply-adds with pixels inside the image, of the results that the epilogue keeps. NULL: all. */
    int64_t (*inner_macs)(const op_desc_t *desc);
    /* Elements of input i that forward surely reads. NULL: all. */
    int64_t (*reads)(const op_desc_t *desc, int input);
    int (*key)(const op_desc_t *desc, char *out, size_t n_bytes); /* snprintf's result */
    epilogue_t (*epilogue)(const op_desc_t *desc);
    bool (*absorb)(op_desc_t *desc, const op_desc_t *next); /* op_absorb, except y */
} op_traits_t;

const op_traits_t *op_traits(op_kind_t kind);

/* For backward_needs_x and _y. */
enum { OP_FIRST = 1 << 0, OP_SECOND = 1 << 1 };

#define OP_DECLARE(KIND, name) extern const op_traits_t op_##name##_traits;
OP_LIST(OP_DECLARE)
#undef OP_DECLARE

/* Arguments beyond tensors, of the operators that read them. */
typedef struct dropout_call {
    uint64_t key;          /* rng_key(seed, RNG_DROPOUT) */
    uint32_t layer;        /* index of the layer in its graph */
    uint64_t step;         /* optimizer step */
    uint64_t first_sample; /* index of this batch's sample 0 in the global batch */
} dropout_call_t;

typedef struct batch_norm_call {
    /* In training with one group: sums n values over all ranks that share statistics, which all make the same
     * calls. NULL: not shared. */
    err_t (*sum_shared)(void *context, double *values, int64_t n);
    void *context;
} batch_norm_call_t;

/* Of every loss: its gradients are multiplied by scale · weight. y is not. */
typedef struct loss_call {
    float scale;  /* usually 1 / samples in the global batch; may change from step to step */
    float weight; /* of this loss in the objective; does not change */
} loss_call_t;

/* Tensors have the shapes and types that were planned. data NULL: the tensor does not exist, backward does
 * not read it (op_traits), or this gradient or extra output is not needed. The gradients of parameters are
 * needed all or none. */
typedef struct op_args {
    tensor_t x[OP_MAX_INPUTS], y[OP_MAX_OUTPUTS];
    tensor_t dy[OP_MAX_OUTPUTS], dx[OP_MAX_INPUTS];
    tensor_t param[OP_MAX_PARAMS], dparam[OP_MAX_PARAMS];
    tensor_t state[OP_MAX_STATES];
    /* param, rounded as bf16_round does, 16-byte aligned; NULL: kernels round it themselves. */
    const uint16_t *param_bf16[OP_MAX_PARAMS];
    /* Backward adds to this gradient instead of overwriting it. */
    bool accumulate_dx[OP_MAX_INPUTS], accumulate_dparam[OP_MAX_PARAMS];
    /* Rows (samples) that exist, known only now; -1: all that were planned. An operator that counts rows
     * (op_traits) neither reads nor computes the rest, and its y and dx are 0 there; a sum of dx stays as it
     * was. Others compute all. A recorded step keeps the number of its recording. */
    int64_t n_rows;
    void *addend;    /* op_addend_bytes, 64-byte aligned: gradients before they are added */
    void *saved;     /* n_saved_bytes, 64-byte aligned */
    void *workspace; /* n_workspace_bytes, 64-byte aligned */
    bool training;   /* forward only: training or evaluation mode */
    dropout_call_t dropout;
    batch_norm_call_t batch_norm;
    loss_call_t loss;
} op_args_t;

enum { OP_KEY_MAX = 192 };       /* bytes of op_key's text */
enum { OP_MAX_ALGORITHMS = 32 }; /* per pass */
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
    bool converts;            /* the kernel gets float32 copies of bfloat16 tensors: narrow_plan */
    size_t n_kernel_bytes;    /* offset of these copies in the workspace */
    size_t n_saved_bytes;     /* kept from forward to backward; set by the backend's plan */
    size_t n_workspace_bytes; /* scratch within a call; not preserved between calls */
    /* Buffers that backward reads, bit i: input or output i; op_traits_t's unless the backend's plan has changed
     * them. */
    unsigned reads_x, reads_y;
    /* Whether backward adds to the gradients of inputs, and of parameters, itself; the kernel's `accumulates`
     * unless the backend's plan has changed them. */
    bool adds_dx, adds_dparam;
    void *plan; /* private to the kernel */
    /* Set by the backend's plan: the algorithm of each planned pass, "" if it has only one. */
    op_algorithms_t algorithms;
} op_t;

/* Checks desc->x and the attributes, and infers the rest. ERR_USAGE names the operator and the shapes that do
 * not fit. */
err_t op_infer(op_desc_t *desc);

/* Whether any of x and y is stored as bfloat16. */
bool op_is_narrow(const op_desc_t *desc);
/* Whether all are. A mixture occurs only at the ends of a network. */
bool op_is_all_narrow(const op_desc_t *desc);

/* The epilogue; empty for operators that have none. */
epilogue_t op_epilogue(const op_desc_t *desc);

/* Whether it does the work of several layers. */
bool op_is_fused(const op_desc_t *desc);

/* Whether `desc` can do the work of `next`, which reads its output, in the same pass; if so it then describes
 * both. Further inputs of next become its last inputs. Both are inferred. */
bool op_absorb(op_desc_t *desc, const op_desc_t *next);

/* Output height and width of conv2d before its epilogue. desc must be inferred. */
void op_conv2d_cells(const op_desc_t *desc, int64_t *height, int64_t *width);

/* Multiply-adds of one forward call; 0 for operators without products. */
int64_t op_macs(const op_desc_t *desc);

/* What a pass of a call has to do at least, however fast the machine is.
 *
 *   macs   multiply-adds by the pass's algorithm. Usually those with pixels inside the image (an algorithm may skip
 *          the zeros of the padding); Winograd's are those between its transforms
 *   bytes  of the tensors that it surely reads or writes, each once and as it is stored (sums of gradients twice):
 *          inputs, outputs, parameters, gradients, and what forward saves for backward. Copies and scratch do not
 *          count, nor does what it may leave out: losses read as much as their labels say, and RoIAlign what its regions
 *          cover
 *
 * `args`: of op_forward or op_backward; gradients that it does not ask for cost nothing. Backward of operators without
 * multiply-adds is one pass, OP_BACKWARD_DATA. */
typedef struct op_work {
    double macs, bytes;
} op_work_t;
op_work_t op_work(const op_t *op, const op_args_t *args, op_pass_t pass);

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
/* Whether this name would be listed. Libraries of other algorithms are not loaded. */
bool op_has_algorithm(const struct backend *backend, const op_desc_t *desc, op_pass_t pass, bool training,
                      const char *name);

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

/* For kernels' plans that find out themselves that they take only float32: reserves workspace for float32 copies of
 * bfloat16 tensors after the kernel's; from then on the kernel gets these. op_plan does it for kernels without `bf16`. */
void narrow_plan(op_t *op);

/* The shapes and types of a planned operator's tensors; the caller fills in data and the rest. */
op_args_t op_args(const op_t *op);

/* Rows of a call: args->n_rows, or all. */
int64_t op_rows(const op_t *op, const op_args_t *args);

/* Bytes of op_args_t.addend for a backward that adds to these gradients; either may be NULL: none. 0 for kernels that
 * add themselves. */
size_t op_addend_bytes(const op_t *op, const bool *accumulate_dx, const bool *accumulate_dparam);

/* Forward, then backward, of one batch:
 *
 *   forward   reads x, param, (state); writes y, saved (if planned for training), (state)
 *   backward  reads dy, saved, param and what op_t.reads_x and reads_y say; writes, or adds to, dx and dparam
 *
 * Backward may overwrite dy with what it is before an epilogue. A sum of gradients has the bits of computing
 * the new one and then adding it (backend_t.accumulate), or, from kernels that add themselves, those but for
 * rounding.
 * Errors: ERR_SYSTEM from the backend's library. */
err_t op_forward(const op_t *op, const op_args_t *args);
err_t op_backward(const op_t *op, const op_args_t *args);

#endif
