/* SPDX-License-Identifier: MIT */
/* The --augment-* transform: draws a random affine map and applies it to float images with bilinear sampling.
 * Interior and border pixels take separate loops. */
#include "data/transform/augment.h"

#include <math.h>

#include "base/rng.h"

/* A right angle of shear or a zoom by 0 would leave nothing of the picture. */
#define FIELD(name) offsetof(augment_options_t, name)
const opt_t augment_option_table[] = {
    {"augment-rotate", OPT_REAL, FIELD(rotate_deg), "0", 0, 180, NULL, "DEG",
     "turn each training picture by up to ± this", false},
    {"augment-shift", OPT_REAL, FIELD(shift), "0", 0, 1, NULL, "FRACTION",
     "shift it by up to ± this part of its height and width", false},
    {"augment-shear", OPT_REAL, FIELD(shear_deg), "0", 0, 60, NULL, "DEG",
     "shear it by an angle of up to ± this", false},
    {"augment-zoom", OPT_REAL, FIELD(zoom), "0", 0, 0.9, NULL, "FRACTION",
     "scale height and width, each by its own factor of 1 ± this", false},
    {"augment-flip", OPT_FLAG, FIELD(flip), "false", 0, 0, NULL, NULL,
     "mirror it left to right with probability 1/2", false},
};
const int n_augment_options = sizeof augment_option_table / sizeof augment_option_table[0];

bool augment_active(const augment_options_t *options)
{
    return options->rotate_deg != 0 || options->shift != 0 || options->shear_deg != 0 || options->zoom != 0 ||
           options->flip;
}

/* In [-1, 1). */
static double draw_signed(rng_t *rng)
{
    return 2 * rng_uniform(rng) - 1;
}

augment_map_t augment_draw(const augment_t *augment, int64_t epoch, int64_t index)
{
    enum { N_WORDS = 8 }; /* the 7 drawn here, rounded up to whole blocks */
    const augment_options_t *o = &augment->options;
    rng_t rng = rng_new(augment->seed, RNG_AUGMENT, (uint64_t)index);
    rng.position = (uint64_t)epoch * N_WORDS;
    /* One statement each: the order of initialisers is not the order of calls. */
    augment_map_t map;
    map.rotate_deg = o->rotate_deg * draw_signed(&rng);
    map.shift_rows = o->shift * draw_signed(&rng);
    map.shift_cols = o->shift * draw_signed(&rng);
    map.shear_deg = o->shear_deg * draw_signed(&rng);
    map.zoom_rows = 1 + o->zoom * draw_signed(&rng);
    map.zoom_cols = 1 + o->zoom * draw_signed(&rng);
    map.flip = rng_u32(&rng) >> 31 && o->flip;
    return map;
}

affine_t augment_matrix(const augment_map_t *map, int64_t height, int64_t width)
{
    const double rad = 3.14159265358979323846 / 180;
    double turn = map->rotate_deg * rad, both = (map->rotate_deg + map->shear_deg) * rad;
    double zoom_cols = map->flip ? -map->zoom_cols : map->zoom_cols;
    double shift_rows = map->shift_rows * (double)height, shift_cols = map->shift_cols * (double)width;
    return (affine_t){.matrix = {map->zoom_rows * cos(turn), -zoom_cols * sin(both),
                                 map->zoom_rows * sin(turn), zoom_cols * cos(both)},
                      .shift = {cos(turn) * shift_rows - sin(turn) * shift_cols,
                                sin(turn) * shift_rows + cos(turn) * shift_cols}};
}

/* Positions in the input are fixed-point, 32 bits of fraction: steps add up without error, the integer part
 * is a shift, and what is a whole number but for the last bits of sin and cos becomes one. */
enum { FRACTION_BITS = 32 };

static int64_t to_fixed(double value)
{
    return llrint(value * 0x1p32);
}

/* Position of output pixel (i, j): row0 + i row_i + j row_j, col0 + i col_i + j col_j. */
typedef struct warp {
    int64_t row0, row_i, row_j, col0, col_i, col_j;
    int64_t height, width;
    int64_t row_end, col_end; /* the last row's and column's position */
} warp_t;

