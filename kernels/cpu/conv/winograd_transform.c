/* SPDX-License-Identifier: MIT */
/* The transforms of F(4×4, 3×3) as vector code, 16 channels at a time. The products between them, and the
 * choice of chunks, are in winograd.c. */
#include "kernels/cpu/conv/winograd_transform.h"

#include "kernels/cpu/loop.h"

typedef float vec_t __attribute__((vector_size(4 * WINOGRAD_LANES), aligned(4), may_alias));

typedef int32_t ints_t __attribute__((vector_size(4 * WINOGRAD_LANES)));

#define INLINE __attribute__((always_inline)) static inline

/* The points are 0, ±A, ±B and ∞: with ±5/8 and ±3/2, whose squares are exact, results have half the error that they
 * have with ±1 and ±2, and a quarter of the largest (Barabasz et al., "Error Analysis and Improving the Accuracy of
 * Winograd Convolution for Deep Neural Networks", 2020, on the choice of points). */
#define A   0.625f
#define B   1.5f
#define A2  (A * A)
#define B2  (B * B)
#define G_0 (1 / (A2 * B2))
#define G_A (1 / (2 * A2 * (A2 - B2)))
#define G_B (1 / (2 * B2 * (B2 - A2)))

/* One dimension; elements of in and out are `step` apart. */
INLINE void input_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t d0 = in[0], d1 = in[step], d2 = in[2 * step], d3 = in[3 * step], d4 = in[4 * step],
                d5 = in[5 * step];
    const vec_t a = d4 - B2 * d2, b = A * (d3 - B2 * d1), c = d4 - A2 * d2, d = B * (d3 - A2 * d1);
    out[0] = (A2 * B2) * d0 - (A2 + B2) * d2 + d4;
    out[step] = a + b;
    out[2 * step] = a - b;
    out[3 * step] = c + d;
    out[4 * step] = c - d;
    out[5 * step] = (A2 * B2) * d1 - (A2 + B2) * d3 + d5;
}

INLINE void output_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t s = in[step] + in[2 * step], d = in[step] - in[2 * step];
    const vec_t t = in[3 * step] + in[4 * step], e = in[3 * step] - in[4 * step];
    out[0] = in[0] + s + t;
    out[step] = A * d + B * e;
    out[2 * step] = A2 * s + B2 * t;
    out[3 * step] = (A2 * A) * d + (B2 * B) * e + in[5 * step];
}

INLINE void gradient_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t y0 = in[0], y1 = in[step], y2 = in[2 * step], y3 = in[3 * step];
    const vec_t even = y0 + A2 * y2, odd = A * y1 + (A2 * A) * y3, wide = y0 + B2 * y2,
                far = B * y1 + (B2 * B) * y3;
    out[0] = y0;
    out[step] = even + odd;
    out[2 * step] = even - odd;
    out[3 * step] = wide + far;
    out[4 * step] = wide - far;
    out[5 * step] = y3;
}

INLINE void filter_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t g0 = in[0], g1 = in[step], g2 = in[2 * step];
    const vec_t even = G_A * g0 + (G_A * A2) * g2, odd = (G_A * A) * g1;
    const vec_t wide = G_B * g0 + (G_B * B2) * g2, far = (G_B * B) * g1;
    out[0] = G_0 * g0;
    out[step] = even + odd;
    out[2 * step] = even - odd;
    out[3 * step] = wide + far;
    out[4 * step] = wide - far;
    out[5 * step] = g2;
}

INLINE void filter_gradient_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t s = in[step] + in[2 * step], d = in[step] - in[2 * step];
    const vec_t t = in[3 * step] + in[4 * step], e = in[3 * step] - in[4 * step];
    out[0] = G_0 * in[0] + G_A * s + G_B * t;
    out[step] = (G_A * A) * d + (G_B * B) * e;
    out[2 * step] = (G_A * A2) * s + (G_B * B2) * t + in[5 * step];
}

/* Both dimensions of [n_in][n_in] vectors stored in rows of WINOGRAD_IN: first down the columns, then along
 * the rows. */
