/* SPDX-License-Identifier: MIT */
/* Draws runs straight into the turned and flipped box: one step in the bitmap for each step in the image. */
#include "train/detect/mask_cut.h"

#include <string.h>

#include "base/mem.h"
#include "data/image/orient.h"

/* Where pixel (x, y) of the box as stored is in the box as shown. */
typedef struct steps {
    int64_t first, x, y;
} steps_t;

static int64_t place_of(const mask_view_t *view, map_size_t box, int64_t x, int64_t y)
{
    const int64_t width = orient_swaps(view->orientation) ? box.height : box.width;
    const image_rect_t shown =
        orient_to_shown(view->orientation, box.width, box.height, (image_rect_t){(double)x, (double)y, 1, 1});
    const int64_t column = (int64_t)shown.x, row = (int64_t)shown.y;
    return row * width + (view->flipped ? width - 1 - column : column);
}

static steps_t find_steps(const mask_view_t *view, map_size_t box)
{
    const int64_t first = place_of(view, box, 0, 0);
    return (steps_t){first, place_of(view, box, 1, 0) - first, place_of(view, box, 0, 1) - first};
}

/* left, top: of the box in the image. */
static void draw(const rle_t *mask, int64_t height, int64_t left, int64_t top, steps_t s, uint8_t *out)
{
    int64_t at = 0;
    for (int32_t i = 0; i < mask->n; i++) {
        const int64_t end = at + mask->runs[i];
        for (; i % 2 && at < end; at++)
            out[s.first + (at / height - left) * s.x + (at % height - top) * s.y] = 1;
        at = end;
    }
}

err_t mask_cut_make(const rle_t *mask, const mask_view_t *view, uint8_t **bitmap, mask_cut_t *out)
{
    const int32_t width = (int32_t)view->stored.width, height = (int32_t)view->stored.height;
    double box[4];
    TRY(rle_check(mask, width, height));
    rle_box(mask, width, height, box);
    if (rle_area(mask) == 0) memcpy(box, (double[]){0, 0, 1, 1}, sizeof box);
    const map_size_t size = {(int64_t)box[3], (int64_t)box[2]};
    image_rect_t shown =
        orient_to_shown(view->orientation, width, height, (image_rect_t){box[0], box[1], box[2], box[3]});
    const int32_t shown_width = orient_swaps(view->orientation) ? height : width;
    if (view->flipped) shown.x = shown_width - shown.x - shown.width;
    TRY(mem_grow(size.height * size.width, 1, "a mask", bitmap));
    memset(*bitmap, 0, (size_t)(size.height * size.width));
    draw(mask, height, (int64_t)box[0], (int64_t)box[1], find_steps(view, size), *bitmap);
    *out = (mask_cut_t){.x = (int64_t)shown.x,
                        .y = (int64_t)shown.y,
                        .width = (int64_t)shown.width,
                        .height = (int64_t)shown.height,
                        .inside = *bitmap};
    return ERR_OK;
}
