/* SPDX-License-Identifier: MIT */
/* Small matrix products whose operands are used as they are; part of tile.h. */
#ifndef KERNELS_CPU_DIRECT_PRODUCT_H
#define KERNELS_CPU_DIRECT_PRODUCT_H

#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/direct/vector.h"

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

#endif
