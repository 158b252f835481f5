/* SPDX-License-Identifier: MIT */
/* Chooses the size of an image on its own page and places its pixels. What is drawn over and below it is left
 * to callers. */
#include "data/show/single.h"

#include "base/mem.h"
#include "data/image/resize.h"

enum { SMALL = 280, LARGE = 640 };

static const rgb_t paper = {250, 250, 248};

/* Large images are reduced, small ones enlarged by a whole factor. */
static void drawn_size(const image_t *image, int64_t *width, int64_t *height)
{
    int64_t longer = image->width > image->height ? image->width : image->height;
    *width = image->width * (longer < SMALL ? SMALL / longer : 1);
    *height = image->height * (longer < SMALL ? SMALL / longer : 1);
    if (longer <= LARGE) return;
    *width = (image->width * LARGE + longer - 1) / longer;
    *height = (image->height * LARGE + longer - 1) / longer;
}

err_t single_page(const image_t *image, int64_t below, page_box_t *at, page_t **out)
{
    int64_t width, height;
    resize_scratch_t scratch = {0};
    uint8_t *reduced = NULL;
    err_t err = ERR_OK;
    drawn_size(image, &width, &height);
    page_source_t source = {image->width, image->height, 3, image->rgb};
    if (width < image->width || height < image->height) {
        image_rect_t whole = {0, 0, (double)image->width, (double)image->height};
        TRY_OUT(err, mem_new_array(width * height, 3, "an image", &reduced));
        TRY_OUT(err, resize(image, whole, false, width, height, &scratch, reduced));
        source = (page_source_t){width, height, 3, reduced};
    }
    const int64_t inside = width > SINGLE_WIDTH ? width : SINGLE_WIDTH;
    TRY_OUT(err, page_new(inside + 2 * SINGLE_MARGIN, height + 2 * SINGLE_MARGIN + SINGLE_GAP + below, paper,
                          out));
    *at = (page_box_t){SINGLE_MARGIN, SINGLE_MARGIN, width, height};
    page_place(*out, *at, &source);
out:
    resize_scratch_free(&scratch);
    mem_free(&reduced);
    return err;
}
