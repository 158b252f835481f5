/* SPDX-License-Identifier: MIT */
/* Parses and formats the header of an .npy file, a Python dictionary literal. Array data is left to npz.c and
 * npz_write.c. */
#include "store/checkpoint/npy.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_MAX = 120 };

static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

err_t npy_header_bytes(const unsigned char *p, size_t *out)
{
    if (memcmp(p, magic, sizeof magic) != 0) RAISE(ERR_DATA, "it is not an .npy file");
    if (p[6] < 1 || p[6] > 3) RAISE(ERR_DATA, "unsupported .npy version %d.%d; expected 1 to 3", p[6], p[7]);
    uint32_t length =
        p[6] == 1 ? (uint32_t)p[8] | (uint32_t)p[9] << 8
                  : (uint32_t)p[8] | (uint32_t)p[9] << 8 | (uint32_t)p[10] << 16 | (uint32_t)p[11] << 24;
    size_t first = p[6] == 1 ? 10 : 12;
    if (length > NPY_HEADER_MAX - first || first + length < NPY_PREFIX)
        RAISE(ERR_DATA, "its header has an invalid length: %" PRIu32 " bytes", length);
    *out = first + length;
    return ERR_OK;
}

/* The unparsed rest of the header, a Python dictionary literal. */
typedef struct cursor {
    const char *at, *end;
} cursor_t;

static void skip_space(cursor_t *c)
{
    while (c->at < c->end && strchr(" \t\n", *c->at) && *c->at) c->at++;
}

static bool skip_word(cursor_t *c, const char *word)
{
    size_t n = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

static bool take_quoted(cursor_t *c, char *out, size_t n_bytes)
{
    size_t n = 0;
    if (!skip_word(c, "'")) return false;
    while (c->at < c->end && *c->at != '\'' && n + 1 < n_bytes && isprint((unsigned char)*c->at))
        out[n++] = *c->at++;
    out[n] = '\0';
    return skip_word(c, "'");
}

static bool take_number(cursor_t *c, int64_t *out)
{
    int64_t value = 0;
    skip_space(c);
    const char *first = c->at;
    for (; c->at < c->end && isdigit((unsigned char)*c->at); c->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *c->at - '0', &value))
            return false;
    *out = value;
    return c->at > first;
}

/* "()", "(3,)", "(3, 4)" */
static bool take_shape(cursor_t *c, shape_t *out)
{
    int64_t count = 1;
    *out = (shape_t){0};
    if (!skip_word(c, "(")) return false;
    while (!skip_word(c, ")")) {
        if (out->n_dims == SHAPE_MAX_DIMS || !take_number(c, &out->dim[out->n_dims])) return false;
        if (__builtin_mul_overflow(count, out->dim[out->n_dims++], &count)) return false;
        if (!skip_word(c, ",")) return skip_word(c, ")") && out->n_dims > 1;
    }
    return true;
}

static bool take_bool(cursor_t *c, bool *out)
{
    *out = skip_word(c, "True");
    return *out || skip_word(c, "False");
}

/* Copies the first line for a message; unprintable characters become ?. */
static void npy_printable(const char *text, size_t n_bytes, char out[SHOWN_MAX])
{
    size_t n = 0;
    for (; n < n_bytes && n + 1 < SHOWN_MAX && text[n] != '\n'; n++)
        out[n] = isprint((unsigned char)text[n]) ? text[n] : '?';
    while (n > 0 && out[n - 1] == ' ') n--;
    out[n] = '\0';
}

err_t npy_parse(const unsigned char *header, size_t n_bytes, npy_t *out)
{
    size_t first = header[6] == 1 ? 10 : 12;
    cursor_t c = {(const char *)header + first, (const char *)header + n_bytes};
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    char key[NPY_DESCR_MAX];
    bool good = skip_word(&c, "{");
    *out = (npy_t){.fortran = false};
    while (good && !skip_word(&c, "}")) {
        int what = 0;
        good = take_quoted(&c, key, sizeof key) && skip_word(&c, ":");
        if (good && strcmp(key, "descr") == 0)
            what = DESCR, good = take_quoted(&c, out->descr, sizeof out->descr);
        if (good && strcmp(key, "fortran_order") == 0) what = ORDER, good = take_bool(&c, &out->fortran);
        if (good && strcmp(key, "shape") == 0) what = SHAPE, good = take_shape(&c, &out->shape);
        good = good && what && !(seen & what);
        seen |= what;
        if (good && !skip_word(&c, ",")) {
            good = skip_word(&c, "}");
            break;
        }
    }
    skip_space(&c);
    char shown[SHOWN_MAX];
    npy_printable((const char *)header + first, n_bytes - first, shown);
    if (!good || seen != ALL || c.at != c.end)
        RAISE(ERR_DATA, "its header does not describe an array of numbers with up to %d dimensions: %s",
              SHAPE_MAX_DIMS, shown);
    return ERR_OK;
}

size_t npy_format(shape_t shape, char out[NPY_HEADER_MAX])
{
    enum { PREFIX = 10, ALIGN = 64 };
    char dims[128] = "";
    for (int i = 0; i < shape.n_dims; i++) {
        size_t used = strlen(dims);
        snprintf(dims + used, sizeof dims - used, "%s%" PRId64 "%s", i ? ", " : "", shape.dim[i],
                 shape.n_dims == 1 ? "," : "");
    }
    int n = snprintf(out + PREFIX, NPY_HEADER_MAX - PREFIX,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", dims);
    size_t total = (PREFIX + (size_t)n + 1 + ALIGN - 1) / ALIGN * ALIGN, length = total - PREFIX;
    memset(out + PREFIX + n, ' ', length - (size_t)n);
    out[total - 1] = '\n';
    memcpy(out, magic, sizeof magic);
    out[6] = 1, out[7] = 0;
    out[8] = (char)(length & 255), out[9] = (char)(length >> 8);
    return total;
}
