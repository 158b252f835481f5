/* SPDX-License-Identifier: MIT */
/* oneDNN's convolutions, on our NHWC images or on its own blocked layouts. Weights are [k, h, w, c/groups] at
 * the boundary and in the primitive's preferred layout inside: they change every step, so each pass that
 * reads or writes them reorders them in the workspace. Images are reordered likewise if a primitive needs a
 * blocked layout. */
#include <string.h>

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/onednn.h"

/* The primitive to request: the layout of images (dnnl_nhwc or dnnl_format_tag_any) and types, with
 * the types of our own x and y. */
typedef struct request {
    dnnl_format_tag_t tag;
    dnnl_data_type_t x, y, weight, our_x, our_y;
} request_t;

static err_t shape_images(const op_desc_t *d, const request_t *request, onednn_tensors_t *s)
{
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    /* Dimensions are named in the order n, c, h, w whatever the layout. */
    dnnl_dims_t x_dims = {x[0], x[3], x[1], x[2]}, y_dims = {y[0], y[3], y[1], y[2]}, bias_dims = {y[3]};
    TRY(onednn_layout_by_tag(&s->our_x, 4, x_dims, request->our_x, dnnl_nhwc, "conv2d input layout"));
    TRY(onednn_layout_by_tag(&s->our_y, 4, y_dims, request->our_y, dnnl_nhwc, "conv2d output layout"));
    TRY(onednn_layout_by_tag(&s->x, 4, x_dims, request->x, request->tag, "conv2d input layout"));
    TRY(onednn_layout_by_tag(&s->y, 4, y_dims, request->y, request->tag, "conv2d output layout"));
    return onednn_layout_by_tag(&s->bias, 1, bias_dims, dnnl_f32, dnnl_x, "conv2d bias layout");
}

static err_t shape_of(const op_desc_t *d, const request_t *request, onednn_tensors_t *s)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    TRY(shape_images(d, request, s));
    int64_t k = a->out_channels, g = a->groups, kh = a->kernel_h, kw = a->kernel_w, c = d->param[0].dim[3];
    dnnl_dims_t dims = {g, k / g, c, kh, kw}, strides = {k / g * kh * kw * c, kh * kw * c, 1, kw * c, c};
    int skip = g == 1 ? 1 : 0; /* the group dimension exists only with groups */
    TRY(onednn_layout_by_tag(&s->weight, 5 - skip, dims + skip, request->weight, dnnl_format_tag_any,
                             "conv2d weight layout"));
    TRY(onednn_layout_by_strides(&s->our_weight, 5 - skip, dims + skip, dnnl_f32, strides + skip,
                                 "conv2d weight layout"));
    s->has_bias = a->has_bias;
    return ERR_OK;
}

/* oneDNN counts skipped pixels in a dilation. */
static onednn_product_t product_of(const conv_problem_t *p, const onednn_tensors_t *s, dnnl_alg_kind_t alg)
{
    const conv2d_attr_t *a = &p->desc->attr.conv2d;
    return (onednn_product_t){.pass = p->pass,
                              .training = p->training,
                              .conv = alg,
                              .x = &s->x,
                              .weight = &s->weight,
                              .bias = s->has_bias ? &s->bias : NULL,
                              .y = &s->y,
                              .strides = {a->stride_h, a->stride_w},
                              .dilation = {a->dilation_h - 1, a->dilation_w - 1},
                              .padding = {a->pad_h, a->pad_w}};
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void drop(dnnl_primitive_desc_t *desc)
{
    if (*desc) dnnl_primitive_desc_destroy(*desc);
    *desc = NULL;
}

/* An NHWC variant is a prefix of oneDNN's implementation name. Among names that differ only in the
 * instruction set the first counts: it is the widest. */
#define FIRST_OFFER "first"
#define BLOCKED     "blocked"
#define WINOGRAD    "winograd"
#define BF16        "bf16"
#if DNNL_VERSION_MAJOR == 2
#define BRGCONV "brgconv:"
#else
#define BRGCONV "brg_conv_" /* brg_conv_fwd: and brg_conv_bwd: */
#endif

/* oneDNN ranks brgconv first. With fewer input channels than vector lanes the direct implementation ranked
 * after it is faster: LeNet's first layer (32 × 28×28×1, 20 5×5 kernels) takes 429 µs instead of 783, a
 * 3-channel 3×3 layer 1679 instead of 2090; at 20 and 64 channels it is not. */
static dnnl_primitive_desc_t take_rule(const conv_problem_t *p, onednn_offers_t *o)
{
    dnnl_primitive_desc_t first = onednn_offers_next(o), second = NULL;
    if (first && p->pass == OP_FORWARD && p->desc->param[0].dim[3] < 16 &&
        begins(onednn_offer_name(first), BRGCONV))
        second = onednn_offers_next(o);
    bool better = second && begins(onednn_offer_name(second), "jit:avx512");
    drop(better ? &first : &second);
    return better ? second : first;
}

static dnnl_primitive_desc_t take_prefix(onednn_offers_t *o, const char *prefix)
{
    dnnl_primitive_desc_t desc;
    while ((desc = onednn_offers_next(o)) && !begins(onednn_offer_name(desc), prefix)) drop(&desc);
    return desc;
}

/* Rejects a "blocked" layout that equals ours: the plain variants offer the same. */
static dnnl_primitive_desc_t take_blocked(const conv_problem_t *p, const onednn_tensors_t *s,
                                          onednn_offers_t *o)
{
    dnnl_primitive_desc_t desc = onednn_offers_next(o);
    int x = p->pass == OP_BACKWARD_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    int y = p->pass == OP_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    if (desc && (!begins(onednn_offer_name(desc), "jit") ||
                 (dnnl_memory_desc_equal(dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, x),
                                         onednn_md(&s->our_x)) &&
                  dnnl_memory_desc_equal(dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, y),
                                         onednn_md(&s->our_y)))))
        drop(&desc);
    return desc;
}

