/* SPDX-License-Identifier: MIT */
/* oneDNN's convolutions, on our NHWC images or on its own blocked layouts. Weights are [k, h, w, c/groups] at
 * the boundary and in the primitive's preferred layout inside: they change every step, so each pass that
 * reads or writes them reorders them in the workspace. Images are reordered likewise if a primitive needs a
 * blocked layout. */
#include <string.h>

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/onednn_chain.h"

/* oneDNN's view of the operator. */
typedef struct conv_shape {
    dnnl_memory_desc_t x, y, bias, weight;       /* as the primitive may store them; `any`: its choice */
    dnnl_memory_desc_t our_x, our_y, our_weight; /* layouts of op.h */
    dnnl_dims_t strides, dilation, padding;
    bool has_bias;
} conv_shape_t;

/* The primitive to request: the layout of images (dnnl_nhwc or dnnl_format_tag_any) and types, with
 * the types of our own x and y. */
typedef struct request {
    dnnl_format_tag_t tag;
    dnnl_data_type_t x, y, weight, our_x, our_y;
} request_t;

static err_t shape_images(const op_desc_t *d, const request_t *request, conv_shape_t *s)
{
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    /* Dimensions are named in the order n, c, h, w whatever the layout. */
    dnnl_dims_t x_dims = {x[0], x[3], x[1], x[2]}, y_dims = {y[0], y[3], y[1], y[2]}, bias_dims = {y[3]};
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->our_x, 4, x_dims, request->our_x, dnnl_nhwc),
           "conv2d input layout");
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->our_y, 4, y_dims, request->our_y, dnnl_nhwc),
           "conv2d output layout");
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->x, 4, x_dims, request->x, request->tag), "conv2d input layout");
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->y, 4, y_dims, request->y, request->tag), "conv2d output layout");
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->bias, 1, bias_dims, dnnl_f32, dnnl_x), "conv2d bias layout");
    return ERR_OK;
}

static err_t shape_of(const op_desc_t *d, const request_t *request, conv_shape_t *s)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    TRY(shape_images(d, request, s));
    int64_t k = a->out_channels, g = a->groups, kh = a->kernel_h, kw = a->kernel_w, c = d->param[0].dim[3];
    dnnl_dims_t dims = {g, k / g, c, kh, kw}, strides = {k / g * kh * kw * c, kh * kw * c, 1, kw * c, c};
    int skip = g == 1 ? 1 : 0; /* the group dimension exists only with groups */
    E_DNNL(
        dnnl_memory_desc_init_by_tag(&s->weight, 5 - skip, dims + skip, request->weight, dnnl_format_tag_any),
        "conv2d weight layout");
    E_DNNL(dnnl_memory_desc_init_by_strides(&s->our_weight, 5 - skip, dims + skip, dnnl_f32, strides + skip),
           "conv2d weight layout");
    s->has_bias = a->has_bias;
    s->strides[0] = a->stride_h, s->strides[1] = a->stride_w;
    /* oneDNN counts skipped pixels. */
    s->dilation[0] = a->dilation_h - 1, s->dilation[1] = a->dilation_w - 1;
    s->padding[0] = a->pad_h, s->padding[1] = a->pad_w;
    return ERR_OK;
}

static dnnl_status_t describe_conv(const conv_problem_t *p, const conv_shape_t *s, dnnl_alg_kind_t alg,
                                   dnnl_convolution_desc_t *out)
{
    const dnnl_memory_desc_t *bias = s->has_bias ? &s->bias : NULL;
    dnnl_prop_kind_t kind = p->training ? dnnl_forward_training : dnnl_forward_inference;
    if (p->pass == OP_FORWARD)
        return dnnl_dilated_convolution_forward_desc_init(out, kind, alg, &s->x, &s->weight, bias, &s->y,
                                                          s->strides, s->dilation, s->padding, s->padding);
    if (p->pass == OP_BACKWARD_DATA)
        return dnnl_dilated_convolution_backward_data_desc_init(
            out, alg, &s->x, &s->weight, &s->y, s->strides, s->dilation, s->padding, s->padding);
    return dnnl_dilated_convolution_backward_weights_desc_init(
        out, alg, &s->x, &s->weight, bias, &s->y, s->strides, s->dilation, s->padding, s->padding);
}

/* Such as "jit:avx512_core"; "x64:gemm:jit" without its "x64:". */
static const char *info_of(const_dnnl_primitive_desc_t desc)
{
    const char *info = "", *prefix = "x64:";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&info);
    return strncmp(info, prefix, strlen(prefix)) == 0 ? info + strlen(prefix) : info;
}

