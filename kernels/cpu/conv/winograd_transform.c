/* SPDX-License-Identifier: MIT */
/* The transforms of F(4×4, 3×3) as vector code, 16 channels at a time. The products between them, and the
 * choice of chunks, are in winograd.c. */
#include "kernels/cpu/conv/winograd_transform.h"

#include "kernels/cpu/direct/direct.h"
#include "kernels/cpu/loop.h"

typedef float vec_t __attribute__((vector_size(4 * WINOGRAD_LANES), aligned(4), may_alias));
typedef int32_t ints_t __attribute__((vector_size(4 * WINOGRAD_LANES)));

#define INLINE __attribute__((always_inline)) static inline

/* The points are 0, ±A, ±B and ∞. With ±5/8 and ±3/2, whose squares are exact, errors are half of those with ±1 and ±2
 * (on the choice: Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution", 2020). */
#define A   0.625f
#define B   1.5f
#define A2  (A * A)
#define B2  (B * B)
#define G_0 (1 / (A2 * B2))
#define G_A (1 / (2 * A2 * (A2 - B2)))
#define G_B (1 / (2 * B2 * (B2 - A2)))

/* One dimension. */
INLINE void input_1d(const vec_t *in, vec_t *out)
{
    const vec_t d0 = in[0], d1 = in[1], d2 = in[2], d3 = in[3], d4 = in[4], d5 = in[5];
    const vec_t a = d4 - B2 * d2, b = A * (d3 - B2 * d1), c = d4 - A2 * d2, d = B * (d3 - A2 * d1);
    out[0] = (A2 * B2) * d0 - (A2 + B2) * d2 + d4;
    out[1] = a + b;
    out[2] = a - b;
    out[3] = c + d;
    out[4] = c - d;
    out[5] = (A2 * B2) * d1 - (A2 + B2) * d3 + d5;
}

INLINE void output_1d(const vec_t *in, vec_t *out)
{
    const vec_t s = in[1] + in[2], d = in[1] - in[2];
    const vec_t t = in[3] + in[4], e = in[3] - in[4];
    out[0] = in[0] + s + t;
    out[1] = A * d + B * e;
    out[2] = A2 * s + B2 * t;
    out[3] = (A2 * A) * d + (B2 * B) * e + in[5];
}

INLINE void gradient_1d(const vec_t *in, vec_t *out)
{
    const vec_t y0 = in[0], y1 = in[1], y2 = in[2], y3 = in[3];
    const vec_t even = y0 + A2 * y2, odd = A * y1 + (A2 * A) * y3, wide = y0 + B2 * y2,
                far = B * y1 + (B2 * B) * y3;
    out[0] = y0;
    out[1] = even + odd;
    out[2] = even - odd;
    out[3] = wide + far;
    out[4] = wide - far;
    out[5] = y3;
}

INLINE void filter_1d(const vec_t *in, vec_t *out)
{
    const vec_t g0 = in[0], g1 = in[1], g2 = in[2];
    const vec_t even = G_A * g0 + (G_A * A2) * g2, odd = (G_A * A) * g1;
    const vec_t wide = G_B * g0 + (G_B * B2) * g2, far = (G_B * B) * g1;
    out[0] = G_0 * g0;
    out[1] = even + odd;
    out[2] = even - odd;
    out[3] = wide + far;
    out[4] = wide - far;
    out[5] = g2;
}

INLINE void filter_gradient_1d(const vec_t *in, vec_t *out)
{
    const vec_t s = in[1] + in[2], d = in[1] - in[2];
    const vec_t t = in[3] + in[4], e = in[3] - in[4];
    out[0] = G_0 * in[0] + G_A * s + G_B * t;
    out[1] = (G_A * A) * d + (G_B * B) * e;
    out[2] = (G_A * A2) * s + (G_B * B2) * t + in[5];
}

/* Of half tiles. The filters are those of whole ones, which makes products at 0 and ±A differ by these factors. */
#define F_0 (-B2)
#define F_A (A2 - B2)

INLINE void half_input_1d(const vec_t *in, vec_t *out)
{
    const vec_t d0 = in[0], d1 = in[1], d2 = in[2], d3 = in[3];
    const vec_t a = A * d1;
    out[0] = d2 - A2 * d0;
    out[1] = d2 + a;
    out[2] = d2 - a;
    out[5] = d3 - A2 * d1;
}

