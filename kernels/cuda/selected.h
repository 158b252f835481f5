/* SPDX-License-Identifier: MIT */
/* What smooth_l1.c and sigmoid_bce_at.c share. */
#ifndef KERNELS_CUDA_SELECTED_H
#define KERNELS_CUDA_SELECTED_H

#include "compute/ops/selected.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_detection.h"

/* op_kernel_t.plan. */
err_t cuda_selected_plan(op_t *op);

/* The arguments of a call's kernels. */
selected_t cuda_selected(const op_t *op, const op_args_t *args, const selected_formula_t *formula);

/* Before backward: zeroes dx if the kernel does not write all of it. */
err_t cuda_selected_clear(const selected_t *s, float *dx);

/* The scale of this step's gradients. */
step_f32_t cuda_selected_scale(const op_args_t *args);

#endif
