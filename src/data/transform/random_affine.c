/* SPDX-License-Identifier: MIT */
/* The options of random affine maps, their random draws, and the matrix. */
#include "data/transform/random_affine.h"

#include <math.h>

#include "base/rng.h"

/* The limits exclude a shear of 90° and a zoom by 0, which would leave nothing of the image. */
#define FIELD(name) offsetof(random_affine_ranges_t, name)
const opt_t random_affine_option_table[] = {
    {"augment-rotate", OPT_REAL, FIELD(rotate_deg), "0", 0, 180, NULL, "DEG",
     "random rotation of training images by up to ±DEG", OPT_MORE},
    {"augment-shift", OPT_REAL, FIELD(shift), "0", 0, 1, NULL, "FRACTION",
     "random translation by up to ±FRACTION of height and width", OPT_MORE},
    {"augment-shear", OPT_REAL, FIELD(shear_deg), "0", 0, 60, NULL, "DEG", "random shear by up to ±DEG",
     OPT_MORE},
    {"augment-zoom", OPT_REAL, FIELD(zoom), "0", 0, 0.9, NULL, "FRACTION",
     "random scaling of height and width, each by a factor of 1 ± FRACTION", OPT_MORE},
    {"augment-flip", OPT_FLAG, FIELD(flip), "false", 0, 0, NULL, NULL,
     "random horizontal flip of IDX files and digits, with probability 1/2; folders and shards: see --flip",
     OPT_MORE},
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
