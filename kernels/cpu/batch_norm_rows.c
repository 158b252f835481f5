/* SPDX-License-Identifier: MIT */
/* Batch norm's inner loops over rows, one body for float32 and bfloat16 storage, compiled per instruction
 * set. Cutting a tensor into rows and combining the sums is left to batch_norm.c. */
#include "kernels/cpu/batch_norm_rows.h"

#include <string.h>

#include "kernels/cpu/loop.h"
#include "kernels/cpu/narrow.h"

/* The source of ReLU's gate in backward; a constant in each compiled loop. */
typedef enum gate {
    GATE_NONE,
    GATE_COMPUTED, /* y is recomputed: nothing was added to it */
    GATE_MASKED
} gate_t;

static gate_t gate_of(const norm_rows_t *r)
{
    return !r->relu ? GATE_NONE : r->mask ? GATE_MASKED : GATE_COMPUTED;
}

/* Rows are added to a sum in order, four at a time: a sum that goes to memory and back for each row costs
 * more than the additions. */
NARROW_INLINE void sum_some(float *restrict sum, const void *restrict x, int64_t n_c, int n_rows, bool narrow)
{
    for (int64_t c = 0; c < n_c; c++) {
        float s = sum[c];
        for (int i = 0; i < n_rows; i++) s += narrow_take(x, i * n_c + c, narrow);
        sum[c] = s;
    }
}

NARROW_INLINE void sum_some_squares(float *restrict sum, float share, const void *restrict x, int64_t n_c,
                                    int n_rows, bool narrow)
{
    float *restrict squares = sum + n_c;
    for (int64_t c = 0; c < n_c; c++) {
        float s = squares[c], mean = sum[c] * share;
        for (int i = 0; i < n_rows; i++) {
            float off = narrow_take(x, i * n_c + c, narrow) - mean;
            s += off * off;
        }
        squares[c] = s;
    }
}

/* Prefetches four rows. */
NARROW_INLINE void fetch(const void *rows, int64_t n_c, bool narrow)
{
    const char *end = narrow_at(rows, 4 * n_c, narrow);
    for (const char *at = rows; at < end; at += 64) __builtin_prefetch(at, 0, 2);
}

/* In the second pass the block is in cache and memory would be idle: the next block is prefetched then. */
NARROW_INLINE void sum_rows(const norm_rows_t *r, float *sum, bool narrow)
{
    int64_t row, n_rows = r->n_rows, n_c = r->n_c;
    float share = 1 / (float)n_rows;
    for (int64_t i = 0; i < 2 * n_c; i++) sum[i] = 0;
    for (row = 0; row + 4 <= n_rows; row += 4)
        sum_some(sum, narrow_at(r->x, row * n_c, narrow), n_c, 4, narrow);
    for (; row < n_rows; row++) sum_some(sum, narrow_at(r->x, row * n_c, narrow), n_c, 1, narrow);
    for (row = 0; row + 4 <= n_rows; row += 4) {
        fetch(narrow_at(r->x, (row + n_rows) * n_c, narrow), n_c, narrow);
        sum_some_squares(sum, share, narrow_at(r->x, row * n_c, narrow), n_c, 4, narrow);
    }
    for (; row < n_rows; row++)
        sum_some_squares(sum, share, narrow_at(r->x, row * n_c, narrow), n_c, 1, narrow);
}

LOOP_CLONES(sum_rows_wide, (const norm_rows_t *r, float *sum), (r, sum))
{
    sum_rows(r, sum, false);
}

WIDE_CLONES(sum_rows_narrow, (const norm_rows_t *r, float *sum), (r, sum))
{
    sum_rows(r, sum, true);
}

void norm_rows_sum(const norm_rows_t *rows, float *sum)
{
    if (rows->narrow)
        sum_rows_narrow(rows, sum);
    else
        sum_rows_wide(rows, sum);
}

/* y may be x, and element c depends on element c alone, which `omp simd` states. */
NARROW_INLINE void forward_row(const norm_rows_t *r, int64_t row, void *y, bool add, bool relu, bool keep,
                               bool narrow)
{
    int64_t n_c = r->n_c;
    const void *x = narrow_at(r->x, row * n_c, narrow);
    const void *shortcut = add ? narrow_at(r->shortcut, row * n_c, narrow) : NULL;
    const float *mean = r->mean, *scale = r->scale, *beta = r->beta;
    uint32_t *mask = keep ? r->mask + row / NORM_MASK_ROWS * n_c : NULL, bit = 1u << row % NORM_MASK_ROWS;
    y = narrow_at(y, row * n_c, narrow);
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float value = (narrow_take(x, c, narrow) - mean[c]) * scale[c] + beta[c];
        if (add) value += narrow_take(shortcut, c, narrow);
        if (relu) value = value <= 0 ? 0 : value; /* in this order NaN propagates */
        if (keep) mask[c] |= value > 0 ? bit : 0;
        narrow_put(y, c, value, narrow);
    }
}

