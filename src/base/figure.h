/* SPDX-License-Identifier: MIT */
/* Numbers as people read them: four digits that count, a unit of their size. NAN is "-". */
#ifndef BASE_FIGURE_H
#define BASE_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct figure {
    char text[48];
} figure_t;

figure_t figure_number(double value);     /* 3.142, 31.42, 3142, 31416; whole numbers in full */
figure_t figure_time(double sec);         /* "812 ns", "5.213 us", "1.204 ms", "98.20 s" */
figure_t figure_size(double n_bytes);     /* "8 MiB" where it is that exactly, else the number */
figure_t figure_bytes(double n_bytes);    /* amounts: "512 B", "1.5 GiB", "64 MiB"; below 0 "unknown" */
figure_t figure_count(int64_t n);         /* "431,080" */
figure_t figure_exact(double value);      /* reads back as the same number; "" where it is none */
figure_t figure_percent(double fraction); /* "12.5 %" */
figure_t figure_share(double fraction);   /* in a sentence: "12 %" */
figure_t figure_change(double fraction);  /* "+2.0 %", "-0.3 %", "0.0 %" */
figure_t figure_rate(double value, const char *unit); /* "5166 images/s" */
figure_t figure_bandwidth(double bytes_per_sec);      /* "1.170 GB/s", "25 MB/s"; powers of 1000 */
figure_t figure_duration(double sec);                 /* "1:05", "2:03:04" */

/* What a number's name says of it: its last part is the unit. */
typedef enum quantity { QUANTITY_NUMBER, QUANTITY_TIME, QUANTITY_SIZE, QUANTITY_PERCENT } quantity_t;

/* *unit: "GB/s" of busbw_gbs, "s" of wait_sec, "" where none is known. */
quantity_t figure_quantity(const char *name, const char **unit);

/* The unit in words: "busbw GB/s" of busbw_gbs, "GB/s all" of gbs_all. False where the name needs no such
 * heading: its unit stands beside each value, or it has none. */
bool figure_heading(const char *name, char *out, size_t n_bytes);

figure_t figure_of(quantity_t quantity, double value);

#endif
