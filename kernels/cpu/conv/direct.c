/* SPDX-License-Identifier: MIT */
/* The hand-written tiles of direct.h as algorithms: "batch" puts the samples in the vector lanes and
 * transposes its tensors, "image" goes image by image. Both fuse the epilogue. */
#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"

direct_conv_t direct_conv_of(const op_desc_t *desc)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    const int64_t *x = desc->x[0].dim;
    const epilogue_t *e = &a->epilogue;
    direct_conv_t v = {.n = x[0], .h = x[1], .w = x[2], .c = x[3], .k = a->out_channels};
    op_conv2d_cells(desc, &v.oh, &v.ow);
    v.r = a->kernel_h, v.s = a->kernel_w;
    v.stride_h = a->stride_h, v.stride_w = a->stride_w;
    v.pad_h = a->pad_h, v.pad_w = a->pad_w;
    v.relu = e->relu;
    v.pool_h = e->pool_h ? e->pool_h : 1, v.pool_w = e->pool_w ? e->pool_w : 1;
    return v;
}

static bool conv_direct_fits(const op_desc_t *desc)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    return a->groups == 1 && a->dilation_h == 1 && a->dilation_w == 1;
}

static bool batch_fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    (void)impl;
    return problem->pass != OP_BACKWARD_WEIGHTS && conv_direct_fits(problem->desc);
}

static bool image_fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    (void)impl;
    return problem->pass == OP_BACKWARD_WEIGHTS && conv_direct_fits(problem->desc);
}

/* Chosen where its lanes are full and the library's are not: with more channels the library is as fast
 * without the transposes, and 1×1 convolutions are matrix products anyway. */
const conv_impl_t *conv_direct_rule(const conv_problem_t *problem)
{
    enum { ENOUGH_CHANNELS = 64 };
    const direct_isa_t *isa = direct_isa();
    direct_conv_t v = direct_conv_of(problem->desc);
    bool full = 4 * v.n >= 3 * direct_padded(isa, v.n);
    if (isa == direct_base || !conv_direct_fits(problem->desc) || v.c >= ENOUGH_CHANNELS || v.r * v.s == 1)
        return NULL;
    if (problem->pass == OP_BACKWARD_WEIGHTS) return &conv_direct[1];
    return full ? &conv_direct[0] : NULL;
}

/* Offsets into the workspace. */
typedef struct direct_plan {
    direct_conv_t conv;
    int64_t n_padded, n_in, n_out; /* n_in, n_out: floats per sample before and after the convolution */
    size_t from, to, mask;         /* offsets of the transposed source and result, and of the mask */
} direct_plan_t;

static err_t batch_plan(const conv_impl_t *impl, const conv_problem_t *problem, void **plan,
                        size_t *n_workspace_bytes)
{
    (void)impl;
    direct_plan_t *p;
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    direct_conv_t *v = &p->conv;
    *v = direct_conv_of(problem->desc);
    p->n_padded = direct_padded(direct_isa(), v->n);
    p->n_in = v->h * v->w * v->c;
    p->n_out =
        problem->pass == OP_FORWARD ? (v->oh / v->pool_h) * (v->ow / v->pool_w) * v->k : v->oh * v->ow * v->k;
    size_t n_in = mem_round((size_t)(p->n_in * p->n_padded) * sizeof(float));
    size_t n_out = mem_round((size_t)(p->n_out * p->n_padded) * sizeof(float));
    p->from = mem_round((size_t)direct_packed_size(v) * sizeof(float));
    p->to = p->from + (problem->pass == OP_FORWARD ? n_in : n_out);
    p->mask = p->to + (problem->pass == OP_FORWARD ? n_out : n_in);
    *n_workspace_bytes = p->mask + (v->relu ? (size_t)(p->n_out * p->n_padded) : 0);
    *plan = p;
    return ERR_OK;
}

static err_t batch_run(const void *plan, const conv_problem_t *problem, const conv_buffers_t *b,
                       void *workspace)
{
    const direct_plan_t *p = plan;
    const direct_conv_t *v = &p->conv;
    float *packed = workspace, *from = (float *)((char *)workspace + p->from);
    float *to = (float *)((char *)workspace + p->to);
    uint8_t *mask = (uint8_t *)workspace + p->mask;
    if (problem->pass == OP_FORWARD) {
        direct_pack_forward(v, b->weight, packed);
        direct_isa()->transpose(b->x, v->n, p->n_in, from);
        direct_isa()->forward(v, from, packed, b->bias, to, b->mask ? mask : NULL);
        direct_isa()->transpose_back(to, v->n, p->n_out, b->y);
        if (b->mask) direct_isa()->transpose_bytes_back(mask, v->n, p->n_out, b->mask);
        return ERR_OK;
    }
    direct_pack_backward(v, b->weight, packed);
    direct_isa()->transpose(b->dy, v->n, p->n_out, from);
    direct_isa()->backward_data(v, from, packed, to);
    direct_isa()->transpose_back(to, v->n, p->n_in, b->dx);
    return ERR_OK;
}

static err_t image_plan(const conv_impl_t *impl, const conv_problem_t *problem, void **plan,
                        size_t *n_workspace_bytes)
{
    (void)impl;
    direct_plan_t *p;
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    p->conv = direct_conv_of(problem->desc);
    *n_workspace_bytes = (size_t)direct_workspace_size(&p->conv) * sizeof(float);
    *plan = p;
    return ERR_OK;
}

/* sum[k] = Σ of the gradients that pass the mask. */
LOOP_CLONES(sum_kept,
            (float *restrict sum, const float *restrict dy, const uint8_t *restrict mask, int64_t n_rows,
             int64_t k),
            (sum, dy, mask, n_rows, k))
{
    for (int64_t i = 0; i < k; i++) sum[i] = 0;
    for (int64_t row = 0; row < n_rows; row++, dy += k, mask += k)
        for (int64_t i = 0; i < k; i++) sum[i] += mask[i] == DIRECT_OFF ? 0 : dy[i];
}

static err_t image_run(const void *plan, const conv_problem_t *problem, const conv_buffers_t *b,
                       void *workspace)
{
    const direct_conv_t *v = &((const direct_plan_t *)plan)->conv;
    (void)problem;
    direct_isa()->backward_weights(v, b->x, b->dy, b->mask, b->dweight, workspace);
    if (!b->dbias) return ERR_OK;
    if (b->mask)
        sum_kept(b->dbias, b->dy, b->mask, v->n * (v->oh / v->pool_h) * (v->ow / v->pool_w), v->k);
    else
        matrix_sum_columns(b->dbias, b->dy, v->n * v->oh * v->ow, v->k, false);
    return ERR_OK;
}

static void direct_unplan(void **plan)
{
    mem_free(plan);
}

const conv_impl_t conv_direct[] = {
    {.name = "batch",
     .variant = NULL,
     .fuses = true,
     .fits = batch_fits,
     .plan = batch_plan,
     .run = batch_run,
     .unplan = direct_unplan},
    {.name = "image",
     .variant = NULL,
     .fuses = true,
     .fits = image_fits,
     .plan = image_plan,
     .run = image_run,
     .unplan = direct_unplan},
    {.name = NULL},
};
