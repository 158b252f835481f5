/* What changes from step to step and is not in a buffer, as kernels are given it. */
#ifndef KERNELS_CUDA_STEP_H
#define KERNELS_CUDA_STEP_H

#include <stdint.h>

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

#endif
