/* SPDX-License-Identifier: MIT */
/* The backend tables, each defined in kernels/<name>/backend.c. */
#ifndef COMPUTE_OPS_REGISTRY_H
#define COMPUTE_OPS_REGISTRY_H

#include "compute/ops/backend.h"

extern const backend_t backend_ref;
extern const backend_t backend_cpu;
#ifdef DPTRAIN_CUDA
extern const backend_t backend_cuda;
#endif

#endif
