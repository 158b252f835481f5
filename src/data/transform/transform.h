/* Transforms of images: which part of one a network is shown, and how it is changed on the way. Not
 * collective; thread-safe.
 *
 * A random transform is a function of (seed, epoch, dataset index) alone: ranks, threads, the batch and the
 * order in which samples are read have no part in it, and a resumed run sees what an unbroken one would have
 * seen. */
#ifndef DATA_TRANSFORM_TRANSFORM_H
#define DATA_TRANSFORM_TRANSFORM_H

#include "data/image/image.h"
#include "data/transform/settings.h"

typedef struct transform {
    int64_t size;                     /* the input: a square of size × size pixels */
    image_rect_t part;                /* of the image, in its pixels as shown */
    int64_t left, top, width, height; /* where it goes in the input's square; the rest is TRANSFORM_GREY */
    bool mirror;
    double brightness, contrast, saturation; /* factors of jitter.h; 1: as they are */
} transform_t;

/* region: what there is to show, a whole image or an object, at least one pixel wide and high. settings:
 * resolved. */
transform_t transform_fixed(const transform_settings_t *settings, image_rect_t region);

/* CROP_RANDOM is torchvision's RandomResizedCrop, its formulas and its order: ten tries of an area uniform in
 * [crop_scale, 1] of the region's and a ratio of width to height whose logarithm is uniform between those of
 * 3/4 and 4/3; the first that fits is put at a uniform place; where none does, the middle at the nearest such
 * ratio. Other crops are transform_fixed's. Then mirrored with probability 1/2, and factors of brightness,
 * contrast and saturation, each uniform in 1 ± its setting, but not below 0.
 *
 * Each dataset index has a substream of its own of (seed, RNG_TRANSFORM), and each epoch the next
 * TRANSFORM_WORDS words of it; every use has a word of its own, whether it is on or not. */
enum { TRANSFORM_TRIES = 10, TRANSFORM_WORDS = 28 };
transform_t transform_random(const transform_settings_t *settings, uint64_t seed, int64_t epoch,
                             int64_t index, image_rect_t region);

#endif
