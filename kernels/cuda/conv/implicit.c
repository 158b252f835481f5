/* SPDX-License-Identifier: MIT */
/* "implicit": products on the CUDA cores that read their operands in place; windows are never written out.
 * For few channels and small layers; any stride, group count and dilation. Always fp32: for tf32 this is the
 * exact version, for bf16 operands are rounded when they are read. */
#include "base/mem.h"
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/conv/conv.h"

/* Workspace: parts of the weight gradient; or the products, if the pooling windows of the epilogue do not fit
 * a thread. */
typedef struct implicit_plan {
    implicit_args_t args;
    implicit_tile_t tile;
    bool apart; /* forward: the epilogue is a separate kernel */
    chunk_t chunk;
} implicit_plan_t;

static bool pools_apart(const op_desc_t *desc)
{
    const epilogue_t *e = &desc->attr.conv2d.epilogue;
    int cells = e->pool_h * e->pool_w;
    return cells > 2 && cells != 4;
}

static chunk_need_t need_of(const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    int64_t height, width;
    op_conv2d_cells(d, &height, &width);
    int64_t product[] = {height, width, d->attr.conv2d.out_channels, (int64_t)sizeof(float)};
    bool writes = problem->pass == OP_FORWARD && pools_apart(d);
    return (chunk_need_t){.n_samples = d->x[0].dim[0],
                          .n_sample_bytes = writes ? chunk_product(product, 4) : 0,
                          .n_limit_bytes = cuda_workspace_bytes()};
}

/* Limits of the kernels' 32-bit counters and of a grid. */
static int implicit_count(const conv_impl_t *self, const conv_problem_t *problem)
{
    (void)self;
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    const int64_t *x = d->x[0].dim, most = 1 << 30, most_blocks = 65535 * 32;
    int64_t height, width;
    op_conv2d_cells(d, &height, &width);
    int64_t pixels[] = {x[0], height, width}, inputs[] = {x[0], x[1], x[2]};
    int64_t taps[] = {a->kernel_h, a->kernel_w, x[3] / a->groups};
    int64_t readers[] = {a->kernel_h, a->kernel_w, a->out_channels / a->groups};
    chunk_need_t need = need_of(problem);
    return chunk_product(pixels, 3) <= most && chunk_product(inputs, 3) <= most &&
           chunk_product(taps, 3) < most_blocks && chunk_product(readers, 3) <= most &&
           a->out_channels / a->groups <= most_blocks && a->groups <= 65535 && chunk_fits(&need);
}

/* The largest tile that leaves two per multiprocessor; a narrow one if wide ones would be half empty. */
static implicit_tile_t tile_for(int64_t m, int64_t n, int groups)
{
    enum { BLOCKS = 2 * CHUNK_MULTIPROCESSORS };
    if (n <= 32 && groups * chunk_tiles(m, 128, n, 32) >= BLOCKS / 4) return IMPLICIT_NARROW;
    return groups * chunk_tiles(m, 128, n, 64) >= BLOCKS ? IMPLICIT_WIDE : IMPLICIT_SMALL;
}

/* For the weight gradient, whose pixels are split over blocks. */
static size_t plan_weights(implicit_plan_t *p, bool bias)
{
    const conv_shape_t *s = &p->args.shape;
    int64_t filters = s->k / s->groups, taps = (int64_t)s->kernel_h * s->kernel_w * (s->c / s->groups);
    int64_t columns = taps + bias, part = s->k * columns * (int64_t)sizeof(float);
    p->tile = filters > 64 && taps >= 64 ? IMPLICIT_WIDE : IMPLICIT_SMALL;
    int64_t n_tiles = p->tile == IMPLICIT_WIDE ? chunk_tiles(filters, 128, columns, 64)
                                               : chunk_tiles(filters, 32, columns, 64);
    p->args.n_parts = chunk_splits(n_tiles * s->groups, s->n * s->oh * s->ow, part, cuda_workspace_bytes());
    return p->args.n_parts > 1 ? (size_t)(p->args.n_parts * part) : 0;
}

