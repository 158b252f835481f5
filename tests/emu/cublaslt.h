/* SPDX-License-Identifier: MIT */
/* Contents of the emulated cublasLt's descriptors, stored inside the real library's opaque structs. */
#ifndef TESTS_EMU_CUBLASLT_H
#define TESTS_EMU_CUBLASLT_H

#include <cublasLt.h>

#include <cstdint>

namespace emu
{

struct layout_t { /* in cublasLtMatrixLayoutOpaque_t: 64 bytes */
    int32_t type, order, batch_count;
    uint32_t magic;
    uint64_t rows, cols;
    int64_t ld, batch_stride;
};

struct desc_t { /* in cublasLtMatmulDescOpaque_t: 256 bytes */
    int32_t compute, scale, pointer_mode, trans_a, trans_b, trans_c, bias_type;
    uint32_t epilogue, magic;
    void *bias;
    int64_t bias_stride;
};

struct preference_t { /* in cublasLtMatmulPreferenceOpaque_t: 64 bytes */
    uint64_t workspace;
    uint32_t alignment[4], magic;
};

struct algo_t { /* in cublasLtMatmulAlgo_t: 64 bytes */
    uint32_t magic, alignment[4];
    uint64_t workspace;
    uint32_t id;
};

constexpr uint32_t LAYOUT = 0x4c54, DESC = 0x4445, PREFERENCE = 0x5052, ALGO = 0x414c;
static_assert(sizeof(layout_t) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits");
static_assert(sizeof(desc_t) <= sizeof(cublasLtMatmulDescOpaque_t), "fits");
static_assert(sizeof(preference_t) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits");
static_assert(sizeof(algo_t) <= sizeof(cublasLtMatmulAlgo_t), "fits");

/* Checks a product; returns INVALID_VALUE or NOT_SUPPORTED as the real library does. */
cublasStatus_t check_matmul(const desc_t *desc, const layout_t *a, const layout_t *b, const layout_t *c,
                            const layout_t *d);

} // namespace emu

#endif
