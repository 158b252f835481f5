/* SPDX-License-Identifier: MIT */
/* The AMX instructions for amx.h: packing float32 or bfloat16 operands into tiles, and the tile products.
 * Compiled with separate AMX flags; oneDNN reports at run time whether the CPU and Linux allow it. */
#include "kernels/cpu/amx.h"

#include <stddef.h>
#include <string.h>

#ifdef __AMX_BF16__
#include <immintrin.h>

#include "kernels/cpu/onednn.h"

/* Register numbers: macros, because they become part of the instruction names. */
#define OUT_00  0
#define OUT_01  1
#define OUT_10  2
#define OUT_11  3
#define LEFT_0  4
#define LEFT_1  5
#define RIGHT_0 6
#define RIGHT_1 7
enum { N_TILES = 8 };

static void amx_begin(int rows)
{
    /* Palette 1 of LDTILECFG. */
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < N_TILES; i++) shape.row_bytes[i] = 64, shape.rows[i] = (uint8_t)rows;
    shape.rows[RIGHT_0] = shape.rows[RIGHT_1] = AMX_ROWS;
    /* GCC assumes that the instruction reads 8 bytes and drops the stores to the rest. */
    __asm__ volatile("" : : "m"(shape));
    _tile_loadconfig(&shape);
}

static void amx_end(void)
{
    _tile_release();
    _mm_sfence();
}

/* Loads the accumulators with the output or, without `add`, the bias in every row (a row stride of 0). */
static inline __attribute__((always_inline)) void load_sums(const amx_product_t *p, const amx_place_t *at,
                                                            bool two_left, bool two_right)
{
    const float *first = p->add ? (const float *)at->out[0] : at->bias;
    const float *second = p->add ? (const float *)at->out[1] : at->bias;
    int64_t row = p->add ? p->out_row : 0;
    _tile_loadd(OUT_00, first, row);
    if (two_right) _tile_loadd(OUT_01, first + AMX_COLUMNS, row);
    if (two_left) _tile_loadd(OUT_10, second, row);
    if (two_left && two_right) _tile_loadd(OUT_11, second + AMX_COLUMNS, row);
}

static inline __attribute__((always_inline)) void store_sums(void *const out[2], int64_t row, bool two_left,
                                                             bool two_right)
{
    float *first = out[0], *second = out[1];
    _tile_stored(OUT_00, first, row);
    if (two_right) _tile_stored(OUT_01, first + AMX_COLUMNS, row);
    if (two_left) _tile_stored(OUT_10, second, row);
    if (two_left && two_right) _tile_stored(OUT_11, second + AMX_COLUMNS, row);
}

static inline __attribute__((always_inline)) void write_narrow(const float *sums, void *to, bool stream,
                                                               bool two_right)
{
    __m512 low = _mm512_load_ps(sums);
    if (!two_right) {
        _mm256_storeu_si256(to, (__m256i)_mm512_cvtneps_pbh(low));
        return;
    }
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(_mm512_load_ps(sums + AMX_COLUMNS), low);
    if (stream)
        _mm512_stream_si512(to, both);
    else
        _mm512_storeu_si512(to, both);
}

static inline __attribute__((always_inline)) void stream_wide(const float *sums, float *to, bool two_right)
{
    _mm512_stream_ps(to, _mm512_load_ps(sums));
    if (two_right) _mm512_stream_ps(to + AMX_COLUMNS, _mm512_load_ps(sums + AMX_COLUMNS));
}

/* Goes through a buffer in the nearest cache: tile stores cannot bypass the caches and do not round. */
static inline __attribute__((always_inline)) void write_sums(const amx_product_t *p, const amx_place_t *at,
                                                             bool two_left, bool two_right)
{
    enum { ROW = 2 * AMX_COLUMNS };
    _Alignas(64) float sums[2][AMX_ROWS * ROW];
    void *const to[2] = {sums[0], sums[1]};
    store_sums(to, ROW * sizeof(float), two_left, two_right);
    __asm__ volatile("" : : : "memory"); /* GCC does not see what tile stores write */
    for (int i = 0; i < (two_left ? 2 : 1); i++)
        for (int row = 0; row < p->rows; row++) {
            char *out = (char *)at->out[i] + row * p->out_row;
            if (p->out_dtype == DTYPE_BF16)
                write_narrow(sums[i] + row * ROW, out, p->stream, two_right);
            else
                stream_wide(sums[i] + row * ROW, (float *)(void *)out, two_right);
        }
}

