/* SPDX-License-Identifier: MIT */
/* A pass of a convolution as matrix products on cuBLASLt, a few samples at a time, so that scratch is bounded: which
 * products, of which operands, in which chunks. Or by cuDNN, which takes the place of the product and reads the
 * tensors instead of windows. "gemm" is the pointwise convolution, whose windows are the pixels. "im2col" writes
 * windows to memory; "im2col-l2" so few at a time that they stay in cache, with more launches. Chunks run in order,
 * so sums over them have a fixed order. */
#include "kernels/cuda/gemm.h"

#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/dnn.h"

enum {
    LARGEST_WORKSPACE = 32 << 20, /* for cuBLASLt, at most 1/SHARE of all */
    SHARE = 8,
    EIGHT = 8, /* tensor cores read bfloat16 by eights */
    RESIDENT_VARIANTS = 4,
};

/* The product of each pass:
 *
 *   forward           windows of x · weightᵀ = y
 *   backward_data     windows of dy · transposed weightᵀ = dx: each pixel of x gathers the pixels of dy that
 *                     it was read for, which is a convolution with negative padding and dilation; with a
 *                     stride they have no fixed places, then dy · weight = columns, which are summed to dx
 *                     (`folds`)
 *   backward_weights  dyᵀ · windows of x = dweight
 *
 * Windows of single pixels are the tensor itself, if it is stored in the type of products (`in_place`).
 * Otherwise they are rows of `pitch` values: if their number is not a multiple of 8, tensor cores would have to
 * read them slowly, so the depth of the product is filled up with zeros (`pads`).
 *
 * Workspace, each part only if needed: weight as the product reads it; parts of the bias gradient; cuDNN's
 * gradient of the weight, and the same widened; for a chunk, windows, and products before an epilogue or dy
 * after it; the library's workspace. */
typedef struct gemm_plan {
    conv_shape_t shape, windows; /* of the convolution; of the windows */
    int64_t n_window, pitch;     /* values in a pixel's window, all groups; in a row */
    bool by_cudnn;
    bool pointwise; /* also cuDNN's: a pixel is its window */
    bool in_place, folds, pads;
    bool rounds, relu, bias, x_bf16, y_bf16;
    bool arranges;  /* the weight is copied */
    bool apart;     /* forward: an epilogue follows the product */
    bool converts;  /* backward: dy is not what the product reads */
    int64_t n_cell; /* bytes of a pixel's products or dy in the workspace; 0: none */
    chunk_t chunk;
    gemm_t *gemm[2]; /* for full chunks and for the last one */
    dnn_t *dnn[2];   /* the same, by cuDNN */
    int n_parts;
    size_t parts, gradient, wide, columns, cells, products; /* offsets in the workspace */
} gemm_plan_t;

static size_t block_bytes(int64_t n_bytes)
{
    return ((size_t)n_bytes + 255) / 256 * 256;
}

/* cuDNN gets half: its engines copy operands. */
static int64_t library_bytes(bool by_cudnn)
{
    if (by_cudnn) return cuda_workspace_bytes() / 2 / 256 * 256;
    int64_t n = cuda_workspace_bytes() / SHARE / 256 * 256;
    return n < LARGEST_WORKSPACE ? n : LARGEST_WORKSPACE;
}

/* The pixels of dy that a pixel of x is read for, tap by tap. */
static conv_shape_t turned(const conv_shape_t *s)
{
    conv_shape_t t = *s;
    t.h = s->oh, t.w = s->ow, t.c = s->k, t.oh = s->h, t.ow = s->w, t.k = s->c;
    t.pad_h = -s->pad_h, t.pad_w = -s->pad_w, t.dilation_h = -s->dilation_h, t.dilation_w = -s->dilation_w;
    return t;
}

