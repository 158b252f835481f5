/* SPDX-License-Identifier: MIT */
/* Planning and running the operators of compute/ops/list.h on any backend.
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
#include "compute/ops/op_args.h"
#include "compute/ops/op_traits.h"

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
    bool converts;            /* the kernel gets float32 copies of bfloat16 tensors: compute/ops/narrow.h */
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
