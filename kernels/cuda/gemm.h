/* SPDX-License-Identifier: MIT */
/* One matrix product on cuBLASLt, prepared when a layer is planned: descriptors, layouts and algorithm are
 * set up then, and a call creates nothing. Matrices are row-major.
 *
 * D = op(A) · op(B) + beta · D; with `bias`, plus one value per column of D. op(A) is [m, k], op(B)
 * [k, n]. The bias and sums are float32. A and B are float32, or bfloat16 with DTYPE_BF16; then D may be
 * bfloat16, too, without a bias. */
#ifndef KERNELS_CUDA_GEMM_H
#define KERNELS_CUDA_GEMM_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "compute/tensor/tensor.h"

/* A matrix of float32 or bfloat16 elements in memory. */
typedef struct gemm_matrix {
    int64_t row;      /* elements from row to row */
    int64_t next;     /* elements from one matrix of the batch to the next */
    size_t alignment; /* of its address, in bytes */
    bool transposed;  /* A, B: memory holds op's transpose */
} gemm_matrix_t;

enum { GEMM_PROPOSALS = 8 }; /* most that the library is asked for */

typedef struct gemm_spec {
    const char *what; /* for messages, such as "linear …, forward, by gemm" */
    dtype_t compute;  /* DTYPE_F32 (no tf32), DTYPE_TF32 or DTYPE_BF16 */
    dtype_t result;   /* of D: DTYPE_F32 or DTYPE_BF16 */
    int64_t m, n, k;
    int64_t batch; /* number of products; ≥ 1 */
    gemm_matrix_t a, b, d;
    bool bias;                /* only with batch 1 */
    size_t n_workspace_bytes; /* upper limit */
    int proposal;             /* which of the library's; the last one if it has fewer */
} gemm_spec_t;

typedef struct gemm gemm_t;

/* Number of algorithms that cuBLASLt proposes for a product, the fastest by its estimate first; 0: it has
 * none. */
int gemm_count(const gemm_spec_t *spec);

/* ERR_SYSTEM with the shape if cuBLASLt has no algorithm for it. */
err_t gemm_new(const gemm_spec_t *spec, gemm_t **out);
void gemm_free(gemm_t **gemm);

/* Workspace of gemm_run, 256-byte aligned; within the limit of the spec. */
size_t gemm_workspace_bytes(const gemm_t *gemm);

typedef struct gemm_call {
    const void *a, *b;
    const float *bias; /* NULL without a bias */
    void *d;
    float beta; /* 0: D is not read */
    void *workspace;
} gemm_call_t;

/* Runs on cuda_stream(); may be recorded. */
err_t gemm_run(gemm_t *gemm, const gemm_call_t *call);

/* The largest power of two up to 16 that divides n_bytes: the alignment at this distance from an aligned
 * address. */
size_t gemm_alignment(int64_t n_bytes);

/* cuBLASLt, loaded only if there is a GPU: the library is half a gigabyte, and linking it would add a
 * quarter of a second to every start of the program. Calls go through the table: lt.Matmul(…). */

/* Returns ERR_SYSTEM with cuBLASLt's name for the failure unless the call succeeds. */
#define E_LT(call, what) TRY(lt_check((call), (what), __FILE__, __LINE__))
err_t lt_check(cublasStatus_t status, const char *what, const char *file, int line);

/* cublasLt's functions, without the prefix. */
#define LT_FUNCTIONS(X)                                                                                      \
    X(Create)                                                                                                \
    X(Destroy)                                                                                               \
    X(GetVersion)                                                                                            \
    X(GetStatusString)                                                                                       \
    X(MatmulDescCreate)                                                                                      \
    X(MatmulDescDestroy)                                                                                     \
    X(MatmulDescSetAttribute)                                                                                \
    X(MatrixLayoutCreate)                                                                                    \
    X(MatrixLayoutDestroy)                                                                                   \
    X(MatrixLayoutSetAttribute)                                                                              \
    X(MatmulPreferenceCreate)                                                                                \
    X(MatmulPreferenceDestroy)                                                                               \
    X(MatmulPreferenceSetAttribute)                                                                          \
    X(MatmulAlgoGetHeuristic)                                                                                \
    X(Matmul)

typedef struct lt_table {
#define LT_MEMBER(name) __typeof__(&cublasLt##name) name;
    LT_FUNCTIONS(LT_MEMBER)
#undef LT_MEMBER
} lt_table_t;

extern lt_table_t lt;

/* Loads the library; may be repeated. ERR_SYSTEM says what to do. */
err_t lt_load(void);

/* The process's handle, from open to close. */
err_t lt_open(void);
void lt_close(void);
cublasLtHandle_t lt_handle(void);

/* Such as "13.0.2"; "missing" if it is not loaded. */
void lt_version(char *out, size_t n_bytes);

#endif
