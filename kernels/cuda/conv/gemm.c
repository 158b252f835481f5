/* SPDX-License-Identifier: MIT */
/* Convolution as matrix products on cuBLASLt: the window of each output pixel becomes a row of values in the
 * order of our weights (im2col), a few samples at a time, so that scratch is bounded. "gemm" is the pointwise
 * convolution, whose windows are the pixels: nothing is copied, unless operands are rounded to bfloat16.
 * Chunks run in order, so sums over them have a fixed order. */
#include <string.h>

#include "base/mem.h"
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/gemm.h"

/* Workspace, each part only if needed: rounded weight; parts of the bias gradient; for a chunk, windows, and
 * products before an epilogue or dy after it; cuBLASLt's workspace. */
typedef struct gemm_plan {
    conv_shape_t shape;
    int64_t n_window; /* values in a pixel's window, all groups */
    bool pointwise, rounds, relu, bias;
    chunk_t chunk;
    gemm_t *gemm[2]; /* for full chunks and for the last one */
    int n_parts;
    size_t parts, windows, cells, products; /* offsets in the workspace */
} gemm_plan_t;

enum { LARGEST_WORKSPACE = 32 << 20, SHARE = 8 }; /* for cuBLASLt, at most 1/SHARE of all */

static bool is_pointwise(const op_desc_t *d)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    return a->kernel_h == 1 && a->kernel_w == 1 && a->stride_h == 1 && a->stride_w == 1 && a->pad_h == 0 &&
           a->pad_w == 0 && a->groups == 1;
}

static size_t block_bytes(int64_t n_bytes)
{
    return ((size_t)n_bytes + 255) / 256 * 256;
}

static int64_t library_bytes(void)
{
    int64_t n = cuda_workspace_bytes() / SHARE / 256 * 256;
    return n < LARGEST_WORKSPACE ? n : LARGEST_WORKSPACE;
}

/* Scratch bytes of one sample's windows, and of its pixels before an epilogue. */
static void sample_bytes(const conv_problem_t *problem, int64_t *windows, int64_t *cells)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    bool rounds = d->compute == DTYPE_BF16, data = problem->pass == OP_BACKWARD_DATA;
    int64_t narrow = rounds ? 2 : 4, height, width;
    op_conv2d_cells(d, &height, &width);
    int64_t one[] = {height, width, a->kernel_h, a->kernel_w, d->x[0].dim[3], data ? 4 : narrow};
    int64_t cell[] = {height, width, a->out_channels, problem->pass == OP_FORWARD ? 4 : narrow};
    *windows = is_pointwise(d) && (data || !rounds) ? 0 : chunk_product(one, 6);
    bool wanted = problem->pass == OP_FORWARD ? conv_pools(d) : rounds || a->epilogue.relu;
    *cells = wanted ? chunk_product(cell, 4) : 0;
}

static int parts_of(const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    int64_t height, width;
    op_conv2d_cells(d, &height, &width);
    bool sums = problem->pass == OP_BACKWARD_WEIGHTS && d->attr.conv2d.has_bias;
    return sums ? chunk_parts(d->x[0].dim[0] * height * width, d->attr.conv2d.out_channels) : 1;
}

static chunk_need_t need_of(const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    int64_t windows, cells, height, width, n_parts = parts_of(problem);
    bool weight = d->compute == DTYPE_BF16 && problem->pass != OP_BACKWARD_WEIGHTS;
    sample_bytes(problem, &windows, &cells);
    op_conv2d_cells(d, &height, &width);
    int64_t rows[] = {height, width, d->attr.conv2d.kernel_h, d->attr.conv2d.kernel_w, d->x[0].dim[3]};
    int64_t most = windows ? chunk_product(rows, 5) : 0, x = shape_sample_count(d->x[0]);
    int64_t y = height * width * d->attr.conv2d.out_channels;
    if (x > most) most = x;
    if (y > most) most = y;
    /* Rounding up to blocks adds a few of them. */
    int64_t fixed = library_bytes() + 8 * 256 + (weight ? 2 * shape_count(d->param[0]) : 0) +
                    (n_parts > 1 ? n_parts * d->attr.conv2d.out_channels * 4 : 0);
    return (chunk_need_t){.n_samples = d->x[0].dim[0],
                          .n_sample_bytes = windows > INT64_MAX - cells ? INT64_MAX : windows + cells,
                          .n_sample_cells = most,
                          .n_fixed_bytes = fixed,
                          .n_limit_bytes = cuda_workspace_bytes()};
}