/* The plan without chunks and products. */
static gemm_plan_t outline(const conv_problem_t *problem, bool by_cudnn)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    bool forward = problem->pass == OP_FORWARD, data = problem->pass == OP_BACKWARD_DATA;
    gemm_plan_t p = {.shape = conv_shape_of(d),
                     .by_cudnn = by_cudnn,
                     .pointwise = by_cudnn || conv_is_pointwise(d),
                     .rounds = d->compute == DTYPE_BF16,
                     .relu = a->epilogue.relu,
                     .bias = a->has_bias,
                     .x_bf16 = d->x_dtype[0] == DTYPE_BF16,
                     .y_bf16 = d->y_dtype[0] == DTYPE_BF16};
    p.folds = data && !p.by_cudnn && (a->stride_h > 1 || a->stride_w > 1);
    p.windows = data && !p.folds ? turned(&p.shape) : p.shape;
    p.n_window = p.pitch = (int64_t)a->kernel_h * a->kernel_w * p.windows.c;
    if (p.by_cudnn)
        p.windows.oh = p.windows.h, p.windows.ow = p.windows.w, p.n_window = p.pitch = p.windows.c;
    p.in_place = p.pointwise && (data || p.x_bf16 == p.rounds);
    p.pads = !p.by_cudnn && d->compute != DTYPE_F32 && a->groups == 1 && !p.in_place && !p.folds &&
             p.pitch % EIGHT;
    if (p.pads) p.pitch = (p.pitch + EIGHT - 1) / EIGHT * EIGHT;
    p.arranges =
        problem->pass != OP_BACKWARD_WEIGHTS && (p.rounds || p.pads || (data && !p.folds && !p.pointwise));
    p.apart = forward && (p.relu || (p.bias && (p.by_cudnn || a->groups > 1 || p.y_bf16)));
    p.converts = !forward && (p.relu || (p.rounds && !p.y_bf16));
    if (p.apart && (a->epilogue.pool_h > 0 || (p.y_bf16 && !p.by_cudnn)))
        p.n_cell = p.shape.k * (p.by_cudnn && p.rounds ? 2 : 4);
    if (p.converts) p.n_cell = p.shape.k * (p.rounds ? 2 : 4);
    bool sums = problem->pass == OP_BACKWARD_WEIGHTS && p.bias;
    p.n_parts = sums ? chunk_parts(p.shape.n * p.shape.oh * p.shape.ow, p.shape.k) : 1;
    return p;
}

static int64_t weight_bytes(const conv_problem_t *problem, const gemm_plan_t *p)
{
    int64_t n = shape_count(problem->desc->param[0]);
    if (p->pads) n = p->pitch * p->windows.k;
    return p->arranges ? n * (p->rounds ? 2 : 4) : 0;
}

/* Bytes of cuDNN's gradient of the weight, and of the same widened. */
static void gradient_bytes(const conv_problem_t *problem, const gemm_plan_t *p, size_t out[2])
{
    const int64_t n = shape_count(problem->desc->param[0]);
    const bool weights = p->by_cudnn && problem->pass == OP_BACKWARD_WEIGHTS, more = p->chunk.n_chunks > 1;
    out[0] = weights && (p->rounds || more) ? block_bytes(n * (p->rounds ? 2 : 4)) : 0;
    out[1] = weights && p->rounds && more ? block_bytes(n * 4) : 0;
}

/* Bytes of the windows of one sample. */
static int64_t window_bytes(const gemm_plan_t *p)
{
    int64_t one[] = {p->windows.oh, p->windows.ow, p->pitch, p->folds || !p->rounds ? 4 : 2};
    return p->in_place ? 0 : chunk_product(one, 4);
}

static int64_t cell_bytes(const gemm_plan_t *p)
{
    int64_t one[] = {p->shape.oh, p->shape.ow, p->n_cell};
    return chunk_product(one, 3);
}

