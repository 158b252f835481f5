/* SPDX-License-Identifier: MIT */
/* Axes: round ticks on linear and logarithmic scales, and the mapping from values to coordinates. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "report/chart/svg.h"

/* Larger values are not measurements, and their differences could overflow. */
#define LARGEST 1e150

chart_text_t chart_label(double value)
{
    static const struct {
        double size;
        const char *unit;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
    chart_text_t out;
    double size = fabs(value);
    if (!isfinite(value)) {
        snprintf(out.text, sizeof out.text, "-");
        return out;
    }
    for (int i = 0; i < 4; i++) {
        double unit = i == 3 ? 1e3 : units[i].size;
        if (size < units[i].size * 0.999999 || size >= 1e15) continue;
        snprintf(out.text, sizeof out.text, "%.4g%s", value / unit, units[i].unit);
        return out;
    }
    /* 0.3, not 0.30000000000000004; and no "-0". */
    snprintf(out.text, sizeof out.text, "%.5g", size < 1e-300 ? 0 : value);
    return out;
}

static int linear_ticks(double low, double high, int n_most, double *out)
{
    static const double steps[] = {1, 2, 2.5, 5, 10};
    if (!(high > low)) {
        out[0] = low;
        return 1;
    }
    double unit = pow(10, floor(log10((high - low) / n_most)));
    for (int i = 0;; i++) {
        double step = steps[i % 5] * unit * (i < 5 ? 1 : 10);
        /* Slack for rounding: 0.3 / 0.1 is below 3. */
        double first = ceil(low / step - 1e-9), last = floor(high / step + 1e-9);
        if (last - first + 1 > n_most) continue;
        int n = 0;
        for (double k = first; k <= last + 0.5 && n < n_most; k++) out[n++] = k * step + 0.0;
        if (n == 0) out[n++] = low;
        return n;
    }
}

/* base^(k · step) within [low, high]. */
static int power_ticks(double base, double low, double high, int n_most, double *out)
{
    static const int steps[] = {1, 2, 3, 4, 5, 10, 20, 50, 100, 1000};
    double a = log(low) / log(base), b = log(high) / log(base);
    for (int i = 0; i < 10; i++) {
        double first = ceil(a / steps[i] - 1e-9), last = floor(b / steps[i] + 1e-9);
        if (last - first + 1 > n_most) continue;
        int n = 0;
        for (double k = first; k <= last + 0.5 && n < n_most; k++) out[n++] = pow(base, k * steps[i]);
        return n;
    }
    return 0;
}

/* Within a few decades also 2 and 5, or 3 of each. */
static int decade_ticks(double low, double high, int n_most, double *out)
{
    static const double digits[][4] = {{1, 2, 5, 0}, {1, 3, 0, 0}};
    for (int i = 0; i < 2; i++) {
        int n = 0;
        for (double k = floor(log10(low)); k <= ceil(log10(high)) && n <= n_most && high / low < 1e4; k++)
            for (const double *d = digits[i]; *d > 0 && n <= n_most; d++) {
                double value = *d * pow(10, k);
                if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9)) continue;
                if (n < n_most) out[n] = value;
                n++;
            }
        if (n >= 2 && n <= n_most) return n;
    }
    return power_ticks(10, low, high, n_most, out);
}

int chart_ticks(chart_scale_t scale, double low, double high, int n_most, double *out)
{
    int n = 0;
    ASSERT(n_most >= 3 && n_most <= CHART_MAX_TICKS && low <= high);
    if (scale == CHART_LOG2) n = power_ticks(2, low, high, n_most, out);
    if (scale == CHART_LOG) n = decade_ticks(low, high, n_most, out);
    /* The range contains fewer than two powers: use linear ticks. */
    if (n < 2) n = linear_ticks(low, high, n_most, out);
    return n;
}

bool svg_scale_has(const svg_scale_t *scale, double value)
{
    if (!isfinite(value) || fabs(value) > LARGEST) return false;
    return scale->scale == CHART_LINEAR || value > 1 / LARGEST;
}

/* Pads both ends, so that no value is on the frame. */
static void pad_range(svg_scale_t *s, const chart_axis_t *axis)
{
    if (axis->scale != CHART_LINEAR) {
        double room = s->high / s->low > 1.0001 ? pow(s->high / s->low, 0.03) : 1.5;
        s->low /= room;
        s->high *= room;
        return;
    }
    if (axis->from_zero) {
        if (s->low > 0) s->low = 0;
        if (s->high < 0) s->high = 0;
    }
    if (axis->at_least > s->high) s->high = axis->at_least;
    double range = s->high - s->low, size = fabs(s->high);
    if (!(range > 1e-9 * size)) range = size > 0 ? size : 1;
    if (!axis->from_zero || s->low < 0) s->low -= 0.05 * range;
    if (!(s->high > s->low) || !axis->from_zero || s->high > 0) s->high += 0.05 * range;
}

svg_scale_t svg_scale_make(const chart_axis_t *axis, double low, double high, int n_most)
{
    svg_scale_t s = {.scale = axis->scale, .low = low, .high = high, .to = 1};
    if (!(low <= high)) s.low = s.high = axis->scale == CHART_LINEAR && axis->from_zero ? 0 : 1;
    pad_range(&s, axis);
    s.n_ticks = chart_ticks(s.scale, s.low, s.high, n_most, s.ticks);
    for (int i = 0; i < s.n_ticks; i++)
        s.labels[i] = axis->label ? axis->label(s.ticks[i]) : chart_label(s.ticks[i]);
    return s;
}

double svg_scale_at(const svg_scale_t *scale, double value)
{
    double low = scale->low, high = scale->high;
    if (scale->scale != CHART_LINEAR) {
        low = log(low);
        high = log(high);
        value = log(value);
    }
    return scale->from + (value - low) / (high - low) * (scale->to - scale->from);
}

double svg_scale_label_width(const svg_scale_t *scale)
{
    double widest = 0;
    for (int i = 0; i < scale->n_ticks; i++) widest = fmax(widest, svg_text_width(scale->labels[i].text));
    return widest;
}
