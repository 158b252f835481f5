/* SPDX-License-Identifier: MIT */
/* Creates, composes and inverts affine maps, draws random ones, and applies them to points, boxes, images (bilinear
 * sampling) and masks (nearest sampling). */
#include "data/transform/map.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "data/image/orient.h"

map_t map_crop(map_size_t in, image_rect_t part, map_size_t out, image_rect_t at, bool mirror)
{
    const double rows = part.height / at.height, cols = (mirror ? -part.width : part.width) / at.width;
    const double row_from = at.y + at.height / 2 - (double)out.height / 2,
                 col_from = at.x + at.width / 2 - (double)out.width / 2;
    return (map_t){.affine = {.matrix = {rows, 0, 0, cols},
                              .shift = {part.y + part.height / 2 - (double)in.height / 2 - rows * row_from,
                                        part.x + part.width / 2 - (double)in.width / 2 - cols * col_from}},
                   .out = out,
                   .in = in};
}

/* The columns of the matrix are the images of unit steps. Relative to the centres the shift is zero. */
map_t map_orient(int orientation, map_size_t stored)
{
    const int64_t w = stored.width, h = stored.height;
    const bool swaps = orient_swaps(orientation);
    const image_rect_t at = orient_to_stored(orientation, w, h, (image_rect_t){0, 0, 0, 0});
    const image_rect_t right = orient_to_stored(orientation, w, h, (image_rect_t){1, 0, 0, 0});
    const image_rect_t down = orient_to_stored(orientation, w, h, (image_rect_t){0, 1, 0, 0});
    return (map_t){
        .affine = {.matrix = {down.y - at.y, right.y - at.y, down.x - at.x, right.x - at.x}},
        .out = {swaps ? w : h, swaps ? h : w},
        .in = stored,
    };
}

map_t map_compose(const map_t *first, const map_t *second)
{
    const double *a = first->affine.matrix, *b = second->affine.matrix;
    const double *p = first->affine.shift, *q = second->affine.shift;
    ASSERT(first->in.height == second->out.height && first->in.width == second->out.width);
    return (map_t){
        .affine = {.matrix = {b[0] * a[0] + b[1] * a[2], b[0] * a[1] + b[1] * a[3], b[2] * a[0] + b[3] * a[2],
                              b[2] * a[1] + b[3] * a[3]},
                   .shift = {b[0] * p[0] + b[1] * p[1] + q[0], b[2] * p[0] + b[3] * p[1] + q[1]}},
        .out = first->out,
        .in = second->in,
    };
}

map_t map_invert(const map_t *map)
{
    const double *m = map->affine.matrix, *s = map->affine.shift;
    const double det = m[0] * m[3] - m[1] * m[2];
    ASSERT(det != 0);
    const double i[4] = {m[3] / det, -m[1] / det, -m[2] / det, m[0] / det};
    return (map_t){.affine = {.matrix = {i[0], i[1], i[2], i[3]},
                              .shift = {-i[0] * s[0] - i[1] * s[1], -i[2] * s[0] - i[3] * s[1]}},
                   .out = map->in,
                   .in = map->out};
}

map_point_t map_point(const map_t *map, double x, double y)
{
    const double *m = map->affine.matrix, *s = map->affine.shift;
    const double row = y - (double)map->out.height / 2, col = x - (double)map->out.width / 2;
    return (map_point_t){.x = m[2] * row + m[3] * col + s[1] + (double)map->in.width / 2,
                         .y = m[0] * row + m[1] * col + s[0] + (double)map->in.height / 2};
}

image_rect_t map_box(const map_t *map, image_rect_t box)
{
    const double *m = map->affine.matrix;
    const map_point_t centre = map_point(map, box.x + box.width / 2, box.y + box.height / 2);
    const double width = fabs(m[3]) * box.width + fabs(m[2]) * box.height,
                 height = fabs(m[1]) * box.width + fabs(m[0]) * box.height;
    return (image_rect_t){centre.x - width / 2, centre.y - height / 2, width, height};
}

