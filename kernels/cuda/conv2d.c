/* SPDX-License-Identifier: MIT */
/* conv2d: lists the algorithms of kernels/cuda/conv, picks one per pass by a rule on the shape, and runs it;
 * for linear.c, too. Each algorithm handles epilogue and rounding itself. */
#include "kernels/cuda/conv/conv.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static const conv_impl_t *const impls[] = {&cuda_conv_gemm,   &cuda_conv_implicit,  &cuda_conv_mma,
                                           &cuda_conv_im2col, &cuda_conv_im2col_l2, &cuda_conv_cudnn};
enum { N_IMPLS = sizeof impls / sizeof impls[0] };

/* Saved, with an epilogue: its mask. Workspace: the largest of any pass; then, if both backward passes read
 * dy in another form, that. */
typedef struct conv_plan {
    op_desc_t desc;        /* as a convolution */
    size_t dense, n_dense; /* offset and bytes of that form; 0: each pass makes its own */
    struct {
        const conv_impl_t *impl; /* NULL: pass not planned */
        conv_problem_t problem;
        void *plan;
    } pass[OP_PASS_COUNT];
} conv_plan_t;

/* Whether it fits the kernels' counters: edges of a padded image, channels, elements of a sample. */
static bool fits_counters(const op_desc_t *desc)
{
    const conv2d_attr_t *a = &desc->attr.conv2d;
    const int64_t *x = desc->x[0].dim, most = 1 << 30;
    int64_t height, width;
    op_conv2d_cells(desc, &height, &width);
    int64_t y_cells[] = {height, width, a->out_channels};
    return x[1] + 2 * (int64_t)a->pad_h <= most && x[2] + 2 * (int64_t)a->pad_w <= most && x[3] <= most &&
           chunk_product(y_cells, 3) <= most && chunk_product(x + 1, 3) <= most;
}

static int count(const conv_impl_t *impl, const conv_problem_t *problem)
{
    return impl->count(impl, problem);
}

/* Whether tensor cores should read windows in place. Writing and reading a value of a window moves 4 bytes:
 * .93 ps at 4.3 TB/s. mma.sync reaches about .6 of cuBLASLt's 790 TFLOP/s (an estimate; both rates are an
 * H200's), which costs 1.7 fs per multiply-add. Values used 550 times or less are better read in place. The
 * gradient of a strided x sums float32 columns instead, twice as large. With fewer tiles of the result than
 * multiprocessors each use costs more, as only cuBLASLt would split the depth. */
static bool reads_in_place(const conv_problem_t *problem)
{
    enum { MOST_USES = 550, TILE = 128 * 64 };
    const op_desc_t *d = problem->desc;
    const conv2d_attr_t *a = &d->attr.conv2d;
    bool data = problem->pass == OP_BACKWARD_DATA, folds = data && (a->stride_h > 1 || a->stride_w > 1);
    int64_t n_uses = data && !folds ? d->x[0].dim[3] : a->out_channels;
    int64_t n_tiles = shape_count(data ? d->x[0] : d->y[0]) / TILE + 1;
    if (problem->pass != OP_BACKWARD_WEIGHTS && n_tiles < CHUNK_MULTIPROCESSORS)
        n_uses = n_uses * CHUNK_MULTIPROCESSORS / n_tiles;
    return count(&cuda_conv_mma, problem) &&
           (n_uses <= (folds ? 2 : 1) * MOST_USES || !count(&cuda_conv_im2col, problem));
}

/* A rule on the shape, so that every rank and every run computes the same bits. A pointwise convolution is a
 * plain product. For small windows, writing windows out costs more than reading them in place; in bfloat16
 * tensor cores can do that. A small layer finishes before several kernels would have started, a medium one only
 * where tensor cores cannot read it. Without an algorithm of cuBLASLt's own, those that read in place remain. If
 * nothing fits, planning the result fails and says why. */
static const conv_impl_t *default_impl(const conv_problem_t *problem)
{
    enum { FEW_CHANNELS = 8 };
    const op_desc_t *d = problem->desc;
    if (count(&cuda_conv_gemm, problem)) return &cuda_conv_gemm;
    bool in_place = reads_in_place(problem);
    bool few = d->x[0].dim[3] / d->attr.conv2d.groups <= FEW_CHANNELS &&
               (d->compute == DTYPE_F32 || d->attr.conv2d.groups > 1);
    bool small = few || op_macs(d) <= (int64_t)1 << (count(&cuda_conv_mma, problem) ? 26 : 29);
    if (count(&cuda_conv_implicit, problem) && (small || (!in_place && !count(&cuda_conv_im2col, problem))))
        return &cuda_conv_implicit;
    return in_place ? &cuda_conv_mma : &cuda_conv_im2col;
}

/* Whether a variant has this name; it is then selected. */
static bool select_variant(const conv_impl_t *impl, const char *name, conv_problem_t *problem)
{
    int v = 0;
    while (impl->names[v] && strcmp(impl->names[v], name) != 0) v++;
    if (!impl->names[v] || v >= count(impl, problem)) return false;
    problem->variant = v;
    return true;
}

