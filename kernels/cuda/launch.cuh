/* SPDX-License-Identifier: MIT */
/* Launching kernels, and what they share. Kernels work on device memory; launchers return the error of the launch and
 * do not wait. void * tensors are float32, or, if `narrow`, all of them are bfloat16. */
#ifndef KERNELS_CUDA_LAUNCH_CUH
#define KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/cuda.h"

static const unsigned BLOCK = 256, MAX_BLOCKS = 4096;

/* Returns the error of the launch itself; errors of the kernel surface with the next wait. */
template <typename... P, typename... A>
static cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, A... arguments)
{
    if (traffic_counts) return traffic_launch(), cudaSuccess;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, static_cast<P>(arguments)...);
}

/* Number of blocks of BLOCK threads for n elements in a grid-stride loop (GRID_LOOP); at least one. */
static inline dim3 grid_for(int64_t n)
{
    int64_t blocks = n < 1 ? 1 : (n + BLOCK - 1) / BLOCK;
    return dim3(blocks < MAX_BLOCKS ? static_cast<unsigned>(blocks) : MAX_BLOCKS);
}

#define GRID_LOOP(i, n)                                                                                      \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n);                                \
         i += (int64_t)gridDim.x * blockDim.x)

static __device__ inline uint64_t step_value(step_u64_t s)
{
    return s.at ? *s.at : s.value;
}

static __device__ inline float step_value(step_f32_t s)
{
    return s.at ? *s.at : s.value;
}

static __device__ inline double step_value(step_f64_t s)
{
    return s.at ? *s.at : s.value;
}

/* A tensor's elements where they are float32. */
static inline float *floats(const tensor_t &tensor)
{
    return static_cast<float *>(tensor.data);
}

/* The scale of a loss's gradients in this step. */
static inline step_f32_t loss_scale_of(const op_args_t *args)
{
    return {args->loss.scale,
            static_cast<const float *>(cuda_recorded(offsetof(backend_step_t, loss_scale)))};
}

#endif
