/* SPDX-License-Identifier: MIT */
/* Batch norm's passes over memory, each over some rows (all channels of a pixel). Fused operators are applied
 * in the same passes, with the same operations in the same order as the separate operators, so the results
 * are bitwise equal.
 *
 * Bytes per element to move, for tensors larger than any cache; in brackets with separate operators. A store
 * to a line that was not read counts twice.
 *
 *                        sums   forward   sums of gradients   backward
 *   alone                4      12        8                   12
 *   with ReLU            4      12 (20)   8 (20)              12
 *   with add and ReLU    4      16 (32)   16 (36)             12
 *
 * Frozen, there are no sums, and backward takes 12, with add and ReLU 20.
 *
 * Tensors are stored as float32, or all of them as bfloat16, which halves these figures: arithmetic is the
 * same, on widened values, and results are rounded when they are written. */
#ifndef KERNELS_CPU_BATCH_NORM_ROWS_H
#define KERNELS_CPU_BATCH_NORM_ROWS_H

#include <stdbool.h>
#include <stdint.h>

enum { NORM_MASK_ROWS = 32 }; /* rows per mask word */

/* y = (x − mean) · scale + beta, plus shortcut, then ReLU. */
typedef struct norm_rows {
    int64_t n_rows, n_c;
    const void *x;
    const void *shortcut; /* NULL: none */
    bool narrow;          /* x, shortcut, y and their gradients are bfloat16 */
    bool relu;
    /* With a shortcut and ReLU: bit r of word [i][c] is set if y of row 32·i + r is above 0. If NULL, forward
     * does not write it. Without a shortcut backward does not need it: it recomputes y. */
    uint32_t *mask;
    const float *mean, *scale, *beta; /* [c] */
} norm_rows_t;

/* sum[0..c) = Σ x; sum[c..2c) = Σ (x − m)², where m is the mean of these rows. */
void norm_rows_sum(const norm_rows_t *rows, float *sum);

/* y may be x. */
void norm_rows_forward(const norm_rows_t *rows, void *y);

/* With g = dy where ReLU let y pass and 0 elsewhere: sum[0..c) = Σ g, sum[c..2c) = Σ g·(x − mean), and
 * dshortcut = g unless it is NULL. */
void norm_rows_sum_gradients(const norm_rows_t *rows, const void *dy, void *dshortcut, float *sum);

/* dx = scale · (g − shift − (x − mean) · slope); dx may be dy. */
void norm_rows_backward(const norm_rows_t *rows, const void *dy, const float *shift, const float *slope,
                        void *dx);

/* dx = scale · g and dshortcut = g, where g is dy, with ReLU 0 unless y is above 0. Reads y, with ReLU, scale and dy.
 * dx may be dy; dx and dshortcut may be NULL. */
void norm_rows_frozen_backward(const norm_rows_t *rows, const void *y, const void *dy, void *dx,
                               void *dshortcut);

#endif
