/* Batch norm's passes over memory, each over some rows (all channels of a cell). What was fused into it is
 * done in the same passes, with the operations of the operators one after another, so that bits are theirs.
 *
 * Bytes of an element that have to move, of tensors that no cache holds; in brackets by the operators one
 * after another. A store to a line that was not read counts twice.
 *
 *                        sums   forward   sums of gradients   backward
 *   alone                4      12        8                   12
 *   with ReLU            4      12 (20)   8 (20)              12
 *   with add and ReLU    4      16 (32)   16 (36)             12
 *
 * Tensors lie in memory as float32, or all of them as bfloat16, and half of that has to move: what is
 * computed stays the same, of widened values, and is rounded where it is written. */
#ifndef KERNELS_CPU_BATCH_NORM_ROWS_H
#define KERNELS_CPU_BATCH_NORM_ROWS_H

#include <stdbool.h>
#include <stdint.h>

enum { NORM_MASK_ROWS = 32 }; /* rows in one word of the mask */

/* y = (x − mean) · scale + beta, plus shortcut, then ReLU. */
typedef struct norm_rows {
    int64_t n_rows, n_c;
    const void *x;
    const void *shortcut; /* NULL: none */
    bool narrow;          /* x, shortcut, y and their gradients are bfloat16 */
    bool relu;
    /* With a shortcut and ReLU: bit r of word [i][c] says that y of row 32·i + r is above 0. Forward leaves
     * it out where it is NULL. Without a shortcut backward needs none: it computes y again. */
    uint32_t *mask;
    const float *mean, *scale, *beta; /* [c] */
} norm_rows_t;

/* sum[0..c) = Σ x; sum[c..2c) = Σ (x − m)², m the rows' own mean. */
void norm_rows_sum(const norm_rows_t *rows, float *sum);

/* y may be x. */
void norm_rows_forward(const norm_rows_t *rows, void *y);

/* With g = dy where ReLU let y pass and 0 elsewhere: sum[0..c) = Σ g, sum[c..2c) = Σ g·(x − mean), and
 * dshortcut = g unless it is NULL. */
void norm_rows_sum_gradients(const norm_rows_t *rows, const void *dy, void *dshortcut, float *sum);

/* dx = scale · (g − shift − (x − mean) · slope); dx may be dy. */
void norm_rows_backward(const norm_rows_t *rows, const void *dy, const float *shift, const float *slope,
                        void *dx);

#endif