/* resident: chunks are small enough for their windows to stay in the L2 cache. */
static chunk_need_t need_of(const conv_problem_t *problem, const gemm_plan_t *p, bool resident)
{
    int64_t windows = window_bytes(p), cells = cell_bytes(p), most = 0;
    int64_t counts[][3] = {{p->windows.oh, p->windows.ow, p->in_place ? 0 : p->pitch},
                           {p->shape.h, p->shape.w, p->shape.c},
                           {p->shape.oh, p->shape.ow, p->shape.k}};
    for (int i = 0; i < 3; i++)
        if (chunk_product(counts[i], 3) > most) most = chunk_product(counts[i], 3);
    /* Rounding up to blocks adds a few of them. */
    int64_t fixed = library_bytes(p->by_cudnn) + 10 * 256 + weight_bytes(problem, p) +
                    (p->by_cudnn ? shape_count(problem->desc->param[0]) * 6 : 0) +
                    (p->n_parts > 1 ? (int64_t)p->n_parts * p->shape.k * 4 : 0);
    chunk_need_t need = {.n_samples = p->shape.n,
                         .n_sample_bytes = windows > INT64_MAX - cells ? INT64_MAX : windows + cells,
                         .n_sample_cells = most,
                         .n_fixed_bytes = fixed,
                         .n_limit_bytes = cuda_workspace_bytes()};
    /* The other half of the cache is left to the operands. */
    int64_t room = cuda_l2_bytes() / 2;
    if (resident && need.n_sample_bytes < room && fixed + room < need.n_limit_bytes)
        need.n_limit_bytes = fixed + room;
    return need;
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

/* windows · weightᵀ. */
static void set_gather(const gemm_plan_t *p, bool data, int64_t n_samples, gemm_spec_t *spec)
{
    const conv_shape_t *s = &p->windows;
    int64_t element = p->rounds ? 2 : 4, cells = (int64_t)s->oh * s->ow;
    int64_t depth = p->pads ? p->pitch : p->n_window / s->groups, filters = s->k / s->groups;
    bool narrow = data ? p->x_bf16 : p->y_bf16 && !p->apart;
    spec->m = n_samples * cells, spec->n = filters, spec->k = depth;
    spec->a = mat_of(p, p->pitch, p->n_window / s->groups, p->in_place ? cells * s->c : 0, element);
    spec->b = (gemm_matrix_t){.row = depth, .next = filters * depth, .transposed = true};
    spec->b.alignment = gemm_alignment(s->groups > 1 ? spec->b.next * element : 0);
    if (data && p->pointwise) spec->b.row = p->shape.c, spec->b.transposed = false;
    spec->d = mat_of(p, s->k, filters, cells * s->k, narrow ? 2 : 4);
    spec->result = narrow ? DTYPE_BF16 : DTYPE_F32;
    spec->bias = !data && p->bias && !p->apart;
}

/* dy · weight, to columns; or dyᵀ · windows. */
static void set_other(const gemm_plan_t *p, int64_t n_samples, gemm_spec_t *spec)
{
    const conv_shape_t *s = &p->shape;
    int64_t element = p->rounds ? 2 : 4, cells = (int64_t)s->oh * s->ow, pixels = n_samples * cells;
    int64_t filters = s->k / s->groups, taps = p->n_window / s->groups;
    gemm_matrix_t dy = mat_of(p, s->k, filters, cells * s->k, element);
    gemm_matrix_t weight = {.row = taps, .next = filters * taps};
    weight.alignment = gemm_alignment(s->groups > 1 ? weight.next * (p->folds ? element : 4) : 0);
    gemm_matrix_t windows = mat_of(p, p->pitch, taps, p->in_place ? cells * s->c : 0, p->folds ? 4 : element);
    spec->a = dy, spec->k = p->folds ? filters : pixels;
    spec->m = p->folds ? pixels : filters, spec->n = taps;
    spec->a.transposed = !p->folds;
    spec->b = p->folds ? weight : windows, spec->d = p->folds ? windows : weight;
}

/* what: its text, valid while the result is used. */
static gemm_spec_t spec_of(const conv_problem_t *problem, const conv_impl_t *impl, const gemm_plan_t *p,
                           int64_t n_samples, char what[CONV_TEXT])
{
    gemm_spec_t spec = {.what = what,
                        .compute = problem->desc->compute,
                        .result = DTYPE_F32,
                        .batch = p->shape.groups,
                        .n_workspace_bytes = (size_t)library_bytes(false),
                        .proposal = problem->variant};
    conv_spell(problem, impl, what);
    if (problem->pass == OP_BACKWARD_WEIGHTS || p->folds)
        set_other(p, n_samples, &spec);
    else
        set_gather(p, problem->pass == OP_BACKWARD_DATA, n_samples, &spec);
    return spec;
}

static dnn_spec_t dnn_spec_of(const conv_problem_t *problem, const gemm_plan_t *p, int64_t n_samples,
                              char *what)
{
    const conv_shape_t *s = &p->shape;
    const int64_t element = p->rounds ? 2 : 4, x = (int64_t)s->h * s->w * s->c,
                  y = (int64_t)s->oh * s->ow * s->k;
    dnn_spec_t spec = {.what = what,
                       .pass = problem->pass,
                       .compute = problem->desc->compute,
                       .shape = *s,
                       .n_workspace_bytes = (size_t)library_bytes(true),
                       .proposal = problem->variant};
    spec.shape.n = n_samples;
    /* That of any sample: the network's input can be a part of a larger batch. */
    spec.alignment = gemm_alignment((x | y) * element);
    conv_spell(problem, &cuda_conv_cudnn, what);
    return spec;
}

static int count_product(const conv_problem_t *problem, const conv_impl_t *impl, const gemm_plan_t *p,
                         int64_t n_samples)
{
    char text[CONV_TEXT];
    if (p->by_cudnn) {
        dnn_spec_t spec = dnn_spec_of(problem, p, n_samples, text);
        return dnn_count(&spec);
    }
    gemm_spec_t spec = spec_of(problem, impl, p, n_samples, text);
    return gemm_count(&spec);
}

static err_t new_product(const conv_problem_t *problem, const conv_impl_t *impl, gemm_plan_t *p, int i,
                         int64_t n_samples)
{
    char text[CONV_TEXT];
    if (p->by_cudnn) {
        dnn_spec_t spec = dnn_spec_of(problem, p, n_samples, text);
        if (i > 0 && spec.proposal >= dnn_count(&spec)) spec.proposal = 0;
        return dnn_new(&spec, &p->dnn[i]);
    }
    gemm_spec_t spec = spec_of(problem, impl, p, n_samples, text);
    return gemm_new(&spec, &p->gemm[i]);
}

/* Pointwise convolutions are gemm's, the others im2col's. cuDNN has no mixture of types, and a convolution of
 * bfloat16 has a bfloat16 result; a linear layer is left to cuBLASLt. */
static bool takes(const conv_impl_t *self, const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const bool narrow = d->compute == DTYPE_BF16;
    if (self != &cuda_conv_cudnn) return (self == &cuda_conv_gemm) == conv_is_pointwise(d);
    return problem->layer->kind != OP_LINEAR &&
           (problem->pass != OP_FORWARD || (d->y_dtype[0] == DTYPE_BF16) == narrow) &&
           (problem->pass != OP_BACKWARD_DATA || (d->x_dtype[0] == DTYPE_BF16) == narrow);
}

/* Proposals for the product of full chunks; the last chunk's are its own. */
static int gemm_plan_count(const conv_impl_t *self, const conv_problem_t *problem)
{
    const bool resident = self == &cuda_conv_im2col_l2;
    gemm_plan_t p = outline(problem, self == &cuda_conv_cudnn);
    chunk_need_t large = need_of(problem, &p, false), need = need_of(problem, &p, resident);
    if (!takes(self, problem) || !chunk_fits(&need) || chunk_plan(&need, &p.chunk) != ERR_OK) return 0;
    if (resident) {
        chunk_t chunk;
        if (p.in_place || chunk_plan(&large, &chunk) != ERR_OK || chunk.n_samples <= p.chunk.n_samples)
            return 0;
    }
    if (p.chunk.n_last != p.chunk.n_samples && count_product(problem, self, &p, p.chunk.n_last) == 0)
        return 0;
    int n = count_product(problem, self, &p, p.chunk.n_samples);
    return resident && n > RESIDENT_VARIANTS ? RESIDENT_VARIANTS : n;
}

static size_t place_buffers(const conv_problem_t *problem, gemm_plan_t *p)
{
    size_t products = 0, gradients[2];
    gradient_bytes(problem, p, gradients);
    p->parts = block_bytes(weight_bytes(problem, p));
    p->gradient = p->parts + (p->n_parts > 1 ? block_bytes((int64_t)p->n_parts * p->shape.k * 4) : 0);
    p->wide = p->gradient + gradients[0];
    p->columns = p->wide + gradients[1];
    p->cells = p->columns + block_bytes(window_bytes(p) * p->chunk.n_samples);
    p->products = p->cells + block_bytes(cell_bytes(p) * p->chunk.n_samples);
    for (int i = 0; i < 2; i++) {
        size_t n = p->gemm[i] ? gemm_workspace_bytes(p->gemm[i]) : 0;
        if (p->dnn[i]) n = dnn_workspace_bytes(p->dnn[i]);
        if (n > products) products = n;
    }
    return p->products + products;
}

static void gemm_plan_free(void **plan_)
{
    gemm_plan_t *p = *plan_;
    for (int i = 0; p && i < 2; i++) gemm_free(&p->gemm[i]), dnn_free(&p->dnn[i]);
    mem_free(plan_);
}

static err_t gemm_plan_new(const conv_impl_t *self, const conv_problem_t *problem, void **out,
                           size_t *n_workspace_bytes)
{
    char text[CONV_TEXT];
    gemm_plan_t plan = outline(problem, self == &cuda_conv_cudnn), *p;
    chunk_need_t need = need_of(problem, &plan, self == &cuda_conv_im2col_l2);
    conv_spell(problem, self, text);
    need.what = text;
    TRY(chunk_plan(&need, &plan.chunk));
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    *p = plan;
    const int64_t n_samples[2] = {p->chunk.n_samples, p->chunk.n_last};
    err_t err = ERR_OK;
    for (int i = 0; i < (n_samples[0] == n_samples[1] ? 1 : 2) && err == ERR_OK; i++)
        err = new_product(problem, self, p, i, n_samples[i]);
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
    int64_t n;
    gemm_t *gemm; /* one of the two */
    dnn_t *dnn;
    const void *x, *dy; /* dy: as given, or before the epilogue (conv_call_t.dense) */
    void *y, *dx;
    uint8_t *mask;
} piece_t;

static void *at_sample(const tensor_t *tensor, int64_t first)
{
    size_t one = (size_t)shape_sample_count(tensor->shape) * dtype_size(tensor->dtype);
    return tensor->data ? (char *)tensor->data + (size_t)first * one : NULL;
}

static piece_t piece_of(const gemm_plan_t *p, const conv_call_t *call, int64_t i)
{
    const op_args_t *args = call->args;
    bool last = i + 1 == p->chunk.n_chunks;
    int64_t first = i * p->chunk.n_samples, cells = (int64_t)p->shape.oh * p->shape.ow * p->shape.k;
    piece_t piece = {.n = last ? p->chunk.n_last : p->chunk.n_samples,
                     .gemm = last && p->gemm[1] ? p->gemm[1] : p->gemm[0],
                     .dnn = last && p->dnn[1] ? p->dnn[1] : p->dnn[0],
                     .x = at_sample(&args->x[0], first),
                     .dy = at_sample(&args->dy[0], first),
                     .y = at_sample(&args->y[0], first),
                     .dx = at_sample(&args->dx[0], first)};
    if (call->dense) piece.dy = (const char *)call->dense + first * cells * (p->rounds ? 2 : 4);
    if (args->saved && p->relu)
        piece.mask = (uint8_t *)args->saved + first * shape_sample_count(args->y[0].shape);
    return piece;
}

static void *ws_at(const conv_call_t *call, size_t offset)
{
    return (char *)call->args->workspace + offset;
}

static err_t run_product(const piece_t *piece, const gemm_call_t *call)
{
    return piece->dnn ? dnn_run(piece->dnn, call) : gemm_run(piece->gemm, call);
}

/* The windows of a chunk of x or dy: in place, or written to the workspace. */
static err_t windows_of(const gemm_plan_t *p, const conv_call_t *call, const piece_t *piece, const void *from,
                        bool from_bf16, const void **out)
{
    columns_args_t columns = {p->windows, p->pitch, from, ws_at(call, p->columns), from_bf16, p->rounds};
    columns.shape.n = piece->n;
    *out = p->in_place ? from : columns.columns;
    if (p->in_place) return ERR_OK;
    if (p->pointwise && !p->pads)
        return cuda_narrow(from, columns.columns, piece->n * p->shape.h * p->shape.w * p->shape.c,
                           cuda_stream());
    E_CUDA(im2col(&columns, cuda_stream()), "conv2d, im2col");
    return ERR_OK;
}

/* The weight as the product reads it: in place, or in the workspace. */
static err_t weight_of(const gemm_plan_t *p, const conv_call_t *call, bool transposed, const void **out)
{
    const tensor_t *weight = &call->args->param[0];
    const conv_shape_t *s = &p->shape;
    *out = weight->data;
    if (!p->arranges) return ERR_OK;
    if (p->rounds && !transposed && !p->pads && call->args->param_bf16[0]) {
        *out = call->args->param_bf16[0];
        return ERR_OK;
    }
    *out = call->args->workspace;
    if (!transposed && !p->pads)
        return cuda_narrow(weight->data, call->args->workspace, shape_count(weight->shape), cuda_stream());
    weight_args_t arrange = {.from = weight->data,
                             .to = call->args->workspace,
                             .groups = s->groups,
                             .filters = s->k / s->groups,
                             .n_taps = s->kernel_h * s->kernel_w,
                             .channels = s->c / s->groups,
                             .pitch = p->pads ? p->pitch : p->n_window / s->groups,
                             .transposed = transposed,
                             .rounds = p->rounds};
    E_CUDA(arrange_weight(&arrange, cuda_stream()), "conv2d, weight");
    return ERR_OK;
}

static err_t gemm_forward(const gemm_plan_t *p, const conv_problem_t *problem, const conv_call_t *call)
{
    const op_args_t *args = call->args;
    const void *weight;
    TRY(weight_of(p, call, false, &weight));
    for (int64_t i = 0; i < p->chunk.n_chunks; i++) {
        piece_t piece = piece_of(p, call, i);
        void *product = p->n_cell ? ws_at(call, p->cells) : piece.y;
        gemm_call_t gemm = {
            .b = weight, .bias = args->param[1].data, .d = product, .workspace = ws_at(call, p->products)};
        TRY(windows_of(p, call, &piece, piece.x, p->x_bf16, &gemm.a));
        TRY(run_product(&piece, &gemm));
        if (!p->apart) continue;
        epilogue_args_t epilogue = {.cells = conv_cells_of(problem->desc, piece.n),
                                    .relu = p->relu,
                                    .product = product,
                                    .product_bf16 = p->by_cudnn && p->rounds,
                                    .bias = p->bias ? args->param[1].data : NULL,
                                    .y = piece.y,
                                    .y_bf16 = p->y_bf16,
                                    .mask = problem->training ? piece.mask : NULL};
        E_CUDA(epilogue_forward(&epilogue, cuda_stream()), "conv2d, epilogue");
    }
    return ERR_OK;
}

/* Writes dy of n samples before the epilogue to `dense`, if not NULL, and the gradient of the bias. */
static err_t expand(const gemm_plan_t *p, const conv_problem_t *problem, const conv_call_t *call,
                    const piece_t *piece, void *dense, bool sums)
{
    int64_t rows = piece->n * p->shape.oh * p->shape.ow;
    if (dense && !p->relu && !sums) return cuda_narrow(piece->dy, dense, rows * p->shape.k, cuda_stream());
    gradient_args_t gradient = {.cells = conv_cells_of(problem->desc, piece->n),
                                .dy = piece->dy,
                                .mask = piece->mask,
                                .dy_bf16 = p->y_bf16,
                                .rounds = p->rounds,
                                .dense = p->rounds ? NULL : dense,
                                .dense_bf16 = p->rounds ? dense : NULL,
                                .sums = sums ? call->args->dparam[1].data : NULL,
                                .parts = ws_at(call, p->parts),
                                .n_parts = sums ? p->n_parts : chunk_parts(rows, p->shape.k)};
    E_CUDA(epilogue_backward(&gradient, cuda_stream()), "conv2d, gradient of the epilogue");
    return ERR_OK;
}

/* dy of a chunk, as the product reads it; and the gradient of the bias. */
static err_t gradient_of(const gemm_plan_t *p, const conv_problem_t *problem, const conv_call_t *call,
                         const piece_t *piece, bool sums, const void **out)
{
    bool converts = p->converts && !call->dense;
    void *cells = converts ? ws_at(call, p->cells) : NULL;
    *out = converts ? cells : piece->dy;
    return converts || sums ? expand(p, problem, call, piece, cells, sums) : ERR_OK;
}

static err_t gemm_backward_data(const gemm_plan_t *p, const conv_problem_t *problem, const conv_call_t *call)
{
    const void *weight, *dy;
    const bool adds = call->args->accumulate_dx[0];
    TRY(weight_of(p, call, !p->folds && !p->pointwise, &weight));
    for (int64_t i = 0; i < p->chunk.n_chunks; i++) {
        piece_t piece = piece_of(p, call, i);
        conv_shape_t shape = p->shape;
        void *columns = ws_at(call, p->columns);
        gemm_call_t gemm = {.b = weight,
                            .d = p->folds ? columns : piece.dx,
                            .beta = adds && !p->folds,
                            .workspace = ws_at(call, p->products)};
        shape.n = piece.n;
        TRY(gradient_of(p, problem, call, &piece, false, &dy));
        gemm.a = dy;
        if (!p->folds) TRY(windows_of(p, call, &piece, dy, p->rounds, &gemm.a));
        TRY(run_product(&piece, &gemm));
        if (p->folds)
            E_CUDA(col2im(&shape, columns, piece.dx, p->x_bf16, adds, cuda_stream()), "conv2d, col2im");
    }
    return ERR_OK;
}

static err_t gemm_backward_weights(const gemm_plan_t *p, const conv_problem_t *problem,
                                   const conv_call_t *call)
{
    const op_args_t *args = call->args;
    bool sums = p->bias && !call->dense, together = p->chunk.n_chunks == 1;
    const int64_t n_weights = shape_count(problem->desc->param[0]);
    for (int64_t i = 0; i < p->chunk.n_chunks; i++) {
        piece_t piece = piece_of(p, call, i);
        /* cuDNN's is of the operands' type, and sums of chunks are float32. */
        const bool apart = p->by_cudnn && (p->rounds || i > 0);
        gemm_call_t gemm = {.d = apart ? ws_at(call, p->gradient) : args->dparam[0].data,
                            .beta = i > 0 && !apart,
                            .workspace = ws_at(call, p->products)};
        TRY(gradient_of(p, problem, call, &piece, sums && together, &gemm.a));
        TRY(windows_of(p, call, &piece, piece.x, p->x_bf16, &gemm.b));
        TRY(run_product(&piece, &gemm));
        float *wide = gemm.d;
        if (apart && p->rounds) {
            wide = i > 0 ? ws_at(call, p->wide) : args->dparam[0].data;
            TRY(cuda_widen(gemm.d, wide, n_weights, cuda_stream()));
        }
        if (apart && i > 0) TRY(cuda_accumulate(args->dparam[0].data, wide, n_weights, DTYPE_F32));
    }
    piece_t all = piece_of(p, call, 0);
    all.n = p->shape.n;
    /* Over all samples at once, if there are several chunks. */
    return sums && !together ? expand(p, problem, call, &all, NULL, true) : ERR_OK;
}

static err_t gemm_plan_run(void *plan_, const conv_problem_t *problem, const conv_call_t *call)
{
    const gemm_plan_t *p = plan_;
    if (problem->pass == OP_FORWARD) return gemm_forward(p, problem, call);
    return problem->pass == OP_BACKWARD_DATA ? gemm_backward_data(p, problem, call)
                                             : gemm_backward_weights(p, problem, call);
}

/* With one chunk nothing is gained for the pass of the weight alone, but both passes share the result. */
static size_t gemm_dense_bytes(const void *plan_)
{
    const gemm_plan_t *p = plan_;
    return p->converts ? (size_t)(p->shape.n * p->shape.oh * p->shape.ow * p->n_cell) : 0;
}

/* plan: of the weights' pass. */
static err_t gemm_densify(const void *plan_, const conv_problem_t *problem, const op_args_t *args,
                          void *dense)
{
    const gemm_plan_t *p = plan_;
    conv_call_t call = {args, NULL};
    piece_t all = piece_of(p, &call, 0);
    all.n = p->shape.n;
    return expand(p, problem, &call, &all, dense, p->bias);
}

/* One for each of the library's proposals. */
static const char *const gemm_names[GEMM_PROPOSALS + 1] = {"gemm",   "gemm-2", "gemm-3", "gemm-4",
                                                           "gemm-5", "gemm-6", "gemm-7", "gemm-8"};
static const char *const im2col_names[GEMM_PROPOSALS + 1] = {"im2col",   "im2col-2", "im2col-3", "im2col-4",
                                                             "im2col-5", "im2col-6", "im2col-7", "im2col-8"};
static const char *const resident_names[RESIDENT_VARIANTS + 1] = {"im2col-l2", "im2col-l2-2", "im2col-l2-3",
                                                                  "im2col-l2-4"};
static const char *const cudnn_names[DNN_PROPOSALS + 1] = {"cudnn", "cudnn-2", "cudnn-3", "cudnn-4"};

#define BY_GEMM_PLAN(names)                                                                                  \
    {                                                                                                        \
        (names), gemm_plan_count, gemm_plan_new, gemm_plan_run, gemm_plan_free, gemm_dense_bytes,            \
            gemm_densify                                                                                     \
    }
const conv_impl_t cuda_conv_gemm = BY_GEMM_PLAN(gemm_names);
const conv_impl_t cuda_conv_im2col = BY_GEMM_PLAN(im2col_names);
const conv_impl_t cuda_conv_im2col_l2 = BY_GEMM_PLAN(resident_names);
const conv_impl_t cuda_conv_cudnn = BY_GEMM_PLAN(cudnn_names);
