#include "kernels/cpu/batch_norm_rows.h"

#include <string.h>

#include "kernels/cpu/loop.h"

/* Which elements a row's loop must ask about, known when it is compiled. */
typedef enum gate {
    GATE_NONE,
    GATE_COMPUTED, /* y is computed again: nothing was added to it */
    GATE_MASKED
} gate_t;

#define INLINE static inline __attribute__((always_inline))

static gate_t gate_of(const norm_rows_t *r)
{
    return !r->relu ? GATE_NONE : r->mask ? GATE_MASKED : GATE_COMPUTED;
}

/* Rows are added to a sum in their order; four at a time, as a sum that goes to memory and back for each
 * costs more than what is added to it. */
INLINE void sum_some(float *restrict sum, const float *restrict x, int64_t n_c, int n_rows)
{
    for (int64_t c = 0; c < n_c; c++) {
        float s = sum[c];
        for (int i = 0; i < n_rows; i++) s += x[i * n_c + c];
        sum[c] = s;
    }
}

INLINE void sum_some_squares(float *restrict squares, const float *restrict sum, float share,
                             const float *restrict x, int64_t n_c, int n_rows)
{
    for (int64_t c = 0; c < n_c; c++) {
        float s = squares[c], mean = sum[c] * share;
        for (int i = 0; i < n_rows; i++) s += (x[i * n_c + c] - mean) * (x[i * n_c + c] - mean);
        squares[c] = s;
    }
}

/* The block is in cache the second time. */
LOOP_CLONES void norm_rows_sum(float *restrict sum, const float *restrict x, int64_t n_rows, int64_t n_c)
{
    float *restrict squares = sum + n_c, share = 1 / (float)n_rows;
    int64_t row;
    for (int64_t c = 0; c < n_c; c++) sum[c] = squares[c] = 0;
    for (row = 0; row + 4 <= n_rows; row += 4) sum_some(sum, x + row * n_c, n_c, 4);
    for (; row < n_rows; row++) sum_some(sum, x + row * n_c, n_c, 1);
    for (row = 0; row + 4 <= n_rows; row += 4) sum_some_squares(squares, sum, share, x + row * n_c, n_c, 4);
    for (; row < n_rows; row++) sum_some_squares(squares, sum, share, x + row * n_c, n_c, 1);
}

/* y may be x, and element c depends on element c alone, which `omp simd` states. */
INLINE void forward_row(const norm_rows_t *r, int64_t row, float *y, bool add, bool relu, bool keep)
{
    int64_t n_c = r->n_c;
    const float *x = r->x + row * n_c, *shortcut = add ? r->shortcut + row * n_c : NULL;
    const float *mean = r->mean, *scale = r->scale, *beta = r->beta;
    uint32_t *mask = keep ? r->mask + row / NORM_MASK_ROWS * n_c : NULL, bit = 1u << row % NORM_MASK_ROWS;
    y += row * n_c;
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float value = (x[c] - mean[c]) * scale[c] + beta[c];
        if (add) value += shortcut[c];
        if (relu) value = value <= 0 ? 0 : value; /* asked this way round, NaN stays */
        if (keep) mask[c] |= value > 0 ? bit : 0;
        y[c] = value;
    }
}

LOOP_CLONES void norm_rows_forward(const norm_rows_t *rows, float *y)
{
    const norm_rows_t r = *rows;
    bool keep = r.mask && r.relu;
    if (keep)
        memset(r.mask, 0,
               (size_t)((r.n_rows + NORM_MASK_ROWS - 1) / NORM_MASK_ROWS * r.n_c) * sizeof *r.mask);
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (keep)
            forward_row(&r, row, y, true, true, true);
        else if (r.shortcut && r.relu)
            forward_row(&r, row, y, true, true, false);
        else if (r.shortcut)
            forward_row(&r, row, y, true, false, false);
        else if (r.relu)
            forward_row(&r, row, y, false, true, false);
        else
            forward_row(&r, row, y, false, false, false);
    }
}

/* What ReLU lets through of one element's gradient; off = x − mean. */
INLINE float gated(gate_t gate, float dy, float off, float scale, float beta, uint32_t in_mask)
{
    if (gate == GATE_COMPUTED) return off * scale + beta > 0 ? dy : 0;
    if (gate == GATE_MASKED) return in_mask ? dy : 0;
    return dy;
}

INLINE void sum_gradients_row(const norm_rows_t *r, int64_t row, const float *dy, float *dshortcut,
                              float *sum, gate_t gate, bool pass_on)
{
    int64_t n_c = r->n_c;
    const float *x = r->x + row * n_c, *mean = r->mean, *scale = r->scale, *beta = r->beta;
    const uint32_t *mask = gate == GATE_MASKED ? r->mask + row / NORM_MASK_ROWS * n_c : NULL;
    uint32_t bit = 1u << row % NORM_MASK_ROWS;
    float *product = sum + n_c;
    dy += row * n_c;
    if (pass_on) dshortcut += row * n_c;
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float off = x[c] - mean[c];
        float g = gated(gate, dy[c], off, scale[c], beta[c], gate == GATE_MASKED ? mask[c] & bit : 0);
        if (pass_on) dshortcut[c] = g;
        sum[c] += g;
        product[c] += g * off;
    }
}

LOOP_CLONES void norm_rows_sum_gradients(const norm_rows_t *rows, const float *dy, float *dshortcut,
                                         float *sum)
{
    const norm_rows_t r = *rows;
    gate_t gate = gate_of(&r);
    for (int64_t i = 0; i < 2 * r.n_c; i++) sum[i] = 0;
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (gate == GATE_MASKED && dshortcut)
            sum_gradients_row(&r, row, dy, dshortcut, sum, GATE_MASKED, true);
        else if (gate == GATE_MASKED)
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_MASKED, false);
        else if (gate == GATE_COMPUTED)
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_COMPUTED, false);
        else if (dshortcut)
            sum_gradients_row(&r, row, dy, dshortcut, sum, GATE_NONE, true);
        else
            sum_gradients_row(&r, row, dy, NULL, sum, GATE_NONE, false);
    }
}

INLINE void backward_row(const norm_rows_t *r, int64_t row, const float *dy, const float *shift,
                         const float *slope, float *dx, gate_t gate)
{
    int64_t n_c = r->n_c;
    const float *x = r->x + row * n_c, *mean = r->mean, *scale = r->scale, *beta = r->beta;
    const uint32_t *mask = gate == GATE_MASKED ? r->mask + row / NORM_MASK_ROWS * n_c : NULL;
    uint32_t bit = 1u << row % NORM_MASK_ROWS;
    dy += row * n_c, dx += row * n_c;
#pragma omp simd
    for (int64_t c = 0; c < n_c; c++) {
        float off = x[c] - mean[c];
        float g = gated(gate, dy[c], off, scale[c], beta[c], gate == GATE_MASKED ? mask[c] & bit : 0);
        dx[c] = scale[c] * (g - shift[c] - off * slope[c]);
    }
}

LOOP_CLONES void norm_rows_backward(const norm_rows_t *rows, const float *dy, const float *shift,
                                    const float *slope, float *dx)
{
    const norm_rows_t r = *rows;
    gate_t gate = gate_of(&r);
    for (int64_t row = 0; row < r.n_rows; row++) {
        if (gate == GATE_MASKED)
            backward_row(&r, row, dy, shift, slope, dx, GATE_MASKED);
        else if (gate == GATE_COMPUTED)
            backward_row(&r, row, dy, shift, slope, dx, GATE_COMPUTED);
        else
            backward_row(&r, row, dy, shift, slope, dx, GATE_NONE);
    }
}