/* Describes an operand.
 * row      elements between rows
 * group    columns of one group
 * sample   elements per sample of a buffer that is processed in chunks, else 0
 * element  bytes per element */
static gemm_matrix_t mat_of(const gemm_plan_t *p, int64_t row, int64_t group, int64_t sample, int64_t element)
{
    int64_t steps = p->chunk.n_chunks > 1 ? sample * p->chunk.n_samples : 0;
    if (p->shape.groups > 1) steps |= group;
    return (gemm_matrix_t){.row = row, .next = group, .alignment = gemm_alignment(steps * element)};
}

static const conv_impl_t *impl_of(const conv_problem_t *problem)
{
    return is_pointwise(problem->desc) ? &cuda_conv_gemm : &cuda_conv_im2col;
}

/* what: its text, valid while the result is used. */
static gemm_spec_t spec_of(const conv_problem_t *problem, const gemm_plan_t *p, int64_t n_samples,
                           char what[CONV_TEXT])
{
    const conv_shape_t *s = &p->shape;
    int64_t filters = s->k / s->groups, taps = p->n_window / s->groups, pixels = n_samples * s->oh * s->ow;
    int64_t cells = (int64_t)s->oh * s->ow, element = p->rounds ? 2 : 4;
    bool forward = problem->pass == OP_FORWARD, data = problem->pass == OP_BACKWARD_DATA;
    conv_spell(problem, impl_of(problem), what);
    gemm_matrix_t weight = {.row = taps, .next = filters * taps, .alignment = 16};
    if (s->groups > 1)
        weight.alignment = gemm_alignment(weight.next * (problem->pass == OP_BACKWARD_WEIGHTS ? 4 : element));
    gemm_matrix_t windows = mat_of(p, p->n_window, taps, p->pointwise ? cells * s->c : 0, data ? 4 : element);
    gemm_matrix_t y = mat_of(p, s->k, filters, cells * s->k, forward ? 4 : element);
    gemm_spec_t spec = {.what = what,
                        .compute = problem->desc->compute,
                        .batch = s->groups,
                        .n_workspace_bytes = (size_t)library_bytes(),
                        .proposal = problem->variant};
    if (forward) {
        spec.m = pixels, spec.n = filters, spec.k = taps;
        spec.a = windows, spec.b = weight, spec.d = y;
        spec.b.transposed = true;
        spec.bias = p->bias && !p->relu && s->groups == 1;
    } else if (data) {
        spec.m = pixels, spec.n = taps, spec.k = filters;
        spec.a = y, spec.b = weight, spec.d = windows;
    } else {
        spec.m = filters, spec.n = taps, spec.k = pixels;
        spec.a = y, spec.b = windows, spec.d = weight;
        spec.a.transposed = true;
    }
    return spec;
}

static err_t plan_product(const conv_problem_t *problem, const gemm_plan_t *p, int64_t n_samples,
                          gemm_t **out)
{
    char text[CONV_TEXT];
    gemm_spec_t spec = spec_of(problem, p, n_samples, text);
    return gemm_new(&spec, out);
}

static size_t place_buffers(const conv_problem_t *problem, gemm_plan_t *p)
{
    int64_t windows, cells;
    size_t products = 0;
    sample_bytes(problem, &windows, &cells);
    p->n_parts = parts_of(problem);
    bool weight = p->rounds && problem->pass != OP_BACKWARD_WEIGHTS;
    p->parts = weight ? block_bytes(2 * shape_count(problem->desc->param[0])) : 0;
    p->windows = p->parts + (p->n_parts > 1 ? block_bytes((int64_t)p->n_parts * p->shape.k * 4) : 0);
    p->cells = p->windows + block_bytes(windows * p->chunk.n_samples);
    p->products = p->cells + block_bytes(cells * p->chunk.n_samples);
    for (int i = 0; i < 2; i++)
        if (p->gemm[i] && gemm_workspace_bytes(p->gemm[i]) > products)
            products = gemm_workspace_bytes(p->gemm[i]);
    return p->products + products;
}

