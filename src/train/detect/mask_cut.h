/* SPDX-License-Identifier: MIT */
/* An object's mask as a bitmap, as its image is shown. Not collective. */
#ifndef TRAIN_DETECT_MASK_CUT_H
#define TRAIN_DETECT_MASK_CUT_H

#include "data/annotation/rle.h"
#include "train/detect/mask_target.h"

/* How the image of a mask is shown: turned by its EXIF orientation, then flipped left to right. */
typedef struct mask_view {
    map_size_t stored; /* size of the image as stored */
    int orientation;   /* 1 to 8 */
    bool flipped;
} mask_view_t;

/* Draws the runs, which belong to the image as stored, into a bitmap of their bounding box.
 *
 *   bitmap  working memory, which grows to the largest mask; starts NULL; mem_free it
 *   out     its pixels are in *bitmap until the next call; an empty mask is one pixel of 0
 *
 * ERR_DATA: the runs do not add up to the image. */
err_t mask_cut_make(const rle_t *mask, const mask_view_t *view, uint8_t **bitmap, mask_cut_t *out);

#endif
