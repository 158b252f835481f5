/* SPDX-License-Identifier: MIT */
/* A small monospaced bitmap font: printable ASCII. */
#ifndef DATA_SHOW_FONT_H
#define DATA_SHOW_FONT_H

#include <stdbool.h>

/* Capitals and digits stand in the upper 7 rows; the lower 2 are for descenders. */
enum { FONT_WIDTH = 5, FONT_HEIGHT = 9, FONT_ADVANCE = 6, FONT_BASELINE = 7 };

/* True if a character has ink in column x and row y. Characters other than printable ASCII are boxes. */
bool font_ink(unsigned char character, int x, int y);

#endif
