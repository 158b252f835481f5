/* SPDX-License-Identifier: MIT */
/* The operators of detectors; conventions as in kernels.h. */
#ifndef KERNELS_CUDA_KERNELS_DETECTION_H
#define KERNELS_CUDA_KERNELS_DETECTION_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/cuda/step.h"

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
/* smooth_l1.cu */
cudaError_t smooth_l1_forward(const selected_t *s, float beta, cudaStream_t stream);
cudaError_t smooth_l1_backward(const selected_t *s, float beta, step_f32_t loss_scale, float factor,
                               float *dx, cudaStream_t stream);
/* sigmoid_bce_at.cu */
cudaError_t sigmoid_bce_at_forward(const selected_t *s, cudaStream_t stream);
cudaError_t sigmoid_bce_at_backward(const selected_t *s, step_f32_t loss_scale, float factor, float *dx,
                                    cudaStream_t stream);

/* deconv2d.cu. The product is [n_rows, width] pixels of [kernel][kernel][n_out]; y and dy are its places in the
 * image, n_rows · kernel rows of width · kernel pixels. */
typedef struct deconv {
    int64_t n_rows, width, n_out; /* n_rows: of all samples */
    int kernel;
} deconv_t;
/* y = product + bias; bias may be NULL. */
cudaError_t deconv2d_to_image(const deconv_t *d, const float *product, const float *bias, float *y,
                              cudaStream_t stream);
cudaError_t deconv2d_from_image(const deconv_t *d, const float *dy, float *product, cudaStream_t stream);

/* roi_align.cu. x0 to x3 with their gradients, and regions as in compute/ops/op_attr.h. */
enum { ROI_LEVELS = 4, ROI_LOWEST = 2, ROI_VALUES = 5 };
typedef struct roi_level {
    int64_t height, width;
    const float *x; /* forward only */
    float *dx;
    bool adds; /* to dx */
} roi_level_t;
typedef struct roi_align {
    int64_t n, n_c, n_rows; /* images, channels, regions */
    int height, width, samples;
    const float *regions;
    roi_level_t level[ROI_LEVELS];
} roi_align_t;
cudaError_t roi_align_forward(const roi_align_t *a, float *y, cudaStream_t stream);
/* The gradient of one level: each cell adds up its regions in their order. */
cudaError_t roi_align_backward(const roi_align_t *a, int level, const float *dy, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
