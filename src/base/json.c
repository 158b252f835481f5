/* SPDX-License-Identifier: MIT */
/* A growing text buffer with a comma rule. Reals get the fewest digits, nine or more, that read back to the
 * same double. Reading is in base/json_read.c. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/utf8.h"

static void json_append(json_t *j, const char *text, size_t n)
{
    if (j->status != ERR_OK) return;
    j->status = mem_grow((int64_t)(j->n_bytes + n + 1), 1, "a JSON record", &j->text);
    if (j->status != ERR_OK) return;
    memcpy(j->text + j->n_bytes, text, n);
    j->n_bytes += n;
    j->text[j->n_bytes] = '\0';
}

static void json_append_quoted(json_t *j, const char *value)
{
    json_append(j, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)value; *s;) {
        char escape[8];
        size_t n = utf8_length((const char *)s);
        if (*s == '"' || *s == '\\')
            json_append(j, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", *s));
        else if (*s < 0x20 || *s == 0x7F)
            json_append(j, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", *s));
        else if (n == 2 && s[0] == 0xC2 && s[1] < 0xA0)
            json_append(j, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", s[1])); /* C1 */
        else if (n)
            json_append(j, (const char *)s, n);
        else
            json_append(j, "?", 1);
        s += n ? n : 1;
    }
    json_append(j, "\"", 1);
}

static void start_value(json_t *j, const char *key)
{
    if (j->need_comma) json_append(j, ",", 1);
    j->need_comma = true;
    if (!key) return;
    json_append_quoted(j, key);
    json_append(j, ":", 1);
}

static void open_scope(json_t *j, const char *key, const char *bracket)
{
    start_value(j, key);
    json_append(j, bracket, 1);
    j->need_comma = false;
}

static void close_scope(json_t *j, const char *bracket)
{
    json_append(j, bracket, 1);
    j->need_comma = true;
}

void json_reset(json_t *j)
{
    j->n_bytes = 0;
    j->need_comma = false;
    j->status = ERR_OK;
    if (j->text) j->text[0] = '\0';
}

void json_free(json_t *j)
{
    mem_free(&j->text);
    *j = (json_t){0};
}

void json_object_begin(json_t *j, const char *key)
{
    open_scope(j, key, "{");
}

void json_object_end(json_t *j)
{
    close_scope(j, "}");
}

void json_array_begin(json_t *j, const char *key)
{
    open_scope(j, key, "[");
}

void json_array_end(json_t *j)
{
    close_scope(j, "]");
}

void json_string(json_t *j, const char *key, const char *value)
{
    start_value(j, key);
    if (value)
        json_append_quoted(j, value);
    else
        json_append(j, "null", 4);
}

void json_int(json_t *j, const char *key, int64_t value)
{
    char text[32];
    start_value(j, key);
    json_append(j, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

json_number_t json_number(double value)
{
    json_number_t out;
    for (int digits = 9; digits <= 17; digits++) {
        snprintf(out.text, sizeof out.text, "%.*g", digits, value);
        double back = strtod(out.text, NULL);
        if (back >= value && back <= value) break;
    }
    return out;
}

void json_real(json_t *j, const char *key, double value)
{
    json_number_t number = isfinite(value) ? json_number(value) : (json_number_t){"null"};
    start_value(j, key);
    json_append(j, number.text, strlen(number.text));
}

void json_hex(json_t *j, const char *key, uint64_t value, int n_digits)
{
    char text[24];
    snprintf(text, sizeof text, "%0*llx", n_digits, (unsigned long long)value);
    json_string(j, key, text);
}

void json_raw(json_t *j, const char *key, const char *text)
{
    start_value(j, key);
    json_append(j, text, strlen(text));
}

void json_bool(json_t *j, const char *key, bool value)
{
    start_value(j, key);
    json_append(j, value ? "true" : "false", value ? 4 : 5);
}

err_t json_write_file(json_t *j, const char *path)
{
    json_append(j, "\n", 1);
    TRY(j->status);
    return fs_write_text(path, j->text);
}
