/* SPDX-License-Identifier: MIT */
/* Divides a measured time into its parts such that they add up. Medians of the parts do not: those of a step's
 * phases may exceed the step's median. */
#ifndef REPORT_RECORDS_SPLIT_H
#define REPORT_RECORDS_SPLIT_H

#include <stdint.h>

#include "base/err.h"

/* Shares of the parts in the total, over the samples with a total between its quartiles, so that outliers do
 * not count: sum of the part / sum of the total.
 *
 *   total   [n], above 0 and finite
 *   parts   [n_parts] arrays [n]; a value that is not finite counts as 0
 *   shares  [n_parts], output; NAN: the part has no finite value
 *
 * The rest, 1 - the sum of the shares, is the time outside of the parts. ERR_SYSTEM: out of memory. */
err_t split_shares(const double *total, const double *const *parts, int n_parts, int64_t n, double *shares);

#endif
