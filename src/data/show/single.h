/* SPDX-License-Identifier: MIT */
/* An image on a page of its own: at a handy size, with room for text below. Not collective. */
#ifndef DATA_SHOW_SINGLE_H
#define DATA_SHOW_SINGLE_H

#include "data/image/image.h"
#include "data/show/page.h"

enum {
    SINGLE_MARGIN = 16,
    SINGLE_GAP = 12,
    SINGLE_WIDTH = 320
}; /* pixels; the least width without margins */

/* A page with the image, reduced or enlarged by a whole factor, and `below` pixels under the gap that follows it.
 *
 *   at   receives the image's place
 *   out  free with page_free */
err_t single_page(const image_t *image, int64_t below, page_box_t *at, page_t **out);

#endif
