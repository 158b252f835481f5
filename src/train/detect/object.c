/* SPDX-License-Identifier: MIT */
/* Turns boxes and masks of images with an EXIF orientation. Rare, hence pixel by pixel. */
#include "train/detect/object.h"

#include "base/mem.h"
#include "data/image/orient.h"

static err_t turn_mask(const image_info_t *info, uint8_t **bitmap, rle_t *mask)
{
    const int64_t n = info->stored_width * info->stored_height;
    TRY(mem_grow(2 * n, 1, "a mask", bitmap));
    uint8_t *shown = *bitmap, *stored = shown + n;
    TRY(rle_decode(mask, (int32_t)info->width, (int32_t)info->height, shown));
    for (int64_t y = 0; y < info->stored_height; y++)
        for (int64_t x = 0; x < info->stored_width; x++) {
            const image_rect_t pixel = {(double)x, (double)y, 1, 1};
            const image_rect_t at =
                orient_to_shown(info->orientation, info->stored_width, info->stored_height, pixel);
            stored[y * info->stored_width + x] = shown[(int64_t)at.y * info->width + (int64_t)at.x];
        }
    return rle_encode(stored, (int32_t)info->stored_width, (int32_t)info->stored_height, mask);
}

err_t object_to_stored(const image_info_t *info, bool masks, uint8_t **bitmap, detector_object_t *d)
{
    const image_rect_t shown = {d->box[0], d->box[1], d->box[2], d->box[3]};
    const image_rect_t box =
        orient_to_stored(info->orientation, info->stored_width, info->stored_height, shown);
    d->box[0] = box.x, d->box[1] = box.y, d->box[2] = box.width, d->box[3] = box.height;
    return masks ? turn_mask(info, bitmap, &d->mask) : ERR_OK;
}
