/* SPDX-License-Identifier: MIT */
/* What smooth_l1 and sigmoid_bce_at share: the loops of losses of the entries that a label selects
 * (compute/ops/selected.h), for any formula F with WIDTH predictions of an entry and class, loss(x, t) and
 * slope(x, t); their sizes and scratch. */
#ifndef KERNELS_CUDA_SELECTED_CUH
#define KERNELS_CUDA_SELECTED_CUH

#include <math.h>

#include "kernels/cuda/vector.cuh"

namespace
{
const unsigned WARP = 32;

/* Losses of the entries that a label selects (compute/ops/selected.h). One label holds for n_each entries; with
 * one class, all labels from `lowest` on select it. Backward writes the gradients of selected entries, with one
 * class all gradients: factor · loss_scale · the entry's weight · the derivative. */
typedef struct selected {
    int64_t n, n_t, n_labels, n_classes, n_each; /* n_t, n_labels: targets and labels of a sample */
    int32_t lowest;
    int n_parts; /* of a sample's sum */
    const float *x;
    const int32_t *labels;
    const float *weights, *targets; /* targets: NULL, then they are the labels */
    float *loss;
    double *parts; /* [n, n_parts]; not used with one part */
} selected_t;

/* Value j of all targets: its prediction, -1 if it does not count, its target and the label's weight. */
struct selection_t {
    int64_t at;
    float target, weight;
    bool valid; /* the label is a class */
};

template <int WIDTH> __device__ inline selection_t selection_of(const selected_t &s, int64_t j)
{
    int64_t entry = j / WIDTH, i = s.n_each == 1 ? entry : entry / s.n_each;
    int32_t label = s.labels[i];
    if (label < s.lowest) return {-1, 0, 0, true};
    bool one = s.n_classes == 1;
    return {(one ? entry : entry * s.n_classes + label) * WIDTH + j % WIDTH,
            s.targets ? s.targets[j] : static_cast<float>(label), s.weights[i], one || label < s.n_classes};
}

/* The sum over a block, in a fixed order; thread 0 gets it. */
__device__ inline double sum_of_block(double sum)
{
    __shared__ double warps[BLOCK / WARP];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    __syncthreads(); /* the sums before have been read */
    if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = sum;
    __syncthreads();
    for (unsigned w = 1; w < BLOCK / WARP && threadIdx.x == 0; w++) sum += warps[w];
    return sum;
}

/* A block for each part of a sample. Reads labels, and of selected values everything. */
template <typename F> __global__ void selected_losses(selected_t s, F f)
{
    const int64_t n_each = (s.n_t + s.n_parts - 1) / s.n_parts;
    for (int64_t part = blockIdx.x; part < s.n * s.n_parts; part += gridDim.x) {
        int64_t n = part / s.n_parts, first = part % s.n_parts * n_each;
        int64_t end = first + n_each < s.n_t ? first + n_each : s.n_t;
        double sum = 0;
        for (int64_t i = first + threadIdx.x; i < end; i += BLOCK) {
            selection_t v = selection_of<F::WIDTH>(s, n * s.n_t + i);
            if (v.at < 0) continue;
            /* An invalid label must not pass for a class. */
            sum += v.valid ? static_cast<double>(v.weight) * f.loss(s.x[v.at], v.target) : NAN;
        }
        sum = sum_of_block(sum);
        if (threadIdx.x > 0) continue;
        if (s.n_parts == 1)
            s.loss[n] = static_cast<float>(sum);
        else
            s.parts[part] = sum;
    }
}

template <typename F> __global__ void selected_sums(selected_t s)
{
    GRID_LOOP (n, s.n) {
        double sum = 0;
        for (int i = 0; i < s.n_parts; i++) sum += s.parts[n * s.n_parts + i];
        s.loss[n] = static_cast<float>(sum);
    }
}

/* With one class every gradient is written, otherwise those of the labels' classes. */
template <typename F>
__global__ void selected_slopes(selected_t s, F f, step_f32_t loss_scale, float factor, float *dx, int64_t n)
{
    const float scale = step_value(loss_scale) * factor;
    GRID_LOOP (j, n) {
        selection_t v = selection_of<F::WIDTH>(s, j);
        if (v.at >= 0 && v.valid)
            dx[v.at] = v.weight * scale * f.slope(s.x[v.at], v.target);
        else if (s.n_classes == 1)
            dx[j] = 0;
    }
}

/* Bytes of labels and weights, and of n selected values at most. */
int64_t selected_bytes(const selected_t *s, int n_values)
{
    return s->n * s->n_t * 4 * n_values + s->n * s->n_labels * 8;
}

template <typename F> cudaError_t selected_forward(const selected_t *s, F f, cudaStream_t stream)
{
    const int64_t n_blocks = s->n * s->n_parts;
    traffic_count("selected_losses", selected_bytes(s, s->targets ? 2 : 1) + n_blocks * 8);
    cudaError_t status = launch(selected_losses<F>, grid_for(n_blocks * BLOCK), BLOCK, stream, *s, f);
    if (s->n_parts == 1 || status != cudaSuccess) return status;
    traffic_count("selected_sums", n_blocks * 8 + s->n * 4);
    return launch(selected_sums<F>, grid_for(s->n), BLOCK, stream, *s);
}

template <typename F>
cudaError_t selected_backward(const selected_t *s, F f, step_f32_t loss_scale, float factor, float *dx,
                              cudaStream_t stream)
{
    const int64_t n = s->n * s->n_t;
    traffic_count("selected_slopes", selected_bytes(s, s->targets ? 3 : 2));
    return launch(selected_slopes<F>, grid_for(n), BLOCK, stream, *s, f, loss_scale, factor, dx, n);
}

/* Parts of a sample that blocks add up; each reads several values a thread. */
int parts_of(const op_desc_t *desc)
{
    enum { EACH = 2048, MOST = 64 };
    int64_t n = (selected_sizes(desc).n_t - 1) / EACH + 1;
    return n < MOST ? (int)n : MOST;
}

/* op_kernel_t.plan. */
err_t selected_plan(op_t *op)
{
    const int n_parts = parts_of(&op->desc);
    if (n_parts > 1) op->n_workspace_bytes = (size_t)(op->desc.x[0].dim[0] * n_parts) * sizeof(double);
    return ERR_OK;
}

/* The arguments of a call's kernels. */
selected_t selected_of(const op_t *op, const op_args_t *args, const selected_formula_t *formula)
{
    const op_desc_t *d = &op->desc;
    const selected_sizes_t size = selected_sizes(d);
    return selected_t{.n = op_rows(op, args),
                      .n_t = size.n_t,
                      .n_labels = size.n_labels,
                      .n_classes = size.n_x / size.n_t,
                      .n_each = size.n_t / formula->width / size.n_labels,
                      .lowest = selected_lowest(d),
                      .n_parts = parts_of(d),
                      .x = floats(args->x[0]),
                      .labels = static_cast<const int32_t *>(args->x[SELECTED_LABELS].data),
                      .weights = floats(args->x[SELECTED_WEIGHTS]),
                      .targets = d->n_inputs > SELECTED_TARGETS ? floats(args->x[SELECTED_TARGETS]) : nullptr,
                      .loss = floats(args->y[0]),
                      .parts = static_cast<double *>(args->workspace)};
}

/* Before backward: zeroes dx if the kernel does not write all of it. */
err_t selected_clear(const selected_t *s, float *dx)
{
    if (s->n_classes == 1) return ERR_OK;
    return cuda_memory.zero(dx, (size_t)(s->n * s->n_t * s->n_classes) * sizeof *dx);
}
} // namespace

#endif
