/* SPDX-License-Identifier: MIT */
/* A small monospaced bitmap font: printable ASCII. */
#ifndef DATA_SHOW_FONT_H
#define DATA_SHOW_FONT_H

#include <stdbool.h>
#include <stddef.h>

/* Capitals and digits stand in the upper 7 rows; the lower 2 are for descenders. */
enum { FONT_WIDTH = 5, FONT_HEIGHT = 9, FONT_ADVANCE = 6, FONT_BASELINE = 7 };

/* True if a character has ink in column x and row y. Characters other than printable ASCII look like '?'. */
bool font_ink(unsigned char character, int x, int y);

/* How the character of UTF-8 at *text, which is not empty, is spelled in the font: *out, of the length returned and not
 * terminated. Letters lose their accents, some are several (ß: ss), accents that follow their letter are none; what has
 * no spelling, and a byte that is not UTF-8, is '?'. Sets *text behind the character. */
int font_spell(const char **text, const char **out);

#endif
