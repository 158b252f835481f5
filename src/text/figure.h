/* SPDX-License-Identifier: MIT */
/* Numbers formatted for reading: four significant digits and a unit that suits their size. NAN is "-". */
#ifndef TEXT_FIGURE_H
#define TEXT_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct figure {
    char text[48];
} figure_t;

figure_t figure_number(double value);     /* 3.142, 31.42, 3142, 31416; whole numbers in full */
figure_t figure_time(double sec);         /* "812 ns", "5.213 us", "1.204 ms", "98.20 s" */
figure_t figure_size(double n_bytes);     /* "8 MiB" if exact, else the number */
figure_t figure_bytes(double n_bytes);    /* rounded: "512 B", "1.5 GiB", "64 MiB"; below 0 "unknown" */
figure_t figure_count(int64_t n);         /* "431,080" */
figure_t figure_exact(double value);      /* reads back as the same number; "" if not finite */
figure_t figure_percent(double fraction); /* "12.5 %" */
figure_t figure_share(double fraction);   /* whole percent, for sentences: "12 %" */
figure_t figure_change(double fraction);  /* "+2.0 %", "-0.3 %", "0.0 %" */
figure_t figure_rate(double value, const char *unit); /* "5166 images/s" */
/* A rate over all steps, "5166 images/s"; where that of the median step is another by more than a tenth
 * "3120 images/s (median step: 5166)". */
figure_t figure_throughput(double rate, double median, const char *unit);
figure_t figure_bandwidth(double bytes_per_sec); /* "1.170 GB/s", "25 MB/s"; powers of 1000 */
figure_t figure_duration(double sec);            /* "1:05", "2:03:04" */

/* Kind of a number, by the unit that ends its name. */
typedef enum quantity { QUANTITY_NUMBER, QUANTITY_TIME, QUANTITY_SIZE, QUANTITY_PERCENT } quantity_t;

/* *unit: "GB/s" for busbw_gbs, "s" for wait_sec, "" if unknown. */
quantity_t figure_quantity(const char *name, const char **unit);

/* A column heading with the unit: "busbw GB/s" for busbw_gbs, "GB/s all" for gbs_all. False if the heading
 * needs no unit: each value shows its own, or it has none. */
bool figure_heading(const char *name, char *out, size_t n_bytes);

figure_t figure_of(quantity_t quantity, double value);

#endif
