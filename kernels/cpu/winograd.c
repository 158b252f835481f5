#include "kernels/cpu/winograd.h"

#include <string.h>

#include "kernels/cpu/loop.h"

typedef float vec_t __attribute__((vector_size(4 * WINOGRAD_LANES), aligned(4), may_alias));

#define INLINE __attribute__((always_inline)) static inline

/* One dimension; in and out have their elements `step` apart. */
INLINE void input_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t d0 = in[0], d1 = in[step], d2 = in[2 * step], d3 = in[3 * step], d4 = in[4 * step],
                d5 = in[5 * step];
    const vec_t a = d4 - 4 * d2, b = d3 - 4 * d1, c = d4 - d2, d = 2 * (d3 - d1);
    out[0] = 4 * d0 - 5 * d2 + d4;
    out[step] = a + b;
    out[2 * step] = a - b;
    out[3 * step] = c + d;
    out[4 * step] = c - d;
    out[5 * step] = 4 * d1 - 5 * d3 + d5;
}

INLINE void output_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t s = in[step] + in[2 * step], d = in[step] - in[2 * step];
    const vec_t t = in[3 * step] + in[4 * step], e = in[3 * step] - in[4 * step];
    out[0] = in[0] + s + t;
    out[step] = d + 2 * e;
    out[2 * step] = s + 4 * t;
    out[3 * step] = d + 8 * e + in[5 * step];
}

INLINE void gradient_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t y0 = in[0], y1 = in[step], y2 = in[2 * step], y3 = in[3 * step];
    const vec_t even = y0 + y2, odd = y1 + y3, wide = y0 + 4 * y2, far = 2 * y1 + 8 * y3;
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
    const vec_t even = (g0 + g2) * (-1.0f / 6), odd = g1 * (1.0f / 6);
    const vec_t wide = g0 * (1.0f / 24) + g2 * (1.0f / 6), far = g1 * (1.0f / 12);
    out[0] = g0 * 0.25f;
    out[step] = even - odd;
    out[2 * step] = even + odd;
    out[3 * step] = wide + far;
    out[4 * step] = wide - far;
    out[5 * step] = g2;
}

INLINE void filter_gradient_1d(const vec_t *in, int step, vec_t *out)
{
    const vec_t s = in[step] + in[2 * step], d = in[step] - in[2 * step];
    const vec_t t = in[3 * step] + in[4 * step], e = in[3 * step] - in[4 * step];
    out[0] = in[0] * 0.25f - s * (1.0f / 6) + t * (1.0f / 24);
    out[step] = e * (1.0f / 12) - d * (1.0f / 6);
    out[2 * step] = (t - s) * (1.0f / 6) + in[5 * step];
}

/* Both dimensions of [n_in][n_in] vectors, which lie in rows of WINOGRAD_IN: first down the columns, then
 * along the rows. */
#define BOTH(one, n_in, n_out, tile)                                                                         \
    do {                                                                                                     \
        for (int j = 0; j < (n_in); j++) one((tile) + j, WINOGRAD_IN, (tile) + j);                           \
        for (int i = 0; i < (n_out); i++) one((tile) + i * WINOGRAD_IN, 1, (tile) + i * WINOGRAD_IN);        \
    } while (0)

typedef vec_t tile_t[WINOGRAD_IN * WINOGRAD_IN];

/* Where tile `number` begins; its picture's first cell is *picture. */
INLINE void place(const winograd_grid_t *grid, int64_t number, int64_t *picture, int64_t *top, int64_t *left)
{
    int64_t per_picture = grid->tile_rows * grid->tile_columns;
    *picture = number / per_picture * grid->h * grid->w;
    *top = number % per_picture / grid->tile_columns * WINOGRAD_OUT - grid->pad;
    *left = number % grid->tile_columns * WINOGRAD_OUT - grid->pad;
}

/* The tile's cells, side×side; those outside are zeros. */
INLINE void locate(const winograd_grid_t *grid, const float *x, const float *zeros, int64_t number, int side,
                   const float **cell)
{
    int64_t picture, top, left;
    place(grid, number, &picture, &top, &left);
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) {
            int64_t h = top + i, w = left + j;
            int inside = h >= 0 && h < grid->h && w >= 0 && w < grid->w;
            cell[i * side + j] = inside ? x + (picture + h * grid->w + w) * grid->channels : zeros;
        }
}

WIDE_CLONES static void take_inputs(const float *const *cell, int64_t channels, float *matrices,
                                    int64_t plane)
{
    for (int64_t c = 0; c < channels; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_POINTS; i++) t[i] = *(const vec_t *)(cell[i] + c);
        BOTH(input_1d, WINOGRAD_IN, WINOGRAD_IN, t);
        for (int i = 0; i < WINOGRAD_POINTS; i++) *(vec_t *)(matrices + i * plane + c) = t[i];
    }
}

WIDE_CLONES static void take_outputs(const float *const *cell, int64_t channels, float *matrices,
                                     int64_t plane)
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

