#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/onednn.h"

/* Pictures stay NHWC. Weights are ours, [k, h, w, c/groups], at the boundary, and whatever the primitive
 * likes best inside: they change at every step, so each pass that reads or writes them reorders them, in
 * workspace. */
typedef struct conv_pass {
    onednn_pass_t compute;
    onednn_pass_t reorder; /* our weights → the primitive's, or back; empty when they agree */
    size_t n_weight_bytes; /* of the primitive's weights, in front of the scratchpad; 0 when they agree */
} conv_pass_t;

typedef struct conv_plan {
    conv_pass_t forward, backward_data, backward_weights;
} conv_plan_t;

/* oneDNN's view of the operator. */
typedef struct conv_shape {
    dnnl_memory_desc_t x, y, bias;
    dnnl_memory_desc_t weight;     /* layout left to the primitive */
    dnnl_memory_desc_t our_weight; /* layout of op.h */
    const dnnl_memory_desc_t *bias_or_null;
    dnnl_dims_t strides, dilation, padding;
} conv_shape_t;

static err_t shape_pictures(const op_desc_t *d, conv_shape_t *s)
{
    const int64_t *x = d->x[0].dim, *y = d->y.dim;
    /* Dimensions are named in the order n, c, h, w whatever the layout. */
    dnnl_dims_t x_dims = {x[0], x[3], x[1], x[2]}, y_dims = {y[0], y[3], y[1], y[2]}, bias_dims = {y[3]};
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->x, 4, x_dims, dnnl_f32, dnnl_nhwc), "conv2d input layout");
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->y, 4, y_dims, dnnl_f32, dnnl_nhwc), "conv2d output layout");
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->bias, 1, bias_dims, dnnl_f32, dnnl_x), "conv2d bias layout");
    return ERR_OK;
}

static err_t shape_of(const op_desc_t *d, conv_shape_t *s)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    TRY(shape_pictures(d, s));
    int64_t k = a->out_channels, g = a->groups, kh = a->kernel_h, kw = a->kernel_w, c = d->param[0].dim[3];
    dnnl_dims_t dims = {g, k / g, c, kh, kw}, strides = {k / g * kh * kw * c, kh * kw * c, 1, kw * c, c};
    int skip = g == 1 ? 1 : 0; /* the dimension of the groups exists only where there are some */
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->weight, 5 - skip, dims + skip, dnnl_f32, dnnl_format_tag_any),
           "conv2d weight layout");
    E_DNNL(dnnl_memory_desc_init_by_strides(&s->our_weight, 5 - skip, dims + skip, dnnl_f32, strides + skip),
           "conv2d weight layout");
    s->bias_or_null = a->has_bias ? &s->bias : NULL;
    s->strides[0] = a->stride_h, s->strides[1] = a->stride_w;
    /* oneDNN counts the cells skipped. */
    s->dilation[0] = a->dilation_h - 1, s->dilation[1] = a->dilation_w - 1;
    s->padding[0] = a->pad_h, s->padding[1] = a->pad_w;
    return ERR_OK;
}

static bool name_begins(const_dnnl_primitive_desc_t desc, const char *prefix)
{
    const char *name = "";
    dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* oneDNN offers implementations in its order of preference and rates brgconv first. With fewer input channels
 * than a vector has lanes, the direct one behind it is faster: LeNet's first layer (32 × 28×28×1, 20 5×5
 * kernels) takes 429 µs instead of 783, a 3-channel 3×3 layer 1679 instead of 2090; at 20 and 64 channels it
 * is not. A rule on the shape and not a measurement, so that every rank and every run gets the same bits. */