NARROW_INLINE void forward_rows(const norm_rows_t *rows, void *y, bool narrow)
{
    const norm_rows_t r = *rows;
    bool keep = r.mask && r.relu;
    if (keep)
        memset(r.mask, 0,
               (size_t)((r.n_rows + NORM_MASK_ROWS - 1) / NORM_MASK_ROWS * r.n_c) * sizeof *r.mask);
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (keep)
            forward_row(&r, row, y, true, true, true, narrow);
        else if (r.shortcut && r.relu)
            forward_row(&r, row, y, true, true, false, narrow);
        else if (r.shortcut)
            forward_row(&r, row, y, true, false, false, narrow);
        else if (r.relu)
            forward_row(&r, row, y, false, true, false, narrow);
        else
            forward_row(&r, row, y, false, false, false, narrow);
    }
}

LOOP_CLONES(forward_wide, (const norm_rows_t *r, void *y), (r, y))
{
    forward_rows(r, y, false);
}

WIDE_CLONES(forward_narrow, (const norm_rows_t *r, void *y), (r, y))
{
    forward_rows(r, y, true);
}

void norm_rows_forward(const norm_rows_t *rows, void *y)
{
    if (rows->narrow)
        forward_narrow(rows, y);
    else
        forward_wide(rows, y);
}

/* The part of one element's gradient that ReLU passes on; off = x − mean. */
NARROW_INLINE float gated(gate_t gate, float dy, float off, float scale, float beta, uint32_t in_mask)
{
    if (gate == GATE_COMPUTED) return off * scale + beta > 0 ? dy : 0;
    if (gate == GATE_MASKED) return in_mask ? dy : 0;
    return dy;
}

NARROW_INLINE void sum_gradients_row(const norm_rows_t *r, int64_t row, const void *dy, void *dshortcut,
                                     float *sum, gate_t gate, bool pass_on, bool narrow)
{
    int64_t n_c = r->n_c;
    const void *x = narrow_at(r->x, row * n_c, narrow);
    const float *mean = r->mean, *scale = r->scale, *beta = r->beta;
    const uint32_t *mask = gate == GATE_MASKED ? r->mask + row / NORM_MASK_ROWS * n_c : NULL;
    uint32_t bit = 1u << row % NORM_MASK_ROWS;
    float *product = sum + n_c;
    dy = narrow_at(dy, row * n_c, narrow);
    if (pass_on) dshortcut = narrow_at(dshortcut, row * n_c, narrow);
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float off = narrow_take(x, c, narrow) - mean[c];
        float g = gated(gate, narrow_take(dy, c, narrow), off, scale[c], beta[c],
                        gate == GATE_MASKED ? mask[c] & bit : 0);
        if (pass_on) narrow_put(dshortcut, c, g, narrow);
        sum[c] += g;
        product[c] += g * off;
    }
}

NARROW_INLINE void sum_gradients(const norm_rows_t *rows, const void *dy, void *dshortcut, float *sum,
                                 bool narrow)
{
    const norm_rows_t r = *rows;
    gate_t gate = gate_of(&r);
    for (int64_t i = 0; i < 2 * r.n_c; i++) sum[i] = 0;
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (gate == GATE_MASKED && dshortcut)
            sum_gradients_row(&r, row, dy, dshortcut, sum, GATE_MASKED, true, narrow);
        else if (gate == GATE_MASKED)
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_MASKED, false, narrow);
        else if (gate == GATE_COMPUTED)
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_COMPUTED, false, narrow);
        else if (dshortcut)
            sum_gradients_row(&r, row, dy, dshortcut, sum, GATE_NONE, true, narrow);
        else
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_NONE, false, narrow);
    }
}

LOOP_CLONES(sum_gradients_wide, (const norm_rows_t *r, const void *dy, void *dshortcut, float *sum),
            (r, dy, dshortcut, sum))
{
    sum_gradients(r, dy, dshortcut, sum, false);
}

WIDE_CLONES(sum_gradients_narrow, (const norm_rows_t *r, const void *dy, void *dshortcut, float *sum),
            (r, dy, dshortcut, sum))
{
    sum_gradients(r, dy, dshortcut, sum, true);
}

void norm_rows_sum_gradients(const norm_rows_t *rows, const void *dy, void *dshortcut, float *sum)
{
    if (rows->narrow)
        sum_gradients_narrow(rows, dy, dshortcut, sum);
    else
        sum_gradients_wide(rows, dy, dshortcut, sum);
}

