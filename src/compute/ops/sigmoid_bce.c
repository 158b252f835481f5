/* SPDX-License-Identifier: MIT */
/* sigmoid_bce, for samples with any number of classes. x0: logits x [n, classes], x1: targets t [n, classes],
 * each in [0, 1]. y[n] = 1/classes · Σ_k max(x,0) − x·t + log(1 + e^−|x|), which is −t·log σ(x) −
 * (1−t)·log(1−σ(x)) without overflow: PyTorch's MultiLabelSoftMarginLoss of one sample; the mean over samples
 * is its BCEWithLogitsLoss. NaN or infinite logits give a non-finite loss. Backward: dx0 = (σ(x) − t) ·
 * scale · weight / classes; dy is not read. No predictions: to rank samples, use the logits. */
#include "compute/ops/infer.h"

static err_t infer_sigmoid_bce(op_desc_t *desc)
{
    TRY(infer_need_logits("sigmoid_bce", desc->x[0]));
    desc->y[0] = shape_1d(desc->x[0].dim[0]);
    if (!shape_equal(desc->x[1], desc->x[0]))
        RAISE(ERR_USAGE, "sigmoid_bce: expected targets %s, got %s", shape_format(desc->x[0]).text,
              shape_format(desc->x[1]).text);
    return ERR_OK;
}

const op_traits_t op_sigmoid_bce_traits = {.name = "sigmoid_bce",
                                           .n_inputs = 2,
                                           .n_gradients = 1,
                                           .backward_needs_x = OP_FIRST | OP_SECOND,
                                           .loss = true,
                                           .counts_rows = true,
                                           .infer = infer_sigmoid_bce};
