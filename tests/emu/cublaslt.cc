/* SPDX-License-Identifier: MIT */
/* A stand-in for libcublasLt: matrix products by oneDNN's sgemm, with the epilogues that training needs. All
 * "algorithms" compute the same; they differ in the workspace that they require. */
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <oneapi/dnnl/dnnl.h>

#include "cublaslt.h"
#include "emu.h"
#include "narrow.h"

using namespace emu;

struct cublasLtContext {
    uint32_t magic;
};

namespace
{

constexpr uint64_t SOME_WORKSPACE = 1 << 16;

size_t type_size(int type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}

float load(const void *p, int type, int64_t i)
{
    return type == CUDA_R_16BF ? from_bf16(static_cast<const uint16_t *>(p)[i]) : static_cast<const float *>(p)[i];
}

void store(void *p, int type, int64_t i, float x)
{
    if (type == CUDA_R_16BF) static_cast<uint16_t *>(p)[i] = to_bf16(x);
    else static_cast<float *>(p)[i] = x;
}

int64_t place(const layout_t &l, int64_t row, int64_t col)
{
    return l.order == CUBLASLT_ORDER_ROW ? row * l.ld + col : col * l.ld + row;
}

/* The bytes from a matrix's first to its last element. */
size_t extent(const layout_t &l)
{
    int64_t last = place(l, static_cast<int64_t>(l.rows) - 1, static_cast<int64_t>(l.cols) - 1);
    return static_cast<size_t>(last + (l.batch_count - 1) * l.batch_stride + 1) * type_size(l.type);
}

const char *batch(const void *p, const layout_t &l, int i)
{
    return static_cast<const char *>(p) + static_cast<size_t>(i * l.batch_stride) * type_size(l.type);
}

/* op(matrix) as rows of floats. */
std::vector<float> gather(const void *p, const layout_t &l, bool transposed, bool tf32)
{
    int64_t rows = static_cast<int64_t>(transposed ? l.cols : l.rows), cols = static_cast<int64_t>(transposed ? l.rows : l.cols);
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            float x = load(p, l.type, transposed ? place(l, j, i) : place(l, i, j));
            values[static_cast<size_t>(i * cols + j)] = tf32 ? to_tf32(x) : x;
        }
    return values;
}

struct product_t {
    desc_t desc;
    layout_t a, b, c, d;
    const void *pa, *pb, *pc;
    void *pd, *workspace;
    float alpha, beta;
    uint64_t n_workspace;
    int64_t m, n, k;
};

void bias_gradient(const product_t &p, void *bias, const std::vector<float> &a, const std::vector<float> &b)
{
    bool of_a = p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    for (int64_t i = 0; i < (of_a ? p.m : p.n); i++) {
        float sum = 0.0f;
        for (int64_t k = 0; k < p.k; k++) sum += of_a ? a[static_cast<size_t>(i * p.k + k)] : b[static_cast<size_t>(k * p.n + i)];
        store(bias, p.desc.bias_type, i, sum);
    }
}

void run_batch(const product_t &p, int i)
{
    bool tf32 = p.desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    std::vector<float> a = gather(batch(p.pa, p.a, i), p.a, p.desc.trans_a != CUBLAS_OP_N, tf32);
    std::vector<float> b = gather(batch(p.pb, p.b, i), p.b, p.desc.trans_b != CUBLAS_OP_N, tf32);
    std::vector<float> sum(static_cast<size_t>(p.m * p.n));
    if (dnnl_sgemm('N', 'N', p.m, p.n, p.k, 1.0f, a.data(), p.k, b.data(), p.n, 0.0f, sum.data(), p.n) != dnnl_success)
        die("dnnl_sgemm failed");
    uint32_t epilogue = p.desc.epilogue;
    char *bias = static_cast<char *>(p.desc.bias);
    if (bias) bias += static_cast<size_t>(i * p.desc.bias_stride) * type_size(p.desc.bias_type);
    const void *c = batch(p.pc, p.c, i);
    char *d = const_cast<char *>(batch(p.pd, p.d, i));
    for (int64_t row = 0; row < p.m; row++)
        for (int64_t col = 0; col < p.n; col++) {
            float x = p.alpha * sum[static_cast<size_t>(row * p.n + col)];
            if (p.beta != 0.0f) x += p.beta * load(c, p.c.type, place(p.c, row, col));
            if (epilogue & CUBLASLT_EPILOGUE_BIAS) x += load(bias, p.desc.bias_type, row);
            if (epilogue & CUBLASLT_EPILOGUE_RELU) x = x > 0.0f || std::isnan(x) ? x : 0.0f;
            store(d, p.d.type, place(p.d, row, col), x);
        }
    if (epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB) bias_gradient(p, bias, a, b);
}

