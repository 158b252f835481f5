/* SPDX-License-Identifier: MIT */
/* Shares of the parts of a time, over the middle half of its samples. */
#include "report/records/split.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"

err_t split_shares(const double *total, const double *const *parts, int n_parts, int64_t n, double *shares)
{
    double *sorted, sum = 0;
    for (int part = 0; part < n_parts; part++) shares[part] = NAN;
    if (n == 0) return ERR_OK;
    TRY(mem_new_array(n, sizeof *sorted, "samples", &sorted));
    memcpy(sorted, total, (size_t)n * sizeof *sorted);
    stats_sort(sorted, n);
    /* Samples themselves, not interpolated quantiles: at least one sample is between them. */
    double low = sorted[n / 4], high = sorted[n - 1 - n / 4];
    mem_free(&sorted);
    for (int64_t i = 0; i < n; i++) {
        if (total[i] < low || total[i] > high) continue;
        sum += total[i];
        for (int part = 0; part < n_parts; part++)
            if (isfinite(parts[part][i]))
                shares[part] = parts[part][i] + (isnan(shares[part]) ? 0 : shares[part]);
    }
    for (int part = 0; part < n_parts; part++) shares[part] /= sum;
    return ERR_OK;
}
