/* SPDX-License-Identifier: MIT */
/* Formats intervals of ratios; ends beyond tenfold are capped. */
#include "report/regress/interval.h"

#include <math.h>
#include <string.h>

figure_t interval_end(double ratio)
{
    if (ratio > INTERVAL_MAX_RATIO) return (figure_t){"beyond ×10"};
    if (ratio < 1 / INTERVAL_MAX_RATIO) return (figure_t){"beyond ÷10"};
    return figure_change(ratio - 1);
}

static bool is_number(double ratio)
{
    return ratio >= 1 / INTERVAL_MAX_RATIO && ratio <= INTERVAL_MAX_RATIO;
}

err_t interval_text(arena_t *arena, double low, double high, const char **out)
{
    figure_t from = interval_end(low), to = interval_end(high);
    bool beyond_both = low < 1 / INTERVAL_MAX_RATIO && high > INTERVAL_MAX_RATIO;
    *out = isnan(low) || isnan(high) ? "-" : "unknown";
    if (isnan(low) || isnan(high) || beyond_both) return ERR_OK;
    if (strcmp(from.text, to.text) == 0 && !is_number(low)) return arena_format(arena, out, "%s", to.text);
    int n = (int)strlen(from.text) - (is_number(low) && is_number(high) ? 2 : 0); /* one " %" for both */
    return arena_format(arena, out, "%.*s … %s", n, from.text, to.text);
}