void run_product(const product_t &p)
{
    need_range("cublasLtMatmul", "A", p.pa, extent(p.a));
    need_range("cublasLtMatmul", "B", p.pb, extent(p.b));
    need_range("cublasLtMatmul", "D", p.pd, extent(p.d));
    if (p.beta != 0.0f) need_range("cublasLtMatmul", "C", p.pc, extent(p.c));
    if (p.n_workspace) {
        need_range("cublasLtMatmul", "the workspace", p.workspace, p.n_workspace);
        std::memset(p.workspace, 0xEE, p.n_workspace); /* sharing it with another stream shows */
    }
    if (p.desc.epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) {
        int64_t n = p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.n : p.m;
        need_range("cublasLtMatmul", "the bias", p.desc.bias,
                   static_cast<size_t>(n + (p.d.batch_count - 1) * p.desc.bias_stride) * type_size(p.desc.bias_type));
    }
    for (int i = 0; i < p.d.batch_count; i++) run_batch(p, i);
}

bool good_layout(const layout_t *l)
{
    if (!l || l->magic != LAYOUT || !l->rows || !l->cols || l->batch_count < 1) return false;
    if (l->order != CUBLASLT_ORDER_COL && l->order != CUBLASLT_ORDER_ROW) return false;
    return l->ld >= static_cast<int64_t>(l->order == CUBLASLT_ORDER_ROW ? l->cols : l->rows);
}

uint64_t rows_of(const layout_t *l, int trans)
{
    return trans == CUBLAS_OP_N ? l->rows : l->cols;
}

uint64_t cols_of(const layout_t *l, int trans)
{
    return trans == CUBLAS_OP_N ? l->cols : l->rows;
}

bool float_or_bf16(int type)
{
    return type == CUDA_R_32F || type == CUDA_R_16BF;
}

bool aligned(const void *p, uint32_t n)
{
    return reinterpret_cast<uintptr_t>(p) % n == 0;
}

} // namespace

