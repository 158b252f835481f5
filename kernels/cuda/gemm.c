/* SPDX-License-Identifier: MIT */
/* Loads cuBLASLt at run time and owns its handle; plans and runs one matrix product on it by one of the library's
 * proposals, which depend on the shape alone. */
#include "kernels/cuda/gemm.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/process.h"
#include "kernels/cuda/cuda.h"

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

/* cuBLASLt's matrices are column-major: it sees our matrices transposed. It computes Dᵀ = op(B)ᵀ · op(A)ᵀ,
 * with our B as its first operand. */

enum { WHAT_MAX = 288, SHAPE_TEXT = WHAT_MAX + 160 };

struct gemm {
    gemm_spec_t spec;
    char what[WHAT_MAX];
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d; /* by our names */
    cublasLtMatmulAlgo_t algo;
    size_t n_workspace_bytes;
};

size_t gemm_alignment(int64_t n_bytes)
{
    enum { MOST = 16 };
    size_t alignment = MOST;
    while ((size_t)n_bytes % alignment) alignment /= 2;
    return alignment;
}

static void spell_shape(const gemm_spec_t *s, char out[SHAPE_TEXT])
{
    snprintf(out, SHAPE_TEXT,
             "%s: product [%" PRId64 ", %" PRId64 "] · [%" PRId64 ", %" PRId64 "] in %s, batch of %" PRId64,
             s->what, s->m, s->k, s->k, s->n, dtype_name(s->compute), s->batch);
}

#define SET(gemm, attribute, value)                                                                          \
    E_LT(lt.MatmulDescSetAttribute((gemm)->desc, CUBLASLT_MATMUL_DESC_##attribute, &(value), sizeof(value)), \
         (gemm)->spec.what)

/* The layout of a matrix with this many rows and columns in our memory. */
static err_t make_layout(const gemm_spec_t *s, cudaDataType_t type, int64_t n_rows, int64_t n_columns,
                         const gemm_matrix_t *matrix, cublasLtMatrixLayout_t *out)
{
    int32_t batch = (int32_t)s->batch;
    E_LT(lt.MatrixLayoutCreate(out, type, (uint64_t)n_columns, (uint64_t)n_rows, matrix->row), s->what);
    if (s->batch == 1) return ERR_OK;
    E_LT(lt.MatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
         s->what);
    E_LT(lt.MatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix->next,
                                     sizeof matrix->next),
         s->what);
    return ERR_OK;
}

typedef struct proposals {
    cublasLtMatmulHeuristicResult_t result[GEMM_PROPOSALS];
    int n;
    cublasStatus_t status; /* of the query */
} proposals_t;

static err_t ask_library(const gemm_t *g, cublasLtMatmulPreference_t preference, proposals_t *out)
{
    const gemm_spec_t *s = &g->spec;
    uint64_t most = s->n_workspace_bytes;
    uint32_t first = (uint32_t)s->b.alignment, second = (uint32_t)s->a.alignment,
             d = (uint32_t)s->d.alignment;
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size;
    } preferences[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &first, sizeof first},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &second, sizeof second},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &d, sizeof d},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &d, sizeof d},
    };
    int n_found = 0;
    for (size_t i = 0; i < sizeof preferences / sizeof preferences[0]; i++)
        E_LT(lt.MatmulPreferenceSetAttribute(preference, preferences[i].attribute, preferences[i].value,
                                             preferences[i].size),
             s->what);
    out->status = lt.MatmulAlgoGetHeuristic(lt_handle(), g->desc, g->b, g->a, g->d, g->d, preference,
                                            GEMM_PROPOSALS, out->result, &n_found);
    if (out->status != CUBLAS_STATUS_SUCCESS) n_found = 0;
    for (int i = 0; i < n_found; i++)
        if (out->result[i].state == CUBLAS_STATUS_SUCCESS) out->result[out->n++] = out->result[i];
    return ERR_OK;
}

