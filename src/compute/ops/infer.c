/* SPDX-License-Identifier: MIT */
/* The table of operators: traits, number of inputs, and shape inference. Kernels rely on these checks and do
 * not repeat them. */
#include <inttypes.h>

#include "compute/ops/op.h"

static err_t need_image(const char *name, shape_t x)
{
    if (x.n_dims != 4)
        RAISE(ERR_USAGE, "%s: expected images [n, height, width, channels], got %s", name,
              shape_format(x).text);
    return ERR_OK;
}

static err_t need_logits(const char *name, shape_t x)
{
    if (x.n_dims != 2)
        RAISE(ERR_USAGE, "%s: expected logits [n, classes], got %s", name, shape_format(x).text);
    return ERR_OK;
}

/* Output size of a sliding window along one dimension; `kernel` includes dilation. */
static int64_t window_count(int64_t in, int64_t kernel, int stride, int pad)
{
    int64_t room = in + 2 * (int64_t)pad - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

static err_t infer_conv2d(op_desc_t *desc)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    shape_t x = desc->x[0];
    TRY(need_image("conv2d", x));
    if (a->out_channels < 1 || a->kernel_h < 1 || a->kernel_w < 1 || a->stride_h < 1 || a->stride_w < 1 ||
        a->pad_h < 0 || a->pad_w < 0 || a->dilation_h < 1 || a->dilation_w < 1 || a->groups < 1)
        RAISE(ERR_USAGE, "conv2d: channels, kernel, stride, dilation and groups must be at least 1, "
                         "padding at least 0");
    if (x.dim[3] % a->groups || a->out_channels % a->groups)
        RAISE(ERR_USAGE, "conv2d: %d groups do not divide %" PRId64 " input and %" PRId64 " output channels",
              a->groups, x.dim[3], a->out_channels);
    int64_t reach_h = (int64_t)a->dilation_h * (a->kernel_h - 1) + 1;
    int64_t reach_w = (int64_t)a->dilation_w * (a->kernel_w - 1) + 1;
    const epilogue_t *e = &a->epilogue;
    desc->y[0] = shape_4d(x.dim[0], window_count(x.dim[1], reach_h, a->stride_h, a->pad_h),
                          window_count(x.dim[2], reach_w, a->stride_w, a->pad_w), a->out_channels);
    if (desc->y[0].dim[1] < 1 || desc->y[0].dim[2] < 1)
        RAISE(ERR_USAGE, "conv2d: the kernel spans %" PRId64 "×%" PRId64 ", more than the padded input %s",
              reach_h, reach_w, shape_format(x).text);
    ASSERT((e->pool_h > 0) == (e->pool_w > 0) && (e->relu || e->pool_h == 0));
    if (e->pool_h) desc->y[0].dim[1] /= e->pool_h, desc->y[0].dim[2] /= e->pool_w;
    if (desc->y[0].dim[1] < 1 || desc->y[0].dim[2] < 1)
        RAISE(ERR_USAGE, "conv2d: the %d×%d window is larger than the output for %s", e->pool_h, e->pool_w,
              shape_format(x).text);
    desc->param[0] = shape_4d(a->out_channels, a->kernel_h, a->kernel_w, x.dim[3] / a->groups);
    desc->param[1] = shape_1d(a->out_channels);
    desc->n_params = a->has_bias ? 2 : 1;
    return ERR_OK;
}

void op_conv2d_cells(const op_desc_t *desc, int64_t *height, int64_t *width)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    int64_t reach_h = (int64_t)a->dilation_h * (a->kernel_h - 1) + 1;
    int64_t reach_w = (int64_t)a->dilation_w * (a->kernel_w - 1) + 1;
    *height = window_count(desc->x[0].dim[1], reach_h, a->stride_h, a->pad_h);
    *width = window_count(desc->x[0].dim[2], reach_w, a->stride_w, a->pad_w);
}