static void gemm_plan_free(void **plan_)
{
    gemm_plan_t *p = *plan_;
    if (p) gemm_free(&p->gemm[0]), gemm_free(&p->gemm[1]);
    mem_free(plan_);
}

/* The plan without its products. */
static gemm_plan_t outline(const conv_problem_t *problem, chunk_t chunk)
{
    const op_desc_t *d = problem->desc;
    gemm_plan_t p = {.shape = conv_shape_of(d),
                     .pointwise = is_pointwise(d),
                     .rounds = d->compute == DTYPE_BF16,
                     .relu = d->attr.conv2d.epilogue.relu,
                     .bias = d->attr.conv2d.has_bias,
                     .chunk = chunk};
    p.n_window = (int64_t)p.shape.kernel_h * p.shape.kernel_w * p.shape.c;
    return p;
}

/* Those of the product of full chunks; the last chunk's is planned by its own. */
static int count_proposals(const conv_problem_t *problem)
{
    chunk_need_t need = need_of(problem);
    chunk_t chunk;
    char text[CONV_TEXT];
    if (!chunk_fits(&need) || chunk_plan(&need, &chunk) != ERR_OK) return 0;
    gemm_plan_t p = outline(problem, chunk);
    if (chunk.n_last != chunk.n_samples) {
        gemm_spec_t last = spec_of(problem, &p, chunk.n_last, text);
        if (gemm_count(&last) == 0) return 0;
    }
    gemm_spec_t spec = spec_of(problem, &p, chunk.n_samples, text);
    return gemm_count(&spec);
}

static err_t gemm_plan_new(const conv_problem_t *problem, void **out, size_t *n_workspace_bytes)
{
    char text[CONV_TEXT];
    gemm_plan_t *p;
    chunk_need_t need = need_of(problem);
    chunk_t chunk;
    conv_spell(problem, impl_of(problem), text);
    need.what = text;
    TRY(chunk_plan(&need, &chunk));
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    *p = outline(problem, chunk);
    err_t err = plan_product(problem, p, chunk.n_samples, &p->gemm[0]);
    if (err == ERR_OK && chunk.n_last != chunk.n_samples)
        err = plan_product(problem, p, chunk.n_last, &p->gemm[1]);
    void *made = p;
    if (err != ERR_OK) {
        gemm_plan_free(&made);
        return err;
    }
    *n_workspace_bytes = place_buffers(problem, p);
    *out = p;
    return ERR_OK;
}

/* The operands of one chunk, and the product to use. */
typedef struct piece {
    int64_t first, n;
    gemm_t *gemm;
    const float *x, *dy;
    float *y, *dx;
    uint8_t *mask;
} piece_t;

static piece_t piece_of(const gemm_plan_t *p, const op_desc_t *d, const op_args_t *args, int64_t i)
{
    bool last = i + 1 == p->chunk.n_chunks;
    int64_t first = i * p->chunk.n_samples, x = first * shape_sample_count(d->x[0]),
            y = first * shape_sample_count(d->y[0]);
    return (piece_t){.first = first,
                     .n = last ? p->chunk.n_last : p->chunk.n_samples,
                     .gemm = last && p->gemm[1] ? p->gemm[1] : p->gemm[0],
                     .x = args->x[0].data ? (const float *)args->x[0].data + x : NULL,
                     .dy = args->dy[0].data ? (const float *)args->dy[0].data + y : NULL,
                     .y = args->y[0].data ? (float *)args->y[0].data + y : NULL,
                     .dx = args->dx[0].data ? (float *)args->dx[0].data + x : NULL,
                     .mask = args->saved && p->relu ? (uint8_t *)args->saved + y : NULL};
}