void map_points(const map_t *map, const float *from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) {
        const map_point_t p = map_point(map, (double)from[2 * i], (double)from[2 * i + 1]);
        to[2 * i] = (float)p.x;
        to[2 * i + 1] = (float)p.y;
    }
}

/* The limits exclude a shear of 90° and a zoom by 0, which would leave nothing of the image. */
#define FIELD(name) offsetof(random_affine_ranges_t, name)
const opt_t random_affine_option_table[] = {
    {"augment-rotate", OPT_REAL, FIELD(rotate_deg), "0", 0, 180, NULL, "DEG",
     "random rotation of training images by up to ±DEG", OPT_MORE},
    {"augment-shift", OPT_REAL, FIELD(shift), "0", 0, 1, NULL, "FRACTION",
     "random translation by up to ±FRACTION of height and width; alone, by whole pixels", OPT_MORE},
    {"augment-shear", OPT_REAL, FIELD(shear_deg), "0", 0, 60, NULL, "DEG", "random shear by up to ±DEG",
     OPT_MORE},
    {"augment-zoom", OPT_REAL, FIELD(zoom), "0", 0, 0.9, NULL, "FRACTION",
     "random scaling of height and width, each by a factor of 1 ± FRACTION", OPT_MORE},
    {"augment-flip", OPT_FLAG, FIELD(flip), "false", 0, 0, NULL, NULL, "earlier name of --flip", OPT_HIDDEN},
};
const int n_random_affine_options = sizeof random_affine_option_table / sizeof random_affine_option_table[0];

bool random_affine_moves(const random_affine_ranges_t *ranges)
{
    return ranges->rotate_deg != 0 || ranges->shift != 0 || ranges->shear_deg != 0 || ranges->zoom != 0;
}

bool random_affine_active(const random_affine_ranges_t *ranges)
{
    return random_affine_moves(ranges) || ranges->flip;
}

/* In [-1, 1). */
static double draw_signed(rng_t *rng)
{
    return 2 * rng_uniform(rng) - 1;
}

random_affine_t random_affine_draw(const random_affine_ranges_t *ranges, uint64_t seed, int64_t epoch,
                                   int64_t index)
{
    enum { N_WORDS = 8 }; /* 7 words, rounded up to whole blocks */
    rng_t rng = rng_new(seed, RNG_AUGMENT, (uint64_t)index);
    rng.position = (uint64_t)epoch * N_WORDS;
    /* Separate statements, because the order of calls in initialisers is unspecified. */
    random_affine_t drawn;
    drawn.rotate_deg = ranges->rotate_deg * draw_signed(&rng);
    drawn.shift_rows = ranges->shift * draw_signed(&rng);
    drawn.shift_cols = ranges->shift * draw_signed(&rng);
    drawn.shear_deg = ranges->shear_deg * draw_signed(&rng);
    drawn.zoom_rows = 1 + ranges->zoom * draw_signed(&rng);
    drawn.zoom_cols = 1 + ranges->zoom * draw_signed(&rng);
    drawn.flip = rng_u32(&rng) >> 31 && ranges->flip;
    return drawn;
}

affine_t random_affine_matrix(const random_affine_t *drawn, int64_t height, int64_t width)
{
    const double rad = 3.14159265358979323846 / 180;
    double turn = drawn->rotate_deg * rad, both = (drawn->rotate_deg + drawn->shear_deg) * rad;
    double zoom_cols = drawn->flip ? -drawn->zoom_cols : drawn->zoom_cols;
    double shift_rows = drawn->shift_rows * (double)height, shift_cols = drawn->shift_cols * (double)width;
    return (affine_t){.matrix = {drawn->zoom_rows * cos(turn), -zoom_cols * sin(both),
                                 drawn->zoom_rows * sin(turn), zoom_cols * cos(both)},
                      .shift = {cos(turn) * shift_rows - sin(turn) * shift_cols,
                                sin(turn) * shift_rows + cos(turn) * shift_cols}};
}

