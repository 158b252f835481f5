/* SPDX-License-Identifier: MIT */
/* cublasLt's descriptors: creating, setting, reading and destroying them. */
#include <cstdlib>
#include <cstring>

#include "cublaslt.h"
#include "emu.h"

using namespace emu;

namespace
{

template <typename T> T *as(void *opaque, uint32_t magic)
{
    T *t = static_cast<T *>(opaque);
    return t && t->magic == magic ? t : nullptr;
}

/* Copies one attribute in or out; the size must match. */
cublasStatus_t move(bool in, void *field, size_t size, void *buffer, size_t n, size_t *written)
{
    if (written) *written = size;
    if (!buffer || n != size) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(in ? field : buffer, in ? buffer : field, size);
    return CUBLAS_STATUS_SUCCESS;
}
#define MOVE(field) move(in, &(field), sizeof(field), buffer, n, written)

cublasStatus_t layout_attribute(layout_t *l, cublasLtMatrixLayoutAttribute_t attribute, bool in, void *buffer, size_t n,
                                size_t *written)
{
    if (!l) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return MOVE(l->type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return MOVE(l->order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return MOVE(l->rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return MOVE(l->cols);
    case CUBLASLT_MATRIX_LAYOUT_LD: return MOVE(l->ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return MOVE(l->batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return MOVE(l->batch_stride);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t desc_attribute(desc_t *d, cublasLtMatmulDescAttributes_t attribute, bool in, void *buffer, size_t n,
                              size_t *written)
{
    if (!d) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return MOVE(d->compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return MOVE(d->scale);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return MOVE(d->pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA: return MOVE(d->trans_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return MOVE(d->trans_b);
    case CUBLASLT_MATMUL_DESC_TRANSC: return MOVE(d->trans_c);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return MOVE(d->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return MOVE(d->bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE: return MOVE(d->bias_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return MOVE(d->bias_type);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t preference_attribute(preference_t *p, cublasLtMatmulPreferenceAttributes_t attribute, bool in,
                                    void *buffer, size_t n, size_t *written)
{
    uint32_t ignored = 0;
    if (!p) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return MOVE(p->workspace);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return MOVE(p->alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return MOVE(p->alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return MOVE(p->alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return MOVE(p->alignment[3]);
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return MOVE(ignored);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

template <typename H> cublasStatus_t create(H *handle)
{
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = static_cast<H>(std::calloc(1, sizeof **handle));
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

cublasStatus_t destroy(void *handle)
{
    std::free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t handle, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t cols, int64_t ld)
{
    if (!handle || size < sizeof *handle) return CUBLAS_STATUS_INVALID_VALUE;
    layout_t l = {};
    l.magic = LAYOUT;
    l.type = type;
    l.order = CUBLASLT_ORDER_COL;
    l.batch_count = 1;
    l.rows = rows;
    l.cols = cols;
    l.ld = ld;
    std::memcpy(static_cast<void *>(handle), &l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *handle, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld)
{
    cublasStatus_t status = create(handle);
    return status ? status : cublasLtMatrixLayoutInit_internal(*handle, sizeof **handle, type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle)
{
    return destroy(handle);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *buffer, size_t n)
{
    return layout_attribute(as<layout_t>(handle, LAYOUT), attribute, true, const_cast<void *>(buffer), n, nullptr);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t handle, cublasLtMatrixLayoutAttribute_t attribute,
                                                void *buffer, size_t n, size_t *written)
{
    return layout_attribute(as<layout_t>(handle, LAYOUT), attribute, false, buffer, n, written);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t handle, size_t size, cublasComputeType_t compute,
                                               cudaDataType_t scale)
{
    if (!handle || size < sizeof *handle) return CUBLAS_STATUS_INVALID_VALUE;
    desc_t d = {};
    d.magic = DESC;
    d.compute = compute;
    d.scale = scale;
    d.pointer_mode = CUBLASLT_POINTER_MODE_HOST;
    d.trans_a = d.trans_b = d.trans_c = CUBLAS_OP_N;
    d.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    d.bias_type = -1; /* D's */
    std::memcpy(static_cast<void *>(handle), &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *handle, cublasComputeType_t compute, cudaDataType_t scale)
{
    cublasStatus_t status = create(handle);
    return status ? status : cublasLtMatmulDescInit_internal(*handle, sizeof **handle, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle)
{
    return destroy(handle);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void *buffer, size_t n)
{
    return desc_attribute(as<desc_t>(handle, DESC), attribute, true, const_cast<void *>(buffer), n, nullptr);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              void *buffer, size_t n, size_t *written)
{
    return desc_attribute(as<desc_t>(handle, DESC), attribute, false, buffer, n, written);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t handle, size_t size)
{
    if (!handle || size < sizeof *handle) return CUBLAS_STATUS_INVALID_VALUE;
    preference_t p = {};
    p.magic = PREFERENCE;
    for (uint32_t &a : p.alignment) a = 256;
    std::memcpy(static_cast<void *>(handle), &p, sizeof p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *handle)
{
    cublasStatus_t status = create(handle);
    return status ? status : cublasLtMatmulPreferenceInit_internal(*handle, sizeof **handle);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle)
{
    return destroy(handle);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *buffer,
                                                    size_t n)
{
    return preference_attribute(as<preference_t>(handle, PREFERENCE), attribute, true, const_cast<void *>(buffer), n,
                                nullptr);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, void *buffer,
                                                    size_t n, size_t *written)
{
    return preference_attribute(as<preference_t>(handle, PREFERENCE), attribute, false, buffer, n, written);
}