#define BOTH(one, n_in, n_out, tile)                                                                         \
    do {                                                                                                     \
        for (int j = 0; j < (n_in); j++) one((tile) + j, WINOGRAD_IN, (tile) + j);                           \
        for (int i = 0; i < (n_out); i++) one((tile) + i * WINOGRAD_IN, 1, (tile) + i * WINOGRAD_IN);        \
    } while (0)

typedef vec_t tile_t[WINOGRAD_IN * WINOGRAD_IN];

/* The position of tile `number`; *image is the index of its image's first pixel. */
INLINE void place(const winograd_grid_t *grid, int64_t number, int64_t *image, int64_t *top, int64_t *left)
{
    int64_t per_image = grid->tile_rows * grid->tile_columns;
    *image = number / per_image * grid->h * grid->w;
    *top = number % per_image / grid->tile_columns * WINOGRAD_OUT - grid->pad;
    *left = number % grid->tile_columns * WINOGRAD_OUT - grid->pad;
}

/* Pointers to the tile's side×side pixels; pixels outside the image point to zeros. */
INLINE void locate(const winograd_grid_t *grid, const float *x, const float *zeros, int64_t number, int side,
                   const float **cell)
{
    int64_t image, top, left;
    place(grid, number, &image, &top, &left);
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) {
            int64_t h = top + i, w = left + j;
            int inside = h >= 0 && h < grid->h && w >= 0 && w < grid->w;
            cell[i * side + j] = inside ? x + (image + h * grid->w + w) * grid->pitch : zeros;
        }
}

WIDE_CLONES(take_inputs, (const float *const *cell, int64_t channels, float *matrices, int64_t plane),
            (cell, channels, matrices, plane))
{
    for (int64_t c = 0; c < channels; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_POINTS; i++) t[i] = *(const vec_t *)(cell[i] + c);
        BOTH(input_1d, WINOGRAD_IN, WINOGRAD_IN, t);
        for (int i = 0; i < WINOGRAD_POINTS; i++) *(vec_t *)(matrices + i * plane + c) = t[i];
    }
}

WIDE_CLONES(take_outputs, (const float *const *cell, int64_t channels, float *matrices, int64_t plane),
            (cell, channels, matrices, plane))
{
    for (int64_t c = 0; c < channels; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_OUT; i++)
            for (int j = 0; j < WINOGRAD_OUT; j++)
                t[i * WINOGRAD_IN + j] = *(const vec_t *)(cell[i * WINOGRAD_OUT + j] + c);
        BOTH(gradient_1d, WINOGRAD_OUT, WINOGRAD_IN, t);
        for (int i = 0; i < WINOGRAD_POINTS; i++) *(vec_t *)(matrices + i * plane + c) = t[i];
    }
}

/* Writes the first size[0]×size[1] pixels of the tile. */
WIDE_CLONES(put_outputs,
            (const float *matrices, int64_t plane, const winograd_output_t *how, float *y,
             const winograd_grid_t *grid, const int *size),
            (matrices, plane, how, y, grid, size))
{
    for (int64_t c = 0; c < grid->channels; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_POINTS; i++) t[i] = *(const vec_t *)(matrices + i * plane + c);
        BOTH(output_1d, WINOGRAD_IN, WINOGRAD_OUT, t);
        if (how->bias)
            for (int i = 0; i < WINOGRAD_OUT * WINOGRAD_IN; i++) t[i] += *(const vec_t *)(how->bias + c);
        if (how->relu)
            for (int i = 0; i < WINOGRAD_OUT * WINOGRAD_IN; i++)
                t[i] = (vec_t)((ints_t)t[i] & ~(ints_t)(t[i] <= 0));
        for (int i = 0; i < size[0]; i++)
            for (int j = 0; j < size[1]; j++) {
                vec_t *to = (vec_t *)(y + (i * grid->w + j) * grid->pitch + c);
                if (how->add) t[i * WINOGRAD_IN + j] += *to;
                *to = t[i * WINOGRAD_IN + j];
            }
    }
}

