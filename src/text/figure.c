/* SPDX-License-Identifier: MIT */
/* Formats values for tables and charts, and derives a quantity's kind and unit from the suffix of its name in
 * a record (sec, bytes, gbs, share, …). */
#include "text/figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four significant digits, then the unit. */
static figure_t figure_scaled(double value, const char *unit)
{
    figure_t out;
    double size = fabs(value);
    if (!isfinite(value))
        snprintf(out.text, sizeof out.text, "-");
    else if (size < 1e15 && !(value > floor(value)))
        snprintf(out.text, sizeof out.text, "%.0f%s", value + 0.0, unit);
    else if (size >= 1e7 || size < 1e-4)
        snprintf(out.text, sizeof out.text, "%.4g%s", value, unit);
    else if (size >= 1e4)
        snprintf(out.text, sizeof out.text, "%.0f%s", value, unit);
    else
        snprintf(out.text, sizeof out.text, "%.*f%s", 3 - (int)floor(log10(size * 1.00005)), value, unit);
    return out;
}

figure_t figure_number(double value)
{
    return figure_scaled(value, "");
}

figure_t figure_time(double sec)
{
    static const struct {
        double sec;
        const char *unit;
    } units[] = {{1, " s"}, {1e-3, " ms"}, {1e-6, " us"}, {1e-9, " ns"}};
    /* Slightly below the unit, so that 0.99996 ms is not printed as 1000 us. */
    for (int i = 0; i < 4; i++)
        if (fabs(sec) >= units[i].sec * 0.99995) return figure_scaled(sec / units[i].sec, units[i].unit);
    return figure_scaled(sec > 0 || sec < 0 ? sec / 1e-9 : sec, sec > 0 || sec < 0 ? " ns" : " s");
}

figure_t figure_size(double n_bytes)
{
    static const char *const units[] = {" TiB", " GiB", " MiB", " KiB"};
    for (int i = 0; i < 4; i++) {
        double unit = ldexp(1, 10 * (4 - i));
        double n = n_bytes / unit;
        if (n >= 1 && !(n > floor(n))) return figure_scaled(n, units[i]);
    }
    return figure_scaled(n_bytes, "");
}

figure_t figure_bytes(double n_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    figure_t out;
    int u = 0;
    if (n_bytes < 0 || isnan(n_bytes)) {
        snprintf(out.text, sizeof out.text, n_bytes < 0 ? "unknown" : "-");
        return out;
    }
    for (; n_bytes >= 1023.5 && u < 4; u++) n_bytes /= 1024;
    snprintf(out.text, sizeof out.text, "%.*f %s", u > 0 && n_bytes < 9.95 ? 1 : 0, n_bytes, units[u]);
    return out;
}

figure_t figure_count(int64_t n)
{
    figure_t out;
    char digits[24];
    int n_digits = snprintf(digits, sizeof digits, "%lld", (long long)n), used = 0;
    for (int i = 0; i < n_digits; i++) {
        if (i > (n < 0) && (n_digits - i) % 3 == 0) out.text[used++] = ',';
        out.text[used++] = digits[i];
    }
    out.text[used] = '\0';
    return out;
}

/* Not json_number, which searches for the shortest text: it takes several times as long, and a report may
 * format millions of values. */
figure_t figure_exact(double value)
{
    figure_t out = {""};
    if (!isfinite(value)) return out;
    snprintf(out.text, sizeof out.text, "%.15g", value);
    double back = strtod(out.text, NULL);
    if (back < value || back > value) snprintf(out.text, sizeof out.text, "%.17g", value);
    return out;
}

figure_t figure_percent(double fraction)
{
    figure_t out;
    double percent = 100 * fraction, size = fabs(percent);
    if (isfinite(percent))
        snprintf(out.text, sizeof out.text, "%.*f %%", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, percent);
    else
        snprintf(out.text, sizeof out.text, "-");
    return out;
}

figure_t figure_share(double fraction)
{
    figure_t out;
    snprintf(out.text, sizeof out.text, isfinite(fraction) ? "%.0f %%" : "-", 100 * fraction);
    return out;
}

figure_t figure_change(double fraction)
{
    figure_t out;
    double percent = 100 * fraction;
    if (isfinite(percent))
        snprintf(out.text, sizeof out.text, fabs(percent) >= 0.05 ? "%+.1f %%" : "0.0 %%", percent);
    else
        snprintf(out.text, sizeof out.text, "-");
    return out;
}

