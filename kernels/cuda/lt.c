/* SPDX-License-Identifier: MIT */
/* Loads cuBLASLt at run time and owns its handle. Descriptors and products are in gemm.c. */
#include "kernels/cuda/lt.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/process.h"

lt_table_t lt;
static bool loaded;
static cublasLtHandle_t handle;

err_t lt_load(void)
{
    static const char *const names[] = {"libcublasLt.so." DL_TEXT(CUBLAS_VER_MAJOR), "libcublasLt.so", NULL};
#define LT_ENTRY(name) {"cublasLt" #name, &lt.name},
    const dl_function_t functions[] = {LT_FUNCTIONS(LT_ENTRY)};
#undef LT_ENTRY
    if (loaded) return ERR_OK;
    TRY(dl_load(names, functions, sizeof functions / sizeof functions[0],
                "install CUDA " DL_TEXT(CUBLAS_VER_MAJOR) "'s cuBLAS, or add its folder to LD_LIBRARY_PATH"));
    loaded = true;
    return ERR_OK;
}

err_t lt_check(cublasStatus_t status, const char *what, const char *file, int line)
{
    if (status == CUBLAS_STATUS_SUCCESS) return ERR_OK;
    return err_raise(ERR_SYSTEM, file, line, "cuBLASLt: %s: %s", what, lt.GetStatusString(status));
}

err_t lt_open(void)
{
    TRY(lt_load());
    E_LT(lt.Create(&handle), "creating its handle");
    return ERR_OK;
}

void lt_close(void)
{
    if (handle) lt.Destroy(handle);
    handle = NULL;
}

cublasLtHandle_t lt_handle(void)
{
    return handle;
}

void lt_version(char *out, size_t n_bytes)
{
    size_t v = loaded ? lt.GetVersion() : 0;
    if (v)
        snprintf(out, n_bytes, "%zu.%zu.%zu", v / 10000, v % 10000 / 100, v % 100);
    else
        snprintf(out, n_bytes, "missing");
}
