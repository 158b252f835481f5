/* SPDX-License-Identifier: MIT */
/* Numbers of json_events.h. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

enum { SHOWN = 40 };

static err_t refuse_number(const char *text, size_t n_text, const char *why)
{
    bool cut = n_text > SHOWN;
    RAISE(ERR_DATA, "%.*s%s is %s", cut ? SHOWN : (int)n_text, text, cut ? "…" : "", why);
}

/* An integer of digits alone that cannot overflow. */
static bool read_digits(const char *text, size_t n_text, int64_t *out)
{
    const bool negative = n_text > 0 && text[0] == '-';
    int64_t value = 0;
    if (n_text == negative || n_text > 18) return false;
    for (size_t i = negative; i < n_text; i++) {
        const unsigned digit = (unsigned)text[i] - '0';
        if (digit > 9) return false;
        value = 10 * value + digit;
    }
    *out = negative ? -value : value;
    return true;
}

/* The integer that a number with a fraction or an exponent is, exactly: 42.0, 4.2e1. Up to 2^53, beyond which
 * the double that it was written from may have been rounded. */
static bool read_exact(const char *text, size_t n_text, int64_t *out)
{
    const int64_t most = INT64_C(1) << 53;
    const bool negative = text[0] == '-';
    int64_t value = 0, power = 0, n_zeros = 0; /* value × 10^(power + n_zeros) */
    bool dot = false;
    size_t i = negative || text[0] == '+';
    for (; i < n_text && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            dot = true;
            continue;
        }
        power -= dot;
        if (text[i] == '0') {
            n_zeros += value != 0;
            continue;
        }
        for (; n_zeros >= 0; n_zeros--)
            if ((value *= 10) >= most) return false;
        n_zeros = 0;
        value += text[i] - '0';
    }
    if (i < n_text) {
        char copy[8];
        if (n_text - i - 1 >= sizeof copy) return false;
        memcpy(copy, text + i + 1, n_text - i - 1);
        copy[n_text - i - 1] = '\0';
        power += strtol(copy, NULL, 10);
    }
    power += n_zeros;
    if (value != 0 && power < 0) return false;
    for (; value != 0 && power > 0; power--)
        if ((value *= 10) >= most) return false;
    if (value >= most) return false;
    *out = negative ? -value : value;
    return true;
}

/* Of the characters of a number, or of JSON's grammar. */
static bool read_int(const char *text, size_t n_text, int64_t *out)
{
    char copy[24], *end;
    if (read_digits(text, n_text, out)) return true;
    if (n_text < sizeof copy) {
        memcpy(copy, text, n_text);
        copy[n_text] = '\0';
        errno = 0;
        *out = strtoll(copy, &end, 10);
        if (!*end && !errno) return true;
    }
    return memchr(text, '.', n_text) || memchr(text, 'e', n_text) || memchr(text, 'E', n_text)
               ? read_exact(text, n_text, out)
               : false;
}

err_t json_parse_int(const char *text, size_t n_text, int64_t *out)
{
    return read_int(text, n_text, out) ? ERR_OK : refuse_number(text, n_text, "not a 64-bit integer");
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

static size_t skip_digits(const char *text, size_t n_text, size_t *at)
{
    const size_t from = *at;
    while (*at < n_text && text[*at] >= '0' && text[*at] <= '9') ++*at;
    return *at - from;
}

/* Narrows the text to the number in it, without spaces around it and leading zeros. False: it is none, such as
 * "", "nan", "0x10" or "1,5". */
static bool find_number(const char **text, size_t *n_text)
{
    static const char spaces[] = " \t\r\n";
    const char *s = *text;
    size_t n = *n_text, at = 0, n_digits;
    for (; n > 0 && s[0] && strchr(spaces, s[0]); n--) s++;
    while (n > 0 && s[n - 1] && strchr(spaces, s[n - 1])) n--;
    for (; n > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9'; n--) s++;
    *text = s;
    *n_text = n;
    at = n > 0 && (s[0] == '-' || s[0] == '+');
    n_digits = skip_digits(s, n, &at);
    if (at < n && s[at] == '.') {
        at++;
        n_digits += skip_digits(s, n, &at);
    }
    if (n_digits == 0) return false;
    if (at < n && (s[at] == 'e' || s[at] == 'E')) {
        at++;
        at += at < n && (s[at] == '-' || s[at] == '+');
        if (skip_digits(s, n, &at) == 0) return false;
    }
    return at == n;
}

/* Quotes text of unknown content. */
static err_t refuse_text(const char *text, size_t n_text, const char *what)
{
    char shown[SHOWN + 1], padded[SHOWN + 5] = "";
    size_t n = n_text < SHOWN ? n_text : SHOWN, length;
    memcpy(padded, text, n);
    memset(shown, 0, sizeof shown);
    for (size_t i = 0, k = 0; i < n; i += length) {
        length = utf8_length(padded + i);
        const bool fine = padded[i] && length > 0 && !utf8_is_control(padded + i, length);
        length += length == 0;
        if (fine)
            memcpy(shown + k, padded + i, length);
        else
            shown[k] = '?';
        k += fine ? length : 1;
    }
    RAISE(ERR_DATA, "the string '%s%s' is not %s", shown, n < n_text ? "…" : "", what);
}

err_t json_text_int(const char *text, size_t n_text, int64_t *out)
{
    const char *number = text;
    size_t n = n_text;
    /* An e is rather a digit of another base: 12e5. */
    if (find_number(&number, &n) && !memchr(number, 'e', n) && !memchr(number, 'E', n) &&
        read_int(number, n, out))
        return ERR_OK;
    return refuse_text(text, n_text, "an integer of 64 bits");
}

err_t json_text_real(const char *text, size_t n_text, double *out)
{
    const char *number = text;
    size_t n = n_text;
    if (find_number(&number, &n)) return json_parse_real(number, n, out);
    return refuse_text(text, n_text, "a number");
}
