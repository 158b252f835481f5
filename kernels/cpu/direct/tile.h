/* SPDX-License-Identifier: MIT */
/* The tiles, compiled once per instruction set: base.c, avx2.c and avx512.c include this file with
 * DIRECT_LANES (floats per vector) and DIRECT_NAME defined, and are compiled for that set with fused
 * multiply-add. This is code, not declarations, hence its length: transposes, products, epilogues, tiles. */
#include <omp.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/direct/direct.h"

/* Vectors of DIRECT_LANES floats. */

#ifndef DIRECT_LANES /* available on every machine */
#define DIRECT_LANES 4
#define DIRECT_NAME  "base"
#endif

enum { LANES = DIRECT_LANES, N_TILE = 2 * LANES };

typedef float vec_t __attribute__((vector_size(4 * DIRECT_LANES), may_alias));
typedef float loose_t __attribute__((vector_size(4 * DIRECT_LANES), aligned(4), may_alias));
typedef int32_t ints_t __attribute__((vector_size(4 * DIRECT_LANES)));
typedef uint8_t bytes_t __attribute__((vector_size(DIRECT_LANES), aligned(1), may_alias));

#define INLINE __attribute__((always_inline)) static inline

INLINE vec_t select(ints_t which, vec_t yes, vec_t no)
{
    return (vec_t)(((ints_t)yes & which) | ((ints_t)no & ~which));
}

/* n rounded up to whole tiles. */
INLINE int64_t padded_tiles(int64_t n)
{
    return (n + N_TILE - 1) / N_TILE * N_TILE;
}

/* Transposes of a batch, into lanes and back. */

/* A square of vectors is transposed in rounds that interleave rows half the square apart. */
#if DIRECT_LANES == 16
#define LOW_HALVES  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif DIRECT_LANES == 8
#define LOW_HALVES  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW_HALVES  0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#endif

INLINE void transpose_square(const float *from, int64_t from_row, float *to, int64_t to_row)
{
    vec_t a[LANES], b[LANES];
    for (int i = 0; i < LANES; i++) a[i] = *(const loose_t *)(from + i * from_row);
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
        for (int i = 0; i < LANES / 2; i++) {
            b[2 * i] = __builtin_shuffle(a[i], a[i + LANES / 2], (ints_t){LOW_HALVES});
            b[2 * i + 1] = __builtin_shuffle(a[i], a[i + LANES / 2], (ints_t){HIGH_HALVES});
        }
        for (int i = 0; i < LANES; i++) a[i] = b[i];
    }
    for (int i = 0; i < LANES; i++) *(loose_t *)(to + i * to_row) = a[i];
}

typedef uint8_t row_t __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t whole_row_t __attribute__((vector_size(16)));

