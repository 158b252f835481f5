/* SPDX-License-Identifier: MIT */
/* Prints for people. Texts may come from files and from other hosts: their control characters reach no terminal. All
 * other output for people goes through base/log.h and base/table.h, which do the same; tests/static.sh heads allows no
 * other printf to a terminal. */
#ifndef BASE_PRINT_H
#define BASE_PRINT_H

#include <stdio.h>

/* As printf and fprintf, but control characters are replaced by ?, except line breaks and tabs. */
void print_out(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_to(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same in place: C0, DEL and C1, the latter in UTF-8 and as raw bytes, and what changes the writing direction. Other
 * text stays as it is. */
void print_mask(char *text);

/* Goes through the lines of a text: returns the first one and its length, and moves *rest past it. NULL: none is left. An
 * empty line at the end is none. *rest may be NULL. */
const char *print_next_line(const char **rest, int *n);

#endif
