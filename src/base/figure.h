/* SPDX-License-Identifier: MIT */
/* Numbers as people read them: four digits that count, a unit of their size. NAN is "-". */
#ifndef BASE_FIGURE_H
#define BASE_FIGURE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct figure {
    char text[48];
} figure_t;

figure_t figure_number(double value);     /* 3.142, 31.42, 3142, 31416; whole numbers in full */
figure_t figure_time(double sec);         /* "812 ns", "5.213 us", "1.204 ms", "98.20 s" */
figure_t figure_size(double n_bytes);     /* "8 MiB" where it is that exactly, else the number */
figure_t figure_exact(double value);      /* reads back as the same number; "" where it is none */
figure_t figure_percent(double fraction); /* "12.5 %" */

/* What a number's name says of it: its last part is the unit. */
typedef enum quantity { QUANTITY_NUMBER, QUANTITY_TIME, QUANTITY_SIZE, QUANTITY_PERCENT } quantity_t;

/* *unit: "GB/s" of busbw_gbs, "s" of wait_sec, "" where none is known. */
quantity_t figure_quantity(const char *name, const char **unit);

/* The unit in words: "busbw GB/s" of busbw_gbs, "GB/s all" of gbs_all. False where the name needs no such
 * heading: its unit stands beside each value, or it has none. */
bool figure_heading(const char *name, char *out, size_t n_bytes);

figure_t figure_of(quantity_t quantity, double value);

#endif
