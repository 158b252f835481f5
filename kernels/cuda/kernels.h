/* The kernels as C sees them: one launcher each, defined in the .cu file named above it. Buffers are device
 * memory; a launcher returns the error of the launch and does not wait. */
#ifndef KERNELS_CUDA_KERNELS_H
#define KERNELS_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number that changes from step to step: the value, or, in a recorded step, where it will be. */
typedef struct step_u64 {
    uint64_t value;
    const uint64_t *at;
} step_u64_t;
typedef struct step_f32 {
    float value;
    const float *at;
} step_f32_t;
typedef struct step_f64 {
    double value;
    const double *at;
} step_f64_t;

/* relu.cu */
cudaError_t relu_forward(const float *x, float *y, int64_t n, cudaStream_t stream);
cudaError_t relu_backward(const float *y, const float *dy, float *dx, int64_t n, cudaStream_t stream);

/* add.cu */

/* batch_norm.cu */

/* conv2d.cu */

/* dropout.cu */

/* linear.cu */

/* optim.cu */

/* pixels.cu */

/* pool2d.cu */

/* reduce.cu */

/* softmax_xent.cu */

#ifdef __cplusplus
}
#endif

#endif
