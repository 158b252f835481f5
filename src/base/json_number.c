/* SPDX-License-Identifier: MIT */
/* Numbers of json_events.h. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_events.h"

enum { SHOWN = 40 };

static err_t refuse_number(const char *text, size_t n_text, const char *why)
{
    bool cut = n_text > SHOWN;
    RAISE(ERR_DATA, "%.*s%s is %s", cut ? SHOWN : (int)n_text, text, cut ? "…" : "", why);
}

err_t json_parse_int(const char *text, size_t n_text, int64_t *out)
{
    char copy[24], *end;
    if (n_text < sizeof copy) {
        memcpy(copy, text, n_text);
        copy[n_text] = '\0';
        errno = 0;
        *out = strtoll(copy, &end, 10);
        if (!*end && !errno) return ERR_OK;
    }
    return refuse_number(text, n_text, "not a 64-bit integer");
}

/* The fast path for digits with an optional dot. If neither the digits nor the power of ten need rounding,
 * one division rounds as strtod does (Clinger 1990, "How to Read Floating Point Numbers Accurately"). */
static bool read_short(const char *text, size_t n_text, double *out)
{
    static const double powers[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    int64_t digits = 0;
    int n_decimals = 0;
    bool negative = text[0] == '-', dot = false;
    if (n_text > 15) return false;
    for (size_t i = negative; i < n_text; i++) {
        if (text[i] == '.') {
            dot = true;
        } else if (text[i] >= '0' && text[i] <= '9') {
            digits = 10 * digits + (text[i] - '0');
            n_decimals += dot;
        } else {
            return false;
        }
    }
    double value = (double)digits / powers[n_decimals];
    *out = negative ? -value : value;
    return true;
}

err_t json_parse_real(const char *text, size_t n_text, double *out)
{
    char copy[512];
    if (read_short(text, n_text, out)) return ERR_OK;
    if (n_text < sizeof copy) {
        memcpy(copy, text, n_text);
        copy[n_text] = '\0';
        *out = strtod(copy, NULL);
        if (isfinite(*out)) return ERR_OK;
    }
    return refuse_number(text, n_text, "too large or too long for a number");
}