static err_t implicit_plan_new(const conv_impl_t *self, const conv_problem_t *problem, void **out,
                               size_t *n_workspace_bytes)
{
    const op_desc_t *d = problem->desc;
    char text[CONV_TEXT];
    implicit_plan_t *p;
    chunk_need_t need = need_of(problem);
    chunk_t chunk;
    conv_spell(problem, self, text);
    need.what = text;
    TRY(chunk_plan(&need, &chunk));
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    p->chunk = chunk;
    p->apart = problem->pass == OP_FORWARD && pools_apart(d);
    cells_t cells = conv_cells_of(d, 0);
    p->args = (implicit_args_t){.shape = conv_shape_of(d),
                                .pool_h = p->apart ? 1 : cells.pool_h,
                                .pool_w = p->apart ? 1 : cells.pool_w,
                                .relu = d->attr.conv2d.epilogue.relu && !p->apart,
                                .rounds = d->compute == DTYPE_BF16,
                                .x_bf16 = d->x_dtype[0] == DTYPE_BF16,
                                .y_bf16 = d->y_dtype[0] == DTYPE_BF16,
                                .n_parts = 1};
    const conv_shape_t *s = &p->args.shape;
    if (problem->pass == OP_FORWARD)
        p->tile = tile_for(s->n * s->oh * s->ow, s->k / s->groups, s->groups);
    else if (problem->pass == OP_BACKWARD_DATA)
        p->tile = tile_for(s->n * s->h * s->w, s->c / s->groups, s->groups);
    *n_workspace_bytes = problem->pass == OP_BACKWARD_WEIGHTS
                             ? plan_weights(p, d->attr.conv2d.has_bias)
                             : (size_t)(chunk.n_samples * need.n_sample_bytes);
    *out = p;
    return ERR_OK;
}

static void implicit_plan_free(void **plan_)
{
    mem_free(plan_);
}

/* The products of a chunk, then the maxima of their windows. */
static err_t forward_apart(const implicit_plan_t *p, const op_desc_t *d, const op_args_t *args,
                           implicit_args_t a)
{
    uint8_t *mask = a.mask_out;
    char *y = args->y[0].data;
    const char *x = args->x[0].data;
    float *product = args->workspace;
    int64_t n_y = shape_sample_count(d->y[0]);
    int64_t y_bytes = n_y * (int64_t)dtype_size(d->y_dtype[0]),
            x_bytes = shape_sample_count(d->x[0]) * (int64_t)dtype_size(d->x_dtype[0]);
    a.y = product, a.y_bf16 = false, a.mask_out = NULL, a.bias = NULL;
    for (int64_t i = 0; i < p->chunk.n_chunks; i++) {
        int64_t first = i * p->chunk.n_samples;
        a.shape.n = i + 1 < p->chunk.n_chunks ? p->chunk.n_samples : p->chunk.n_last;
        a.x = x + first * x_bytes;
        E_CUDA(implicit_forward(&a, p->tile, cuda_stream()), "conv2d, forward");
        epilogue_args_t epilogue = {.cells = conv_cells_of(d, a.shape.n),
                                    .relu = true,
                                    .product = product,
                                    .bias = d->attr.conv2d.has_bias ? args->param[1].data : NULL,
                                    .y = y + first * y_bytes,
                                    .y_bf16 = p->args.y_bf16,
                                    .mask = mask ? mask + first * n_y : NULL};
        E_CUDA(epilogue_forward(&epilogue, cuda_stream()), "conv2d, ReLU and pooling");
    }
    return ERR_OK;
}

static err_t implicit_plan_run(void *plan_, const conv_problem_t *problem, const conv_call_t *call)
{
    const op_args_t *args = call->args;
    const implicit_plan_t *p = plan_;
    const op_desc_t *d = problem->desc;
    implicit_args_t a = p->args;
    bool relu = d->attr.conv2d.epilogue.relu, bias = d->attr.conv2d.has_bias;
    a.x = args->x[0].data, a.weight = args->param[0].data, a.dy = args->dy[0].data, a.y = args->y[0].data;
    if (problem->pass == OP_FORWARD) {
        a.bias = bias ? args->param[1].data : NULL;
        a.mask_out = relu && problem->training ? args->saved : NULL;
        if (p->apart) return forward_apart(p, d, args, a);
        E_CUDA(implicit_forward(&a, p->tile, cuda_stream()), "conv2d, forward");
        return ERR_OK;
    }
    a.mask = relu ? args->saved : NULL;
    if (problem->pass == OP_BACKWARD_DATA) {
        a.dx = args->dx[0].data, a.adds = args->accumulate_dx[0];
        E_CUDA(implicit_backward_data(&a, p->tile, cuda_stream()), "conv2d, backward_data");
        return ERR_OK;
    }
    a.dweight = args->dparam[0].data, a.dbias = bias ? args->dparam[1].data : NULL, a.parts = args->workspace;
    E_CUDA(implicit_backward_weights(&a, p->tile, cuda_stream()), "conv2d, backward_weights");
    return ERR_OK;
}

static const char *const implicit_names[] = {"implicit", NULL};

const conv_impl_t cuda_conv_implicit = {
    implicit_names, implicit_count, implicit_plan_new, implicit_plan_run, implicit_plan_free, NULL, NULL};
