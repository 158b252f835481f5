/* SPDX-License-Identifier: MIT */
/* Reductions in a fixed order: sums of squares in double, and losses and correct predictions of a batch. */
#include "kernels/cuda/kernels_step.h"
#include "kernels/cuda/vector.cuh"

namespace
{
/* Sum over a block in a fixed order: halves onto halves. A kernel calls it once per T. */
template <typename T> __device__ T block_sum(T mine)
{
    __shared__ T part[BLOCK];
    part[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

/* A thread's elements are 4i … 4i+3 whether they are read together or one by one, so the order of the sum
 * does not depend on the address. */
template <bool ALIGNED> __global__ void sum_squares(const float *x, int64_t n, double *partial)
{
    double sum = 0;
    GRID_LOOP (i, (n + 3) / 4) {
        pack_t<float, 4> four = {};
        if (ALIGNED && 4 * i + 4 <= n)
            four = load<4>(x + 4 * i);
        else
            for (int k = 0; k < 4; k++) four.at[k] = 4 * i + k < n ? x[4 * i + k] : 0;
        for (int k = 0; k < 4; k++) sum += static_cast<double>(four.at[k]) * four.at[k];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void add_up(const double *partial, int n, double *out)
{
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK) sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *out = sum;
}

__global__ void tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                      float *totals)
{
    double loss = 0;
    int right = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) {
        loss += losses[i];
        right += predictions && predictions[i] == labels[i];
    }
    loss = block_sum(loss);
    right = block_sum(right);
    if (threadIdx.x > 0) return;
    totals[0] += static_cast<float>(loss);
    totals[1] += static_cast<float>(right);
}
} // namespace

/* 4 bytes per element. The number of blocks, and with it the order, depends only on n. */
cudaError_t reduce_sum_squares(const float *x, int64_t n, double *partial, double *out, cudaStream_t stream)
{
    dim3 grid = grid_for((n + 3) / 4);
    if (grid.x > REDUCE_MAX_PARTIALS) grid.x = REDUCE_MAX_PARTIALS;
    cudaError_t status =
        launch(packs<4>(x) ? sum_squares<true> : sum_squares<false>, grid, BLOCK, stream, x, n, partial);
    if (status != cudaSuccess) return status;
    return launch(add_up, 1, BLOCK, stream, partial, static_cast<int>(grid.x), out);
}

cudaError_t reduce_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                         float *totals, cudaStream_t stream)
{
    return launch(tally, 1, BLOCK, stream, losses, predictions, labels, n, totals);
}
