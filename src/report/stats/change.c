/* SPDX-License-Identifier: MIT */
/* Change-point detection by binary segmentation with permutation tests. The caller corrects for several
 * series. */
#include "report/stats/stats.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"

/* A series and scratch for its segments. */
typedef struct series {
    const double *values;
    int n;
    const stats_change_options_t *options;
    double *ln, *room; /* [n] of the current segment */
    bool *is_start;    /* [n] a level begins here */
    double *p;         /* [n] p of the change at this level's start */
    int *ends;         /* [n + 1] stack of the ends of pending segments */
} series_t;

static double median_of(const double *values, int n, double *room)
{
    memcpy(room, values, (size_t)n * sizeof *room);
    return stats_median(room, n);
}

/* Median absolute deviation of a normal distribution to its standard deviation. */
static const double to_deviation = 1.4826;
static const double limit = 2; /* standard deviations beyond which values are winsorised */

/* The split with the largest sum of squares between its two levels. It also has the largest t, because the
 * total sum of squares is the same for every split and permutation. Values are centred. */
static double best_split(const double *ln, int n, int *at)
{
    double sum = 0, best = 0;
    for (int i = 1; i <= n - STATS_CHANGE_MIN_LENGTH; i++) {
        sum += ln[i - 1];
        if (i < STATS_CHANGE_MIN_LENGTH) continue;
        double between = sum * sum * n / ((double)i * (n - i));
        if (between > best) best = between, *at = i;
    }
    return best;
}

static bool has_variation(const double *ln, int n)
{
    for (int i = 1; i < n; i++)
        if (ln[i] > ln[0] || ln[i] < ln[0]) return true;
    return false;
}

/* Searches [from, to) for one change. p covers the search: each permutation contributes its best split. */
static void find_change(series_t *s, int from, int to, int *at, double *p)
{
    int n = to - from, n_as_clear = 0, unused;
    double *ln = s->ln, mean = 0;
    *at = 0, *p = 1;
    for (int i = 0; i < n; i++) ln[i] = log(s->values[from + i]);
    /* Values are clamped to two robust standard deviations from the median. If more than half of them are equal,
     * the median absolute deviation is 0 and nothing is clamped. */
    double middle = median_of(ln, n, s->room);
    for (int i = 0; i < n; i++) s->room[i] = fabs(ln[i] - middle);
    double reach = limit * to_deviation * stats_median(s->room, n);
    for (int i = 0; i < n && reach > 0; i++) ln[i] = fmin(fmax(ln[i], middle - reach), middle + reach);
    for (int i = 0; i < n; i++) mean += ln[i] / n;
    if (!has_variation(ln, n)) return;
    for (int i = 0; i < n; i++) ln[i] -= mean;
    double observed = best_split(ln, n, at) * (1 - 1e-9); /* equal splits compare equal despite rounding */
    rng_t rng = rng_new(s->options->seed, RNG_BOOTSTRAP, (uint64_t)from << 32 | (uint64_t)to);
    for (int r = 0; r < s->options->n_permutations; r++) {
        for (int i = n - 1; i > 0; i--) { /* shuffles */
            int j = (int)rng_below(&rng, (uint32_t)i + 1);
            double value = ln[i];
            ln[i] = ln[j], ln[j] = value;
        }
        if (best_split(ln, n, &unused) >= observed) n_as_clear++;
    }
    *p = (1.0 + n_as_clear) / (1.0 + s->options->n_permutations);
    *at += from;
}

/* Refines the position of a change. find_change winsorises about one level, which clips most of a late
 * change, so noise before it may look as high. Here values are winsorised about the two levels. */
static void locate_change(series_t *s, int from, int to, int *at)
{
    int n = to - from, n_before = *at - from, better = 0;
    double *ln = s->ln, mean = 0;
    for (int i = 0; i < n; i++) ln[i] = log(s->values[from + i]);
    double before = median_of(ln, n_before, s->room), after = median_of(ln + n_before, n - n_before, s->room);
    for (int i = 0; i < n; i++) s->room[i] = fabs(ln[i] - (i < n_before ? before : after));
    double reach = limit * to_deviation * stats_median(s->room, n);
    for (int i = 0; i < n; i++) {
        ln[i] = fmin(fmax(ln[i], fmin(before, after) - reach), fmax(before, after) + reach);
        mean += ln[i] / n;
    }
    if (!has_variation(ln, n)) return; /* rounding alone would decide */
    for (int i = 0; i < n; i++) ln[i] -= mean;
    if (best_split(ln, n, &better) > 0) *at = from + better;
}

static void segment_series(series_t *s)
{
    int from = 0, depth = 1, at = 0;
    double p;
    s->ends[0] = s->n;
    while (depth > 0) {
        int to = s->ends[depth - 1];
        p = 1;
        if (to - from >= 2 * STATS_CHANGE_MIN_LENGTH) find_change(s, from, to, &at, &p);
        if (p <= s->options->alpha) {
            locate_change(s, from, to, &at);
            s->is_start[at] = true, s->p[at] = p;
            s->ends[depth++] = at;
        } else {
            from = to, depth--;
        }
    }
}

/* Start of the next level after `at`, or n. */
static int next_start(const series_t *s, int at)
{
    do at++;
    while (at < s->n && !s->is_start[at]);
    return at;
}

/* Ratio of the level that starts at `at` to the one that starts at `before`. */
static double ratio_at(const series_t *s, int before, int at)
{
    double old = median_of(s->values + before, at - before, s->room);
    return median_of(s->values + at, next_start(s, at) - at, s->room) / old;
}