/* The default comes first. */
int conv_list(const op_desc_t *layer, const op_desc_t *desc, op_pass_t pass, bool training, const char *only,
              const char **names, int max)
{
    conv_problem_t problem = {desc, layer, pass, training, 0};
    if (!fits_counters(desc)) return 0;
    for (int i = 0; i < N_IMPLS && only; i++)
        if (select_variant(impls[i], only, &problem)) return names[0] = impls[i]->names[problem.variant], 1;
    if (only) return 0;
    const conv_impl_t *first = default_impl(&problem);
    int n = 0, n_first = count(first, &problem);
    for (int v = 0; v < n_first && n < max; v++) names[n++] = first->names[v];
    for (int i = 0; i < N_IMPLS; i++) {
        int n_variants = impls[i] == first ? 0 : count(impls[i], &problem);
        for (int v = 0; v < n_variants && n < max; v++) names[n++] = impls[i]->names[v];
    }
    return n;
}

static err_t plan_pass(op_t *op, op_pass_t pass, conv_plan_t *plan)
{
    char *name = op->algorithms.name[pass];
    conv_problem_t problem = {&plan->desc, &op->desc, pass, op->training, 0};
    const conv_impl_t *impl = NULL;
    size_t n_bytes = 0;
    for (int i = 0; i < N_IMPLS && name[0] && !impl; i++)
        if (select_variant(impls[i], name, &problem)) impl = impls[i];
    if (!impl) impl = default_impl(&problem);
    plan->pass[pass].problem = problem;
    TRY(impl->plan(impl, &plan->pass[pass].problem, &plan->pass[pass].plan, &n_bytes));
    plan->pass[pass].impl = impl;
    snprintf(name, OP_ALGORITHM_MAX, "%s", impl->names[problem.variant]);
    if (n_bytes > op->n_workspace_bytes) op->n_workspace_bytes = n_bytes;
    return ERR_OK;
}

void conv_unplan(op_t *op)
{
    conv_plan_t *p = op->plan;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++)
        if (p->pass[pass].impl) p->pass[pass].impl->unplan(&p->pass[pass].plan);
    mem_free(&op->plan);
}

/* Room for dy in the form that both backward passes read, within the limit of scratch. */
static void plan_dense(op_t *op, conv_plan_t *p)
{
    enum { BLOCK = 256 };
    const conv_impl_t *data = p->pass[OP_BACKWARD_DATA].impl, *weights = p->pass[OP_BACKWARD_WEIGHTS].impl;
    if (!data->dense_bytes || !weights->dense_bytes) return;
    size_t n = weights->dense_bytes(p->pass[OP_BACKWARD_WEIGHTS].plan);
    p->dense = (op->n_workspace_bytes + BLOCK - 1) / BLOCK * BLOCK;
    if (n == 0 || p->dense + n > (size_t)cuda_workspace_bytes()) return;
    p->n_dense = n;
    op->n_workspace_bytes = p->dense + n;
}

err_t conv_plan(op_t *op, const op_desc_t *desc)
{
    conv_plan_t *p;
    err_t err = ERR_OK;
    if (!fits_counters(desc))
        RAISE(ERR_USAGE, "%s: a sample of %s to %s is too large for the kernels",
              op_traits(op->desc.kind)->name, shape_format(op->desc.x[0]).text,
              shape_format(op->desc.y[0]).text);
    TRY(mem_new(sizeof *p, "the plan of a convolution", &p));
    p->desc = *desc;
    op->plan = p;
    op->adds_dx = true;
    for (int pass = 0; pass < (op->training ? OP_PASS_COUNT : 1) && err == ERR_OK; pass++)
        err = plan_pass(op, (op_pass_t)pass, p);
    if (err == ERR_OK && op->training) plan_dense(op, p);
    if (err != ERR_OK)
        conv_unplan(op);
    else if (op_epilogue(desc).relu && op->training)
        op->n_saved_bytes = (size_t)shape_count(op->desc.y[0]);
    return err;
}

static err_t run_pass(const op_t *op, op_pass_t pass, const conv_call_t *call)
{
    conv_plan_t *p = op->plan;
    return p->pass[pass].impl->run(p->pass[pass].plan, &p->pass[pass].problem, call);
}

err_t conv_forward(const op_t *op, const op_args_t *args)
{
    return run_pass(op, OP_FORWARD, &(conv_call_t){args, NULL});
}

err_t conv_backward(const op_t *op, const op_args_t *args)
{
    const conv_plan_t *p = op->plan;
    conv_call_t call = {args, NULL};
    if (p->n_dense && args->dx[0].data && args->dparam[0].data) {
        void *dense = (char *)args->workspace + p->dense;
        TRY(p->pass[OP_BACKWARD_WEIGHTS].impl->densify(p->pass[OP_BACKWARD_WEIGHTS].plan,
                                                       &p->pass[OP_BACKWARD_WEIGHTS].problem, args, dense));
        call.dense = dense;
    }
    if (args->dx[0].data) TRY(run_pass(op, OP_BACKWARD_DATA, &call));
    return args->dparam[0].data ? run_pass(op, OP_BACKWARD_WEIGHTS, &call) : ERR_OK;
}

static err_t cuda_conv2d_plan(op_t *op)
{
    return conv_plan(op, &op->desc);
}

static int cuda_conv2d_list(const op_desc_t *desc, op_pass_t pass, bool training, const char *only,
                            const char **names, int max)
{
    return conv_list(desc, desc, pass, training, only, names, max);
}

const op_kernel_t cuda_conv2d = {.plan = cuda_conv2d_plan,
                                 .forward = conv_forward,
                                 .backward = conv_backward,
                                 .unplan = conv_unplan,
                                 .list = cuda_conv2d_list,
                                 .fuses = true,
                                 .tf32 = true,
                                 .bf16 = true,
                                 .mixes = true};
