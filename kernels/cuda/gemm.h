/* One product of matrices on cuBLASLt, made ready when a layer is planned: descriptors, layouts and algorithm
 * are chosen there, and a call makes nothing. Matrices are row-major.
 *
 * D = alpha · op(A) · op(B) + beta · D, and with `bias` a number more in every column of D; op(A) is [m, k],
 * op(B) [k, n]. D and the bias are float32, and so are sums. A and B are float32, or with DTYPE_BF16
 * bfloat16. */
#ifndef KERNELS_CUDA_GEMM_H
#define KERNELS_CUDA_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "compute/tensor/dtype.h"

/* A matrix in memory, of float32 or bfloat16 elements: how far row follows row, how far one of a batch the
 * one before, and what divides its address, in bytes. */
typedef struct gemm_matrix {
    int64_t row, next;
    size_t alignment;
    bool transposed; /* A, B: it is op's transpose that is in memory */
} gemm_matrix_t;

typedef struct gemm_spec {
    const char *what; /* for messages: "linear, forward" */
    dtype_t compute;  /* DTYPE_F32: no tf32, DTYPE_TF32 or DTYPE_BF16 */
    int64_t m, n, k;
    int64_t batch; /* products; ≥ 1 */
    gemm_matrix_t a, b, d;
    bool bias;                /* only with batch 1 */
    size_t n_workspace_bytes; /* the most that may be wanted */
} gemm_spec_t;

typedef struct gemm gemm_t;

/* ERR_SYSTEM with the shape when cuBLASLt has no algorithm for it. */
err_t gemm_new(const gemm_spec_t *spec, gemm_t **out);
void gemm_free(gemm_t **gemm);

/* What gemm_run wants, 256-byte aligned; no more than the spec allowed. */
size_t gemm_workspace_bytes(const gemm_t *gemm);

typedef struct gemm_call {
    const void *a, *b;
    const float *bias; /* NULL without one */
    float *d;
    float beta; /* 0: what is in D is not read */
    void *workspace;
} gemm_call_t;

/* On cuda_stream(); may be recorded. */
err_t gemm_run(gemm_t *gemm, const gemm_call_t *call);

/* The largest power of two up to 16 that divides n_bytes: the alignment of what lies so far behind an aligned
 * address. */
size_t gemm_alignment(int64_t n_bytes);

#endif