static err_t describe_forward(const op_t *op, const conv_shape_t *s, const_dnnl_primitive_attr_t attr,
                              dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t d;
    dnnl_primitive_desc_iterator_t iterator;
    dnnl_prop_kind_t kind = op->training ? dnnl_forward_training : dnnl_forward_inference;
    E_DNNL(dnnl_dilated_convolution_forward_desc_init(&d, kind, dnnl_convolution_direct, &s->x, &s->weight,
                                                      s->bias_or_null, &s->y, s->strides, s->dilation,
                                                      s->padding, s->padding),
           "describing conv2d forward");
    E_DNNL(dnnl_primitive_desc_iterator_create(&iterator, &d, attr, onednn_engine(), NULL),
           "no implementation of conv2d forward");
    dnnl_primitive_desc_t desc = dnnl_primitive_desc_iterator_fetch(iterator);
    if (desc && op->desc.param[0].dim[3] < 16 && name_begins(desc, "brgconv:") &&
        dnnl_primitive_desc_iterator_next(iterator) == dnnl_success) {
        dnnl_primitive_desc_t next = dnnl_primitive_desc_iterator_fetch(iterator);
        bool better = next && name_begins(next, "jit:avx512");
        dnnl_primitive_desc_destroy(better ? desc : next);
        if (better) desc = next;
    }
    dnnl_primitive_desc_iterator_destroy(iterator);
    if (!desc) RAISE(ERR_SYSTEM, "oneDNN, conv2d forward: out of memory");
    *out = desc;
    return ERR_OK;
}

static err_t describe_backward_data(const conv_shape_t *s, const_dnnl_primitive_attr_t attr,
                                    const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t d;
    E_DNNL(dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, &s->x, &s->weight,
                                                            &s->y, s->strides, s->dilation, s->padding,
                                                            s->padding),
           "describing conv2d backward data");
    E_DNNL(dnnl_primitive_desc_create(out, &d, attr, onednn_engine(), forward),
           "no implementation of conv2d backward data");
    return ERR_OK;
}

static err_t describe_backward_weights(const conv_shape_t *s, const_dnnl_primitive_attr_t attr,
                                       const_dnnl_primitive_desc_t forward, dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t d;
    E_DNNL(dnnl_dilated_convolution_backward_weights_desc_init(&d, dnnl_convolution_direct, &s->x, &s->weight,
                                                               s->bias_or_null, &s->y, s->strides,
                                                               s->dilation, s->padding, s->padding),
           "describing conv2d backward weights");
    E_DNNL(dnnl_primitive_desc_create(out, &d, attr, onednn_engine(), forward),
           "no implementation of conv2d backward weights");
    return ERR_OK;
}

static void pass_free(conv_pass_t *pass)
{
    onednn_pass_free(&pass->compute);
    onednn_pass_free(&pass->reorder);
}

/* Primitive and reorder of one pass. slots[1] is the weights; its layout is filled in here. */
static err_t pass_new(conv_pass_t *pass, const_dnnl_primitive_desc_t desc, const conv_shape_t *s,
                      onednn_slot_t *slots, int n_slots)
{
    bool is_output = slots[1].arg == DNNL_ARG_DIFF_WEIGHTS;
    dnnl_query_t query = is_output ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    const dnnl_memory_desc_t *weight = dnnl_primitive_desc_query_md(desc, query, 0);
    slots[1].layout = weight;
    TRY(onednn_pass_new(&pass->compute, desc, slots, n_slots));
    if (dnnl_memory_desc_equal(weight, &s->our_weight)) return ERR_OK;
    pass->n_weight_bytes = mem_round(dnnl_memory_desc_get_size(weight));
    return is_output ? onednn_pass_reorder(&pass->reorder, weight, &s->our_weight)
                     : onednn_pass_reorder(&pass->reorder, &s->our_weight, weight);
}

static size_t pass_workspace(const conv_pass_t *pass)
{
    size_t compute = pass->compute.n_scratch_bytes, reorder = pass->reorder.n_scratch_bytes;
    return pass->n_weight_bytes + (compute > reorder ? compute : reorder);
}

static err_t plan_forward(const op_t *op, const conv_shape_t *s, const_dnnl_primitive_attr_t attr,
                          conv_plan_t *plan, dnnl_primitive_desc_t *desc)
{
    TRY(describe_forward(op, s, attr, desc));
    onednn_slot_t slots[] = {{DNNL_ARG_SRC, &s->x},
                             {DNNL_ARG_WEIGHTS, NULL},
                             {DNNL_ARG_DST, &s->y},
                             {s->bias_or_null ? DNNL_ARG_BIAS : 0, &s->bias}};
    return pass_new(&plan->forward, *desc, s, slots, 4);
}