/* Positions in the input are fixed-point with 32 fraction bits: steps add up without error, the integer part is a shift,
 * and the last bits of sin and cos are rounded away. Interior and border pixels of float images take separate loops. */
enum { FRACTION_BITS = 32 };

static int64_t to_fixed(double value)
{
    return llrint(value * 0x1p32);
}

/* Position of output pixel (i, j): row0 + i row_i + j row_j, col0 + i col_i + j col_j. */
typedef struct warp {
    int64_t row0, row_i, row_j, col0, col_i, col_j;
    int64_t out_height, out_width, height, width;
    int64_t row_end, col_end; /* the last row's and column's position */
} warp_t;

/* Converts offsets about the centres to rows and columns. */
static warp_t make_warp(const affine_t *map, map_size_t out, map_size_t in)
{
    const double *m = map->matrix;
    ASSERT(in.height > 0 && in.height < 1 << 26 && in.width > 0 && in.width < 1 << 26);
    double row_mid = (double)(out.height - 1) / 2, col_mid = (double)(out.width - 1) / 2;
    double row0 = (double)(in.height - 1) / 2 - m[0] * row_mid - m[1] * col_mid + map->shift[0];
    double col0 = (double)(in.width - 1) / 2 - m[2] * row_mid - m[3] * col_mid + map->shift[1];
    return (warp_t){.row0 = to_fixed(row0),
                    .row_i = to_fixed(m[0]),
                    .row_j = to_fixed(m[1]),
                    .col0 = to_fixed(col0),
                    .col_i = to_fixed(m[2]),
                    .col_j = to_fixed(m[3]),
                    .out_height = out.height,
                    .out_width = out.width,
                    .height = in.height,
                    .width = in.width,
                    .row_end = (in.height - 1) << FRACTION_BITS,
                    .col_end = (in.width - 1) << FRACTION_BITS};
}

/* The upper 24 bits of the fraction, which a float holds exactly. */
static inline float fraction_of(int64_t position)
{
    return (float)(int32_t)((uint32_t)position >> 8) * 0x1p-24f;
}

/* right, below: distances to the neighbours. A fraction of 0 yields the pixel itself, bit for bit. */
static inline void blend_pixels(const float *p, int64_t right, int64_t below, float col_part, float row_part,
                                int64_t channels, float *out)
{
    for (int64_t k = 0; k < channels; k++) {
        float upper = p[k] + col_part * (p[right + k] - p[k]);
        float lower = p[below + k] + col_part * (p[below + right + k] - p[below + k]);
        out[k] = upper + row_part * (lower - upper);
    }
}

static inline int64_t clamp_position(int64_t position, int64_t end)
{
    return position < 0 ? 0 : position > end ? end : position;
}

/* For any position: one outside moves to the border, and the last row and column are their own neighbours. */
static inline void sample_border(const warp_t *t, const float *in, int64_t row, int64_t col, int64_t channels,
                                 float *out)
{
    row = clamp_position(row, t->row_end);
    col = clamp_position(col, t->col_end);
    int64_t i = row >> FRACTION_BITS, j = col >> FRACTION_BITS;
    blend_pixels(in + (i * t->width + j) * channels, j < t->width - 1 ? channels : 0,
                 i < t->height - 1 ? t->width * channels : 0, fraction_of(col), fraction_of(row), channels,
                 out);
}

/* All four neighbours exist. A negative position is a huge unsigned one. */
static inline bool is_inside(const warp_t *t, int64_t row, int64_t col)
{
    return (uint64_t)row < (uint64_t)t->row_end && (uint64_t)col < (uint64_t)t->col_end;
}

/* The inside is convex, so a line crosses it in one stretch: border pixels are taken from both ends until it
 * is reached, and the stretch needs no tests. */