static bool begins(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* oneDNN's implementations in its order of preference. */
typedef struct offers {
    dnnl_primitive_desc_iterator_t iterator; /* NULL: none */
    dnnl_primitive_attr_t attr;
    dnnl_convolution_desc_t desc; /* the iterator points at it */
    bool begun;
} offers_t;

static void offers_close(offers_t *o)
{
    if (o->iterator) dnnl_primitive_desc_iterator_destroy(o->iterator);
    if (o->attr) dnnl_primitive_attr_destroy(o->attr);
}

static err_t offers_open(const conv_problem_t *p, const conv_shape_t *s, dnnl_alg_kind_t alg, offers_t *o)
{
    *o = (offers_t){.begun = false};
    E_DNNL(describe_conv(p, s, alg, &o->desc), "describing conv2d");
    TRY(onednn_attr_new(&o->attr));
    dnnl_status_t status =
        dnnl_primitive_desc_iterator_create(&o->iterator, &o->desc, o->attr, onednn_engine(), NULL);
    if (status == dnnl_success) return ERR_OK;
    o->iterator = NULL;
    if (status == dnnl_unimplemented) return ERR_OK;
    offers_close(o);
    return onednn_check(status, "looking for implementations of conv2d", __FILE__, __LINE__);
}

/* The next implementation, to be destroyed by the caller; NULL after the last. */
static dnnl_primitive_desc_t offers_next(offers_t *o)
{
    bool there = o->iterator && (!o->begun || dnnl_primitive_desc_iterator_next(o->iterator) == dnnl_success);
    o->begun = true;
    return there ? dnnl_primitive_desc_iterator_fetch(o->iterator) : NULL;
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

/* oneDNN ranks brgconv first. With fewer input channels than vector lanes the direct implementation ranked
 * after it is faster: LeNet's first layer (32 × 28×28×1, 20 5×5 kernels) takes 429 µs instead of 783, a
 * 3-channel 3×3 layer 1679 instead of 2090; at 20 and 64 channels it is not. */
static dnnl_primitive_desc_t take_rule(const conv_problem_t *p, offers_t *o)
{
    dnnl_primitive_desc_t first = offers_next(o), second = NULL;
    if (first && p->pass == OP_FORWARD && p->desc->param[0].dim[3] < 16 && begins(info_of(first), "brgconv:"))
        second = offers_next(o);
    bool better = second && begins(info_of(second), "jit:avx512");
    drop(better ? &first : &second);
    return better ? second : first;
}

static dnnl_primitive_desc_t take_prefix(offers_t *o, const char *prefix)
{
    dnnl_primitive_desc_t desc;
    while ((desc = offers_next(o)) && !begins(info_of(desc), prefix)) drop(&desc);
    return desc;
}

/* Rejects a "blocked" layout that equals ours: the plain variants offer the same. */
static dnnl_primitive_desc_t take_blocked(const conv_problem_t *p, const conv_shape_t *s, offers_t *o)
{
    dnnl_primitive_desc_t desc = offers_next(o);
    int x = p->pass == OP_BACKWARD_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    int y = p->pass == OP_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    if (desc &&
        (!begins(info_of(desc), "jit") ||
         (dnnl_memory_desc_equal(dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, x), &s->our_x) &&
          dnnl_memory_desc_equal(dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, y), &s->our_y))))
        drop(&desc);
    return desc;
}

/* oneDNN's best implementation on bfloat16 operands; its reorders round float32 ones. */
static dnnl_primitive_desc_t take_bf16(offers_t *o)
{
    dnnl_primitive_desc_t desc = offers_next(o);
    if (desc && begins(info_of(desc), "ref:")) drop(&desc);
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

/* *out: NULL if oneDNN does not offer it. */
static err_t find_offer(const conv_problem_t *p, const char *variant, conv_shape_t *s,
                        dnnl_primitive_desc_t *out)
{
    offers_t offers;
    bool winograd = strcmp(variant, WINOGRAD) == 0, blocked = winograd || strcmp(variant, BLOCKED) == 0;
    bool bf16 = strcmp(variant, BF16) == 0;
    request_t request = request_of(p, blocked, bf16);
    conv_problem_t problem = *p;
    /* oneDNN prefers other layouts for inference; a name must mean the same in both. */
    if (blocked) problem.training = true;
    *out = NULL;
    if (bf16 && p->desc->compute != DTYPE_BF16) return ERR_OK;
    TRY(shape_of(p->desc, &request, s));
    TRY(offers_open(&problem, s, winograd ? dnnl_convolution_winograd : dnnl_convolution_direct, &offers));
    if (blocked)
        *out = take_blocked(p, s, &offers);
    else if (bf16)
        *out = take_bf16(&offers);
    else
        *out = strcmp(variant, FIRST_OFFER) == 0 ? take_rule(p, &offers) : take_prefix(&offers, variant);
    offers_close(&offers);
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
    conv_shape_t s;
    dnnl_primitive_desc_t desc;
    if (find_offer(problem, FIRST_OFFER, &s, &desc) != ERR_OK || !desc) return NULL;
    const conv_impl_t *impl = row_of(info_of(desc));
    drop(&desc);
    return impl;
}

static bool conv_onednn_fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    conv_shape_t s;
    dnnl_primitive_desc_t desc;
    bool last_resort = strcmp(impl->variant, FIRST_OFFER) == 0 || strcmp(impl->variant, "ref:") == 0;
    if (last_resort) return conv_onednn_rule(problem) == impl;
    bool there = find_offer(problem, impl->variant, &s, &desc) == ERR_OK && desc;
    if (there) drop(&desc);
    return there;
}