namespace emu
{

cublasStatus_t check_matmul(const desc_t *desc, const layout_t *a, const layout_t *b, const layout_t *c, const layout_t *d)
{
    if (!desc || desc->magic != DESC) return CUBLAS_STATUS_INVALID_VALUE;
    if (!good_layout(a) || !good_layout(b) || !good_layout(c) || !good_layout(d)) return CUBLAS_STATUS_INVALID_VALUE;
    uint64_t m = rows_of(a, desc->trans_a), k = cols_of(a, desc->trans_a), n = cols_of(b, desc->trans_b);
    if (rows_of(b, desc->trans_b) != k || d->rows != m || d->cols != n || c->rows != m || c->cols != n)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (a->batch_count != d->batch_count || b->batch_count != d->batch_count || c->batch_count != d->batch_count)
        return CUBLAS_STATUS_INVALID_VALUE;
    bool types = float_or_bf16(a->type) && a->type == b->type && float_or_bf16(d->type) && c->type == d->type;
    if (a->type == CUDA_R_32F && d->type == CUDA_R_16BF) types = false;
    bool compute = desc->compute == CUBLAS_COMPUTE_32F || (desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a->type == CUDA_R_32F);
    if (!types || !compute || desc->scale != CUDA_R_32F || desc->pointer_mode != CUBLASLT_POINTER_MODE_HOST)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (c->order != d->order || desc->trans_c != CUBLAS_OP_N) return CUBLAS_STATUS_NOT_SUPPORTED;
    switch (desc->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: case CUBLASLT_EPILOGUE_RELU: break;
    case CUBLASLT_EPILOGUE_BIAS: case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_BGRADA: case CUBLASLT_EPILOGUE_BGRADB: break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    int bias_type = desc->bias_type < 0 ? d->type : desc->bias_type;
    return bias_type == d->type || bias_type == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

} // namespace emu

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    int n;
    if (cudaGetDeviceCount(&n)) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasLtContext{1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an invalid value was passed as an argument";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality is not supported";
    default: return "an internal operation failed";
    }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n_wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *n_found)
{
    auto layout = [](cublasLtMatrixLayout_t l) { return reinterpret_cast<const layout_t *>(l); };
    const preference_t *p = reinterpret_cast<const preference_t *>(preference);
    if (n_found) *n_found = 0;
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!p || p->magic != PREFERENCE || n_wanted < 1 || !results || !n_found) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = check_matmul(reinterpret_cast<const desc_t *>(desc), layout(a), layout(b), layout(c), layout(d));
    if (status) return status;
    const char *most = std::getenv("DPTRAIN_EMU_LT_ALGORITHMS");
    uint64_t larger = std::min(p->workspace, SOME_WORKSPACE) / 256 * 256;
    uint32_t n = most ? static_cast<uint32_t>(std::atoi(most)) : 1;
    if (n == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (uint32_t i = 0; i < n && *n_found < n_wanted; i++) {
        algo_t algo = {};
        algo.magic = ALGO;
        algo.id = i;
        algo.workspace = i % 2 ? larger : 0;
        std::memcpy(algo.alignment, p->alignment, sizeof algo.alignment);
        cublasLtMatmulHeuristicResult_t *r = &results[(*n_found)++];
        std::memset(static_cast<void *>(r), 0, sizeof *r);
        std::memcpy(static_cast<void *>(&r->algo), &algo, sizeof algo);
        r->workspaceSize = algo.workspace;
        r->state = CUBLAS_STATUS_SUCCESS;
        r->wavesCount = 1.0f;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t n_workspace, cudaStream_t stream)
{
    auto layout = [](cublasLtMatrixLayout_t l) { return reinterpret_cast<const layout_t *>(l); };
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || !a || !b || !d) return CUBLAS_STATUS_INVALID_VALUE;
    const desc_t *o = reinterpret_cast<const desc_t *>(desc);
    cublasStatus_t status = check_matmul(o, layout(a_layout), layout(b_layout), layout(c_layout), layout(d_layout));
    if (status) return status;
    product_t p = {*o, *layout(a_layout), *layout(b_layout), *layout(c_layout), *layout(d_layout), a, b, c, d, nullptr,
                   *static_cast<const float *>(alpha), *static_cast<const float *>(beta), 0, 0, 0, 0};
    if (p.desc.bias_type < 0) p.desc.bias_type = p.d.type;
    bool needs_bias = o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && o->epilogue != CUBLASLT_EPILOGUE_RELU;
    if ((needs_bias && !o->bias) || (p.beta != 0.0f && !c)) return CUBLAS_STATUS_INVALID_VALUE;
    if (c == d && p.c.ld != p.d.ld) return CUBLAS_STATUS_INVALID_VALUE;
    algo_t chosen = {};
    if (algo) std::memcpy(&chosen, static_cast<const void *>(algo), sizeof chosen);
    const void *pointers[4] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        uint32_t least = static_cast<uint32_t>(type_size(i < 2 ? p.a.type : p.d.type));
        if (pointers[i] && !aligned(pointers[i], algo ? std::max(chosen.alignment[i], least) : least))
            return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (algo && (chosen.magic != ALGO || chosen.workspace > n_workspace || (chosen.workspace && !workspace)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace && !aligned(workspace, 256)) return CUBLAS_STATUS_INVALID_VALUE;
    p.workspace = workspace;
    p.n_workspace = chosen.workspace;
    p.m = static_cast<int64_t>(p.d.rows);
    p.n = static_cast<int64_t>(p.d.cols);
    p.k = static_cast<int64_t>(cols_of(&p.a, o->trans_a));
    op_t op;
    op.name = "cublasLtMatmul";
    op.run = [p] { run_product(p); };
    return submit(stream, std::move(op)) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
