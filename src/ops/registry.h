/* The backends' tables, each defined in kernels/<name>/backend.c. */
#ifndef OPS_REGISTRY_H
#define OPS_REGISTRY_H

#include "ops/backend.h"

extern const backend_t backend_ref;
extern const backend_t backend_cpu;
#ifdef DPTRAIN_CUDA
extern const backend_t backend_cuda;
#endif

#endif
