/* SPDX-License-Identifier: MIT */
/* Products by the emulated instructions of tensor cores: elements are where the PTX ISA says, and a copy has not
 * landed before its thread waits for it. RUN (needs no GPU) */
#include <cmath>
#include <cstdlib>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/conv/mma.cuh"

#include "check.h"

enum { M = 16, N = 16, K = 16 };

/* out [M][N] = A [M][K] · B [N][K]ᵀ by one warp; across: they are stored [K][M] and [K][N]. */
__global__ void product(const uint16_t *a, const uint16_t *b, float *out, bool across, bool waits)
{
    alignas(128) __shared__ uint16_t tile_a[M * K], tile_b[N * K];
    int lane = static_cast<int>(threadIdx.x);
    uint32_t x[4], y[4];
    float sum[2][4] = {};
    copy_async<true>(shared_of(tile_a + lane * 8), a + lane * 8, true);
    copy_async<false>(shared_of(tile_b + lane * 8), b + lane * 8, lane < 30);
    copies_commit();
    if (waits) copies_wait<0>();
    __syncthreads();
    if (across) {
        load_matrices<true>(x, shared_of(tile_a + (lane / 16 * 8 + lane % 8) * M + lane / 8 % 2 * 8));
        load_matrices<true>(y, shared_of(tile_b + lane % 16 * N + lane / 16 * 8));
    } else {
        load_matrices<false>(x, shared_of(tile_a + lane % 16 * K + lane / 16 * 8));
        load_matrices<false>(y, shared_of(tile_b + (lane / 16 * 8 + lane % 8) * K + lane / 8 % 2 * 8));
    }
    for (int half = 0; half < 2; half++) {
        multiply_add(sum[half], x, y[2 * half], y[2 * half + 1]);
        for (int i = 0; i < 4; i++)
            out[(lane / 4 + i / 2 * 8) * N + half * 8 + lane % 4 * 2 + i % 2] = sum[half][i];
    }
    copies_wait<0>();
}

/* Whether the result is right; B's last two pieces of 8 are outside: zeros. */
static bool is_product(bool across, bool waits)
{
    uint16_t *a, *b;
    float *out, got[M * N];
    uint16_t host_a[M * K], host_b[N * K];
    for (int i = 0; i < M * K; i++) host_a[i] = bf16_bits(static_cast<float>(i * 7 % 31) - 15);
    for (int i = 0; i < N * K; i++) host_b[i] = bf16_bits(static_cast<float>(i * 5 % 29) - 14);
    if (cudaMalloc(&a, sizeof host_a) || cudaMalloc(&b, sizeof host_b) || cudaMalloc(&out, sizeof got)) std::abort();
    cudaMemcpy(a, host_a, sizeof host_a, cudaMemcpyHostToDevice);
    cudaMemcpy(b, host_b, sizeof host_b, cudaMemcpyHostToDevice);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1), config.blockDim = dim3(32);
    cudaLaunchKernelEx(&config, product, static_cast<const uint16_t *>(a), static_cast<const uint16_t *>(b), out, across,
                       waits);
    cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
    cudaFree(a), cudaFree(b), cudaFree(out);
    bool good = true;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            float want = 0;
            for (int k = 0; k < K; k++) {
                int in_a = across ? k * M + m : m * K + k, in_b = across ? k * N + n : n * K + k;
                if (in_b < 30 * 8) want += widened(host_a[in_a]) * widened(host_b[in_b]);
            }
            good &= got[m * N + n] == want;
        }
    return good;
}

int main()
{
    std::printf("1..3\n");
    OK(is_product(false, true), "a product of rows");
    OK(is_product(true, true), "a product of columns");
    OK(!is_product(false, false), "without a wait it is wrong");
    return check_done(3);
}