INLINE void half_output_1d(const vec_t *in, vec_t *out)
{
    const vec_t s = in[1] + in[2], d = in[1] - in[2];
    out[0] = F_0 * in[0] + F_A * s;
    out[1] = (F_A * A) * d + in[5];
}

INLINE void half_gradient_1d(const vec_t *in, vec_t *out)
{
    const vec_t y0 = in[0], y1 = in[1], even = F_A * y0, odd = (F_A * A) * y1;
    out[0] = F_0 * y0;
    out[1] = even + odd;
    out[2] = even - odd;
    out[5] = y1;
}

/* Whether points i of a dimension of a half tile are used: all but ±B. */
INLINE bool is_used(int i, bool half)
{
    return !half || i < 3 || i == 5;
}

bool winograd_uses(const winograd_grid_t *grid, int point)
{
    return is_used(point / WINOGRAD_IN, grid->half_h) && is_used(point % WINOGRAD_IN, grid->half_w);
}

typedef vec_t tile_t[WINOGRAD_IN * WINOGRAD_IN];

/* The position of tile `number`; *image is the index of its image's first pixel. */
INLINE void place(const winograd_grid_t *grid, int64_t number, int64_t *image, int64_t *top, int64_t *left)
{
    int64_t per_image = grid->tile_rows * grid->tile_columns;
    *image = number / per_image * grid->h * grid->w;
    *top = grid->top + number % per_image / grid->tile_columns * WINOGRAD_OUT - grid->pad;
    *left = grid->left + number % grid->tile_columns * WINOGRAD_OUT - grid->pad;
}

/* Pointers to the tile's side×side pixels, in rows of WINOGRAD_IN; pixels outside the image point to zeros. */
INLINE void locate(const winograd_grid_t *grid, const float *x, const float *zeros, int64_t number, int side,
                   const float **cell)
{
    int64_t image, top, left;
    place(grid, number, &image, &top, &left);
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) {
            int64_t h = top + i, w = left + j;
            int inside = h >= 0 && h < grid->h && w >= 0 && w < grid->w;
            cell[i * WINOGRAD_IN + j] = inside ? x + (image + h * grid->w + w) * grid->pitch : zeros;
        }
}

/* Pixels of a dimension that a tile reads, and writes. */
INLINE int reads(bool half)
{
    return half ? WINOGRAD_IN - 2 : WINOGRAD_IN;
}

INLINE int writes(bool half)
{
    return half ? WINOGRAD_OUT - 2 : WINOGRAD_OUT;
}

/* Loops over a dimension, whose vectors are then registers. */
#define EACH(i, n) _Pragma("GCC unroll 6") for (int i = 0; i < (n); i++)

/* What the loops of a tile need. */
typedef struct job {
    const float *const *cell;
    int64_t channels;
    winograd_matrices_t matrices; /* from this tile's row on */
    float *y;
    const winograd_output_t *how;
    const winograd_grid_t *grid;
    int size[2]; /* pixels inside the image */
} job_t;

/* Where the row of a tile has channel c. */
INLINE float *column(const winograd_matrices_t *m, int64_t c)
{
    return m->data + (c >> m->panel_bits) * m->panel + (c & (((int64_t)1 << m->panel_bits) - 1));
}

/* Row i of a transformed tile goes to the matrices of its points. */
INLINE void store_row(const vec_t *row, int i, bool half_w, float *matrices, int64_t plane)
{
    EACH(j, WINOGRAD_IN)
    if (is_used(j, half_w)) *(vec_t *)(matrices + (i * WINOGRAD_IN + j) * plane) = row[j];
}

