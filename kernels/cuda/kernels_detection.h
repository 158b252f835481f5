/* SPDX-License-Identifier: MIT */
/* The operators of detectors; conventions as in kernels.h. */
#ifndef KERNELS_CUDA_KERNELS_DETECTION_H
#define KERNELS_CUDA_KERNELS_DETECTION_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* upsample_add.cu. Images of n_rows rows, those of all samples, of width pixels are enlarged to twice both. */
typedef struct upsample {
    int64_t n_rows, width, n_c;
    bool narrow;
} upsample_t;
cudaError_t upsample_add_forward(const upsample_t *u, const void *fine, const void *coarse, void *y,
                                 cudaStream_t stream);
/* dcoarse: the sums of dy over 2×2 pixels, or, if `adds`, these added to it. dfine: NULL, or a copy of dy. */
cudaError_t upsample_add_backward(const upsample_t *u, const void *dy, void *dfine, void *dcoarse, bool adds,
                                  cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
