/* SPDX-License-Identifier: MIT */
/* "implicit-mma": bfloat16 products on tensor cores that read windows in place. One group, channels and
 * filters in multiples of 8, any stride, padding and dilation, no ReLU. The variants differ in tile size.
 *
 * Images with fewer than 8 channels, the input of a first layer, are copied with their channels filled up to
 * 4 or 8 and their rows padded. A row of a window is then contiguous and becomes a single tap, filled up to a
 * multiple of 8: a 7 × 7 window of 3 channels with stride 2 has 7 taps of 32 values. */
#include "base/mem.h"
#include "kernels/cuda/chunk.h"
#include "kernels/cuda/conv/gemm_plan.h"

enum { EIGHT = 8, ALIGNMENT = 256, VARIANTS = 2 };

/* Workspace, each part only if needed: weight and image as the product reads them; dy; parts of the gradients
 * of bias and weight. */
typedef struct mma_plan {
    mma_args_t args;
    columns_args_t fill; /* of the image, if pitch > 0 */
    int n_bias_parts;
    size_t image, dy, bias_parts, parts, n_bytes; /* offsets; all */
} mma_plan_t;

static int64_t up_to(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* What the kernels support, with the limits of their counters. */
static bool is_possible(const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    const int64_t *x = d->x[0].dim, most = 1 << 30;
    bool data = problem->pass == OP_BACKWARD_DATA, fills = x[3] < EIGHT;
    if (d->compute != DTYPE_BF16 || a->groups > 1 || a->epilogue.relu || gemm_plan_is_pointwise(d) ||
        a->out_channels % EIGHT || (!fills && x[3] % EIGHT) || (fills && (data || a->dilation_w > 1)) ||
        (data && (int64_t)a->stride_h * a->stride_w > MMA_CLASSES))
        return false;
    int64_t height, width, deepest = a->out_channels > x[3] ? a->out_channels : fills ? EIGHT : x[3];
    op_conv2d_cells(d, &height, &width);
    int64_t wide = x[2] + 2 * (int64_t)a->pad_w + EIGHT, high = x[1] + 2 * (int64_t)a->pad_h;
    int64_t pixels[] = {x[0], height, width}, inputs[] = {x[0], high, wide, fills ? EIGHT : 1};
    int64_t image[] = {high, wide, deepest}, weight[] = {a->out_channels, a->kernel_h, a->kernel_w, deepest};
    return chunk_product(pixels, 3) <= most && chunk_product(inputs, 4) <= most &&
           chunk_product(image, 3) <= most && chunk_product(weight, 4) <= most &&
           chunk_tiles(chunk_product(data ? inputs : pixels, 3), 128, deepest, 64) <= most;
}

/* The taps along one dimension that read for pixels i·stride + rest of x: tap + j·every, at pixel first + i +
 * j·step of y. Returns their number. */
static int taps_of(int rest, int kernel, int stride, int pad, int dilation, int *first, int *step, int *tap,
                   int *every)
{
    for (*tap = 0; *tap < kernel && (rest + pad - (int64_t)*tap * dilation) % stride != 0;) ++*tap;
    for (*every = 1; (int64_t)*every * dilation % stride != 0;) ++*every;
    *first = (int)((rest + pad - (int64_t)*tap * dilation) / stride);
    *step = (int)(-(int64_t)*every * dilation / stride);
    return *tap < kernel ? (kernel - 1 - *tap) / *every + 1 : 0;
}

static mma_image_t plain_image(int h, int w, int c)
{
    return (mma_image_t){NULL, h, w, c, (int64_t)h * w * c, w * c, c};
}

/* dx by windows of dy, a class of pixels for each pair of remainders; usually the last have most taps. */
static mma_args_t data_args(const conv_shape_t *s)
{
    mma_args_t args = {.image = plain_image(s->oh, s->ow, s->k),
                       .stride_h = 1,
                       .stride_w = 1,
                       .n_columns = s->c,
                       .n_depth = s->kernel_h * s->kernel_w * s->k,
                       .y_sample = (int64_t)s->h * s->w * s->c,
                       .y_row = (int64_t)s->stride_h * s->w * s->c,
                       .y_pixel = (int64_t)s->stride_w * s->c};
    for (int h = s->stride_h - 1; h >= 0; h--)
        for (int w = s->stride_w - 1; w >= 0; w--) {
            mma_class_t c = {.rows = (s->h - h + s->stride_h - 1) / s->stride_h,
                             .columns = (s->w - w + s->stride_w - 1) / s->stride_w,
                             .y = ((int64_t)h * s->w + w) * s->c};
            int tap_h, tap_w, every_h, every_w;
            c.taps_h = taps_of(h, s->kernel_h, s->stride_h, s->pad_h, s->dilation_h, &c.first_h, &c.step_h,
                               &tap_h, &every_h);
            c.taps_w = taps_of(w, s->kernel_w, s->stride_w, s->pad_w, s->dilation_w, &c.first_w, &c.step_w,
                               &tap_w, &every_w);
            if (c.taps_h * c.taps_w == 0) c.taps_h = c.taps_w = 0;
            c.weight_h = every_h * s->kernel_w * s->k, c.weight_w = every_w * s->k;
            c.weight = (tap_h * s->kernel_w + tap_w) * s->k;
            args.classes[args.n_classes++] = c;
        }
    return args;
}

/* Forward and weights, by windows of x or of its filled copy. */
static mma_args_t window_args(const conv_shape_t *s, const columns_args_t *fill)
{
    int filled = (int)fill->pitch, row = fill->shape.ow * filled;
    int values = (int)up_to((int64_t)s->kernel_w * filled, EIGHT);
    mma_image_t image = {NULL, s->h, s->ow, values, (int64_t)s->h * row, row, s->stride_w * filled};
    if (!filled) image = plain_image(s->h, s->w, s->c);
    mma_class_t c = {.rows = s->oh,
                     .columns = s->ow,
                     .first_h = -s->pad_h,
                     .first_w = filled ? 0 : -s->pad_w,
                     .taps_h = s->kernel_h,
                     .taps_w = filled ? 1 : s->kernel_w,
                     .step_h = s->dilation_h,
                     .step_w = s->dilation_w};
    c.weight_h = c.taps_w * image.c, c.weight_w = image.c;
    return (mma_args_t){.image = image,
                        .stride_h = s->stride_h,
                        .stride_w = filled ? 1 : s->stride_w,
                        .classes = {c},
                        .n_classes = 1,
                        .n_columns = s->k,
                        .n_depth = c.taps_h * c.weight_h,
                        .y_sample = (int64_t)s->oh * s->ow * s->k,
                        .y_row = (int64_t)s->ow * s->k,
                        .y_pixel = s->k,
                        .n_parts = 1,
                        .filled = filled,
                        .kernel_w = s->kernel_w,
                        .channels = s->c};
}

/* Wide tiles, unless half of the last one would be empty or multiprocessors would idle; the other variant
 * takes the other size. Tiles of weights are split over pixels in any case. */
static bool takes_wide(const conv_problem_t *problem, const mma_args_t *a)
{
    enum { BLOCKS = 2 * CHUNK_MULTIPROCESSORS };
    int64_t n_tiles = problem->pass == OP_BACKWARD_WEIGHTS ? BLOCKS : 0;
    for (int i = 0; i < a->n_classes; i++)
        n_tiles += chunk_tiles(a->n * a->classes[i].rows * a->classes[i].columns, 128, a->n_columns, 128);
    return ((a->n_columns - 1) % 128 >= 64 && n_tiles >= BLOCKS) == (problem->variant == 0);
}

/* Offset of n more bytes. */
static size_t take(mma_plan_t *p, int64_t n)
{
    size_t at = p->n_bytes;
    p->n_bytes += (size_t)up_to(n, ALIGNMENT);
    return at;
}

static mma_plan_t outline(const conv_problem_t *problem)
{
    const op_desc_t *d = problem->desc;
    conv_shape_t s = conv_shape_of(d);
    mma_plan_t p = {.n_bias_parts = 1};
    mma_args_t *a = &p.args;
    bool data = problem->pass == OP_BACKWARD_DATA, weights = problem->pass == OP_BACKWARD_WEIGHTS;
    if (s.c < EIGHT) {
        int pitch = s.c <= 4 && s.stride_w % 2 == 0 ? 4 : EIGHT;
        int64_t last = up_to((int64_t)s.kernel_w * pitch, EIGHT) / pitch;
        int row = (int)up_to((s.ow - 1) * (int64_t)s.stride_w + last, EIGHT / pitch);
        p.fill = (columns_args_t){.shape = {s.n, s.h, s.w, s.c, s.h, row, 0, 1, 1, 1, 1, 0, s.pad_w, 1, 1, 1},
                                  .pitch = pitch,
                                  .from_bf16 = d->x_dtype[0] == DTYPE_BF16,
                                  .rounds = true};
    }
    *a = data ? data_args(&s) : window_args(&s, &p.fill);
    a->n = s.n, a->y_bf16 = (data ? d->x_dtype : d->y_dtype)[0] == DTYPE_BF16,
    a->wide = takes_wide(problem, a);
    if (!weights) take(&p, (int64_t)a->n_columns * a->n_depth * 2);
    bool copies = a->filled || d->x_dtype[0] != DTYPE_BF16, rounds = d->y_dtype[0] != DTYPE_BF16;
    p.image =
        take(&p, copies && !data ? s.n * (a->filled ? a->image.sample : (int64_t)s.h * s.w * s.c) * 2 : 0);
    p.dy = take(&p, rounds && (data || weights) ? shape_count(d->y[0]) * 2 : 0);
    if (!weights) return p;
    if (d->attr.conv2d.has_bias) p.n_bias_parts = chunk_parts(s.n * s.oh * s.ow, s.k);
    p.bias_parts = take(&p, p.n_bias_parts > 1 ? (int64_t)p.n_bias_parts * s.k * 4 : 0);
    int64_t n_tiles = chunk_tiles(s.k, a->wide ? 128 : 64, a->n_depth, 128),
            part = shape_count(d->param[0]) * 4;
    int64_t left = cuda_workspace_bytes() - (int64_t)p.n_bytes - ALIGNMENT;
    a->n_parts = chunk_splits(n_tiles, s.n * s.oh * s.ow, part, left > 0 ? left : 0);
    p.parts = take(&p, a->n_parts > 1 ? a->n_parts * part : 0);
    return p;
}

static int mma_count(const conv_impl_t *self, const conv_problem_t *problem)
{
    (void)self;
    conv_problem_t first = *problem;
    first.variant = 0;
    return is_possible(problem) && outline(&first).n_bytes <= (size_t)cuda_workspace_bytes() ? VARIANTS : 0;
}

static err_t mma_plan_new(const conv_impl_t *self, const conv_problem_t *problem, void **out,
                          size_t *n_workspace_bytes)
{
    (void)self;
    mma_plan_t *p;
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    *p = outline(problem);
    *n_workspace_bytes = p->n_bytes;
    *out = p;
    return ERR_OK;
}

static void mma_plan_free(void **plan_)
{
    mem_free(plan_);
}

/* A tensor as bfloat16: as it is, or rounded to the workspace. */
static err_t rounded(const tensor_t *tensor, void *copy, const uint16_t **out)
{
    *out = tensor->data;
    if (tensor->dtype == DTYPE_BF16) return ERR_OK;
    *out = copy;
    return cuda_narrow(tensor->data, copy, shape_count(tensor->shape), cuda_stream());
}

/* The same of x, filled up. */
static err_t image_from(const mma_plan_t *p, const op_args_t *args, const uint16_t **out)
{
    columns_args_t fill = p->fill;
    fill.from = args->x[0].data, fill.columns = (char *)args->workspace + p->image;
    if (!p->args.filled) return rounded(&args->x[0], fill.columns, out);
    *out = fill.columns;
    E_CUDA(im2col(&fill, cuda_stream()), "conv2d, filling up channels");
    return ERR_OK;
}

/* The weight by filters, and for dx by channels. A filled one is an image whose rows are those of windows. */
static err_t weight_from(const mma_plan_t *p, const conv_problem_t *problem, const op_args_t *args,
                         const uint16_t **out)
{
    const mma_args_t *a = &p->args;
    conv_shape_t s = conv_shape_of(problem->desc);
    columns_args_t fill = {
        .shape = {(int64_t)s.k * s.kernel_h, 1, s.kernel_w, s.c, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1},
        .pitch = a->filled,
        .from = args->param[0].data,
        .columns = args->workspace,
        .rounds = true};
    weight_args_t turn = {
        args->param[0].data, args->workspace, 1, s.k, s.kernel_h * s.kernel_w, s.c, a->n_depth, true, true};
    *out = args->workspace;
    if (problem->pass == OP_BACKWARD_DATA)
        E_CUDA(arrange_weight(&turn, cuda_stream()), "conv2d, weight");
    else if (a->filled) {
        fill.shape.ow = a->image.c / a->filled;
        E_CUDA(im2col(&fill, cuda_stream()), "conv2d, weight");
    } else if (args->param_bf16[0])
        *out = args->param_bf16[0];
    else
        return rounded(&args->param[0], args->workspace, out);
    return ERR_OK;
}

static err_t bias_gradient(const mma_plan_t *p, const conv_problem_t *problem, const op_args_t *args)
{
    gradient_args_t gradient = {.cells = conv_cells_of(problem->desc, p->args.n),
                                .dy = args->dy[0].data,
                                .dy_bf16 = args->dy[0].dtype == DTYPE_BF16,
                                .rounds = true,
                                .sums = args->dparam[1].data,
                                .parts = (void *)((char *)args->workspace + p->bias_parts),
                                .n_parts = p->n_bias_parts};
    E_CUDA(epilogue_backward(&gradient, cuda_stream()), "conv2d, gradient of the bias");
    return ERR_OK;
}

static err_t mma_plan_run(void *plan_, const conv_problem_t *problem, const conv_call_t *call)
{
    const mma_plan_t *p = plan_;
    const op_args_t *args = call->args;
    bool bias = problem->desc->attr.conv2d.has_bias;
    mma_args_t a = p->args;
    if (problem->pass != OP_BACKWARD_WEIGHTS) TRY(weight_from(p, problem, args, &a.weight));
    if (problem->pass != OP_BACKWARD_DATA) TRY(image_from(p, args, &a.image.from));
    if (problem->pass != OP_FORWARD) TRY(rounded(&args->dy[0], (char *)args->workspace + p->dy, &a.dy));
    if (problem->pass == OP_FORWARD) {
        a.bias = bias ? args->param[1].data : NULL, a.y = args->y[0].data;
        E_CUDA(mma_gather("mma_forward", &a, cuda_stream()), "conv2d, forward");
    } else if (problem->pass == OP_BACKWARD_DATA) {
        a.image.from = a.dy, a.y = args->dx[0].data, a.adds = args->accumulate_dx[0];
        E_CUDA(mma_gather("mma_backward_data", &a, cuda_stream()), "conv2d, backward_data");
    } else {
        a.dweight = args->dparam[0].data, a.parts = (void *)((char *)args->workspace + p->parts);
        E_CUDA(mma_weights(&a, cuda_stream()), "conv2d, backward_weights");
        if (bias) return bias_gradient(p, problem, args);
    }
    return ERR_OK;
}

static const char *const mma_names[VARIANTS + 1] = {"implicit-mma", "implicit-mma-2"};

const conv_impl_t cuda_conv_mma = {mma_names,     mma_count, mma_plan_new, mma_plan_run,
                                   mma_plan_free, NULL,      NULL};
