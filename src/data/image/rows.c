/* SPDX-License-Identifier: MIT */
/* The portable row kernels of resize.c, and the choice of the widest vector variant the CPU supports. */
#include "data/image/rows.h"

#include "base/isa.h"

enum { RGB = 3 };

static inline int32_t pair_weight(const pair_t *pair, int64_t which)
{
    return pair->high[which] * (1 << ROWS_LOW_BITS) + pair->low[which];
}

static void plain_resize(const taps_t *x, const uint8_t *const *rows, uint8_t *const *out)
{
    for (int64_t i = 0; i < RGB * x->n_out; i++) {
        const uint8_t *pixels = rows[0] + (int64_t)RGB * x->first[i / RGB] + i % RGB;
        int32_t sum = ROWS_HALF;
        for (int64_t k = 0; k < 2 * x->n_pairs; k++)
            sum += pair_weight(&x->pairs[i / RGB * x->n_pairs + k / 2], k % 2) * pixels[RGB * k];
        out[0][i] = (uint8_t)(sum >> ROWS_BITS);
    }
}

static void plain_mix(const uint8_t *const *rows, const pair_t *pairs, int64_t n_pairs, int64_t n_bytes,
                      uint8_t *out)
{
    for (int64_t i = 0; i < n_bytes; i++) {
        int32_t sum = ROWS_HALF;
        for (int64_t k = 0; k < 2 * n_pairs; k++) sum += pair_weight(&pairs[k / 2], k % 2) * rows[k][i];
        out[i] = (uint8_t)(sum >> ROWS_BITS);
    }
}

const rows_ops_t rows_plain = {"plain", 1, plain_resize, plain_mix};

const rows_ops_t *rows_ops(void)
{
#ifdef __x86_64__
    if (rows_avx512 && isa_best() >= ISA_AVX512) return rows_avx512;
    if (rows_avx2 && isa_best() >= ISA_AVX2) return rows_avx2;
    if (rows_sse41 && __builtin_cpu_supports("sse4.1")) return rows_sse41;
#endif
    return &rows_plain;
}
