/* SPDX-License-Identifier: MIT */
/* Intervals of ratios as text, for tables and pages. An end beyond tenfold only says that the data does not
 * limit the ratio on that side, so its value is not shown. */
#ifndef REPORT_REGRESS_INTERVAL_H
#define REPORT_REGRESS_INTERVAL_H

#include "base/figure.h"
#include "base/mem.h"

#define INTERVAL_MAX_RATIO 10.0

/* An end: "+3.1 %", "beyond ×10", "beyond ÷10"; NAN: "-". */
figure_t interval_end(double ratio);

/* "-0.5 … +0.6 %", "+2.0 % … beyond ×10", "beyond ×10"; "unknown" if the ends are beyond on either side; "-" if
 * one is NAN. */
err_t interval_text(arena_t *arena, double low, double high, const char **out);

#endif