/* oneDNN's best implementation on bfloat16 operands; its reorders round float32 ones. */
static dnnl_primitive_desc_t take_bf16(onednn_offers_t *o)
{
    dnnl_primitive_desc_t desc = onednn_offers_next(o);
    if (desc && begins(onednn_offer_name(desc), "ref:")) drop(&desc);
    return desc;
}

static request_t request_of(const conv_problem_t *p, bool blocked, bool bf16)
{
    request_t request = {.tag = blocked ? dnnl_format_tag_any : dnnl_nhwc,
                         .x = dnnl_f32,
                         .y = dnnl_f32,
                         .weight = dnnl_f32,
                         .our_x = dnnl_f32,
                         .our_y = dnnl_f32};
    if (!bf16) return request;
    if (p->desc->x_dtype[0] == DTYPE_BF16) request.our_x = dnnl_bf16;
    if (p->desc->y_dtype[0] == DTYPE_BF16) request.our_y = dnnl_bf16;
    request.x = p->pass == OP_BACKWARD_DATA ? request.our_x : dnnl_bf16;
    request.y = p->pass == OP_FORWARD ? request.our_y : dnnl_bf16;
    if (p->pass != OP_BACKWARD_WEIGHTS) request.weight = dnnl_bf16;
    return request;
}

/* *out: NULL if oneDNN does not offer it. The caller frees the shape, also after an error. */
static err_t find_offer(const conv_problem_t *p, const char *variant, onednn_tensors_t *s,
                        dnnl_primitive_desc_t *out)
{
    onednn_offers_t *offers = NULL;
    bool winograd = strcmp(variant, WINOGRAD) == 0, blocked = winograd || strcmp(variant, BLOCKED) == 0;
    bool bf16 = strcmp(variant, BF16) == 0;
    request_t request = request_of(p, blocked, bf16);
    conv_problem_t problem = *p;
    /* oneDNN prefers other layouts for inference; a name must mean the same in both. */
    if (blocked) problem.training = true;
    *s = (onednn_tensors_t){.has_bias = false};
    *out = NULL;
    if (bf16 && p->desc->compute != DTYPE_BF16) return ERR_OK;
    TRY(shape_of(p->desc, &request, s));
    const onednn_product_t product =
        product_of(&problem, s, winograd ? dnnl_convolution_winograd : dnnl_convolution_direct);
    TRY(onednn_offers_open(&product, "looking for implementations of conv2d", &offers));
    if (blocked)
        *out = take_blocked(p, s, offers);
    else if (bf16)
        *out = take_bf16(offers);
    else
        *out = strcmp(variant, FIRST_OFFER) == 0 ? take_rule(p, offers) : take_prefix(offers, variant);
    onednn_offers_close(&offers);
    return ERR_OK;
}

static const conv_impl_t *row_of(const char *info)
{
    const conv_impl_t *impl = conv_onednn;
    while (strcmp(impl->variant, FIRST_OFFER) != 0 && !begins(info, impl->variant)) impl++;
    return impl;
}

const conv_impl_t *conv_onednn_rule(const conv_problem_t *problem)
{
    onednn_tensors_t s;
    dnnl_primitive_desc_t desc;
    const conv_impl_t *impl = NULL;
    if (find_offer(problem, FIRST_OFFER, &s, &desc) == ERR_OK && desc) {
        impl = row_of(onednn_offer_name(desc));
        drop(&desc);
    }
    onednn_tensors_free(&s);
    return impl;
}

