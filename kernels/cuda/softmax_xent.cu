/* SPDX-License-Identifier: MIT */
/* Softmax cross-entropy, predictions and saved gradient in one kernel: a warp per row, or a block for many
 * classes. Backward only scales what forward saved. */
#include <math.h>

#include "kernels/cuda/vector.cuh"

namespace
{
typedef struct softmax {
    int64_t n, n_class;
    double smoothing;
    const float *x;
    const int32_t *labels;
    const float *weights; /* NULL: 1 */
    float *loss;
    int32_t *predictions; /* may be NULL */
    float *saved;         /* weight · (softmax(x) − t), [n, classes]; may be NULL */
} softmax_t;

/* A warp handles a row, or a block from this many classes on. */
const int64_t BLOCK_CLASSES = 1024;
const unsigned WARP = 32;
const int IGNORED = -1; /* the label of a row without a loss */

/* Values reduced over the threads of a row. Sums are double, as rows may be long. */
struct sums {
    double exp, z;
};
struct top {
    float value;
    int index;
};

/* The larger of two; of equals the first. */
__device__ inline top larger(top a, top b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__device__ inline top over_warp(top t)
{
    for (int lane = 16; lane > 0; lane /= 2) {
        top other = {__shfl_xor_sync(0xffffffffu, t.value, lane),
                     __shfl_xor_sync(0xffffffffu, t.index, lane)};
        t = larger(t, other);
    }
    return t;
}

__device__ inline sums over_warp(sums s)
{
    for (int lane = 16; lane > 0; lane /= 2) {
        s.exp += __shfl_xor_sync(0xffffffffu, s.exp, lane);
        s.z += __shfl_xor_sync(0xffffffffu, s.z, lane);
    }
    return s;
}

/* Over all threads of a row; all of them get the result. */
template <unsigned THREADS> __device__ inline top over_row(top t)
{
    t = over_warp(t);
    if constexpr (THREADS > WARP) {
        __shared__ top warps[THREADS / WARP];
        __syncthreads(); /* the previous row has been read */
        if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = t;
        __syncthreads();
        for (unsigned w = 0; w < THREADS / WARP; w++) t = larger(t, warps[w]);
    }
    return t;
}

template <unsigned THREADS> __device__ inline sums over_row(sums s)
{
    s = over_warp(s);
    if constexpr (THREADS > WARP) {
        __shared__ sums warps[THREADS / WARP];
        __syncthreads();
        if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = s;
        __syncthreads();
        s = warps[0];
        for (unsigned w = 1; w < THREADS / WARP; w++) s.exp += warps[w].exp, s.z += warps[w].z;
    }
    return s;
}

/* The row's largest logit and its index. A NaN wins only in first position: then it is the row's maximum. */
template <unsigned THREADS> __device__ inline top top_of(const float *row, int n_class, int first)
{
    top t = {-INFINITY, n_class};
    for (int k = first; k < n_class; k += THREADS) {
        float value = row[k];
        t = larger(t, top{value == value ? value : -INFINITY, k});
    }
    t = over_row<THREADS>(t);
    return row[0] == row[0] ? t : top{row[0], 0};
}

/* Reads the logits from memory once (4 bytes per element; later passes hit a cache), and writes as much if
 * backward follows. */
template <unsigned THREADS> __global__ void forward(softmax_t s)
{
    int n_class = (int)s.n_class, lane = (int)(threadIdx.x % THREADS);
    int64_t rows_at_once = (int64_t)gridDim.x * (BLOCK / THREADS);
    double even = s.smoothing / n_class;
    for (int64_t n = (int64_t)blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS; n < s.n;
         n += rows_at_once) {
        const float *row = s.x + n * n_class;
        int label = s.labels[n];
        float weight = s.weights ? s.weights[n] : 1;
        top t = top_of<THREADS>(row, n_class, lane);
        sums sum = {};
        for (int k = lane; k < n_class; k += THREADS) {
            float z = row[k] - t.value;
            sum.exp += expf(z);
            sum.z += z;
        }
        sum = over_row<THREADS>(sum);
        if (lane == 0) {
            /* An invalid label must not pass for a class. Σz is included also if it weighs 0: 0 · −∞ is the
             * NaN that op_attr.h requires. */
            double z = label >= 0 && label < n_class ? row[label] - t.value : NAN;
            float loss = (float)(log(sum.exp) - ((1 - s.smoothing) * z + even * sum.z));
            s.loss[n] = label == IGNORED ? 0 : loss * weight;
            if (s.predictions) s.predictions[n] = t.index;
        }
        if (!s.saved) continue;
        float *saved = s.saved + n * n_class, inverse = (float)(1 / sum.exp);
        float other = (float)even, own = (float)(1 - s.smoothing + even);
        for (int k = lane; k < n_class; k += THREADS) {
            float slope = expf(row[k] - t.value) * inverse - (k == label ? own : other);
            saved[k] = label == IGNORED ? 0 : slope * weight;
        }
    }
}

/* Moves 8 bytes per element. */
struct scale_t {
    const float *saved;
    float *dx;
    step_f32_t loss_scale;
    float weight;
    template <int N> __device__ void run(int64_t i) const
    {
        const float scale = step_value(loss_scale) * weight;
        pack_t<float, N> v = load<N>(saved + i);
        for (int k = 0; k < N; k++) v.at[k] *= scale;
        store(dx + i, v);
    }
};
} // namespace

static cudaError_t softmax_xent_forward(const softmax_t *s, cudaStream_t stream)
{
    traffic_count("softmax_xent_forward", s->n * (s->n_class * (s->saved ? 8 : 4) + 8 +
                                                  (s->predictions ? 4 : 0) + (s->weights ? 4 : 0)));
    if (s->n_class >= BLOCK_CLASSES) return launch(forward<BLOCK>, grid_for(s->n * BLOCK), BLOCK, stream, *s);
    return launch(forward<WARP>, grid_for(s->n * WARP), BLOCK, stream, *s);
}

static cudaError_t softmax_xent_backward(const float *saved, step_f32_t loss_scale, float weight, float *dx,
                                         int64_t n, cudaStream_t stream)
{
    return launch_sweep<4>("softmax_xent_backward", 8, packs<4>(saved) && packs<4>(dx),
                           scale_t{saved, dx, loss_scale, weight}, n, stream);
}

/* Saved: w · (softmax(x) − t), [n, classes]; backward only scales it. */
static err_t cuda_softmax_xent_plan(op_t *op)
{
    op->n_saved_bytes = op->training ? (size_t)shape_count(op->desc.x[0]) * sizeof(float) : 0;
    return ERR_OK;
}

static err_t cuda_softmax_xent_forward(const op_t *op, const op_args_t *args)
{
    softmax_t s = {.n = op_rows(op, args),
                   .n_class = op->desc.x[0].dim[1],
                   .smoothing = op->desc.attr.softmax_xent.label_smoothing,
                   .x = floats(args->x[0]),
                   .labels = static_cast<const int32_t *>(args->x[1].data),
                   .weights = op->desc.n_inputs > 2 ? floats(args->x[2]) : nullptr,
                   .loss = floats(args->y[0]),
                   .predictions = static_cast<int32_t *>(args->y[1].data),
                   .saved = op->n_saved_bytes ? static_cast<float *>(args->saved) : nullptr};
    E_CUDA(softmax_xent_forward(&s, cuda_stream()), "softmax cross-entropy");
    return ERR_OK;
}

static err_t cuda_softmax_xent_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    E_CUDA(softmax_xent_backward(static_cast<const float *>(args->saved), loss_scale_of(args),
                                 args->loss.weight, floats(args->dx[0]),
                                 op_rows(op, args) * op->desc.x[0].dim[1], cuda_stream()),
           "softmax cross-entropy, backward");
    return ERR_OK;
}

const op_kernel_t cuda_softmax_xent = {.plan = cuda_softmax_xent_plan,
                                       .forward = cuda_softmax_xent_forward,
                                       .backward = cuda_softmax_xent_backward};
