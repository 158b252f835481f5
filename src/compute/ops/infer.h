/* Shape checks, one per operator; op_infer (compute/ops/op.h) is the entry. */
#ifndef COMPUTE_OPS_INFER_H
#define COMPUTE_OPS_INFER_H

#include "compute/ops/op.h"

err_t infer_conv2d(op_desc_t *desc);
err_t infer_linear(op_desc_t *desc);
err_t infer_pool2d(op_desc_t *desc);
err_t infer_same(op_desc_t *desc);
err_t infer_dropout(op_desc_t *desc);
err_t infer_add(op_desc_t *desc);
err_t infer_batch_norm(op_desc_t *desc);
err_t infer_softmax_xent(op_desc_t *desc);
err_t infer_sigmoid_bce(op_desc_t *desc);

#endif
