/* SPDX-License-Identifier: MIT */
/* Plans a convolution's pass as matrix products, or by cuDNN: shapes of the operands, chunks, workspace. */
#include "kernels/cuda/conv/gemm_plan.h"

#include "base/mem.h"

enum {
    LARGEST_WORKSPACE = 32 << 20, /* for cuBLASLt, at most 1/SHARE of all */
    SHARE = 8,
    EIGHT = 8, /* tensor cores read bfloat16 by eights */
};

bool gemm_plan_is_pointwise(const op_desc_t *d)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    return a->kernel_h == 1 && a->kernel_w == 1 && a->stride_h == 1 && a->stride_w == 1 && a->pad_h == 0 &&
           a->pad_w == 0 && a->groups == 1;
}

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
                     .pointwise = by_cudnn || gemm_plan_is_pointwise(d),
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
    if (self != &cuda_conv_cudnn) return (self == &cuda_conv_gemm) == gemm_plan_is_pointwise(d);
    return problem->operator->kind !=
           OP_LINEAR &&(problem->pass != OP_FORWARD || (d->y_dtype[0] == DTYPE_BF16) == narrow) &&
           (problem->pass != OP_BACKWARD_DATA || (d->x_dtype[0] == DTYPE_BF16) == narrow);
}

/* Proposals for the product of full chunks; the last chunk's are its own. */
int gemm_plan_count(const conv_impl_t *self, const conv_problem_t *problem)
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
    return resident && n > GEMM_RESIDENT_VARIANTS ? GEMM_RESIDENT_VARIANTS : n;
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

void gemm_plan_free(void **plan_)
{
    gemm_plan_t *p = *plan_;
    for (int i = 0; p && i < 2; i++) gemm_free(&p->gemm[i]), dnn_free(&p->dnn[i]);
    mem_free(plan_);
}

err_t gemm_plan_new(const conv_impl_t *self, const conv_problem_t *problem, void **out,
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
