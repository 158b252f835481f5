/* SPDX-License-Identifier: MIT */
/* Buffers to run a single planned operator outside a graph, for measurements. Not collective. */
#ifndef COMPUTE_GRAPH_SCRATCH_H
#define COMPUTE_GRAPH_SCRATCH_H

#include "compute/ops/hd_buffer.h"

enum { SCRATCH_BLOCKS = 4 + 2 * OP_MAX_PARAMS };

/* Buffers for an inferred description with one input, for any of its algorithms. The pointers are the host
 * side. dy, dx and dparam are NULL without training, and so are pointers to tensors stored as bfloat16 and, on a
 * device, all pointers after scratch_new_device. */
typedef struct scratch {
    float *x, *y, *dy, *dx, *param[OP_MAX_PARAMS], *dparam[OP_MAX_PARAMS];
    hd_buffer_t blocks[SCRATCH_BLOCKS]; /* all of the above, in this order */
} scratch_t;

/* Bytes that scratch_new allocates. */
int64_t scratch_bytes(const op_desc_t *desc, bool training);

/* Fills all buffers with values typical of training: normally distributed, periodic, the same in every call.
 * On an error nothing is left allocated.
 *
 *   what  for the message when memory runs out */
err_t scratch_new(const op_desc_t *desc, const backend_t *backend, bool training, const char *what,
                  scratch_t *out);
/* The same values without a host side on a device: pinned memory for the largest layers can be more than there is. */
err_t scratch_new_device(const op_desc_t *desc, const backend_t *backend, bool training, const char *what,
                         scratch_t *out);
void scratch_free(scratch_t *scratch);

/* Copies all buffers to the device, and back, which waits. scratch_new has pushed once. */
err_t scratch_push(const scratch_t *scratch);
err_t scratch_pull(const scratch_t *scratch);

/* Runs one pass without waiting for it. Of the gradients only the one of that pass is computed; the operator
 * must support that (op_args_t.dparam).
 *
 *   saved, workspace  from backend_alloc, of the operator's sizes */
err_t scratch_run(const scratch_t *scratch, const op_t *op, op_pass_t pass, void *saved, void *workspace);
/* The least work of such a run. */
op_work_t scratch_work(const scratch_t *scratch, const op_t *op, op_pass_t pass);

#endif