/* The first rows×columns cells of the tile, of rows w_stride apart. */
WIDE_CLONES static void put_outputs(const float *matrices, int64_t plane, const float *bias, float *y,
                                    int64_t channels, int64_t w_stride, const int *size)
{
    for (int64_t c = 0; c < channels; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_POINTS; i++) t[i] = *(const vec_t *)(matrices + i * plane + c);
        BOTH(output_1d, WINOGRAD_IN, WINOGRAD_OUT, t);
        if (bias)
            for (int i = 0; i < WINOGRAD_OUT * WINOGRAD_IN; i++) t[i] += *(const vec_t *)(bias + c);
        for (int i = 0; i < size[0]; i++)
            for (int j = 0; j < size[1]; j++)
                *(vec_t *)(y + i * w_stride + j * channels + c) = t[i * WINOGRAD_IN + j];
    }
}

WIDE_CLONES static void take_filter(const float *weight, int64_t n_c, int turned, float *matrices,
                                    int64_t plane)
{
    for (int64_t c = 0; c < n_c; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_TAPS; i++)
            t[i / 3 * WINOGRAD_IN + i % 3] =
                *(const vec_t *)(weight + (turned ? WINOGRAD_TAPS - 1 - i : i) * n_c + c);
        BOTH(filter_1d, 3, WINOGRAD_IN, t);
        for (int i = 0; i < WINOGRAD_POINTS; i++) *(vec_t *)(matrices + i * plane + c) = t[i];
    }
}

WIDE_CLONES static void put_filter(const float *matrices, int64_t plane, int64_t n_c, float *dweight)
{
    for (int64_t c = 0; c < n_c; c += WINOGRAD_LANES) {
        tile_t t;
        for (int i = 0; i < WINOGRAD_POINTS; i++) t[i] = *(const vec_t *)(matrices + i * plane + c);
        BOTH(filter_gradient_1d, WINOGRAD_IN, 3, t);
        for (int i = 0; i < WINOGRAD_TAPS; i++)
            *(vec_t *)(dweight + i * n_c + c) = t[i / 3 * WINOGRAD_IN + i % 3];
    }
}

void winograd_take_inputs(const winograd_grid_t *grid, const float *x, const float *zeros, int64_t first,
                          int64_t count, float *matrices, int64_t plane)
{
#pragma omp parallel for schedule(static) if (count * grid->channels > LOOP_FORK_MIN / WINOGRAD_POINTS)
    for (int64_t i = 0; i < count; i++) {
        const float *cell[WINOGRAD_POINTS];
        locate(grid, x, zeros, first + i, WINOGRAD_IN, cell);
        take_inputs(cell, grid->channels, matrices + i * grid->channels, plane);
    }
}

void winograd_take_outputs(const winograd_grid_t *grid, const float *dy, const float *zeros, int64_t first,
                           int64_t count, float *matrices, int64_t plane)
{
#pragma omp parallel for schedule(static) if (count * grid->channels > LOOP_FORK_MIN / WINOGRAD_POINTS)
    for (int64_t i = 0; i < count; i++) {
        const float *cell[WINOGRAD_OUT * WINOGRAD_OUT];
        locate(grid, dy, zeros, first + i, WINOGRAD_OUT, cell);
        take_outputs(cell, grid->channels, matrices + i * grid->channels, plane);
    }
}

void winograd_put_outputs(const winograd_grid_t *grid, const float *matrices, int64_t plane,
                          const float *bias, int64_t first, int64_t count, float *y)
{
#pragma omp parallel for schedule(static) if (count * grid->channels > LOOP_FORK_MIN / WINOGRAD_POINTS)
    for (int64_t i = 0; i < count; i++) {
        int64_t picture, top, left, n_c = grid->channels;
        place(grid, first + i, &picture, &top, &left);
        const int size[2] = {(int)loop_count(top, grid->h, WINOGRAD_OUT),
                             (int)loop_count(left, grid->w, WINOGRAD_OUT)};
        put_outputs(matrices + i * n_c, plane, bias, y + (picture + top * grid->w + left) * n_c, n_c,
                    grid->w * n_c, size);
    }
}

void winograd_take_filters(const float *weight, int64_t k, int64_t c, int turned, float *matrices,
                           int64_t plane)
{
#pragma omp parallel for schedule(static) if (k * c > LOOP_FORK_MIN / WINOGRAD_POINTS)
    for (int64_t i = 0; i < k; i++)
        take_filter(weight + i * WINOGRAD_TAPS * c, c, turned, matrices + i * c, plane);
}

void winograd_put_filters(const float *matrices, int64_t plane, int64_t k, int64_t c, float *dweight)
{
#pragma omp parallel for schedule(static) if (k * c > LOOP_FORK_MIN / WINOGRAD_POINTS)
    for (int64_t i = 0; i < k; i++) put_filter(matrices + i * c, plane, c, dweight + i * WINOGRAD_TAPS * c);
}
