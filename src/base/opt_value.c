/* SPDX-License-Identifier: MIT */
/* Values of options: parses and formats one by its type, sets defaults, copies, writes them as JSON. Command lines
 * and config files are left to opt.c. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"

static void *opt_field(const opt_group_t *group, const opt_t *opt)
{
    return (char *)group->values + opt->offset;
}

static size_t field_bytes(const opt_t *opt)
{
    static const size_t n_bytes[] = {
        [OPT_INT] = sizeof(int64_t),   [OPT_SIZE] = sizeof(int64_t), [OPT_REAL] = sizeof(double),
        [OPT_STRING] = sizeof(char *), [OPT_FLAG] = sizeof(bool),    [OPT_CHOICE] = sizeof(char *),
    };
    return n_bytes[opt->type];
}

static err_t check_range(const opt_t *opt, double value, const char *text)
{
    if (opt->min < opt->max && (value < opt->min || value > opt->max))
        RAISE(ERR_USAGE, "invalid --%s '%s': out of range; expected a value from %.10g to %.10g", opt->key,
              text, opt->min, opt->max);
    return ERR_OK;
}

/* A size whose default is "auto" accepts that word; its value is 0. */
static bool may_be_auto(const opt_t *opt)
{
    return opt->type == OPT_SIZE && opt->initial && strcmp(opt->initial, "auto") == 0;
}

static err_t parse_integer(const opt_t *opt, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    int64_t unit = 1;
    if (may_be_auto(opt) && strcmp(text, "auto") == 0) {
        *out = 0;
        return ERR_OK;
    }
    if (opt->type == OPT_SIZE && *end && end > text) {
        const char *suffix = strchr("KMG", *end & ~0x20);
        if (suffix && *suffix) {
            unit = (int64_t)1 << (10 * (suffix - "KMG" + 1));
            end++;
            if ((*end & ~0x20) == 'B') end++;
        }
    }
    int64_t product;
    if (end == text || *end)
        RAISE(ERR_USAGE, "invalid --%s '%s': expected %s%s", opt->key, text,
              opt->type == OPT_SIZE ? "a size such as 4096, 64K, 8M or 1G" : "a whole number",
              may_be_auto(opt) ? ", or auto" : "");
    if (errno == ERANGE || __builtin_mul_overflow((int64_t)value, unit, &product))
        RAISE(ERR_USAGE, "invalid --%s '%s': the number is too large", opt->key, text);
    TRY(check_range(opt, (double)product, text));
    *out = product;
    return ERR_OK;
}

static err_t parse_real(const opt_t *opt, const char *text, double *out)
{
    char *end;
    double value = strtod(text, &end);
    if (end > text && strcmp(end, "%") == 0) {
        value /= 100;
        end++;
    }
    if (end == text || *end || !isfinite(value))
        RAISE(ERR_USAGE, "invalid --%s '%s': expected a number", opt->key, text);
    TRY(check_range(opt, value, text));
    *out = value;
    return ERR_OK;
}

static err_t parse_choice(const opt_t *opt, const char *text, const char **out)
{
    char list[512];
    for (const char *const *choice = opt->choices; *choice; choice++)
        if (strcmp(*choice, text) == 0) {
            *out = *choice;
            return ERR_OK;
        }
    opt_join(opt->choices, ", ", list, sizeof list);
    RAISE(ERR_USAGE, "invalid --%s '%s': expected one of %s", opt->key, text, list);
}

err_t opt_set(opt_group_t *group, int index, const char *text)
{
    const opt_t *opt = &group->table[index];
    void *value = opt_field(group, opt);
    switch (opt->type) {
    case OPT_INT:
    case OPT_SIZE:
        return parse_integer(opt, text, value);
    case OPT_REAL:
        return parse_real(opt, text, value);
    case OPT_CHOICE:
        return parse_choice(opt, text, value);
    case OPT_STRING:
        memcpy(value, &text, sizeof text);
        return ERR_OK;
    case OPT_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            RAISE(ERR_USAGE, "--%s takes no value; use --%s or --no-%s", opt->key, opt->key, opt->key);
        *(bool *)value = text[0] == 't';
        return ERR_OK;
    }
    return ERR_OK;
}

err_t opt_defaults(opt_group_t *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++) {
        ASSERT(groups[g].n <= 64);
        groups[g].given = 0;
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            memset(opt_field(&groups[g], opt), 0, field_bytes(opt));
            if (opt->initial) TRY(opt_set(&groups[g], i, opt->initial));
        }
    }
    return ERR_OK;
}

void opt_text(const opt_group_t *group, int index, char *out, size_t n_bytes)
{
    const opt_t *opt = &group->table[index];
    const void *value = opt_field(group, opt);
    const char *text;
    out[0] = '\0';
    switch (opt->type) {
    case OPT_INT:
    case OPT_SIZE:
        if (may_be_auto(opt) && *(const int64_t *)value == 0)
            snprintf(out, n_bytes, "auto");
        else
            snprintf(out, n_bytes, "%" PRId64, *(const int64_t *)value);
        break;
    case OPT_REAL:
        snprintf(out, n_bytes, "%s", json_number(*(const double *)value).text);
        break;
    case OPT_FLAG:
        snprintf(out, n_bytes, "%s", *(const bool *)value ? "true" : "false");
        break;
    case OPT_STRING:
    case OPT_CHOICE:
        memcpy(&text, value, sizeof text);
        snprintf(out, n_bytes, "%s", text ? text : "");
        break;
    }
}

void opt_copy(opt_group_t *to, const opt_group_t *from, int index)
{
    ASSERT(to->table == from->table);
    const opt_t *opt = &to->table[index];
    memcpy(opt_field(to, opt), opt_field(from, opt), field_bytes(opt));
}

void opt_json(const opt_group_t *groups, int n_groups, json_t *j, const char *key)
{
    json_object_begin(j, key);
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            const void *value = opt_field(&groups[g], opt);
            const char *text;
            if (opt->type == OPT_INT || opt->type == OPT_SIZE)
                json_int(j, opt->key, *(const int64_t *)value);
            else if (opt->type == OPT_REAL)
                json_real(j, opt->key, *(const double *)value);
            else if (opt->type == OPT_FLAG)
                json_bool(j, opt->key, *(const bool *)value);
            else {
                memcpy(&text, value, sizeof text);
                json_string(j, opt->key, text);
            }
        }
    json_object_end(j);
}