static inline __attribute__((always_inline)) void
multiply_tiles(const amx_product_t *p, const amx_place_t *at, bool two_left, bool two_right)
{
    load_sums(p, at, two_left, two_right);
    for (int64_t t = 0; t < p->n_taps; t++) {
        const char *left = (const char *)at->left[0] + p->taps[t].left;
        const char *right = (const char *)at->right + p->taps[t].right;
        int64_t second = two_left ? (const char *)at->left[1] - (const char *)at->left[0] : 0;
        for (int64_t i = 0; i < p->n_steps; i++, left += p->left_step, right += p->right_step) {
            _tile_loadd(RIGHT_0, right, 64);
            _tile_loadd(LEFT_0, left, p->left_row);
            _tile_dpbf16ps(OUT_00, LEFT_0, RIGHT_0);
            if (two_right) _tile_loadd(RIGHT_1, right + p->right_second, 64);
            if (two_right) _tile_dpbf16ps(OUT_01, LEFT_0, RIGHT_1);
            if (two_left) _tile_loadd(LEFT_1, left + second, p->left_row);
            if (two_left) _tile_dpbf16ps(OUT_10, LEFT_1, RIGHT_0);
            if (two_left && two_right) _tile_dpbf16ps(OUT_11, LEFT_1, RIGHT_1);
        }
    }
    if (p->stream || p->out_dtype == DTYPE_BF16)
        write_sums(p, at, two_left, two_right);
    else
        store_sums(at->out, p->out_row, two_left, two_right);
}

static void amx_multiply(const amx_product_t *p, const amx_place_t *at)
{
    if (at->left[1] && at->n_right == 2)
        multiply_tiles(p, at, true, true);
    else if (at->left[1])
        multiply_tiles(p, at, true, false);
    else if (at->n_right == 2)
        multiply_tiles(p, at, false, true);
    else
        multiply_tiles(p, at, false, false);
}

static void amx_spin(int64_t n)
{
    _Alignas(64) uint8_t values[AMX_TILE_BYTES];
    memset(values, 0x3c, sizeof values); /* 0.0115 each */
    __asm__ volatile("" : : "m"(values));
    amx_begin(AMX_ROWS);
    _tile_loadd(LEFT_0, values, 64);
    _tile_loadd(LEFT_1, values, 64);
    _tile_loadd(RIGHT_0, values, 64);
    _tile_loadd(RIGHT_1, values, 64);
    _tile_zero(OUT_00);
    _tile_zero(OUT_01);
    _tile_zero(OUT_10);
    _tile_zero(OUT_11);
    for (int64_t i = 0; i < n; i++) {
        _tile_dpbf16ps(OUT_00, LEFT_0, RIGHT_0);
        _tile_dpbf16ps(OUT_01, LEFT_0, RIGHT_1);
        _tile_dpbf16ps(OUT_10, LEFT_1, RIGHT_0);
        _tile_dpbf16ps(OUT_11, LEFT_1, RIGHT_1);
    }
    amx_end();
}

/* Mask of the first n of 16 lanes; empty for n ≤ 0. */
static inline __mmask16 first_of(int64_t n)
{
    return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1U << n) - 1);
}