/* From offsets about the centre to rows and columns. */
static warp_t make_warp(const affine_t *map, int64_t height, int64_t width)
{
    const double *m = map->matrix;
    double row_mid = (double)(height - 1) / 2, col_mid = (double)(width - 1) / 2;
    double row0 = row_mid - m[0] * row_mid - m[1] * col_mid + map->shift[0];
    double col0 = col_mid - m[2] * row_mid - m[3] * col_mid + map->shift[1];
    return (warp_t){.row0 = to_fixed(row0),
                    .row_i = to_fixed(m[0]),
                    .row_j = to_fixed(m[1]),
                    .col0 = to_fixed(col0),
                    .col_i = to_fixed(m[2]),
                    .col_j = to_fixed(m[3]),
                    .height = height,
                    .width = width,
                    .row_end = (height - 1) << FRACTION_BITS,
                    .col_end = (width - 1) << FRACTION_BITS};
}

/* The fraction as a float: its upper 24 bits, which a float holds exactly. */
static inline float fraction(int64_t position)
{
    return (float)(int32_t)((uint32_t)position >> 8) * 0x1p-24f;
}

/* `right` and `below`: distances to the neighbours. A fraction of 0 gives the pixel itself, bit for bit. */
static inline void blend(const float *p, int64_t right, int64_t below, float col_part, float row_part,
                         int64_t channels, float *out)
{
    for (int64_t k = 0; k < channels; k++) {
        float upper = p[k] + col_part * (p[right + k] - p[k]);
        float lower = p[below + k] + col_part * (p[below + right + k] - p[below + k]);
        out[k] = upper + row_part * (lower - upper);
    }
}

static inline int64_t clamp(int64_t position, int64_t end)
{
    return position < 0 ? 0 : position > end ? end : position;
}

/* Anywhere: a position outside is moved to the border, and on the last row or column the neighbour is itself.
 */
static inline void sample_border(const warp_t *t, const float *in, int64_t row, int64_t col, int64_t channels,
                                 float *out)
{
    row = clamp(row, t->row_end);
    col = clamp(col, t->col_end);
    int64_t i = row >> FRACTION_BITS, j = col >> FRACTION_BITS;
    blend(in + (i * t->width + j) * channels, j < t->width - 1 ? channels : 0,
          i < t->height - 1 ? t->width * channels : 0, fraction(col), fraction(row), channels, out);
}

/* All four neighbours exist; one comparison each, as a negative position is a huge unsigned one. */
static inline bool is_inside(const warp_t *t, int64_t row, int64_t col)
{
    return (uint64_t)row < (uint64_t)t->row_end && (uint64_t)col < (uint64_t)t->col_end;
}

/* A line meets the (convex) inside in one stretch: the border's pixels are taken from both ends until it is
 * reached, and the stretch needs no tests. */
static inline __attribute__((always_inline)) void warp_rows(const warp_t *t, const float *in,
                                                            int64_t channels, float *out)
{
    for (int64_t i = 0; i < t->height; i++, out += t->width * channels) {
        const int64_t row0 = t->row0 + i * t->row_i, col0 = t->col0 + i * t->col_i;
        int64_t j = 0, end = t->width;
        for (; j < end && !is_inside(t, row0 + j * t->row_j, col0 + j * t->col_j); j++)
            sample_border(t, in, row0 + j * t->row_j, col0 + j * t->col_j, channels, out + j * channels);
        for (; end > j && !is_inside(t, row0 + (end - 1) * t->row_j, col0 + (end - 1) * t->col_j); end--)
            sample_border(t, in, row0 + (end - 1) * t->row_j, col0 + (end - 1) * t->col_j, channels,
                          out + (end - 1) * channels);
        int64_t row = row0 + j * t->row_j, col = col0 + j * t->col_j;
        for (; j < end; j++, row += t->row_j, col += t->col_j)
            blend(in + ((row >> FRACTION_BITS) * t->width + (col >> FRACTION_BITS)) * channels, channels,
                  t->width * channels, fraction(col), fraction(row), channels, out + j * channels);
    }
}

void augment_affine(const affine_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                    float *out)
{
    ASSERT(height > 0 && height < 1 << 26 && width > 0 && width < 1 << 26);
    const warp_t t = make_warp(map, height, width);
    /* Grey and colour with the count known to the compiler. */
    if (channels == 1)
        warp_rows(&t, in, 1, out);
    else if (channels == 3)
        warp_rows(&t, in, 3, out);
    else
        warp_rows(&t, in, channels, out);
}

void augment_apply(const augment_map_t *map, const float *in, int64_t height, int64_t width, int64_t channels,
                   float *out)
{
    affine_t affine = augment_matrix(map, height, width);
    augment_affine(&affine, in, height, width, channels, out);
}