/* A tile of n_of(half) pixels a side: first down the columns, then along the rows. */
#define TAKE(name, n_of, whole, half)                                                                        \
    INLINE void name(const job_t *job, bool half_h, bool half_w)                                             \
    {                                                                                                        \
        for (int64_t c = 0; c < job->channels; c += WINOGRAD_LANES) {                                        \
            float *to = column(&job->matrices, c);                                                           \
            tile_t t;                                                                                        \
            for (int j = 0; j < n_of(half_w); j++) {                                                         \
                vec_t pixels[WINOGRAD_IN], out[WINOGRAD_IN];                                                 \
                EACH(i, n_of(half_h)) pixels[i] = *(const vec_t *)(job->cell[i * WINOGRAD_IN + j] + c);      \
                (half_h ? half : whole)(pixels, out);                                                        \
                EACH(i, WINOGRAD_IN)                                                                         \
                if (is_used(i, half_h)) t[i * WINOGRAD_IN + j] = out[i];                                     \
            }                                                                                                \
            for (int i = 0; i < WINOGRAD_IN; i++) {                                                          \
                vec_t out[WINOGRAD_IN];                                                                      \
                if (!is_used(i, half_h)) continue;                                                           \
                (half_w ? half : whole)(t + i * WINOGRAD_IN, out);                                           \
                store_row(out, i, half_w, to, job->matrices.plane);                                          \
            }                                                                                                \
        }                                                                                                    \
    }
TAKE(inputs, reads, input_1d, half_input_1d)
TAKE(outputs, writes, gradient_1d, half_gradient_1d)

/* The value of a pixel at `to`. */
INLINE void put_pixel(const winograd_output_t *how, int64_t c, vec_t value, float *to)
{
    if (how->bias) value += *(const vec_t *)(how->bias + c);
    if (how->relu) value = (vec_t)((ints_t)value & ~(ints_t)(value <= 0));
    if (how->add) value += *(const vec_t *)to;
    *(vec_t *)to = value;
}

INLINE void put(const job_t *job, bool half_h, bool half_w)
{
    const winograd_grid_t *grid = job->grid;
    for (int64_t c = 0; c < job->channels; c += WINOGRAD_LANES) {
        const float *from = column(&job->matrices, c);
        tile_t t;
        for (int j = 0; j < WINOGRAD_IN; j++) {
            vec_t in[WINOGRAD_IN], out[WINOGRAD_OUT];
            if (!is_used(j, half_w)) continue;
            EACH(i, WINOGRAD_IN)
            if (is_used(i, half_h))
                in[i] = *(const vec_t *)(from + (i * WINOGRAD_IN + j) * job->matrices.plane);
            (half_h ? half_output_1d : output_1d)(in, out);
            EACH(i, writes(half_h)) t[i * WINOGRAD_IN + j] = out[i];
        }
        for (int i = 0; i < job->size[0]; i++) {
            vec_t out[WINOGRAD_OUT];
            float *row = job->y + i * grid->w * grid->pitch + c;
            (half_w ? half_output_1d : output_1d)(t + i * WINOGRAD_IN, out);
            EACH(j, writes(half_w))
            if (j < job->size[1]) put_pixel(job->how, c, out[j], row + j * grid->pitch);
        }
    }
}

/* Makes the kind of tile a constant. */
#define BY_KIND(body, job, half_h, half_w)                                                                   \
    do {                                                                                                     \
        if (half_h && half_w)                                                                                \
            body(job, true, true);                                                                           \
        else if (half_h)                                                                                     \
            body(job, true, false);                                                                          \
        else if (half_w)                                                                                     \
            body(job, false, true);                                                                          \
        else                                                                                                 \
            body(job, false, false);                                                                         \
    } while (0)

WIDE_CLONES(take_inputs, (const job_t *job, bool half_h, bool half_w), (job, half_h, half_w))
{
    BY_KIND(inputs, job, half_h, half_w);
}

WIDE_CLONES(take_outputs, (const job_t *job, bool half_h, bool half_w), (job, half_h, half_w))
{
    BY_KIND(outputs, job, half_h, half_w);
}

WIDE_CLONES(put_outputs, (const job_t *job, bool half_h, bool half_w), (job, half_h, half_w))
{
    BY_KIND(put, job, half_h, half_w);
}

/* One row of the filter matrices, in panels. */
WIDE_CLONES(take_filter,
            (const winograd_filters_t *f, const float *taps, bool turned, float *matrices, int64_t plane),
            (f, taps, turned, matrices, plane))
{
    for (int64_t c = 0; c < f->columns; c += WINOGRAD_LANES) {
        float *to = matrices + c / DIRECT_PANEL * DIRECT_PANEL * f->rows + c % DIRECT_PANEL;
        tile_t t;
        for (int j = 0; j < 3; j++) {
            vec_t in[3], out[WINOGRAD_IN];
            EACH(i, 3)
            {
                const int tap = 3 * i + j;
                in[i] = *(const vec_t *)(taps + (turned ? WINOGRAD_TAPS - 1 - tap : tap) * f->tap + c);
            }
            filter_1d(in, out);
            EACH(i, WINOGRAD_IN) t[i * WINOGRAD_IN + j] = out[i];
        }
        for (int i = 0; i < WINOGRAD_IN; i++) {
            vec_t out[WINOGRAD_IN];
            filter_1d(t + i * WINOGRAD_IN, out);
            store_row(out, i, false, to, plane);
        }
    }
}

