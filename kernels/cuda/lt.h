/* SPDX-License-Identifier: MIT */
/* cuBLASLt, loaded only if there is a GPU: the library is half a gigabyte, and linking it would add a
 * quarter of a second to every start of the program. Calls go through the table: lt.Matmul(…). */
#ifndef KERNELS_CUDA_LT_H
#define KERNELS_CUDA_LT_H

#include <cublasLt.h>
#include <stddef.h>

#include "base/err.h"

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
