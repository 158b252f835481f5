/* Buffers to run one planned operator with, outside of any graph: for measuring. Not collective. */
#ifndef COMPUTE_GRAPH_SCRATCH_H
#define COMPUTE_GRAPH_SCRATCH_H

#include "compute/ops/mirror.h"

enum { SCRATCH_BLOCKS = 4 + 2 * OP_MAX_PARAMS };

/* Of one inferred description with one input; any algorithm for it may use them. dy, dx and dparam are NULL
 * unless it was made for training, and so are those of what lies in memory as bfloat16. The pointers are the
 * host's side. */
typedef struct scratch {
    float *x, *y, *dy, *dx, *param[OP_MAX_PARAMS], *dparam[OP_MAX_PARAMS];
    mirror_t blocks[SCRATCH_BLOCKS]; /* the same, in this order */
} scratch_t;

/* Bytes that scratch_new takes. */
int64_t scratch_bytes(const op_desc_t *desc, bool training);

/* All are filled with numbers as training has them: normal ones, repeated; always the same. `what`: for the
 * message when there is no memory. Nothing is left behind after an error. */
err_t scratch_new(const op_desc_t *desc, const backend_t *backend, bool training, const char *what, scratch_t *out);
void scratch_free(scratch_t *scratch);

/* What the host wrote, to where the backend computes; and back, waiting. scratch_new has pushed. */
err_t scratch_push(const scratch_t *scratch);
err_t scratch_pull(const scratch_t *scratch);

/* Runs one pass, without waiting for it; of backward only that gradient, which the operator must be able to compute apart (op.h).
 * saved, workspace: backend_alloc's, of the operator's sizes. */
err_t scratch_run(const scratch_t *scratch, const op_t *op, op_pass_t pass, void *saved, void *workspace);

#endif