static err_t plan_backward(const conv_shape_t *s, const_dnnl_primitive_attr_t attr, conv_plan_t *plan,
                           const_dnnl_primitive_desc_t forward)
{
    dnnl_primitive_desc_t desc;
    TRY(describe_backward_data(s, attr, forward, &desc));
    onednn_slot_t data[] = {{DNNL_ARG_DIFF_DST, &s->y}, {DNNL_ARG_WEIGHTS, NULL}, {DNNL_ARG_DIFF_SRC, &s->x}};
    err_t err = pass_new(&plan->backward_data, desc, s, data, 3);
    dnnl_primitive_desc_destroy(desc);
    TRY(err);
    TRY(describe_backward_weights(s, attr, forward, &desc));
    onednn_slot_t weights[] = {{DNNL_ARG_SRC, &s->x},
                               {DNNL_ARG_DIFF_WEIGHTS, NULL},
                               {DNNL_ARG_DIFF_DST, &s->y},
                               {s->bias_or_null ? DNNL_ARG_DIFF_BIAS : 0, &s->bias}};
    err = pass_new(&plan->backward_weights, desc, s, weights, 4);
    dnnl_primitive_desc_destroy(desc);
    return err;
}

static void plan_free(conv_plan_t **plan)
{
    if (!*plan) return;
    pass_free(&(*plan)->forward);
    pass_free(&(*plan)->backward_data);
    pass_free(&(*plan)->backward_weights);
    mem_free(plan);
}

static err_t plan(op_t *op)
{
    err_t err = ERR_OK;
    conv_plan_t *p = NULL;
    conv_shape_t s;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t forward = NULL;
    TRY_OUT(err, mem_new(sizeof *p, "the plan of a convolution", &p));
    TRY_OUT(err, shape_of(&op->desc, &s));
    TRY_OUT(err, onednn_attr_new(&attr));
    TRY_OUT(err, plan_forward(op, &s, attr, p, &forward));
    if (op->training) TRY_OUT(err, plan_backward(&s, attr, p, forward));
    const conv_pass_t *pass[] = {&p->forward, &p->backward_data, &p->backward_weights};
    for (int i = 0; i < 3; i++) {
        size_t n_bytes = pass_workspace(pass[i]);
        if (n_bytes > op->n_workspace_bytes) op->n_workspace_bytes = n_bytes;
    }
    op->plan = p;
    p = NULL;
out:
    if (forward) dnnl_primitive_desc_destroy(forward);
    if (attr) dnnl_primitive_attr_destroy(attr);
    plan_free(&p);
    return err;
}

static void unplan(op_t *op)
{
    conv_plan_t *p = op->plan;
    plan_free(&p);
    op->plan = NULL;
}

/* Runs a pass on buffers in the order of its slots; buffers[1] is our weights, read or written. */
static err_t run(const conv_pass_t *pass, const void *buffers[4], void *workspace, bool is_output)
{
    if (!pass->reorder.primitive) return onednn_pass_run(&pass->compute, buffers, workspace);
    char *scratch = (char *)workspace + pass->n_weight_bytes;
    const void *ours = buffers[1], *inwards[] = {ours, workspace}, *outwards[] = {workspace, ours};
    if (!is_output) TRY(onednn_pass_run(&pass->reorder, inwards, scratch));
    buffers[1] = workspace;
    TRY(onednn_pass_run(&pass->compute, buffers, scratch));
    if (is_output) TRY(onednn_pass_run(&pass->reorder, outwards, scratch));
    return ERR_OK;
}

static err_t forward(const op_t *op, const op_args_t *args)
{
    const conv_plan_t *p = op->plan;
    return run(&p->forward, (const void *[]){args->x[0], args->param[0], args->y, args->param[1]},
               args->workspace, false);
}

static err_t backward(const op_t *op, const op_args_t *args)
{
    const conv_plan_t *p = op->plan;
    if (args->dx[0])
        TRY(run(&p->backward_data, (const void *[]){args->dy, args->param[0], args->dx[0], NULL},
                args->workspace, false));
    return run(&p->backward_weights, (const void *[]){args->x[0], args->dparam[0], args->dy, args->dparam[1]},
               args->workspace, true);
}

const op_kernel_t cpu_conv2d = {.plan = plan, .forward = forward, .backward = backward, .unplan = unplan};