NARROW_INLINE void backward_row(const norm_rows_t *r, int64_t row, const void *dy, const float *shift,
                                const float *slope, void *dx, gate_t gate, bool narrow)
{
    int64_t n_c = r->n_c;
    const void *x = narrow_at(r->x, row * n_c, narrow);
    const float *mean = r->mean, *scale = r->scale, *beta = r->beta;
    const uint32_t *mask = gate == GATE_MASKED ? r->mask + row / NORM_MASK_ROWS * n_c : NULL;
    uint32_t bit = 1u << row % NORM_MASK_ROWS;
    dy = narrow_at(dy, row * n_c, narrow), dx = narrow_at(dx, row * n_c, narrow);
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float off = narrow_take(x, c, narrow) - mean[c];
        float g = gated(gate, narrow_take(dy, c, narrow), off, scale[c], beta[c],
                        gate == GATE_MASKED ? mask[c] & bit : 0);
        narrow_put(dx, c, scale[c] * (g - shift[c] - off * slope[c]), narrow);
    }
}

NARROW_INLINE void backward_rows(const norm_rows_t *rows, const void *dy, const float *shift,
                                 const float *slope, void *dx, bool narrow)
{
    const norm_rows_t r = *rows;
    gate_t gate = gate_of(&r);
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (gate == GATE_MASKED)
            backward_row(&r, row, dy, shift, slope, dx, GATE_MASKED, narrow);
        else if (gate == GATE_COMPUTED)
            backward_row(&r, row, dy, shift, slope, dx, GATE_COMPUTED, narrow);
        else
            backward_row(&r, row, dy, shift, slope, dx, GATE_NONE, narrow);
    }
}

LOOP_CLONES(backward_wide,
            (const norm_rows_t *r, const void *dy, const float *shift, const float *slope, void *dx),
            (r, dy, shift, slope, dx))
{
    backward_rows(r, dy, shift, slope, dx, false);
}

WIDE_CLONES(backward_narrow,
            (const norm_rows_t *r, const void *dy, const float *shift, const float *slope, void *dx),
            (r, dy, shift, slope, dx))
{
    backward_rows(r, dy, shift, slope, dx, true);
}

void norm_rows_backward(const norm_rows_t *rows, const void *dy, const float *shift, const float *slope,
                        void *dx)
{
    if (rows->narrow)
        backward_narrow(rows, dy, shift, slope, dx);
    else
        backward_wide(rows, dy, shift, slope, dx);
}

NARROW_INLINE void frozen_row(const float *scale, int64_t n_c, const void *y, const void *dy, void *dx,
                              void *dshortcut, bool relu, bool pass_on, bool narrow)
{
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float g = narrow_take(dy, c, narrow);
        if (relu) g = narrow_take(y, c, narrow) > 0 ? g : 0;
        if (pass_on) narrow_put(dshortcut, c, g, narrow);
        if (dx) narrow_put(dx, c, scale[c] * g, narrow);
    }
}

NARROW_INLINE void frozen_rows(const norm_rows_t *r, const void *y, const void *dy, void *dx, void *dshortcut,
                               bool narrow)
{
    const int64_t n_c = r->n_c;
    for (int64_t row = 0; row < r->n_rows; row++) {
        const void *from = narrow_at(dy, row * n_c, narrow), *gate = narrow_at(y, row * n_c, narrow);
        void *to = dx ? narrow_at(dx, row * n_c, narrow) : NULL;
        void *other = dshortcut ? narrow_at(dshortcut, row * n_c, narrow) : NULL;
        if (r->relu && other)
            frozen_row(r->scale, n_c, gate, from, to, other, true, true, narrow);
        else if (r->relu)
            frozen_row(r->scale, n_c, gate, from, to, NULL, true, false, narrow);
        else
            frozen_row(r->scale, n_c, NULL, from, to, other, false, other != NULL, narrow);
    }
}

LOOP_CLONES(frozen_wide, (const norm_rows_t *r, const void *y, const void *dy, void *dx, void *dshortcut),
            (r, y, dy, dx, dshortcut))
{
    frozen_rows(r, y, dy, dx, dshortcut, false);
}

WIDE_CLONES(frozen_narrow, (const norm_rows_t *r, const void *y, const void *dy, void *dx, void *dshortcut),
            (r, y, dy, dx, dshortcut))
{
    frozen_rows(r, y, dy, dx, dshortcut, true);
}

void norm_rows_frozen_backward(const norm_rows_t *rows, const void *y, const void *dy, void *dx,
                               void *dshortcut)
{
    if (rows->narrow)
        frozen_narrow(rows, y, dy, dx, dshortcut);
    else
        frozen_wide(rows, y, dy, dx, dshortcut);
}