/* One row of the filter matrices. */
WIDE_CLONES(take_filter,
            (const winograd_filters_t *f, const float *taps, bool turned, float *matrices, int64_t plane),
            (f, taps, turned, matrices, plane))
{
    for (int64_t c = 0; c < f->columns; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_TAPS; i++)
            t[i / 3 * WINOGRAD_IN + i % 3] =
                *(const vec_t *)(taps + (turned ? WINOGRAD_TAPS - 1 - i : i) * f->tap + c);
        BOTH(filter_1d, 3, WINOGRAD_IN, t);
        for (int i = 0; i < WINOGRAD_POINTS; i++) *(vec_t *)(matrices + i * plane + c) = t[i];
    }
}

WIDE_CLONES(put_filter,
            (const winograd_filters_t *f, const float *matrices, int64_t plane, bool add, float *taps),
            (f, matrices, plane, add, taps))
{
    for (int64_t c = 0; c < f->columns; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_POINTS; i++) t[i] = *(const vec_t *)(matrices + i * plane + c);
        BOTH(filter_gradient_1d, WINOGRAD_IN, 3, t);
        for (int i = 0; i < WINOGRAD_TAPS; i++) {
            vec_t *to = (vec_t *)(taps + i * f->tap + c);
            const vec_t gradient = t[i / 3 * WINOGRAD_IN + i % 3];
            if (add)
                *to += gradient;
            else
                *to = gradient;
        }
    }
}

/* Whether n tiles or rows are worth a fork. */
INLINE bool worth_forking(int64_t n, int64_t channels)
{
    return n * channels * WINOGRAD_POINTS > LOOP_FORK_MIN;
}

void winograd_take_inputs(const winograd_grid_t *grid, const float *x, const float *zeros, int64_t first,
                          int64_t count, winograd_matrices_t out)
{
#pragma omp parallel for schedule(static) if (worth_forking(count, grid->channels))
    for (int64_t i = 0; i < count; i++) {
        const float *cell[WINOGRAD_POINTS];
        locate(grid, x, zeros, first + i, WINOGRAD_IN, cell);
        take_inputs(cell, grid->channels, out.data + i * grid->channels, out.plane);
    }
}

void winograd_take_outputs(const winograd_grid_t *grid, const float *dy, const float *zeros, int64_t first,
                           int64_t count, winograd_matrices_t out)
{
#pragma omp parallel for schedule(static) if (worth_forking(count, grid->channels))
    for (int64_t i = 0; i < count; i++) {
        const float *cell[WINOGRAD_OUT * WINOGRAD_OUT];
        locate(grid, dy, zeros, first + i, WINOGRAD_OUT, cell);
        take_outputs(cell, grid->channels, out.data + i * grid->channels, out.plane);
    }
}

void winograd_put_outputs(const winograd_grid_t *grid, winograd_matrices_t in, const winograd_output_t *how,
                          int64_t first, int64_t count, float *y)
{
#pragma omp parallel for schedule(static) if (worth_forking(count, grid->channels))
    for (int64_t i = 0; i < count; i++) {
        int64_t image, top, left;
        place(grid, first + i, &image, &top, &left);
        const int size[2] = {(int)loop_count(top, grid->h, WINOGRAD_OUT),
                             (int)loop_count(left, grid->w, WINOGRAD_OUT)};
        put_outputs(in.data + i * grid->channels, in.plane, how,
                    y + (image + top * grid->w + left) * grid->pitch, grid, size);
    }
}

void winograd_take_filters(const winograd_filters_t *f, const float *taps, bool turned,
                           winograd_matrices_t out)
{
#pragma omp parallel for schedule(static) if (worth_forking(f->rows, f->columns))
    for (int64_t i = 0; i < f->rows; i++)
        take_filter(f, taps + i * f->row, turned, out.data + i * f->columns, out.plane);
}

void winograd_put_filters(const winograd_filters_t *f, winograd_matrices_t in, bool add, float *taps)
{
#pragma omp parallel for schedule(static) if (worth_forking(f->rows, f->columns))
    for (int64_t i = 0; i < f->rows; i++)
        put_filter(f, in.data + i * f->columns, in.plane, add, taps + i * f->row);
}
