/* SPDX-License-Identifier: MIT */
/* Transforms of images: which part of one a network is shown, and how it is changed on the way. Not
 * collective; thread-safe.
 *
 * A random transform is a function of (seed, epoch, dataset index) alone: ranks, threads, the batch and the
 * order in which samples are read have no part in it, and a resumed run sees what an unbroken one would have
 * seen. */
#ifndef DATA_TRANSFORM_TRANSFORM_H
#define DATA_TRANSFORM_TRANSFORM_H

#include "data/transform/jitter.h"
#include "data/transform/map.h"
#include "data/transform/settings.h"

typedef struct transform {
    int64_t size;                     /* the input: a square of size × size pixels */
    image_rect_t part;                /* of the image, in its pixels as shown */
    int64_t left, top, width, height; /* where it goes in the input's square; the rest is TRANSFORM_GREY */
    bool mirror;
    jitter_t jitter;
    bool bordered;   /* nothing beyond the part is shown, grey is */
    bool moved;      /* whether the following has been drawn: otherwise all is crop, scale and flip */
    affine_t affine; /* of the square (random_affine.h) */
} transform_t;

/* All of it as one map, from the input's square to an image of this size: affine, then flip and crop. */
map_t transform_map(const transform_t *transform, map_size_t image);

/* region: what there is to show, a whole image or an object, at least one pixel wide and high. settings:
 * resolved. */
transform_t transform_fixed(const transform_settings_t *settings, image_rect_t region);

/* CROP_RANDOM is torchvision's RandomResizedCrop, its formulas and its order: ten tries of an area uniform in
 * [crop_scale, 1] of the region's and a ratio of width to height whose logarithm is uniform between those of
 * 3/4 and 4/3; the first that fits is put at a uniform place; where none does, the middle at the nearest such
 * ratio. Other crops are transform_fixed's. Then mirrored with probability 1/2, and factors of brightness,
 * contrast and saturation, each uniform in 1 ± its setting, but not below 0. Where settings->affine moves
 * images, it does so with the square that all of this gives, as random_affine_draw says; flips are the above.
 *
 * Each dataset index has a substream of its own of (seed, RNG_TRANSFORM), and each epoch the next
 * TRANSFORM_WORDS words of it; every use has a word of its own, whether it is on or not. */
enum { TRANSFORM_TRIES = 10, TRANSFORM_WORDS = 28 };
transform_t transform_random(const transform_settings_t *settings, uint64_t seed, int64_t epoch,
                             int64_t index, image_rect_t region);

/* The map of an image in memory, whose size stays: random_affine_draw's with its flip, of a part of the image
 * where CROP_RANDOM is set. Factors of its colours are transform_random's. settings:
 * transform_resolve_in_memory's. */
affine_t transform_in_memory(const transform_settings_t *settings, uint64_t seed, int64_t epoch,
                             int64_t index, map_size_t image);

#endif