INLINE void transpose_byte_square(const uint8_t *from, int64_t from_row, uint8_t *to, int64_t to_row)
{
    whole_row_t a[16], b[16];
    for (int i = 0; i < 16; i++) a[i] = *(const row_t *)(from + i * from_row);
#pragma GCC unroll 4
    for (int round = 1; round < 16; round *= 2) {
        for (int i = 0; i < 8; i++) {
            b[2 * i] = __builtin_shuffle(
                a[i], a[i + 8], (whole_row_t){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
            b[2 * i + 1] = __builtin_shuffle(
                a[i], a[i + 8], (whole_row_t){8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
        }
        for (int i = 0; i < 16; i++) a[i] = b[i];
    }
    for (int i = 0; i < 16; i++) *(row_t *)(to + i * to_row) = a[i];
}

/* to[c][r] = from[r][c], in squares of `side`; the remainder element by element. */
#define TRANSPOSE(square, side, rows, cols, from, from_row, to, to_row)                                      \
    for (int64_t i = 0; i < (rows); i += (side))                                                             \
        for (int64_t j = 0; j < (cols); j += (side)) {                                                       \
            if (i + (side) <= (rows) && j + (side) <= (cols))                                                \
                square((from) + i * (from_row) + j, (from_row), (to) + j * (to_row) + i, (to_row));          \
            else                                                                                             \
                for (int64_t r = i; r < i + (side) && r < (rows); r++)                                       \
                    for (int64_t c = j; c < j + (side) && c < (cols); c++)                                   \
                        (to)[c * (to_row) + r] = (from)[r * (from_row) + c];                                 \
        }

static void transpose(const float *from, int64_t n, int64_t m, float *to)
{
    int64_t n_padded = padded_tiles(n);
    TRANSPOSE(transpose_square, LANES, n, m, from, m, to, n_padded)
    for (int64_t c = 0; c < m && n < n_padded; c++)
        memset(to + c * n_padded + n, 0, (size_t)(n_padded - n) * sizeof *to);
}

static void transpose_back(const float *from, int64_t n, int64_t m, float *to)
{
    int64_t n_padded = padded_tiles(n);
    TRANSPOSE(transpose_square, LANES, m, n, from, n_padded, to, m)
}

static void transpose_bytes_back(const uint8_t *from, int64_t n, int64_t m, uint8_t *to)
{
    int64_t n_padded = padded_tiles(n);
    TRANSPOSE(transpose_byte_square, 16, m, n, from, n_padded, to, m)
}

/* Small matrix products whose operands are used as they are. */

/* Rows of c in registers, which divide DIRECT_TURNED_PANEL where a comes in panels; how many rows of b are fetched
 * ahead. */
enum { PRODUCT_ROWS = 6, TURNED_ROWS = DIRECT_LANES == 16 ? 8 : 4, MOST_ROWS = 8, PRODUCT_AHEAD = 16 };

/* rows × vectors of c. turned: a's values of a step are adjacent, else the steps. */
INLINE void product_tile(const direct_product_t *p, const float *a, const float *b, float *c, int rows,
                         int vectors, bool turned)
{
    const int64_t a_step = p->a_step, b_step = p->b_step, n = p->n_steps;
    vec_t acc[MOST_ROWS][2];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            acc[i][v] = p->add ? (vec_t) * (const loose_t *)(c + i * p->c_row + v * LANES) : (vec_t){0};
    for (int64_t x = 0; x < n; x++, b += b_step) {
        const vec_t first = *(const loose_t *)b;
        const vec_t second = vectors > 1 ? (vec_t) * (const loose_t *)(b + LANES) : first;
        __builtin_prefetch(b + PRODUCT_AHEAD * b_step);
        if (vectors * LANES > 16) __builtin_prefetch(b + PRODUCT_AHEAD * b_step + 16);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            const float value = turned ? a[x * a_step + i] : a[i * p->a_row + x];
            acc[i][0] += value * first;
            if (vectors > 1) acc[i][1] += value * second;
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++) *(loose_t *)(c + i * p->c_row + v * LANES) = acc[i][v];
}

/* Makes the number of rows a constant, so that the sums stay in registers. */
#define ROWS_CASE(n)                                                                                         \
    case n:                                                                                                  \
        product_tile(p, a, b, c, n, vectors, turned);                                                        \
        break;
INLINE void product_rows(const direct_product_t *p, const float *a, const float *b, float *c, int64_t rows,
                         int vectors, bool turned)
{
    switch (rows) {
        ROWS_CASE(1)
        ROWS_CASE(2)
        ROWS_CASE(3)
        ROWS_CASE(4)
        ROWS_CASE(5)
        ROWS_CASE(6)
        ROWS_CASE(7)
    default:
        product_tile(p, a, b, c, MOST_ROWS, vectors, turned);
        break;
    }
}

INLINE void product_panels(const direct_product_t *p, int vectors, bool turned, int64_t first, int64_t end)
{
    const int64_t step = turned ? TURNED_ROWS : PRODUCT_ROWS;
    for (int64_t column = first; column < end; column += vectors * LANES) {
        const float *b = p->b + column / DIRECT_PANEL * p->b_panel + column % DIRECT_PANEL;
        for (int64_t row = 0; row < p->n_rows; row += step) {
            const float *a = turned
                                 ? p->a + row / DIRECT_TURNED_PANEL * p->a_panel + row % DIRECT_TURNED_PANEL
                                 : p->a + row * p->a_row;
            const int64_t rows = p->n_rows - row < step ? p->n_rows - row : step;
            product_rows(p, a, b, p->c + row * p->c_row + column, rows, vectors, turned);
        }
    }
}

static void product_any(const direct_product_t *p)
{
    /* With 16 lanes, half of the last panel may be missing. */
    const int64_t whole = p->n_columns / (2 * LANES) * (2 * LANES);
    if (p->a_row == 0) {
        product_panels(p, 2, true, 0, whole);
        product_panels(p, 1, true, whole, p->n_columns);
    } else {
        product_panels(p, 2, false, 0, whole);
        product_panels(p, 1, false, whole, p->n_columns);
    }
}

/* The epilogue of a convolution (ReLU, max pooling) on its own, and its gradient. */

/* Writes the k gradients of a window to each of its pixels, 0 where the mask names another pixel. */
INLINE void expand_window(const direct_conv_t *v, const float *dy, const uint8_t *mask, float *dense)
{
    int64_t i = 0;
    for (; i + LANES <= v->k || (i < v->k && v->k >= LANES); i += LANES) {
        int64_t at = i + LANES <= v->k ? i : v->k - LANES; /* the last vector overlaps the one before */
        vec_t gradient = *(const loose_t *)(dy + at);
        ints_t which = __builtin_convertvector(*(const bytes_t *)(mask + at), ints_t);
        for (int cell = 0; cell < v->pool_h * v->pool_w; cell++) {
            float *out = dense + ((cell / v->pool_w) * v->ow + cell % v->pool_w) * v->k + at;
            *(loose_t *)out = (vec_t)((ints_t)gradient & (which == cell));
        }
    }
    for (; i < v->k; i++)
        for (int cell = 0; cell < v->pool_h * v->pool_w; cell++)
            dense[((cell / v->pool_w) * v->ow + cell % v->pool_w) * v->k + i] = mask[i] == cell ? dy[i] : 0;
}

/* The largest of a window's pixels, as in forward_window, on [n][oh][ow][k]. */
INLINE void reduce_window(const direct_conv_t *v, const float *dense, float *y, uint8_t *mask)
{
    int64_t i = 0;
    for (; i + LANES <= v->k || (i < v->k && v->k >= LANES); i += LANES) {
        int64_t at = i + LANES <= v->k ? i : v->k - LANES;
        vec_t best = {0};
        ints_t which = {0};
        for (int cell = 0; cell < v->pool_h * v->pool_w; cell++) {
            vec_t value =
                *(const loose_t *)(dense + ((cell / v->pool_w) * v->ow + cell % v->pool_w) * v->k + at);
            ints_t wins = cell == 0 ? (ints_t){0} - 1 : (value > best) | (value != value);
            best = select(wins, value, best);
            which = (wins & cell) | (~wins & which);
        }
        ints_t off = best <= 0;
        *(loose_t *)(y + at) = (vec_t)((ints_t)best & ~off);
        if (mask)
            *(bytes_t *)(mask + at) = __builtin_convertvector((off & DIRECT_OFF) | (~off & which), bytes_t);
    }
    for (; i < v->k; i++) {
        float best = dense[i];
        int which = 0;
        for (int cell = 1; cell < v->pool_h * v->pool_w; cell++) {
            float value = dense[((cell / v->pool_w) * v->ow + cell % v->pool_w) * v->k + i];
            if (value > best || value != value) best = value, which = cell;
        }
        y[i] = best <= 0 ? 0 : best;
        if (mask) mask[i] = (uint8_t)(best <= 0 ? DIRECT_OFF : which);
    }
}

static void reduce_images(const direct_conv_t *v, const float *dense, float *y, uint8_t *mask)
{
    int64_t out_h = v->oh / v->pool_h, out_w = v->ow / v->pool_w;
#pragma omp parallel for collapse(2) schedule(static) if (omp_get_max_threads() > 1)
    for (int64_t i = 0; i < v->n; i++)
        for (int64_t ph = 0; ph < out_h; ph++)
            for (int64_t pw = 0; pw < out_w; pw++) {
                int64_t at = ((i * out_h + ph) * out_w + pw) * v->k;
                int64_t from = ((i * v->oh + ph * v->pool_h) * v->ow + pw * v->pool_w) * v->k;
                reduce_window(v, dense + from, y + at, mask ? mask + at : NULL);
            }
}

/* n_rows rows of the gradient before the epilogue, from the first row of a window on. */
INLINE void expand_rows(const direct_conv_t *v, int64_t n_rows, const float *dy, const uint8_t *mask,
                        float *dense)
{
    int64_t out_h = n_rows / v->pool_h, out_w = v->ow / v->pool_w;
    if (out_h * v->pool_h < n_rows || out_w * v->pool_w < v->ow)
        memset(dense, 0, (size_t)(n_rows * v->ow * v->k) * sizeof *dense);
    for (int64_t ph = 0; ph < out_h; ph++)
        for (int64_t pw = 0; pw < out_w; pw++) {
            int64_t at = (ph * out_w + pw) * v->k;
            expand_window(v, dy + at, mask + at, dense + (ph * v->pool_h * v->ow + pw * v->pool_w) * v->k);
        }
}

static void expand_images(const direct_conv_t *v, const float *dy, const uint8_t *mask, float *dense)
{
    int64_t n_dy = (v->oh / v->pool_h) * (v->ow / v->pool_w) * v->k, n_dense = v->oh * v->ow * v->k;
#pragma omp parallel for schedule(static) if (omp_get_max_threads() > 1)
    for (int64_t i = 0; i < v->n; i++)
        expand_rows(v, v->oh, dy + i * n_dy, mask + i * n_dy, dense + i * n_dense);
}

/* Tiles. */

/* acc[k][·] += w[i][k] · x[i][·] over n_taps taps; x is one tile of samples wide, taps are n samples
 * apart. */
INLINE void add_taps(vec_t (*acc)[2], int block, const float *x, int64_t n, const float *w, int64_t n_taps)
{
    for (int64_t i = 0; i < n_taps; i++, x += n, w += block) {
        vec_t low = *(const vec_t *)x, high = *(const vec_t *)(x + LANES);
#pragma GCC unroll 12
        for (int k = 0; k < block; k++) {
            acc[k][0] += w[k] * low;
            acc[k][1] += w[k] * high;
        }
    }
}

/* Taps [*from, *to) of a kernel of `size` that lie inside an input of `length`, the first tap at `start`. */
INLINE void inside(int64_t start, int size, int64_t length, int *from, int *to)
{
    *from = start < 0 ? (int)-start : 0;
    *to = start + size > length ? (int)(length - start) : size;
}

/* One output pixel of a block of outputs, for one tile of samples. */
INLINE void forward_cell(const direct_conv_t *v, int block, const float *xt, int64_t n, const float *w,
                         const float *bias, int64_t oh, int64_t ow, vec_t (*acc)[2])
{
    int64_t y0 = oh * v->stride_h - v->pad_h, x0 = ow * v->stride_w - v->pad_w;
    int r0, r1, s0, s1;
    inside(y0, v->r, v->h, &r0, &r1);
    inside(x0, v->s, v->w, &s0, &s1);
    for (int k = 0; k < block; k++) acc[k][0] = acc[k][1] = (vec_t){0} + bias[k];
    for (int r = r0; r < r1; r++)
        add_taps(acc, block, xt + (((y0 + r) * v->w + x0 + s0) * v->c) * n, n,
                 w + ((int64_t)(r * v->s + s0) * v->c) * block, (s1 - s0) * v->c);
}

/* The largest of a window's pixels, with ReLU; NaN wins and propagates. */
INLINE void forward_window(const direct_conv_t *v, int block, const float *xt, int64_t n, const float *w,
                           const float *bias, int64_t ph, int64_t pw, vec_t (*best)[2], ints_t (*which)[2])
{
    for (int cell = 0; cell < v->pool_h * v->pool_w; cell++) {
        vec_t acc[12][2];
        forward_cell(v, block, xt, n, w, bias, ph * v->pool_h + cell / v->pool_w,
                     pw * v->pool_w + cell % v->pool_w, acc);
        for (int k = 0; k < block; k++)
            for (int half = 0; half < 2; half++) {
                vec_t value = acc[k][half];
                ints_t wins = cell == 0 ? (ints_t){0} - 1 : (value > best[k][half]) | (value != value);
                best[k][half] = select(wins, value, best[k][half]);
                which[k][half] = cell == 0 ? (ints_t){0} : (wins & cell) | (~wins & which[k][half]);
            }
    }
    for (int k = 0; k < block; k++)
        for (int half = 0; half < 2; half++) {
            ints_t off = best[k][half] <= 0;
            best[k][half] = (vec_t)((ints_t)best[k][half] & ~off);
            which[k][half] = (off & DIRECT_OFF) | (~off & which[k][half]);
        }
}

/* One block of outputs: k0 … k0 + n_k − 1. */
INLINE void forward_block(const direct_conv_t *v, int block, const float *xt, const float *w,
                          const float *bias, int64_t ph, int64_t k0, float *yt, uint8_t *mask)
{
    int64_t n = padded_tiles(v->n), out_w = v->ow / v->pool_w;
    int n_k = (int)(v->k - k0 < block ? v->k - k0 : block);
    float own_bias[12] = {0};
    for (int k = 0; k < n_k && bias; k++) own_bias[k] = bias[k0 + k];
    for (int64_t pw = 0; pw < out_w; pw++)
        for (int64_t tile = 0; tile < n; tile += N_TILE) {
            int64_t at = ((ph * out_w + pw) * v->k + k0) * n + tile;
            vec_t best[12][2];
            ints_t which[12][2];
            if (v->relu)
                forward_window(v, block, xt + tile, n, w, own_bias, ph, pw, best, which);
            else
                forward_cell(v, block, xt + tile, n, w, own_bias, ph, pw, best);
            for (int k = 0; k < block; k++)
                for (int half = 0; half < 2 && k < n_k; half++) {
                    *(vec_t *)(yt + at + k * n + half * LANES) = best[k][half];
                    if (v->relu && mask)
                        *(bytes_t *)(mask + at + k * n + half * LANES) =
                            __builtin_convertvector(which[k][half], bytes_t);
                }
        }
}

/* One row of inputs of a block of channels: each pixel sums over the outputs that read it. */
INLINE void backward_block(const direct_conv_t *v, int block, const float *dyt, const float *w, int64_t h,
                           int64_t c0, float *dxt)
{
    int64_t n = padded_tiles(v->n);
    int n_c = (int)(v->c - c0 < block ? v->c - c0 : block);
    for (int64_t x = 0; x < v->w; x++)
        for (int64_t tile = 0; tile < n; tile += N_TILE) {
            vec_t acc[12][2];
            for (int k = 0; k < block; k++) acc[k][0] = acc[k][1] = (vec_t){0};
            for (int r = 0; r < v->r; r++) {
                int64_t row = h + v->pad_h - r, oh = row / v->stride_h;
                if (row < 0 || row % v->stride_h || oh >= v->oh) continue;
                for (int s = 0; s < v->s; s++) {
                    int64_t column = x + v->pad_w - s, ow = column / v->stride_w;
                    if (column < 0 || column % v->stride_w || ow >= v->ow) continue;
                    add_taps(acc, block, dyt + (oh * v->ow + ow) * v->k * n + tile, n,
                             w + (int64_t)(r * v->s + s) * v->k * block, v->k);
                }
            }
            float *out = dxt + ((h * v->w + x) * v->c + c0) * n + tile;
            for (int k = 0; k < block; k++)
                for (int half = 0; half < 2 && k < n_c; half++)
                    *(vec_t *)(out + k * n + half * LANES) = acc[k][half];
        }
}

/* Makes the block size a constant, so that the accumulators stay in registers. */
#define WITH_BLOCK(block, call)                                                                              \
    switch (block) {                                                                                         \
    case 4:                                                                                                  \
        call(4);                                                                                             \
        break;                                                                                               \
    case 5:                                                                                                  \
        call(5);                                                                                             \
        break;                                                                                               \
    case 8:                                                                                                  \
        call(8);                                                                                             \
        break;                                                                                               \
    default:                                                                                                 \
        call(10);                                                                                            \
        break;                                                                                               \
    }

static void forward_images(const direct_conv_t *v, const float *xt, const float *weights, const float *bias,
                           float *yt, uint8_t *mask)
{
    int block = direct_block(v->k);
    int64_t n_blocks = (v->k + block - 1) / block, n_taps = (int64_t)v->r * v->s * v->c;
    int64_t out_h = v->oh / v->pool_h;
#define BLOCK(n) forward_block(v, n, xt, weights + j * n_taps * n, bias, ph, j * n, yt, mask)
#pragma omp parallel for collapse(2) schedule(static) if (omp_get_max_threads() > 1)
    for (int64_t j = 0; j < n_blocks; j++)
        for (int64_t ph = 0; ph < out_h; ph++) WITH_BLOCK(block, BLOCK)
#undef BLOCK
}

static void backward_data(const direct_conv_t *v, const float *dyt, const float *weights, float *dxt)
{
    int block = direct_block(v->c);
    int64_t n_blocks = (v->c + block - 1) / block, n_taps = (int64_t)v->r * v->s * v->k;
#define BLOCK(n) backward_block(v, n, dyt, weights + j * n_taps * n, h, j * n, dxt)
#pragma omp parallel for collapse(2) schedule(static) if (omp_get_max_threads() > 1)
    for (int64_t j = 0; j < n_blocks; j++)
        for (int64_t h = 0; h < v->h; h++) WITH_BLOCK(block, BLOCK)
#undef BLOCK
}

/* Backward weights of one image: sums[i][·] += a[i at each pixel] · b[vectors at each pixel]. */
typedef struct cells {
    int64_t n_rows, n_columns;
    int64_t a_row, a_column, b_row, b_column, sums_row; /* steps, in floats */
} cells_t;

INLINE void add_cells(const cells_t *v, int n_a, int n_b, const float *a, const float *b, float *sums)
{
    vec_t acc[5][4];
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++) acc[i][j] = *(const loose_t *)(sums + i * v->sums_row + j * LANES);
    for (int64_t row = 0; row < v->n_rows; row++) {
        const float *a_at = a + row * v->a_row, *b_at = b + row * v->b_row;
        for (int64_t column = 0; column < v->n_columns; column++, a_at += v->a_column, b_at += v->b_column) {
            vec_t wide[4];
            for (int j = 0; j < n_b; j++) wide[j] = *(const loose_t *)(b_at + j * LANES);
#pragma GCC unroll 5
            for (int i = 0; i < n_a; i++)
                for (int j = 0; j < n_b; j++) acc[i][j] += a_at[i] * wide[j];
        }
    }
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++) *(loose_t *)(sums + i * v->sums_row + j * LANES) = acc[i][j];
}

#define WITH_VECTORS(n_a)                                                                                    \
    switch (n_b) {                                                                                           \
    case 1:                                                                                                  \
        add_cells(v, n_a, 1, a, b, sums);                                                                    \
        break;                                                                                               \
    case 2:                                                                                                  \
        add_cells(v, n_a, 2, a, b, sums);                                                                    \
        break;                                                                                               \
    case 3:                                                                                                  \
        add_cells(v, n_a, 3, a, b, sums);                                                                    \
        break;                                                                                               \
    default:                                                                                                 \
        add_cells(v, n_a, 4, a, b, sums);                                                                    \
        break;                                                                                               \
    }

static void add_five(const cells_t *v, int n_b, const float *a, const float *b, float *sums)
{
    WITH_VECTORS(5)
}

static void add_one(const cells_t *v, int n_b, const float *a, const float *b, float *sums)
{
    WITH_VECTORS(1)
}

/* n_a values of `a` against n_vectors vectors of b. */
static void add_image(const cells_t *v, int64_t n_a, int64_t n_vectors, const float *a, const float *b,
                      float *sums)
{
    for (int64_t i = 0; i < n_a;) {
        bool five = i + 5 <= n_a;
        for (int64_t j = 0; j < n_vectors; j += 4) {
            int n_b = (int)(n_vectors - j < 4 ? n_vectors - j : 4);
            (five ? add_five : add_one)(v, n_b, a + i, b + j * LANES, sums + i * v->sums_row + j * LANES);
        }
        i += five ? 5 : 1;
    }
}

/* Layout of the sums of backward weights: [k][r][run] with the run in the lanes, or [r][run][k] with k. */
typedef struct weight_sums {
    bool over_outputs;
    int64_t run, n_vectors; /* run: the taps of a row, s · c */
} weight_sums_t;

static weight_sums_t sums_of(const direct_conv_t *v)
{
    int64_t run = v->s * v->c, by_run = (run + LANES - 1) / LANES, by_k = (v->k + LANES - 1) / LANES;
    bool over_outputs = by_k * run < by_run * v->k;
    return (weight_sums_t){over_outputs, run, over_outputs ? by_k : by_run};
}

/* Rows of gradients that fit L1 while all taps are accumulated. */
static int64_t rows_at_a_time(const direct_conv_t *v)
{
    enum { CACHED = 4096 };
    int64_t windows = CACHED / (v->ow * v->k * v->pool_h);
    return (windows > 1 ? windows : 1) * v->pool_h;
}

/* Rows [first, end) of an image's gradient before the epilogue, safe to read in full vectors. `dense` has
 * room for them. */
static const float *gradient_rows(const direct_conv_t *v, bool wide, const float *dy, const uint8_t *mask,
                                  int64_t first, int64_t end, float *dense)
{
    int64_t row = v->ow * v->k, pooled_row = v->ow / v->pool_w * v->k;
    if (mask) {
        int64_t at = first / v->pool_h * pooled_row;
        expand_rows(v, end - first, dy + at, mask + at, dense);
        return dense;
    }
    if (!wide) return dy + first * row;
    memcpy(dense, dy + first * row, (size_t)((end - first) * row) * sizeof *dense);
    return dense;
}

/* Adds the contribution of rows [row, last) of an image's gradient g to the units [first, end): rows of taps
 * if the lanes are outputs, else outputs. */
static void add_rows(const direct_conv_t *v, const weight_sums_t *layout, const float *image, const float *g,
                     int64_t row, int64_t last, int64_t first, int64_t end, float *sums)
{
    int64_t width = v->w + 2 * v->pad_w, x_row = v->stride_h * width * v->c, x_column = v->stride_w * v->c;
    int64_t lanes = layout->n_vectors * LANES, dy_row = v->ow * v->k;
    cells_t run = {last - row, v->ow, dy_row, v->k, x_row, x_column, v->r * lanes};
    cells_t outputs = {last - row, v->ow, x_row, x_column, dy_row, v->k, lanes};
    const float *x = image + row * x_row;
    if (layout->over_outputs)
        for (int64_t r = first; r < end; r++)
            add_image(&outputs, layout->run, layout->n_vectors, x + r * width * v->c, g,
                      sums + r * layout->run * lanes);
    else
        for (int64_t r = 0; r < v->r; r++)
            add_image(&run, end - first, layout->n_vectors, g + first, x + r * width * v->c,
                      sums + (first * v->r + r) * lanes);
}

/* Each thread owns a range of units and goes through all images. */
static void weights_part(const direct_conv_t *v, const float *x, const float *dy, const uint8_t *mask,
                         float *sums, int part, int n_parts, float *scratch)
{
    weight_sums_t layout = sums_of(v);
    int64_t n_dy = mask ? (v->oh / v->pool_h) * (v->ow / v->pool_w) * v->k : v->oh * v->ow * v->k;
    int64_t n_units = layout.over_outputs ? v->r : v->k, step = rows_at_a_time(v);
    int64_t first = part * n_units / n_parts, end = (part + 1) * n_units / n_parts;
    float *image = scratch, *dense = scratch + direct_image_size(v);
    for (int64_t i = 0; i < v->n; i++) {
        direct_pad_image(v, x + i * v->h * v->w * v->c, image);
        for (int64_t row = 0; row < v->oh; row += step) {
            int64_t last = row + step < v->oh ? row + step : v->oh;
            const float *g = gradient_rows(v, layout.over_outputs, dy + i * n_dy,
                                           mask ? mask + i * n_dy : NULL, row, last, dense);
            add_rows(v, &layout, image, g, row, last, first, end, sums);
        }
    }
}

static void backward_weights(const direct_conv_t *v, const float *x, const float *dy, const uint8_t *mask,
                             float *dweight, float *workspace)
{
    weight_sums_t layout = sums_of(v);
    int64_t n_rows = layout.n_vectors * LANES, n_scratch = direct_image_size(v) + direct_dense_size(v);
    int64_t n_sums = n_rows * v->r * (layout.over_outputs ? layout.run : v->k);
    float *scratch = workspace + n_sums;
    memset(workspace, 0, (size_t)n_sums * sizeof *workspace);
#pragma omp parallel if (omp_get_max_threads() > 1)
    weights_part(v, x, dy, mask, workspace, omp_get_thread_num(), omp_get_num_threads(),
                 scratch + omp_get_thread_num() * n_scratch);
    for (int64_t k = 0; k < v->k; k++)
        for (int64_t i = 0; i < v->r * layout.run; i++) {
            int64_t at =
                layout.over_outputs ? i * n_rows + k : (k * v->r + i / layout.run) * n_rows + i % layout.run;
            dweight[k * v->r * layout.run + i] = workspace[at];
        }
}

static const direct_isa_t table = {.name = DIRECT_NAME,
                                   .n_tile = N_TILE,
                                   .forward = forward_images,
                                   .backward_data = backward_data,
                                   .backward_weights = backward_weights,
                                   .transpose = transpose,
                                   .transpose_back = transpose_back,
                                   .transpose_bytes_back = transpose_bytes_back,
                                   .reduce = reduce_images,
                                   .expand = expand_images,
                                   .product = product_any};
