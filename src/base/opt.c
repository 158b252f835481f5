/* SPDX-License-Identifier: MIT */
/* Parses the command line and config files against the option tables, and writes the latter. Values are left to
 * opt_value.c, checks across options to the owner of a table. */
#include "base/opt.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_KEYS = 256, MAX_KEY = 64, MAX_GROUPS = 24 };

void opt_join(const char *const *list, const char *separator, char *out, size_t n_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (; *list && used < n_bytes; list++)
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%s", used ? separator : "", *list);
}

static bool find_option(opt_group_t *groups, int n_groups, const char *key, opt_group_t **group, int *index)
{
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (strcmp(groups[g].table[i].key, key) == 0) {
                *group = &groups[g];
                *index = i;
                return true;
            }
    return false;
}

static err_t raise_unknown(const opt_group_t *groups, int n_groups, const char *key)
{
    const char *keys[MAX_KEYS];
    int n = 0;
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n && n < MAX_KEYS; i++)
            if (groups[g].table[i].level != OPT_HIDDEN) keys[n++] = groups[g].table[i].key;
    char hint[96];
    if (opt_hint(key, keys, n, hint, sizeof hint)) RAISE(ERR_USAGE, "unknown option --%s; %s", key, hint);
    const char *nearest = opt_nearest(key, keys, n);
    if (nearest) RAISE(ERR_USAGE, "unknown option --%s; did you mean --%s?", key, nearest);
    RAISE(ERR_USAGE, "unknown option --%s; --help all lists the options", key);
}

/* One option at argv[*at]; *at moves to the last word it used. */
static err_t parse_one(opt_group_t *groups, int n_groups, int argc, char **argv, int *at)
{
    const char *word = argv[*at] + 2;
    const char *equals = strchr(word, '=');
    size_t n_key = equals ? (size_t)(equals - word) : strlen(word);
    char key[MAX_KEY];
    if (n_key == 0 || n_key >= sizeof key)
        RAISE(ERR_USAGE, "'%s' is not an option; --help all lists them", argv[*at]);
    memcpy(key, word, n_key);
    key[n_key] = '\0';

    opt_group_t *group;
    int index;
    const char *value = equals ? equals + 1 : NULL;
    if (!find_option(groups, n_groups, key, &group, &index)) {
        bool negated = strncmp(key, "no-", 3) == 0 &&
                       find_option(groups, n_groups, key + 3, &group, &index) &&
                       group->table[index].type == OPT_FLAG && !value;
        if (!negated) return raise_unknown(groups, n_groups, key);
        value = "false";
    } else if (group->table[index].type == OPT_FLAG) {
        if (!value) value = "true";
    } else if (!value) {
        char choices[96];
        if (*at + 1 >= argc || strncmp(argv[*at + 1], "--", 2) == 0)
            RAISE(ERR_USAGE, "--%s requires a value (%s)", key,
                  opt_placeholder(&group->table[index], choices, sizeof choices));
        value = argv[++*at];
    }
    if (group->given >> index & 1) RAISE(ERR_USAGE, "--%s is given twice", group->table[index].key);
    TRY(opt_set(group, index, value));
    group->given |= (uint64_t)1 << index;
    return ERR_OK;
}

/* The long form of -q or -v; NULL: another word. */
static char *long_form(const char *word)
{
    static char quiet[] = "--quiet", verbose[] = "--verbose";
    return strcmp(word, "-q") == 0 ? quiet : strcmp(word, "-v") == 0 ? verbose : NULL;
}

err_t opt_parse(opt_group_t *groups, int n_groups, int argc, char **argv, const char **positional,
                int max_positional, int *n_positional)
{
    bool options_end = false;
    int n = 0;
    for (int i = 0; i < argc; i++) {
        char *form = options_end ? NULL : long_form(argv[i]);
        if (form) {
            TRY(parse_one(groups, n_groups, 1, &form, &(int){0}));
        } else if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && strncmp(argv[i], "--", 2) == 0) {
            TRY(parse_one(groups, n_groups, argc, argv, &i));
        } else if (!options_end && argv[i][0] == '-' && argv[i][1]) {
            bool has_quiet = find_option(groups, n_groups, "quiet", &(opt_group_t *){NULL}, &(int){0});
            RAISE(ERR_USAGE, "unknown option %s; short options: -h%s; --help all lists the others", argv[i],
                  has_quiet ? ", -q, -v" : "");
        } else if (n >= max_positional) {
            RAISE(ERR_USAGE, "unexpected argument '%s'", argv[i]);
        } else {
            positional[n++] = argv[i];
        }
    }
    if (n_positional) *n_positional = n;
    return ERR_OK;
}