/* Rounds 32 floats; those from n on count as 0 and are not read. */
static inline __m512i round_32(const float *from, int64_t n)
{
    __m512 low = _mm512_maskz_loadu_ps(first_of(n), from);
    __m512 high = _mm512_maskz_loadu_ps(first_of(n - 16), from + 16);
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

static void pack_row(const void *from, dtype_t dtype, int64_t n, int64_t n_padded, uint16_t *to)
{
    const float *wide = from;
    int64_t i = 0;
    if (dtype == DTYPE_BF16) {
        memcpy(to, from, (size_t)n * sizeof *to);
        memset(to + n, 0, (size_t)(n_padded - n) * sizeof *to);
        return;
    }
    for (; i + 32 <= n; i += 32) _mm512_storeu_si512(to + i, round_32(wide + i, 32));
    for (; i < n_padded; i += 32) {
        int64_t left = n_padded - i < 32 ? n_padded - i : 32;
        __mmask32 there = left == 32 ? 0xffffffff : (1U << left) - 1;
        _mm512_mask_storeu_epi16(to + i, there, round_32(wide + i, n - i));
    }
}

/* Rows a and b, interleaved from element `first` on: [16][2]. */
static inline __attribute__((always_inline)) __m512i pairs_of(const void *a, const void *b, int64_t first,
                                                              bool narrow, __mmask16 there)
{
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    __m512i apart;
    if (narrow) {
        __m256i low = _mm256_maskz_loadu_epi16(there, (const uint16_t *)a + first);
        __m256i high = _mm256_maskz_loadu_epi16(there, (const uint16_t *)b + first);
        apart = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    } else {
        __m512 low = _mm512_maskz_loadu_ps(there, (const float *)a + first);
        __m512 high = _mm512_maskz_loadu_ps(there, (const float *)b + first);
        apart = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    }
    return _mm512_permutexvar_epi16(order, apart);
}

static inline __attribute__((always_inline)) void pack_pairs_of(const void *const *rows, bool narrow,
                                                                int64_t n_rows, int64_t first,
                                                                __mmask16 there, uint16_t *to)
{
    for (int64_t i = 0; i < n_rows; i += 2)
        _mm512_storeu_si512(to + 16 * i, pairs_of(rows[i], rows[i + 1], first, narrow, there));
}

static void pack_pairs(const void *const *rows, dtype_t dtype, int64_t n_rows, int64_t first,
                       int64_t n_columns, uint16_t *to)
{
    __mmask16 there = first_of(n_columns);
    if (dtype == DTYPE_BF16)
        pack_pairs_of(rows, true, n_rows, first, there, to);
    else
        pack_pairs_of(rows, false, n_rows, first, there, to);
}

/* Stores the transpose of 16 × 16 words. */
static inline __attribute__((always_inline)) void store_turned(__m512i w[16], uint16_t *to)
{
    __m512i v[16];
    for (int i = 0; i < 16; i += 2) {
        v[i] = _mm512_unpacklo_epi32(w[i], w[i + 1]);
        v[i + 1] = _mm512_unpackhi_epi32(w[i], w[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        w[i] = _mm512_unpacklo_epi64(v[i], v[i + 2]);
        w[i + 1] = _mm512_unpackhi_epi64(v[i], v[i + 2]);
        w[i + 2] = _mm512_unpacklo_epi64(v[i + 1], v[i + 3]);
        w[i + 3] = _mm512_unpackhi_epi64(v[i + 1], v[i + 3]);
    }
    /* w[4g + j] has words 4g … 4g+3 of columns j, 4+j, 8+j, 12+j. */
    for (int j = 0; j < 4; j++) {
        __m512i low = _mm512_shuffle_i32x4(w[j], w[4 + j], 0x88);
        __m512i high = _mm512_shuffle_i32x4(w[8 + j], w[12 + j], 0x88);
        __m512i low_odd = _mm512_shuffle_i32x4(w[j], w[4 + j], 0xdd);
        __m512i high_odd = _mm512_shuffle_i32x4(w[8 + j], w[12 + j], 0xdd);
        _mm512_storeu_si512(to + 32 * j, _mm512_shuffle_i32x4(low, high, 0x88));
        _mm512_storeu_si512(to + 32 * (8 + j), _mm512_shuffle_i32x4(low, high, 0xdd));
        _mm512_storeu_si512(to + 32 * (4 + j), _mm512_shuffle_i32x4(low_odd, high_odd, 0x88));
        _mm512_storeu_si512(to + 32 * (12 + j), _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd));
    }
}

static void pack_columns(const float *from, int64_t column, int64_t n, uint16_t *to)
{
    __m512i words[16];
    for (int i = 0; i < 16; i++) words[i] = round_32(from + i * column, n);
    store_turned(words, to);
}

static void pack_turned(const void *const *rows, dtype_t dtype, int64_t first, uint16_t *to)
{
    __m512i words[16];
    if (dtype == DTYPE_BF16)
        for (int i = 0; i < 16; i++) words[i] = pairs_of(rows[2 * i], rows[2 * i + 1], first, true, 0xffff);
    else
        for (int i = 0; i < 16; i++) words[i] = pairs_of(rows[2 * i], rows[2 * i + 1], first, false, 0xffff);
    store_turned(words, to);
}

static const amx_t amx = {amx_begin, amx_end,      amx_multiply, amx_spin,
                          pack_row,  pack_columns, pack_pairs,   pack_turned};

/* oneDNN requests permission to use the tile registers from Linux, for the whole process, when it detects the
 * CPU. */
const amx_t *amx_here(void)
{
    return onednn_has_amx() ? &amx : NULL;
}

#else /* the compiler or the target has no AMX */

const amx_t *amx_here(void)
{
    return NULL;
}
#endif
