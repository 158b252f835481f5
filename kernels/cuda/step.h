/* SPDX-License-Identifier: MIT */
/* Values that change from step to step and are not in a buffer, as passed to kernels. */
#ifndef KERNELS_CUDA_STEP_H
#define KERNELS_CUDA_STEP_H

#include <stdint.h>

/* A value or, in a recorded step, the address where it will be. */
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

#endif