static err_t infer_linear(op_desc_t *desc)
{
    const linear_attr_t *a = &desc->attr.linear;
    shape_t x = desc->x[0];
    if (x.n_dims < 2 || a->out_features < 1)
        RAISE(ERR_USAGE, "linear: expected [n, features…] and at least one output, got %s to %" PRId64,
              shape_format(x).text, a->out_features);
    desc->y[0] = shape_2d(x.dim[0], a->out_features);
    desc->param[0] = shape_2d(a->out_features, shape_sample_count(x));
    desc->param[1] = shape_1d(a->out_features);
    desc->n_params = a->has_bias ? 2 : 1;
    return ERR_OK;
}

static err_t infer_pool2d(op_desc_t *desc)
{
    const pool2d_attr_t *a = &desc->attr.pool2d;
    shape_t x = desc->x[0];
    TRY(need_image("pool2d", x));
    if (a->kernel_h < 1 || a->kernel_w < 1 || a->stride_h < 1 || a->stride_w < 1 || a->pad_h < 0 ||
        a->pad_w < 0 || a->pad_h >= a->kernel_h || a->pad_w >= a->kernel_w)
        RAISE(ERR_USAGE, "pool2d: kernel and stride must be at least 1, padding smaller than the kernel");
    desc->y[0] = shape_4d(x.dim[0], window_count(x.dim[1], a->kernel_h, a->stride_h, a->pad_h),
                          window_count(x.dim[2], a->kernel_w, a->stride_w, a->pad_w), x.dim[3]);
    if (desc->y[0].dim[1] < 1 || desc->y[0].dim[2] < 1)
        RAISE(ERR_USAGE, "pool2d: the %d×%d window is larger than the padded input %s", a->kernel_h,
              a->kernel_w, shape_format(x).text);
    return ERR_OK;
}

static err_t infer_same(op_desc_t *desc)
{
    desc->y[0] = desc->x[0];
    return ERR_OK;
}

static err_t infer_dropout(op_desc_t *desc)
{
    if (!(desc->attr.dropout.rate >= 0 && desc->attr.dropout.rate < 1))
        RAISE(ERR_USAGE, "dropout: the rate %g is not in [0, 1)", desc->attr.dropout.rate);
    return infer_same(desc);
}

static err_t infer_add(op_desc_t *desc)
{
    if (!shape_equal(desc->x[0], desc->x[1]))
        RAISE(ERR_USAGE, "add: the inputs differ: %s and %s", shape_format(desc->x[0]).text,
              shape_format(desc->x[1]).text);
    return infer_same(desc);
}

static err_t infer_batch_norm(op_desc_t *desc)
{
    const batch_norm_attr_t *a = &desc->attr.batch_norm;
    shape_t x = desc->x[0];
    ASSERT(a->group >= 0 && a->epilogue.pool_h == 0);
    ASSERT(desc->n_inputs == 1 || shape_equal(x, desc->x[1]));
    if (x.n_dims < 2) RAISE(ERR_USAGE, "batch_norm: expected [n, …, channels], got %s", shape_format(x).text);
    if (!(a->epsilon > 0) || !(a->momentum >= 0 && a->momentum <= 1))
        RAISE(ERR_USAGE, "batch_norm: epsilon %g must be positive, momentum %g in [0, 1]", a->epsilon,
              a->momentum);
    shape_t channels = shape_1d(x.dim[x.n_dims - 1]);
    desc->n_params = desc->n_states = 2;
    desc->param[0] = desc->param[1] = desc->state[0] = desc->state[1] = channels;
    return infer_same(desc);
}

/* Losses: y[0] has one value per sample. */
static void give_losses(op_desc_t *desc)
{
    desc->y[0] = shape_1d(desc->x[0].dim[0]);
}

static err_t infer_softmax_xent(op_desc_t *desc)
{
    double s = desc->attr.softmax_xent.label_smoothing;
    TRY(need_logits("softmax_xent", desc->x[0]));
    if (!(s >= 0 && s < 1)) RAISE(ERR_USAGE, "softmax_xent: label smoothing %g is not in [0, 1)", s);
    give_losses(desc);
    desc->y[1] = desc->y[0];
    desc->n_outputs = 2;
    desc->x_dtype[1] = desc->y_dtype[1] = DTYPE_I32;
    if (!shape_equal(desc->x[1], desc->y[0]))
        RAISE(ERR_USAGE, "softmax_xent: expected labels %s, got %s", shape_format(desc->y[0]).text,
              shape_format(desc->x[1]).text);
    return ERR_OK;
}

