/* SPDX-License-Identifier: MIT */
/* Colours of categories, in any number; the first 91 are well apart. Not collective. */
#ifndef DATA_SHOW_PALETTE_H
#define DATA_SHOW_PALETTE_H

#include "data/show/page.h"

/* A fixed colour per category, light enough for dark text. */
rgb_t palette_colour(int32_t category);

#endif