static bool conv_onednn_fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    onednn_tensors_t s;
    dnnl_primitive_desc_t desc;
    bool last_resort = strcmp(impl->variant, FIRST_OFFER) == 0 || strcmp(impl->variant, "ref:") == 0;
    if (last_resort) return conv_onednn_rule(problem) == impl;
    bool there = find_offer(problem, impl->variant, &s, &desc) == ERR_OK && desc;
    if (there) drop(&desc);
    onednn_tensors_free(&s);
    return there;
}

const conv_impl_t *conv_bf16_rule(const conv_problem_t *problem)
{
    bool native = problem->desc->compute == DTYPE_BF16 && onednn_has_bf16();
    return native && conv_onednn_fits(conv_bf16, problem) ? conv_bf16 : NULL;
}

static err_t conv_onednn_plan(const conv_impl_t *impl, const conv_problem_t *problem, void **out,
                              size_t *n_workspace_bytes)
{
    onednn_tensors_t s;
    dnnl_primitive_desc_t desc;
    onednn_chain_t *chain = NULL;
    err_t err = find_offer(problem, impl->variant, &s, &desc);
    if (err == ERR_OK && !desc)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "oneDNN has no %s for conv2d, %s", impl->name,
                        op_pass_names[problem->pass]);
    if (err == ERR_OK) err = onednn_chain_new(desc, problem->pass, &s, &chain, n_workspace_bytes);
    if (err == ERR_OK) *out = chain;
    drop(&desc);
    onednn_tensors_free(&s);
    return err;
}

static err_t conv_onednn_run(const void *plan_, const conv_problem_t *problem, const conv_buffers_t *b,
                             void *workspace)
{
    const void *const buffers[OP_PASS_COUNT][ONEDNN_OPERANDS] = {
        [OP_FORWARD] = {b->x, b->weight, b->y, b->bias},
        [OP_BACKWARD_DATA] = {b->dy, b->weight, b->dx},
        [OP_BACKWARD_WEIGHTS] = {b->x, b->dy, b->dweight, b->dbias}};
    return onednn_chain_run(plan_, buffers[problem->pass], workspace);
}

static void conv_onednn_unplan(void **plan_)
{
    onednn_chain_t *chain = *plan_;
    onednn_chain_free(&chain);
    *plan_ = NULL;
}

/* oneDNN's Winograd for training is jit_wino_4x3, which is F(4×4, 3×3): 36 products for a tile of 16 pixels. How it
 * cuts the borders is its own: they count as parts of a tile. */
static double conv_onednn_winograd_macs(const void *plan, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const shape_t to = problem->pass == OP_BACKWARD_DATA ? d->x[0] : d->y[0];
    (void)plan;
    return (double)(to.dim[0] * to.dim[1] * to.dim[2] * d->x[0].dim[3] * d->y[0].dim[3]) * 36 / 16;
}

#define ROW(title, which)                                                                                    \
    {                                                                                                        \
        .name = title, .variant = which, .fits = conv_onednn_fits, .plan = conv_onednn_plan,                 \
        .run = conv_onednn_run, .unplan = conv_onednn_unplan                                                 \
    }
const conv_impl_t conv_onednn[] = {
    ROW("onednn/brgconv", BRGCONV),
    ROW("onednn/brgconv_1x1", "brgconv_1x1:"),
    ROW("onednn/brdgmm_dw", "brdgmm_dw:"),
    ROW("onednn/jit", "jit:"),
    ROW("onednn/jit_1x1", "jit_1x1:"),
    ROW("onednn/jit_dw", "jit_dw:"),
    ROW("onednn/gemm", "gemm:"),
    ROW("onednn/ref", "ref:"),
    ROW("onednn/first", FIRST_OFFER), /* last NHWC row: an implementation name not listed above */
    ROW("blocked", BLOCKED),
    {.name = "winograd",
     .variant = WINOGRAD,
     .fits = conv_onednn_fits,
     .plan = conv_onednn_plan,
     .run = conv_onednn_run,
     .unplan = conv_onednn_unplan,
     .macs = conv_onednn_winograd_macs},
    {.name = NULL},
};
const conv_impl_t conv_bf16[] = {
    {.name = "onednn/bf16",
     .variant = BF16,
     .rounds = true,
     .fits = conv_onednn_fits,
     .plan = conv_onednn_plan,
     .run = conv_onednn_run,
     .unplan = conv_onednn_unplan},
    {.name = NULL},
};