static void *ws_at(const op_args_t *args, size_t offset)
{
    return (char *)args->workspace + offset;
}

/* The windows of a chunk: in place, or written to the workspace. */
static err_t windows_of(const gemm_plan_t *p, const piece_t *piece, const op_args_t *args, const void **out)
{
    conv_shape_t shape = p->shape;
    void *windows = ws_at(args, p->windows);
    shape.n = piece->n;
    *out = p->pointwise && !p->rounds ? (const void *)piece->x : windows;
    if (p->pointwise && p->rounds) {
        round_args_t round = {{piece->x, NULL}, {windows, NULL}, {piece->n * shape.h * shape.w * shape.c, 0}};
        E_CUDA(round_operands(&round, cuda_stream()), "conv2d, rounding");
    } else if (p->rounds) {
        E_CUDA(im2col_bf16(&shape, piece->x, windows, cuda_stream()), "conv2d, im2col");
    } else if (!p->pointwise) {
        E_CUDA(im2col(&shape, piece->x, windows, cuda_stream()), "conv2d, im2col");
    }
    return ERR_OK;
}

static err_t weight_of(const gemm_plan_t *p, const op_desc_t *d, const op_args_t *args, const void **out)
{
    *out = args->param[0].data;
    if (!p->rounds) return ERR_OK;
    round_args_t round = {
        {args->param[0].data, NULL}, {args->workspace, NULL}, {shape_count(d->param[0]), 0}};
    *out = args->workspace;
    E_CUDA(round_operands(&round, cuda_stream()), "conv2d, rounding");
    return ERR_OK;
}

static err_t gemm_forward(const gemm_plan_t *p, const op_desc_t *d, const op_args_t *args, bool training)
{
    const void *weight;
    TRY(weight_of(p, d, args, &weight));
    for (int64_t i = 0; i < p->chunk.n_chunks; i++) {
        piece_t piece = piece_of(p, d, args, i);
        float *product = conv_pools(d) ? ws_at(args, p->cells) : piece.y;
        gemm_call_t call = {
            .b = weight, .bias = args->param[1].data, .d = product, .workspace = ws_at(args, p->products)};
        TRY(windows_of(p, &piece, args, &call.a));
        TRY(gemm_run(piece.gemm, &call));
        if (!p->relu && !(p->bias && p->shape.groups > 1)) continue;
        epilogue_args_t epilogue = {.cells = conv_cells_of(d, piece.n),
                                    .relu = p->relu,
                                    .product = product,
                                    .bias = p->bias ? args->param[1].data : NULL,
                                    .y = piece.y,
                                    .mask = training ? piece.mask : NULL};
        E_CUDA(epilogue_forward(&epilogue, cuda_stream()), "conv2d, epilogue");
    }
    return ERR_OK;
}

/* dy before the epilogue, as the products need it. sums: as gradient_args_t.sums. */
static err_t cells_of(const gemm_plan_t *p, const op_desc_t *d, const piece_t *piece, const op_args_t *args,
                      float *sums, const void **out)
{
    void *cells = ws_at(args, p->cells);
    bool converts = p->relu || p->rounds;
    *out = converts ? cells : (const void *)piece->dy;
    if (!converts && !sums) return ERR_OK;
    int64_t rows = piece->n * p->shape.oh * p->shape.ow;
    gradient_args_t call = {.cells = conv_cells_of(d, piece->n),
                            .dy = piece->dy,
                            .mask = piece->mask,
                            .rounds = p->rounds,
                            .dense = converts && !p->rounds ? cells : NULL,
                            .dense_bf16 = p->rounds ? cells : NULL,
                            .sums = sums,
                            .n_parts = sums ? p->n_parts : chunk_parts(rows, p->shape.k)};
    E_CUDA(epilogue_backward(&call, cuda_stream()), "conv2d, gradient of the epilogue");
    return ERR_OK;
}

