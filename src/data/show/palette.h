/* SPDX-License-Identifier: MIT */
/* Colours of categories: as many as are wanted, the first 91 well apart. Not collective. */
#ifndef DATA_SHOW_PALETTE_H
#define DATA_SHOW_PALETTE_H

#include "data/show/page.h"

/* Light enough that dark text can be read on it. The same number always has the same colour. */
rgb_t palette_colour(int32_t category);

#endif