bool opt_given(const opt_group_t *groups, int n_groups, const char *key)
{
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (strcmp(groups[g].table[i].key, key) == 0) return groups[g].given >> i & 1;
    ASSERT(!"unknown key");
    return false;
}

bool opt_listed(const char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (strcmp(*list, word) == 0) return true;
    return false;
}

/* Whether read_line reads the value back unchanged. */
static bool reads_back(const char *value)
{
    size_t n = strlen(value);
    if (n == 0) return true;
    if (strchr(" \t\r#", value[0]) || strchr(" \t\r", value[n - 1]) || strchr(value, '\n')) return false;
    return !strstr(value, " #") && !strstr(value, "\t#");
}

err_t opt_config_write(const opt_group_t *groups, int n_groups, const char *const *without, char **out)
{
    size_t used = 0;
    *out = NULL;
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++) {
            char value[4200];
            opt_text(&groups[g], i, value, sizeof value);
            bool unset = !groups[g].table[i].initial && !(groups[g].given >> i & 1);
            if (opt_listed(without, groups[g].table[i].key)) continue;
            if (unset && (value[0] == '\0' || strcmp(value, "0") == 0)) continue;
            if (!reads_back(value)) {
                mem_free(out);
                RAISE(
                    ERR_USAGE,
                    "--%s '%s' cannot be written to a config file: remove line breaks, blanks at either end, "
                    "and # at the start or after a blank",
                    groups[g].table[i].key, value);
            }
            size_t need = used + strlen(groups[g].table[i].key) + strlen(value) + 8;
            err_t err = mem_grow((int64_t)need, 1, "options", out);
            if (err != ERR_OK) mem_free(out);
            TRY(err);
            used += (size_t)snprintf(*out + used, need - used, "%s = %s\n", groups[g].table[i].key, value);
        }
    return *out ? ERR_OK : mem_new(1, "options", out);
}

static char *trim_blanks(char *text)
{
    while (*text == ' ' || *text == '\t') text++;
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1])) text[--n] = '\0';
    return text;
}

/* before: per group, the options given before the first line. */
static err_t read_line(opt_group_t *groups, int n_groups, const uint64_t *before, char *line)
{
    for (char *c = line; (c = strchr(c, '#')); c++)
        if (c == line || c[-1] == ' ' || c[-1] == '\t') {
            *c = '\0';
            break;
        }
    char *key = trim_blanks(line);
    if (!*key) return ERR_OK;
    char *equals = strchr(key, '=');
    if (!equals) RAISE(ERR_USAGE, "invalid line '%s': expected key = value", key);
    *equals = '\0';
    key = trim_blanks(key);
    opt_group_t *group;
    int index;
    if (!find_option(groups, n_groups, key, &group, &index)) return raise_unknown(groups, n_groups, key);
    if (before[group - groups] >> index & 1) return ERR_OK;
    if (group->given >> index & 1) RAISE(ERR_USAGE, "%s is given twice", key);
    TRY(opt_set(group, index, trim_blanks(equals + 1)));
    group->given |= (uint64_t)1 << index;
    return ERR_OK;
}

err_t opt_config_read(opt_group_t *groups, int n_groups, const char *text, const char *name, char **storage)
{
    uint64_t before[MAX_GROUPS];
    ASSERT(n_groups <= MAX_GROUPS);
    for (int g = 0; g < n_groups; g++) before[g] = groups[g].given;
    TRY(mem_strdup(text, storage));
    int number = 1;
    for (char *line = *storage, *end; line; line = end, number++) {
        end = strchr(line, '\n');
        if (end) *end++ = '\0';
        err_t err = read_line(groups, n_groups, before, line);
        if (err != ERR_OK) {
            mem_free(storage);
            return err_context(err, "%s, line %d", name, number);
        }
    }
    return ERR_OK;
}
