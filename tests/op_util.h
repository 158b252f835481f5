/* SPDX-License-Identifier: MIT */
/* One operator on one backend with its own buffers, for the operators' tests. */
#ifndef TESTS_OP_UTIL_H
#define TESTS_OP_UTIL_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "compute/ops/hd_buffer.h"
#include "compute/tensor/float16.h"

/* Descriptions; op_run_new infers the rest. CONV's attributes are in the order of conv2d_attr_t:
 * out_channels, kernel, stride, padding, dilation (height and width each), groups, has_bias; POOL's in that
 * of pool2d_attr_t. */
#define CONV(n, h, w, c, ...)                                                                                \
    {                                                                                                        \
        .kind = OP_CONV2D, .n_inputs = 1, .x = {{4, {n, h, w, c}}}, .attr.conv2d = { __VA_ARGS__ }           \
    }
#define LINEAR(n, in, out, bias)                                                                             \
    {                                                                                                        \
        .kind = OP_LINEAR, .n_inputs = 1, .x = {{2, {n, in}}}, .attr.linear = { out, bias }                  \
    }
#define POOL(n, h, w, c, ...)                                                                                \
    {                                                                                                        \
        .kind = OP_POOL2D, .n_inputs = 1, .x = {{4, {n, h, w, c}}}, .attr.pool2d = { __VA_ARGS__ }           \
    }
#define RELU(...)                                                                                            \
    {                                                                                                        \
        .kind = OP_RELU, .n_inputs = 1, .x = { __VA_ARGS__ }                                                 \
    }
#define DROPOUT(p, ...)                                                                                      \
    {                                                                                                        \
        .kind = OP_DROPOUT, .n_inputs = 1, .x = {__VA_ARGS__}, .attr.dropout = { p }                         \
    }
#define ADD(...)                                                                                             \
    {                                                                                                        \
        .kind = OP_ADD, .n_inputs = 2, .x = { __VA_ARGS__, __VA_ARGS__ }                                     \
    }
#define NORM(momentum, epsilon, ...)                                                                         \
    {                                                                                                        \
        .kind = OP_BATCH_NORM, .n_inputs = 1, .x = {__VA_ARGS__}, .attr.batch_norm = { momentum, epsilon }   \
    }
#define NORM_GROUPS(group, ...)                                                                              \
    {                                                                                                        \
        .kind = OP_BATCH_NORM, .n_inputs = 1, .x = {__VA_ARGS__}, .attr.batch_norm = { 0.1, 1e-5, group }    \
    }
#define GROUP_NORM(groups, ...)                                                                              \
    {                                                                                                        \
        .kind = OP_GROUP_NORM, .n_inputs = 1, .x = {__VA_ARGS__}, .attr.group_norm = { 1e-5, groups }        \
    }
#define XENT(n, classes, smoothing)                                                                          \
    {                                                                                                        \
        .kind = OP_SOFTMAX_XENT, .n_inputs = 2, .x = {{2, {n, classes}}, {1, {n}}}, .attr.softmax_xent = {   \
            smoothing                                                                                        \
        }                                                                                                    \
    }
#define XENT_WEIGHTS(n, classes, smoothing)                                                                  \
    {                                                                                                        \
        .kind = OP_SOFTMAX_XENT, .n_inputs = 3, .x = {{2, {n, classes}}, {1, {n}}, {1, {n}}},                \
        .attr.softmax_xent = {                                                                               \
            smoothing                                                                                        \
        }                                                                                                    \
    }
#define BCE(n, classes)                                                                                      \
    {                                                                                                        \
        .kind = OP_SIGMOID_BCE, .n_inputs = 2, .x = { {2, {n, classes}}, {2, {n, classes}} }                 \
    }

#define UPSAMPLE_ADD(n, h, w, c)                                                                             \
    {                                                                                                        \
        .kind = OP_UPSAMPLE_ADD, .n_inputs = 2, .x = { {4, {n, 2 * (h), 2 * (w), c}}, {4, {n, h, w, c}} }    \
    }