/* Merges the two levels around the smallest change below min_effect. false: none is left. */
static bool drop_smallest(series_t *s)
{
    double least = INFINITY;
    int drop = s->n;
    for (int before = 0, at = next_start(s, 0); at < s->n; before = at, at = next_start(s, at)) {
        double ratio = ratio_at(s, before, at);
        if (fabs(ratio - 1) < s->options->min_effect && fabs(log(ratio)) < least)
            least = fabs(log(ratio)), drop = at;
    }
    if (drop == s->n) return false;
    s->is_start[drop] = false;
    return true;
}

err_t stats_change_points(const double *values, int n, const stats_change_options_t *options,
                          stats_change_t *out, int capacity, int *n_out)
{
    series_t s = {.values = values, .n = n, .options = options};
    const char *what = "a series of measurements";
    err_t err = ERR_OK;
    *n_out = 0;
    if (n < 2 * STATS_CHANGE_MIN_LENGTH) return ERR_OK;
    TRY_OUT(err, mem_new_array(n, sizeof *s.ln, what, &s.ln));
    TRY_OUT(err, mem_new_array(n, sizeof *s.room, what, &s.room));
    TRY_OUT(err, mem_new_array(n, sizeof *s.is_start, what, &s.is_start));
    TRY_OUT(err, mem_new_array(n, sizeof *s.p, what, &s.p));
    TRY_OUT(err, mem_new_array(n + 1, sizeof *s.ends, what, &s.ends));
    segment_series(&s);
    while (drop_smallest(&s)) continue;
    for (int before = 0, at = next_start(&s, 0); at < n; before = at, at = next_start(&s, at))
        if (*n_out < capacity) out[(*n_out)++] = (stats_change_t){at, ratio_at(&s, before, at), s.p[at]};
out:
    mem_free(&s.ln);
    mem_free(&s.room);
    mem_free(&s.is_start);
    mem_free(&s.p);
    mem_free(&s.ends);
    return err;
}

/* Squares of residuals, those beyond two robust deviations winsorised. Sorts the residuals by size. */
static double winsorised_squares(double *residuals, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) residuals[i] = fabs(residuals[i]);
    const double reach = limit * to_deviation * stats_median(residuals, n);
    for (int i = 0; i < n; i++) {
        const double size = reach > 0 ? fmin(residuals[i], reach) : residuals[i];
        sum += size * size;
    }
    return sum;
}

double stats_winsorised_deviation(double *residuals, int n, int n_parameters)
{
    const double kept = 0.9205; /* of the variance of a normal distribution, winsorised at two deviations */
    return sqrt(winsorised_squares(residuals, n) / kept / (n - n_parameters));
}

/* Kendall's S: pairs that rise, less pairs that fall. Its variance without a trend, with ties. */
static double kendall_p(const double *ln, int n, double *room)
{
    double s = 0, ties = 0;
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) s += (ln[j] > ln[i]) - (ln[j] < ln[i]);
    memcpy(room, ln, (size_t)n * sizeof *room);
    stats_sort(room, n);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !(room[end] > room[i]);) end++;
        const double t = end - i;
        ties += t * (t - 1) * (2 * t + 5);
    }
    const double variance = (n * (n - 1.0) * (2.0 * n + 5) - ties) / 18;
    const double excess = fabs(s) - 1; /* continuity */
    return excess > 0 && variance > 0 ? 2 * stats_normal_cdf(-excess / sqrt(variance)) : 1;
}

err_t stats_find_drift(const double *values, int n, const int *changes, int n_changes, stats_drift_t *out)
{
    double *ln = NULL, *room = NULL, *slopes = NULL, *residuals = NULL;
    int64_t n_slopes = 0;
    err_t err = ERR_OK;
    *out = (stats_drift_t){.p = 1};
    if (n < 2 * STATS_CHANGE_MIN_LENGTH) return ERR_OK;
    TRY_OUT(err, mem_new_array(n, sizeof *ln, "a series", &ln));
    TRY_OUT(err, mem_new_array(n, sizeof *room, "a series", &room));
    TRY_OUT(err, mem_new_array(n, sizeof *residuals, "a series", &residuals));
    TRY_OUT(err, mem_new_array((int64_t)n * (n - 1) / 2, sizeof *slopes, "slopes", &slopes));
    for (int i = 0; i < n; i++) ln[i] = log(values[i]);
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) slopes[n_slopes++] = (ln[j] - ln[i]) / (j - i);
    const double slope = stats_median(slopes, n_slopes);
    for (int i = 0; i < n; i++) room[i] = ln[i] - slope * i;
    const double start = stats_median(room, n);
    out->first = exp(start), out->last = exp(start + slope * (n - 1));
    out->p = kendall_p(ln, n, room);
    for (int i = 0; i < n; i++) residuals[i] = ln[i] - (start + slope * i);
    const double of_trend = winsorised_squares(residuals, n);
    for (int part = 0; part <= n_changes; part++) {
        const int from = part > 0 ? changes[part - 1] : 0, to = part < n_changes ? changes[part] : n;
        const double level = median_of(ln + from, to - from, room);
        for (int i = from; i < to; i++) residuals[i] = ln[i] - level;
    }
    const double of_levels = winsorised_squares(residuals, n);
    /* A trend has two parameters. Levels have one each, and each change a date, which counts twice because it is the best
     * of many (Zhang and Siegmund 2007). */
    if (of_levels > 0 && of_trend > 0)
        out->is_better = n * log(of_trend / of_levels) + (2 - (3 * n_changes + 1)) * log(n) < 0;
out:
    mem_free(&ln);
    mem_free(&room);
    mem_free(&slopes);
    mem_free(&residuals);
    return err;
}