static inline __attribute__((always_inline)) void warp_rows(const warp_t *t, const float *in,
                                                            int64_t channels, float *out)
{
    for (int64_t i = 0; i < t->out_height; i++, out += t->out_width * channels) {
        const int64_t row0 = t->row0 + i * t->row_i, col0 = t->col0 + i * t->col_i;
        int64_t j = 0, end = t->out_width;
        for (; j < end && !is_inside(t, row0 + j * t->row_j, col0 + j * t->col_j); j++)
            sample_border(t, in, row0 + j * t->row_j, col0 + j * t->col_j, channels, out + j * channels);
        for (; end > j && !is_inside(t, row0 + (end - 1) * t->row_j, col0 + (end - 1) * t->col_j); end--)
            sample_border(t, in, row0 + (end - 1) * t->row_j, col0 + (end - 1) * t->col_j, channels,
                          out + (end - 1) * channels);
        int64_t row = row0 + j * t->row_j, col = col0 + j * t->col_j;
        for (; j < end; j++, row += t->row_j, col += t->col_j)
            blend_pixels(in + ((row >> FRACTION_BITS) * t->width + (col >> FRACTION_BITS)) * channels,
                         channels, t->width * channels, fraction_of(col), fraction_of(row), channels,
                         out + j * channels);
    }
}

void warp_pixels(const affine_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                 float *out)
{
    const map_size_t size = {height, width};
    const warp_t t = make_warp(map, size, size);
    /* Specialised for constant channel counts. */
    if (channels == 1)
        warp_rows(&t, in, 1, out);
    else if (channels == 3)
        warp_rows(&t, in, 3, out);
    else
        warp_rows(&t, in, channels, out);
}

void warp_rgb(const map_t *map, const uint8_t *in, uint8_t *out)
{
    const warp_t t = make_warp(&map->affine, map->out, map->in);
    for (int64_t y = 0; y < t.out_height; y++)
        for (int64_t x = 0; x < t.out_width; x++, out += 3) {
            const int64_t row = clamp_position(t.row0 + y * t.row_i + x * t.row_j, t.row_end),
                          col = clamp_position(t.col0 + y * t.col_i + x * t.col_j, t.col_end);
            const int64_t i = row >> FRACTION_BITS, j = col >> FRACTION_BITS;
            const int64_t right = j < t.width - 1 ? 3 : 0, below = i < t.height - 1 ? 3 * t.width : 0;
            const float row_part = fraction_of(row), col_part = fraction_of(col);
            const uint8_t *p = in + 3 * (i * t.width + j);
            for (int k = 0; k < 3; k++, p++) {
                float upper = (float)p[0] + col_part * (float)(p[right] - p[0]);
                float lower = (float)p[below] + col_part * (float)(p[below + right] - p[below]);
                out[k] = (uint8_t)(upper + row_part * (lower - upper) + 0.5f);
            }
        }
}

/* A sample on the edge of two pixels belongs to the right or lower one, regardless of rounding. */
static inline double nudge_right(double position)
{
    return position + 0x1p-24;
}

void warp_mask(const map_t *map, const uint8_t *in, int side, uint8_t *out)
{
    const double width = (double)map->in.width, height = (double)map->in.height, step = 1.0 / side;
    ASSERT(side > 0 && side <= 15);
    memset(out, 0, (size_t)(map->out.height * map->out.width));
    for (int64_t i = 0; i < side * map->out.height; i++)
        for (int64_t j = 0; j < side * map->out.width; j++) {
            const map_point_t p = map_point(map, ((double)j + 0.5) * step, ((double)i + 0.5) * step);
            const double x = nudge_right(p.x), y = nudge_right(p.y);
            if (!(x >= 0 && y >= 0 && x < width && y < height)) continue;
            out[i / side * map->out.width + j / side] += in[(int64_t)y * map->in.width + (int64_t)x];
        }
}
