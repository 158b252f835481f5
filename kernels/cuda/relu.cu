#include "kernels/cuda/launch.cuh"

/* Asked this way round, NaN stays. */
static __global__ void forward(const float *x, float *y, int64_t n)
{
    GRID_LOOP(i, n) y[i] = x[i] <= 0 ? 0 : x[i];
}

static __global__ void backward(const float *y, const float *dy, float *dx, int64_t n)
{
    GRID_LOOP(i, n) dx[i] = y[i] > 0 ? dy[i] : 0;
}

cudaError_t relu_forward(const float *x, float *y, int64_t n, cudaStream_t stream)
{
    return launch(forward, grid_for(n), BLOCK, stream, x, y, n);
}

cudaError_t relu_backward(const float *y, const float *dy, float *dx, int64_t n, cudaStream_t stream)
{
    return launch(backward, grid_for(n), BLOCK, stream, y, dy, dx, n);
}
