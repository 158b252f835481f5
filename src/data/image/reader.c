/* SPDX-License-Identifier: MIT */
/* Adds the margin that a resize filter needs around a region. The readers are jpeg.c and png_read.c. */
#include "data/image/reader.h"

#include <math.h>

void region_cover(double start, double length, int64_t out, int64_t side, int64_t *first, int64_t *n)
{
    /* The filter's half width, plus two pixels because libjpeg interpolates chroma from neighbours. */
    const double margin = fmax(1, length / (double)out) + 2;
    const double low = floor(start - margin), high = ceil(start + length + margin);
    *first = low < 0 ? 0 : (int64_t)low;
    *n = (high > (double)side ? side : (int64_t)high) - *first;
}