figure_t figure_rate(double value, const char *unit)
{
    char with_blank[32];
    snprintf(with_blank, sizeof with_blank, " %s", unit);
    return figure_scaled(value, with_blank);
}

figure_t figure_throughput(double rate, double median, const char *unit)
{
    figure_t out = unit[0] ? figure_rate(rate, unit) : figure_number(rate);
    const size_t n = strlen(out.text);
    if (isfinite(median) && !(fabs(median - rate) <= 0.1 * rate))
        snprintf(out.text + n, sizeof out.text - n, " (median step: %.16s)", figure_number(median).text);
    return out;
}

figure_t figure_bandwidth(double bytes_per_sec)
{
    bool large = !(fabs(bytes_per_sec) < 0.99995e9);
    return figure_scaled(bytes_per_sec / (large ? 1e9 : 1e6), large ? " GB/s" : " MB/s");
}

figure_t figure_duration(double sec)
{
    figure_t out;
    unsigned total = !(sec > 0) ? 0 : sec > 359999 ? 359999 : (unsigned)(sec + 0.5);
    if (total >= 3600)
        snprintf(out.text, sizeof out.text, "%u:%02u:%02u", total / 3600, total / 60 % 60, total % 60);
    else
        snprintf(out.text, sizeof out.text, "%u:%02u", total / 60, total % 60);
    return out;
}

typedef struct suffix {
    const char *text, *unit;
    quantity_t quantity;
} suffix_t;

static const suffix_t suffixes[] = {
    {"images_per_sec", "images/s", QUANTITY_NUMBER},
    {"per_sec", "1/s", QUANTITY_NUMBER},
    {"gbs", "GB/s", QUANTITY_NUMBER},
    {"mbs", "MB/s", QUANTITY_NUMBER},
    {"tflops", "TFLOP/s", QUANTITY_NUMBER},
    {"gflops", "GFLOP/s", QUANTITY_NUMBER},
    {"sec", "s", QUANTITY_TIME},
    {"bytes", "B", QUANTITY_SIZE},
    {"share", "", QUANTITY_PERCENT},
    {"accuracy", "", QUANTITY_PERCENT},
    {"efficiency", "", QUANTITY_PERCENT},
    {"of_peak", "", QUANTITY_PERCENT},
};

/* Length without a tail that may follow the unit: an end of an interval, or the sum over ranks. */
static size_t without_tail(const char *name)
{
    static const char *const tails[] = {"_low", "_high", "_all"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        size_t n_tail = strlen(tails[i]);
        if (n > n_tail && strcmp(name + n - n_tail, tails[i]) == 0) return n - n_tail;
    }
    return n;
}

/* *start: offset of the suffix in the name. Returns NULL if the suffix is unknown. */
static const suffix_t *find_suffix(const char *name, size_t *start)
{
    size_t n_name = without_tail(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t n = strlen(suffixes[i].text);
        if (n > n_name || memcmp(name + n_name - n, suffixes[i].text, n) != 0) continue;
        if (n < n_name && name[n_name - n - 1] != '_') continue;
        *start = n_name - n;
        return &suffixes[i];
    }
    return NULL;
}

quantity_t figure_quantity(const char *name, const char **unit)
{
    size_t start;
    const suffix_t *suffix = find_suffix(name, &start);
    *unit = suffix ? suffix->unit : "";
    return suffix ? suffix->quantity : QUANTITY_NUMBER;
}

bool figure_heading(const char *name, char *out, size_t n_bytes)
{
    size_t start;
    const suffix_t *suffix = find_suffix(name, &start);
    if (!suffix || suffix->quantity != QUANTITY_NUMBER) return false;
    const char *tail = name + start + strlen(suffix->text);
    int n = snprintf(out, n_bytes, "%.*s%s%s%s%s", start ? (int)start - 1 : 0, name, start ? " " : "",
                     suffix->unit, *tail ? " " : "", *tail ? tail + 1 : "");
    return n >= 0 && (size_t)n < n_bytes;
}

figure_t figure_of(quantity_t quantity, double value)
{
    switch (quantity) {
    case QUANTITY_TIME:
        return figure_time(value);
    case QUANTITY_SIZE:
        return figure_size(value);
    case QUANTITY_PERCENT:
        return figure_percent(value);
    case QUANTITY_NUMBER:
        break;
    }
    return figure_number(value);
}