static err_t infer_sigmoid_bce(op_desc_t *desc)
{
    TRY(need_logits("sigmoid_bce", desc->x[0]));
    give_losses(desc);
    if (!shape_equal(desc->x[1], desc->x[0]))
        RAISE(ERR_USAGE, "sigmoid_bce: expected targets %s, got %s", shape_format(desc->x[0]).text,
              shape_format(desc->x[1]).text);
    return ERR_OK;
}

/* op_traits_t.backward_needs_x and _y */
enum { FIRST = 1, SECOND = 2 };

static const struct {
    op_traits_t traits;
    err_t (*infer)(op_desc_t *desc);
} ops[OP_KIND_COUNT] = {
    [OP_CONV2D] = {{"conv2d", 1, 1, .backward_needs_x = FIRST, .products = true}, infer_conv2d},
    [OP_LINEAR] = {{"linear", 1, 1, .backward_needs_x = FIRST, .products = true}, infer_linear},
    [OP_POOL2D] = {{"pool2d", 1, 1}, infer_pool2d},
    [OP_RELU] = {{"relu", 1, 1, .backward_needs_y = FIRST, .in_place = true}, infer_same},
    [OP_DROPOUT] = {{"dropout", 1, 1, .in_place = true}, infer_dropout},
    [OP_ADD] = {{"add", 2, 2, .in_place = true}, infer_add},
    [OP_BATCH_NORM] = {{"batch_norm", 1, 2, .backward_needs_x = FIRST, .in_place = true}, infer_batch_norm},
    [OP_SOFTMAX_XENT] = {{"softmax_xent", 2, 1, .backward_needs_x = SECOND, .loss = true},
                         infer_softmax_xent},
    [OP_SIGMOID_BCE] = {{"sigmoid_bce", 2, 1, .backward_needs_x = FIRST | SECOND, .loss = true},
                        infer_sigmoid_bce},
};

const op_traits_t *op_traits(op_kind_t kind)
{
    ASSERT(kind < OP_KIND_COUNT);
    return &ops[kind].traits;
}

/* Batch norm has a second input only after fusing. */
static bool adds_input(const op_desc_t *desc)
{
    return desc->kind == OP_BATCH_NORM && desc->n_inputs == 2;
}

/* Labels may be integers. */
static bool may_store(dtype_t dtype, bool has_gradient)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || (dtype == DTYPE_I32 && !has_gradient);
}

static void check_types(const op_desc_t *desc, const op_traits_t *traits)
{
    ASSERT(desc->n_inputs == traits->n_inputs || adds_input(desc));
    for (int i = 0; i < desc->n_inputs; i++) ASSERT(may_store(desc->x_dtype[i], i < traits->n_gradients));
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) ASSERT(may_store(desc->y_dtype[i], i == 0));
}

err_t op_infer(op_desc_t *desc)
{
    const op_traits_t *traits = op_traits(desc->kind);
    check_types(desc, traits);
    if (desc->dtype != DTYPE_F32)
        RAISE(ERR_USAGE, "%s: %s is not supported; operators compute in float32", traits->name,
              dtype_name(desc->dtype));
    bool narrow = desc->compute == DTYPE_TF32 || desc->compute == DTYPE_BF16;
    if (desc->compute != DTYPE_F32 && !(traits->products && narrow))
        RAISE(ERR_USAGE,
              "%s: products in %s are not supported; conv2d and linear have float32, tfloat32 and bfloat16",
              traits->name, dtype_name(desc->compute));
    for (int i = 0; i < desc->n_inputs; i++)
        for (int d = 0; d < desc->x[i].n_dims; d++)
            if (desc->x[i].dim[d] < 1)
                RAISE(ERR_USAGE, "%s: the input %s has an empty dimension", traits->name,
                      shape_format(desc->x[i]).text);
    desc->n_outputs = 1;
    desc->n_params = desc->n_states = 0;
    return ops[desc->kind].infer(desc);
}