static err_t gemm_backward_data(const gemm_plan_t *p, const op_desc_t *d, const op_args_t *args)
{
    const void *weight;
    TRY(weight_of(p, d, args, &weight));
    for (int64_t i = 0; i < p->chunk.n_chunks; i++) {
        piece_t piece = piece_of(p, d, args, i);
        conv_shape_t shape = p->shape;
        float *windows = ws_at(args, p->windows);
        gemm_call_t call = {
            .b = weight, .d = p->pointwise ? piece.dx : windows, .workspace = ws_at(args, p->products)};
        shape.n = piece.n;
        TRY(cells_of(p, d, &piece, args, NULL, &call.a));
        TRY(gemm_run(piece.gemm, &call));
        if (!p->pointwise) E_CUDA(col2im(&shape, windows, piece.dx, cuda_stream()), "conv2d, col2im");
    }
    return ERR_OK;
}

/* The bias gradient over all samples at once, if there are several chunks. */
static err_t sum_alone(const gemm_plan_t *p, const op_desc_t *d, const op_args_t *args, float *sums)
{
    gradient_args_t call = {.cells = conv_cells_of(d, p->shape.n),
                            .dy = args->dy[0].data,
                            .mask = p->relu ? args->saved : NULL,
                            .rounds = p->rounds,
                            .sums = sums,
                            .n_parts = p->n_parts};
    E_CUDA(epilogue_backward(&call, cuda_stream()), "conv2d, gradient of the bias");
    return ERR_OK;
}

static err_t gemm_backward_weights(const gemm_plan_t *p, const op_desc_t *d, const op_args_t *args)
{
    float *sums = !p->bias ? NULL : p->n_parts > 1 ? ws_at(args, p->parts) : args->dparam[1].data;
    bool together = p->chunk.n_chunks == 1;
    for (int64_t i = 0; i < p->chunk.n_chunks; i++) {
        piece_t piece = piece_of(p, d, args, i);
        gemm_call_t call = {.d = args->dparam[0].data, .beta = i > 0, .workspace = ws_at(args, p->products)};
        TRY(cells_of(p, d, &piece, args, together ? sums : NULL, &call.a));
        TRY(windows_of(p, &piece, args, &call.b));
        TRY(gemm_run(piece.gemm, &call));
    }
    if (sums && !together) TRY(sum_alone(p, d, args, sums));
    if (!sums || p->n_parts == 1) return ERR_OK;
    sums_args_t add = {sums, p->n_parts, p->shape.k, p->shape.k, args->dparam[1].data, NULL};
    E_CUDA(epilogue_sums(&add, cuda_stream()), "conv2d, gradient of the bias");
    return ERR_OK;
}

static err_t gemm_plan_run(void *plan_, const conv_problem_t *problem, const op_args_t *args)
{
    const gemm_plan_t *p = plan_;
    if (problem->pass == OP_FORWARD) return gemm_forward(p, problem->desc, args, problem->training);
    return problem->pass == OP_BACKWARD_DATA ? gemm_backward_data(p, problem->desc, args)
                                             : gemm_backward_weights(p, problem->desc, args);
}

static int gemm_variants(const conv_problem_t *problem)
{
    return is_pointwise(problem->desc) ? count_proposals(problem) : 0;
}

static int im2col_variants(const conv_problem_t *problem)
{
    return is_pointwise(problem->desc) ? 0 : count_proposals(problem);
}

/* One for each of the library's proposals. */
static const char *const gemm_names[GEMM_PROPOSALS] = {"gemm",   "gemm-2", "gemm-3", "gemm-4",
                                                       "gemm-5", "gemm-6", "gemm-7", "gemm-8"};
static const char *const im2col_names[GEMM_PROPOSALS] = {"im2col",   "im2col-2", "im2col-3", "im2col-4",
                                                         "im2col-5", "im2col-6", "im2col-7", "im2col-8"};

const conv_impl_t cuda_conv_gemm = {gemm_names, gemm_variants, gemm_plan_new, gemm_plan_run, gemm_plan_free};
const conv_impl_t cuda_conv_im2col = {im2col_names, im2col_variants, gemm_plan_new, gemm_plan_run,
                                      gemm_plan_free};