#define DECONV(n, h, w, c, ...)                                                                              \
    {                                                                                                        \
        .kind = OP_DECONV2D, .n_inputs = 1, .x = {{4, {n, h, w, c}}}, .attr.deconv2d = { __VA_ARGS__ }       \
    }
/* Losses of m entries with k classes each and l labels, of n samples. */
#define SMOOTH_L1(n, m, k, l, ...)                                                                           \
    {                                                                                                        \
        .kind = OP_SMOOTH_L1, .n_inputs = 4,                                                                 \
        .x = {{2, {n, 4 * (m) * (k)}}, {2, {n, l}}, {2, {n, l}}, {3, {n, m, 4}}}, .attr.smooth_l1 = {        \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define BCE_AT(n, m, k, l)                                                                                   \
    {                                                                                                        \
        .kind = OP_SIGMOID_BCE_AT, .n_inputs = 4, .x = {                                                     \
            {3, {n, m, k}},                                                                                  \
            {2, {n, l}},                                                                                     \
            {2, {n, l}},                                                                                     \
            {2, {n, m}}                                                                                      \
        }                                                                                                    \
    }
/* The labels are the targets. */
#define BCE_LABELS(n, m)                                                                                     \
    {                                                                                                        \
        .kind = OP_SIGMOID_BCE_AT, .n_inputs = 3, .x = { {2, {n, m}}, {2, {n, m}}, {2, {n, m}} }             \
    }
/* Levels of h × w cells and their halves; `samples` 0: adaptive. */
#define ROI_ALIGN(n, h, w, c, rows, ...)                                                                     \
    {                                                                                                        \
        .kind = OP_ROI_ALIGN, .n_inputs = 5,                                                                 \
        .x = {{4, {n, h, w, c}},                                                                             \
              {4, {n, (h) / 2, (w) / 2, c}},                                                                 \
              {4, {n, (h) / 4, (w) / 4, c}},                                                                 \
              {4, {n, (h) / 8, (w) / 8, c}},                                                                 \
              {2, {rows, ROI_ALIGN_VALUES}}},                                                                \
        .attr.roi_align = {                                                                                  \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

/* Whether every operator of compute/ops/list.h is among n cases, the first description `first`, `size` bytes
 * apart. */
static inline bool util_has_all(const op_desc_t *first, size_t size, int n)
{
    bool found[OP_KIND_COUNT] = {false}, all = true;
    for (int i = 0; i < n; i++)
        found[((const op_desc_t *)(const void *)((const char *)first + (size_t)i * size))->kind] = true;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++) {
        if (!found[kind]) printf("# no case of %s\n", op_traits((op_kind_t)kind)->name);
        all = all && found[kind];
    }
    return all;
}

/* Whether a backend has the operator: OP_LIST_HOST. */
static inline bool util_has(const backend_t *backend, const op_desc_t *desc)
{
    return backend->kernel[desc->kind] != NULL;
}

/* For calls without which a test cannot continue. */
static inline void must(err_t err, const char *what)
{
    if (err == ERR_OK) return;
    printf("Bail out! %s: %s\n", what, err_message());
    exit(1);
}

/* The device of argv[1] (ref without one), opened. */
static inline const backend_t *util_open(int argc, char **argv, int n_threads)
{
    const backend_t *backend = NULL;
    char why[BACKEND_WHY_MAX];
    must(backend_find(argc > 1 ? argv[1] : "ref", &backend, why), "the device");
    must(backend_open(backend, n_threads), "opening the device");
    return backend;
}

/* Blocks for an operator. Tests use the host side, and point op_args_t at it; op_run_forward and
 * op_run_backward substitute the device side. */
enum { UTIL_MAX_BLOCKS = 128 };
static hd_buffer_t util_blocks[UTIL_MAX_BLOCKS];

static inline void *util_block(const backend_t *backend, size_t n_bytes)
{
    int i = 0;
    while (i < UTIL_MAX_BLOCKS && util_blocks[i].host) i++;
    ASSERT(i < UTIL_MAX_BLOCKS);
    must(hd_buffer_new(backend, n_bytes ? n_bytes : 1, "a test buffer", &util_blocks[i]), "memory");
    return util_blocks[i].host;
}

static inline const hd_buffer_t *util_find(const void *host)
{
    for (int i = 0; i < UTIL_MAX_BLOCKS; i++) {
        const hd_buffer_t *m = &util_blocks[i];
        if (m->host && (const char *)host >= (char *)m->host &&
            (const char *)host < (char *)m->host + m->n_bytes)
            return m;
    }
    return NULL;
}

/* The device address that corresponds to a host address. */
static inline void *util_device(const void *host)
{
    const hd_buffer_t *m = host ? util_find(host) : NULL;
    ASSERT(m || !host);
    return m ? (char *)m->device + ((const char *)host - (char *)m->host) : NULL;
}

static inline void util_free(void *block_pointer)
{
    void **block = block_pointer;
    for (int i = 0; i < UTIL_MAX_BLOCKS && *block; i++)
        if (util_blocks[i].host == *block) hd_buffer_free(&util_blocks[i]);
    *block = NULL;
}

/* Copies all blocks of a backend, before and after it computes. */
static inline void util_push(const backend_t *backend)
{
    for (int i = 0; i < UTIL_MAX_BLOCKS; i++)
        if (util_blocks[i].host && util_blocks[i].backend == backend)
            must(hd_buffer_push_all(&util_blocks[i]), "to the device");
}

static inline void util_pull(const backend_t *backend)
{
    for (int i = 0; i < UTIL_MAX_BLOCKS; i++)
        if (util_blocks[i].host && util_blocks[i].backend == backend)
            must(hd_buffer_pull_all(&util_blocks[i]), "from the device");
}

/* Every block is filled with NaN and ends in guard cells, to detect elements that are not written, and writes
 * beyond the end. */
enum { UTIL_GUARDS = 16, UTIL_GUARD = -77777 };

static inline float *util_floats(const backend_t *backend, shape_t shape)
{
    int64_t n = shape_count(shape);
    float *block = util_block(backend, (size_t)(n + UTIL_GUARDS) * sizeof *block);
    for (int64_t i = 0; i < n + UTIL_GUARDS; i++) block[i] = i < n ? NAN : UTIL_GUARD;
    return block;
}

static inline bool util_guards_hold(const float *block, shape_t shape)
{
    for (int64_t i = 0; i < UTIL_GUARDS; i++)
        if (block[shape_count(shape) + i] != UTIL_GUARD) return false;
    return true;
}

typedef struct op_run {
    op_t *op;
    op_args_t args; /* points to the buffers below, the host side; a test may redirect it */
    float *x[OP_MAX_INPUTS], *y, *dy, *dx[OP_MAX_INPUTS];
    float *param[OP_MAX_PARAMS], *dparam[OP_MAX_PARAMS], *state[OP_MAX_STATES];
    void *saved, *workspace;
    int32_t *labels, *predictions; /* x[1] and the second output of OP_SOFTMAX_XENT */
    float *targets;                /* x[1] of OP_SIGMOID_BCE */
} op_run_t;

/* Blocks for n tensors of at most four bytes an element; integers are 0. */
static inline void util_tensors(const backend_t *backend, tensor_t *tensors, int n, float **blocks)
{
    for (int i = 0; i < n; i++) {
        tensors[i].data = blocks[i] = util_floats(backend, tensors[i].shape);
        if (tensors[i].dtype == DTYPE_I32)
            memset(blocks[i], 0, (size_t)shape_count(tensors[i].shape) * sizeof(int32_t));
    }
}

static inline op_run_t op_run_with(const backend_t *backend, op_desc_t desc, bool training,
                                   const op_algorithms_t *wanted)
{
    op_run_t r = {0};
    op_args_t *a = &r.args;
    must(op_infer(&desc), "op_infer");
    must(op_plan(backend, &desc, training, wanted, &r.op), "op_plan");
    *a = op_args(r.op);
    util_tensors(backend, a->x, desc.n_inputs, r.x);
    int n_gradients = op_traits(desc.kind)->n_gradients;
    util_tensors(backend, a->dx, n_gradients < desc.n_inputs ? n_gradients : desc.n_inputs, r.dx);
    util_tensors(backend, a->param, desc.n_params, r.param);
    util_tensors(backend, a->dparam, desc.n_params, r.dparam);
    util_tensors(backend, a->state, desc.n_states, r.state);
    util_tensors(backend, a->y, 1, &r.y);
    util_tensors(backend, a->dy, 1, &r.dy);
    a->saved = r.saved = util_block(backend, r.op->n_saved_bytes);
    a->workspace = r.workspace = util_block(backend, r.op->n_workspace_bytes);
    if (desc.n_outputs > 1) {
        float *second;
        util_tensors(backend, &a->y[1], 1, &second);
        r.predictions = a->y[1].data;
    }
    if (desc.kind == OP_SOFTMAX_XENT) r.labels = a->x[1].data;
    if (desc.kind == OP_SIGMOID_BCE) r.targets = r.x[1];
    a->training = training;
    a->dropout = (dropout_call_t){rng_key(11, RNG_DROPOUT), 3, 1000, 5};
    a->loss.scale = 0.25f;
    return r;
}

static inline op_run_t op_run_new(const backend_t *backend, op_desc_t desc, bool training)
{
    return op_run_with(backend, desc, training, NULL);
}

static inline void op_run_free(op_run_t *r)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++) util_free(&r->x[i]), util_free(&r->dx[i]);
    for (int i = 0; i < OP_MAX_PARAMS; i++) util_free(&r->param[i]), util_free(&r->dparam[i]);
    for (int i = 0; i < OP_MAX_STATES; i++) util_free(&r->state[i]);
    util_free(&r->y), util_free(&r->dy), util_free(&r->saved), util_free(&r->workspace);
    util_free(&r->predictions);
    op_free(&r->op);
}

static inline void util_device_tensors(tensor_t *tensors, int n)
{
    for (int i = 0; i < n; i++) tensors[i].data = util_device(tensors[i].data);
}

static inline op_args_t util_device_args(const op_args_t *host)
{
    op_args_t args = *host;
    util_device_tensors(args.x, OP_MAX_INPUTS), util_device_tensors(args.dx, OP_MAX_INPUTS);
    util_device_tensors(args.y, OP_MAX_OUTPUTS), util_device_tensors(args.dy, OP_MAX_OUTPUTS);
    util_device_tensors(args.param, OP_MAX_PARAMS), util_device_tensors(args.dparam, OP_MAX_PARAMS);
    util_device_tensors(args.state, OP_MAX_STATES);
    for (int i = 0; i < OP_MAX_PARAMS; i++) args.param_bf16[i] = util_device(host->param_bf16[i]);
    args.saved = util_device(host->saved), args.workspace = util_device(host->workspace);
    args.addend = util_device(host->addend);
    return args;
}

/* op_forward and op_backward on the contents of the host side, with the results copied back. */
static inline err_t op_run_forward(const op_run_t *r)
{
    op_args_t args = util_device_args(&r->args);
    util_push(r->op->backend);
    TRY(op_forward(r->op, &args));
    util_pull(r->op->backend);
    return ERR_OK;
}

static inline err_t op_run_backward(const op_run_t *r)
{
    op_args_t args = util_device_args(&r->args);
    util_push(r->op->backend);
    TRY(op_backward(r->op, &args));
    util_pull(r->op->backend);
    return ERR_OK;
}

/* Converts a block from float32 to bfloat16, in its first half. */
static inline void util_narrow(float *block, shape_t shape)
{
    for (int64_t i = 0; i < shape_count(shape); i++) {
        uint16_t bits = bf16_from_float(block[i]);
        memcpy((char *)block + (size_t)i * sizeof bits, &bits, sizeof bits);
    }
}

static inline void util_normal(float *block, shape_t shape, rng_t *rng)
{
    for (int64_t i = 0; i < shape_count(shape); i++) block[i] = (float)rng_normal(rng);
}

/* Regions of all sizes up to the image's, some of them partly outside, or outside. */
static inline void util_regions(float *regions, int64_t n, shape_t finest, rng_t *rng)
{
    double height = 4 * (double)finest.dim[1], width = 4 * (double)finest.dim[2];
    for (float *r = regions; r < regions + n * ROI_ALIGN_VALUES; r += ROI_ALIGN_VALUES) {
        double h = 2 * pow(height / 2, rng_uniform(rng)), w = 2 * pow(width / 2, rng_uniform(rng));
        double y = (height + 16) * rng_uniform(rng) - 16, x = (width + 16) * rng_uniform(rng) - 16;
        r[0] = (float)rng_below(rng, (uint32_t)finest.dim[0]);
        r[1] = (float)x, r[2] = (float)y, r[3] = (float)(x + w), r[4] = (float)(y + h);
    }
}

/* Labels, every third of them none; targets in [0, 1]; weights. */
static inline void util_selected(op_run_t *r, rng_t *rng)
{
    const op_desc_t *d = &r->op->desc;
    const int64_t n_t = d->n_inputs > 3 ? shape_count(d->x[3]) : 0;
    /* Without targets the label is one, 0 or 1. */
    int64_t n_classes = n_t > 0 ? shape_count(d->x[0]) / n_t : 2;
    int32_t *labels = r->args.x[1].data;
    for (int64_t i = 0; i < shape_count(d->x[1]); i++) {
        labels[i] = i % 3 == 1 ? -1 : (int32_t)rng_below(rng, (uint32_t)n_classes);
        r->x[2][i] = (float)(1 + rng_below(rng, 4)) / 4;
    }
    for (int64_t i = 0; i < n_t; i++) r->x[3][i] = (float)rng_below(rng, 257) / 256;
}

/* Inputs, parameters and dy: standard normal; running variances positive; labels in range; targets 0 or 1.
 * Depends on the seed only, not on the backend. */
static inline void op_run_fill(op_run_t *r, uint64_t seed)
{
    const op_desc_t *d = &r->op->desc;
    rng_t rng = rng_new(seed, RNG_TEST, 0);
    for (int i = 0; i < d->n_inputs && r->dx[i]; i++) util_normal(r->x[i], d->x[i], &rng);
    for (int i = 0; i < d->n_params; i++) util_normal(r->param[i], d->param[i], &rng);
    for (int i = 0; i < d->n_states; i++) util_normal(r->state[i], d->state[i], &rng);
    util_normal(r->dy, d->y[0], &rng);
    if (d->kind == OP_SMOOTH_L1 || d->kind == OP_SIGMOID_BCE_AT) util_selected(r, &rng);
    if (d->kind == OP_ROI_ALIGN) util_regions(r->x[ROI_ALIGN_LEVELS], d->y[0].dim[0], d->x[0], &rng);
    for (int64_t c = 0; d->kind == OP_BATCH_NORM && c < d->state[1].dim[0]; c++)
        r->state[1][c] = 0.5f + fabsf(r->state[1][c]);
    for (int64_t n = 0; d->kind == OP_SOFTMAX_XENT && n < d->x[0].dim[0]; n++)
        r->labels[n] = (int32_t)rng_below(&rng, (uint32_t)d->x[0].dim[1]);
    /* With weights, every third row has no label. */
    for (int64_t n = 0; d->kind == OP_SOFTMAX_XENT && d->n_inputs > 2 && n < d->x[0].dim[0]; n++) {
        r->x[2][n] = (float)(1 + rng_below(&rng, 4)) / 4;
        if (n % 3 == 1) r->labels[n] = -1;
    }
    for (int64_t i = 0; d->kind == OP_SIGMOID_BCE && i < shape_count(d->x[0]); i++)
        r->targets[i] = (float)rng_below(&rng, 2);
}

/* Runs an optimizer's kernel on blocks of the host side. */
static inline err_t util_optim(const backend_t *backend, optim_kind_t kind, const optim_args_t *host)
{
    optim_args_t args = *host;
    args.weight = util_device(host->weight), args.gradient = util_device(host->gradient);
    for (int i = 0; i < OPTIM_MAX_STATES; i++) args.state[i] = util_device(host->state[i]);
    args.average = util_device(host->average);
    util_push(backend);
    TRY(backend->optim[kind](&args));
    util_pull(backend);
    return ERR_OK;
}

#endif