WIDE_CLONES(put_filter,
            (const winograd_filters_t *f, const float *matrices, int64_t plane, bool add, float *taps),
            (f, matrices, plane, add, taps))
{
    for (int64_t c = 0; c < f->columns; c += WINOGRAD_LANES) {
        const float *from = matrices + c / DIRECT_PANEL * DIRECT_PANEL * f->rows + c % DIRECT_PANEL;
        tile_t t;
        for (int j = 0; j < WINOGRAD_IN; j++) {
            vec_t in[WINOGRAD_IN], out[3];
            EACH(i, WINOGRAD_IN) in[i] = *(const vec_t *)(from + (i * WINOGRAD_IN + j) * plane);
            filter_gradient_1d(in, out);
            EACH(i, 3) t[i * WINOGRAD_IN + j] = out[i];
        }
        for (int i = 0; i < 3; i++) {
            vec_t out[3];
            filter_gradient_1d(t + i * WINOGRAD_IN, out);
            EACH(j, 3)
            {
                vec_t *to = (vec_t *)(taps + (3 * i + j) * f->tap + c);
                if (add) out[j] += *to;
                *to = out[j];
            }
        }
    }
}

void winograd_take_inputs(const winograd_grid_t *grid, const float *x, const float *zeros, int64_t first,
                          int64_t count, winograd_matrices_t out)
{
    for (int64_t i = 0; i < count; i++) {
        const float *cell[WINOGRAD_POINTS];
        locate(grid, x, zeros, first + i, WINOGRAD_IN, cell);
        take_inputs(
            &(job_t){.cell = cell, .channels = grid->channels, .matrices = winograd_rows_from(out, i)},
            grid->half_h, grid->half_w);
    }
}

void winograd_take_outputs(const winograd_grid_t *grid, const float *dy, const float *zeros, int64_t first,
                           int64_t count, winograd_matrices_t out)
{
    for (int64_t i = 0; i < count; i++) {
        const float *cell[WINOGRAD_POINTS];
        locate(grid, dy, zeros, first + i, WINOGRAD_OUT, cell);
        take_outputs(
            &(job_t){.cell = cell, .channels = grid->channels, .matrices = winograd_rows_from(out, i)},
            grid->half_h, grid->half_w);
    }
}

void winograd_put_outputs(const winograd_grid_t *grid, winograd_matrices_t in, const winograd_output_t *how,
                          int64_t first, int64_t count, float *y)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t image, top, left;
        place(grid, first + i, &image, &top, &left);
        const job_t job = {.channels = grid->channels,
                           .matrices = winograd_rows_from(in, i),
                           .y = y + (image + top * grid->w + left) * grid->pitch,
                           .how = how,
                           .grid = grid,
                           .size = {(int)loop_count(top, grid->h, writes(grid->half_h)),
                                    (int)loop_count(left, grid->w, writes(grid->half_w))}};
        put_outputs(&job, grid->half_h, grid->half_w);
    }
}

/* Whether n rows are worth a fork. */
INLINE bool worth_forking(int64_t n, int64_t channels)
{
    return n * channels * WINOGRAD_POINTS > LOOP_FORK_MIN;
}

void winograd_take_filters(const winograd_filters_t *f, const float *taps, bool turned,
                           winograd_matrices_t out)
{
#pragma omp parallel for schedule(static) if (worth_forking(f->rows, f->columns))
    for (int64_t i = 0; i < f->rows; i++)
        take_filter(f, taps + i * f->row, turned, out.data + i * DIRECT_PANEL, out.plane);
}

void winograd_put_filters(const winograd_filters_t *f, winograd_matrices_t in, bool add, float *taps)
{
#pragma omp parallel for schedule(static) if (worth_forking(f->rows, f->columns))
    for (int64_t i = 0; i < f->rows; i++)
        put_filter(f, in.data + i * DIRECT_PANEL, in.plane, add, taps + i * f->row);
}
