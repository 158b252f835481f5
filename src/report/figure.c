#include "report/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* value / 1, with four digits that count, and behind it the unit. */
static figure_t scaled(double value, const char *unit)
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
    return scaled(value, "");
}

figure_t figure_time(double sec)
{
    static const struct {
        double sec;
        const char *unit;
    } units[] = {{1, " s"}, {1e-3, " ms"}, {1e-6, " us"}, {1e-9, " ns"}};
    /* A bit below the unit, so that no 0.9999 ms turns into 1000 us. */
    for (int i = 0; i < 4; i++)
        if (fabs(sec) >= units[i].sec * 0.99995) return scaled(sec / units[i].sec, units[i].unit);
    return scaled(sec > 0 || sec < 0 ? sec / 1e-9 : sec, sec > 0 || sec < 0 ? " ns" : " s");
}

figure_t figure_size(double n_bytes)
{
    static const char *const units[] = {" TiB", " GiB", " MiB", " KiB"};
    for (int i = 0; i < 4; i++) {
        double unit = ldexp(1, 10 * (4 - i));
        double n = n_bytes / unit;
        if (n >= 1 && !(n > floor(n))) return scaled(n, units[i]);
    }
    return scaled(n_bytes, "");
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

quantity_t figure_quantity(const char *name, const char **unit, size_t *n_stem)
{
    static const struct {
        const char *suffix, *unit;
        quantity_t quantity;
    } known[] = {
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
    size_t n_name = strlen(name);
    *unit = "";
    *n_stem = n_name;
    /* The ends of an interval are what it is of. */
    if (n_name > 4 && strcmp(name + n_name - 4, "_low") == 0) n_name -= 4;
    if (n_name > 5 && strcmp(name + n_name - 5, "_high") == 0) n_name -= 5;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].suffix);
        if (n > n_name || memcmp(name + n_name - n, known[i].suffix, n) != 0) continue;
        if (n < n_name && name[n_name - n - 1] != '_') continue;
        *unit = known[i].unit;
        *n_stem = n < n_name ? n_name - n - 1 : 0;
        return known[i].quantity;
    }
    return QUANTITY_NUMBER;
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