enum { MAX_OPERANDS = 4 };

const conv_impl_t *conv_bf16_rule(const conv_problem_t *problem)
{
    bool native = problem->desc->compute == DTYPE_BF16 && onednn_has_bf16();
    return native && conv_onednn_fits(conv_bf16, problem) ? conv_bf16 : NULL;
}

/* Operands in the order of conv_onednn_run's buffers. */
static err_t make_chain(const_dnnl_primitive_desc_t desc, const conv_problem_t *p, const conv_shape_t *s,
                        onednn_chain_t **out, size_t *n_workspace_bytes)
{
    const onednn_operand_t operands[OP_PASS_COUNT][MAX_OPERANDS] = {
        [OP_FORWARD] = {{DNNL_ARG_SRC, &s->our_x, false},
                        {DNNL_ARG_WEIGHTS, &s->our_weight, false},
                        {DNNL_ARG_DST, &s->our_y, true},
                        {s->has_bias ? DNNL_ARG_BIAS : 0, &s->bias, false}},
        [OP_BACKWARD_DATA] = {{DNNL_ARG_DIFF_DST, &s->our_y, false},
                              {DNNL_ARG_WEIGHTS, &s->our_weight, false},
                              {DNNL_ARG_DIFF_SRC, &s->our_x, true}},
        [OP_BACKWARD_WEIGHTS] = {{DNNL_ARG_SRC, &s->our_x, false},
                                 {DNNL_ARG_DIFF_DST, &s->our_y, false},
                                 {DNNL_ARG_DIFF_WEIGHTS, &s->our_weight, true},
                                 {s->has_bias ? DNNL_ARG_DIFF_BIAS : 0, &s->bias, true}}};
    return onednn_chain_new(desc, operands[p->pass], MAX_OPERANDS, out, n_workspace_bytes);
}

static err_t conv_onednn_plan(const conv_impl_t *impl, const conv_problem_t *problem, void **out,
                              size_t *n_workspace_bytes)
{
    conv_shape_t s;
    dnnl_primitive_desc_t desc;
    onednn_chain_t *chain = NULL;
    TRY(find_offer(problem, impl->variant, &s, &desc));
    if (!desc) RAISE(ERR_SYSTEM, "oneDNN has no %s for conv2d, %s", impl->name, op_pass_names[problem->pass]);
    err_t err = make_chain(desc, problem, &s, &chain, n_workspace_bytes);
    *out = chain;
    drop(&desc);
    return err;
}

static err_t conv_onednn_run(const void *plan_, const conv_problem_t *problem, const conv_buffers_t *b,
                             void *workspace)
{
    const void *const buffers[OP_PASS_COUNT][MAX_OPERANDS] = {
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

#define ROW(title, which)                                                                                    \
    {                                                                                                        \
        .name = title, .variant = which, .fits = conv_onednn_fits, .plan = conv_onednn_plan,                 \
        .run = conv_onednn_run, .unplan = conv_onednn_unplan                                                 \
    }
const conv_impl_t conv_onednn[] = {
    ROW("onednn/brgconv", "brgconv:"),
    ROW("onednn/brgconv_1x1", "brgconv_1x1:"),
    ROW("onednn/brdgmm_dw", "brdgmm_dw:"),
    ROW("onednn/jit", "jit:"),
    ROW("onednn/jit_1x1", "jit_1x1:"),
    ROW("onednn/jit_dw", "jit_dw:"),
    ROW("onednn/gemm", "gemm:"),
    ROW("onednn/ref", "ref:"),
    ROW("onednn/first", FIRST_OFFER), /* last NHWC row: an implementation name not listed above */
    ROW("blocked", BLOCKED),
    ROW("winograd", WINOGRAD),
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
