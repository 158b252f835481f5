/* SPDX-License-Identifier: MIT */
/* Convolution as matrix products on cuBLASLt, or by cuDNN (gemm_plan.h), a few samples at a time, so that
 * scratch is bounded. "gemm" is the pointwise convolution, whose windows are the pixels. "im2col" writes windows to
 * memory; "im2col-l2" so few at a time that they stay in cache, with more launches. Chunks run in order, so
 * sums over them have a fixed order. */
#include "kernels/cuda/conv/gemm_plan.h"

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
static const char *const resident_names[GEMM_RESIDENT_VARIANTS + 1] = {"im2col-l2", "im2col-l2-2",
                                                                       "im2col-l2-3", "im2col-l2-4"};
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
