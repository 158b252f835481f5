#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

/* Moves 12 bytes an element. The first n_packs · 4 elements are taken in packs. */
static __global__ void forward(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ y,
                               int64_t n, int64_t n_packs)
{
    GRID_LOOP(i, n_packs)
    {
        pack<4> sum = load_pack<4>(a + 4 * i), other = load_pack<4>(b + 4 * i);
        for (int k = 0; k < 4; k++) sum.v[k] += other.v[k];
        store_pack(y + 4 * i, sum);
    }
    GRID_LOOP(i, n - 4 * n_packs) y[4 * n_packs + i] = a[4 * n_packs + i] + b[4 * n_packs + i];
}

cudaError_t add_forward(const float *a, const float *b, float *y, int64_t n, cudaStream_t stream)
{
    int64_t n_packs = packs_fit(a, b, y) ? n / 4 : 0;
    return launch(forward, grid_for(n_packs ? n_packs : n), BLOCK, stream, a, b, y, n, n_packs);
}
