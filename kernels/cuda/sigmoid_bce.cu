/* SPDX-License-Identifier: MIT */
/* Sigmoid binary cross-entropy: a warp per sample forward, elementwise backward, which computes the sigmoid again:
 * nothing is saved. */
#include <math.h>

#include "kernels/cuda/vector.cuh"

namespace
{
typedef struct bce {
    int64_t n, n_class;
    const float *x, *targets;
    float *loss;
} bce_t;

const unsigned WARP = 32;

/* A warp per row. Reads 8 bytes per element. */
__global__ void forward(bce_t b)
{
    int lane = static_cast<int>(threadIdx.x % WARP);
    int64_t rows_at_once = (int64_t)gridDim.x * (BLOCK / WARP);
    for (int64_t n = (int64_t)blockIdx.x * (BLOCK / WARP) + threadIdx.x / WARP; n < b.n; n += rows_at_once) {
        const float *x = b.x + n * b.n_class, *t = b.targets + n * b.n_class;
        double sum = 0;
        for (int64_t k = lane; k < b.n_class; k += WARP) {
            /* The product is computed also where the target is 0: ∞ · 0 is the NaN that the definition
             * requires. */
            float v = x[k], above = v > 0 ? v : 0;
            sum += above - v * t[k] + log1pf(expf(-fabsf(v)));
        }
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) b.loss[n] = static_cast<float>(sum / static_cast<double>(b.n_class));
    }
}

/* dx = (σ(x) − t) · loss_scale · factor. Moves 12 bytes per element. */
struct gradient_t {
    const float *x, *targets;
    float *dx;
    step_f32_t loss_scale;
    float factor;
    template <int N> __device__ void run(int64_t i) const
    {
        const float scale = step_value(loss_scale) * factor;
        pack_t<float, N> v = load<N>(x + i), t = load<N>(targets + i);
        for (int k = 0; k < N; k++) v.at[k] = (1 / (1 + expf(-v.at[k])) - t.at[k]) * scale;
        store(dx + i, v);
    }
};
} // namespace

static cudaError_t sigmoid_bce_forward(const bce_t *b, cudaStream_t stream)
{
    traffic_count("sigmoid_bce_forward", b->n * (b->n_class * 8 + 4));
    return launch(forward, grid_for(b->n * WARP), BLOCK, stream, *b);
}

static cudaError_t sigmoid_bce_backward(const float *x, const float *targets, step_f32_t loss_scale,
                                        float factor, float *dx, int64_t n, cudaStream_t stream)
{
    return launch_sweep<4>("sigmoid_bce_backward", 12, packs<4>(x) && packs<4>(targets) && packs<4>(dx),
                           gradient_t{x, targets, dx, loss_scale, factor}, n, stream);
}

static err_t cuda_sigmoid_bce_forward(const op_t *op, const op_args_t *args)
{
    bce_t b = {.n = op_rows(op, args),
               .n_class = op->desc.x[0].dim[1],
               .x = floats(args->x[0]),
               .targets = floats(args->x[1]),
               .loss = floats(args->y[0])};
    E_CUDA(sigmoid_bce_forward(&b, cuda_stream()), "sigmoid binary cross-entropy");
    return ERR_OK;
}

static err_t cuda_sigmoid_bce_backward(const op_t *op, const op_args_t *args)
{
    if (!args->dx[0].data) return ERR_OK;
    float factor = (float)(args->loss.weight / (double)op->desc.x[0].dim[1]);
    E_CUDA(sigmoid_bce_backward(floats(args->x[0]), floats(args->x[1]), loss_scale_of(args), factor,
                                floats(args->dx[0]), op_rows(op, args) * op->desc.x[0].dim[1], cuda_stream()),
           "sigmoid binary cross-entropy, backward");
    return ERR_OK;
}

const op_kernel_t cuda_sigmoid_bce = {.forward = cuda_sigmoid_bce_forward,
                                      .backward = cuda_sigmoid_bce_backward};