/* Sets the product up and asks for algorithms; always for as many, as their order could depend on it. */
static err_t prepare(gemm_t *g, proposals_t *out)
{
    const gemm_spec_t *s = &g->spec;
    const int64_t m = s->m, n = s->n, k = s->k;
    const bool tf32 = s->compute == DTYPE_TF32;
    const cublasOperation_t first = s->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = s->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = s->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const cudaDataType_t type = s->compute == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    cublasLtMatmulPreference_t preference = NULL;
    *out = (proposals_t){.status = CUBLAS_STATUS_SUCCESS};
    E_LT(lt.MatmulDescCreate(&g->desc, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
         s->what);
    SET(g, TRANSA, first);
    SET(g, TRANSB, second);
    SET(g, EPILOGUE, epilogue);
    TRY(make_layout(s, type, s->a.transposed ? k : m, s->a.transposed ? m : k, &s->a, &g->a));
    TRY(make_layout(s, type, s->b.transposed ? n : k, s->b.transposed ? k : n, &s->b, &g->b));
    TRY(make_layout(s, s->result == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F, m, n, &s->d, &g->d));
    E_LT(lt.MatmulPreferenceCreate(&preference), s->what);
    err_t err = ask_library(g, preference, out);
    lt.MatmulPreferenceDestroy(preference);
    return err;
}

static void release(gemm_t *g)
{
    if (g->desc) lt.MatmulDescDestroy(g->desc);
    if (g->a) lt.MatrixLayoutDestroy(g->a);
    if (g->b) lt.MatrixLayoutDestroy(g->b);
    if (g->d) lt.MatrixLayoutDestroy(g->d);
}

int gemm_count(const gemm_spec_t *spec)
{
    gemm_t g = {.spec = *spec};
    proposals_t found;
    if (traffic_counts) return 1;
    err_t err = prepare(&g, &found);
    release(&g);
    return err == ERR_OK ? found.n : 0;
}

err_t gemm_new(const gemm_spec_t *spec, gemm_t **out)
{
    gemm_t *g;
    proposals_t found;
    char text[SHAPE_TEXT];
    ASSERT(spec->batch >= 1 && !(spec->bias && (spec->batch > 1 || spec->result == DTYPE_BF16)));
    TRY(mem_new(sizeof *g, "the plan of a product", &g));
    g->spec = *spec;
    snprintf(g->what, sizeof g->what, "%s", spec->what);
    g->spec.what = g->what;
    if (traffic_counts) {
        *out = g;
        return ERR_OK;
    }
    err_t err = prepare(g, &found);
    if (err == ERR_OK && found.n > 0) {
        int i = spec->proposal < found.n ? spec->proposal : found.n - 1;
        g->algo = found.result[i].algo;
        g->n_workspace_bytes = found.result[i].workspaceSize;
        *out = g;
        return ERR_OK;
    }
    spell_shape(&g->spec, text);
    gemm_free(&g);
    if (err != ERR_OK) return err;
    RAISE(ERR_SYSTEM, "cuBLASLt has no algorithm for %s (%s)", text,
          found.status == CUBLAS_STATUS_SUCCESS ? "none found" : lt.GetStatusString(found.status));
}

void gemm_free(gemm_t **gemm)
{
    if (*gemm) release(*gemm);
    mem_free(gemm);
}

size_t gemm_workspace_bytes(const gemm_t *gemm)
{
    return gemm->n_workspace_bytes;
}

/* Operands once each; D also before the product, if that adds to it. */
static void count_product(const gemm_spec_t *s, bool adds)
{
    int64_t element = s->compute == DTYPE_BF16 ? 2 : 4, result = s->result == DTYPE_BF16 ? 2 : 4;
    traffic_report("product",
                   s->batch * ((s->m + s->n) * s->k * element + s->m * s->n * result * (adds ? 2 : 1)));
}

err_t gemm_run(gemm_t *g, const gemm_call_t *call)
{
    const float alpha = 1;
    char text[SHAPE_TEXT];
    if (traffic_counts) return count_product(&g->spec, call->beta != 0), ERR_OK;
    if (g->spec.bias) SET(g, BIAS_POINTER, call->bias);
    cublasStatus_t status =
        lt.Matmul(lt_handle(), g->desc, &alpha, call->b, g->b, call->a, g->a, &call->beta, call->d, g->d,
                  call->d, g->d, &g->algo, call->workspace, g->n_workspace_bytes, cuda_stream());
    if (status == CUBLAS_STATUS_SUCCESS) return ERR_OK;
    spell_shape(&g->spec, text);
    RAISE(ERR_SYSTEM, "cuBLASLt: %s: %s", text, lt.GetStatusString(status));
}
