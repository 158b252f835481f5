/* SPDX-License-Identifier: MIT */
/* Finds given options that change nothing, because another option or a fact of the run rules them out. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/opt.h"

enum { MAX_TEXT = 128 };

bool opt_is_among(const char *word, const char *words)
{
    const size_t n = strlen(word);
    while (words && *words) {
        const size_t length = strcspn(words, "|");
        if (length == n && strncmp(word, words, n) == 0) return true;
        words += length + (words[length] == '|');
    }
    return false;
}

/* The value of an option; NULL: there is none of the name. */
static const char *value_of(const opt_group_t *groups, int n_groups, const char *name, char *out)
{
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (strcmp(groups[g].table[i].key, name) == 0) {
                opt_text(&groups[g], i, out, MAX_TEXT);
                return out;
            }
    return NULL;
}

static const char *fact_of(const opt_fact_t *facts, const char *name)
{
    for (; facts && facts->name; facts++)
        if (strcmp(facts->name, name) == 0) return facts->value;
    return NULL;
}

/* "--optimizer sgd, nesterov or lars" */
static void format_needs(const opt_when_t *when, char *out, size_t n_bytes)
{
    size_t used = (size_t)snprintf(out, n_bytes, "--%s", when->needs);
    for (const char *at = when->values; at && *at && used < n_bytes;) {
        const int length = (int)strcspn(at, "|");
        const bool first = at == when->values, last = at[length] == '\0';
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%.*s",
                                 first  ? " "
                                 : last ? " or "
                                        : ", ",
                                 length, at);
        at += length + !last;
    }
}

/* Whether the condition of an option holds. A condition on what the command does not have holds. */
static bool applies(const opt_group_t *groups, int n_groups, const opt_when_t *when, const opt_fact_t *facts)
{
    char text[MAX_TEXT];
    const char *value = fact_of(facts, when->needs);
    if (!value) value = value_of(groups, n_groups, when->needs, text);
    if (!value) return true;
    return when->values ? opt_is_among(value, when->values)
                        : value[0] && !opt_is_among(value, "0|false|none|off");
}

static void warn(const opt_when_t *when, const char *key)
{
    char needs[MAX_TEXT];
    format_needs(when, needs, sizeof needs);
    if (when->text)
        log_warn("--%s changes nothing in this run: it is for %s", key, when->text);
    else if (when->values)
        log_warn("--%s changes nothing in this run: it is for %s", key, needs);
    else
        log_warn("--%s changes nothing without %s", key, needs);
}

int opt_warn_idle(const opt_group_t *groups, int n_groups, const opt_when_t *whens, const opt_fact_t *facts,
                  const uint64_t *typed)
{
    int n = 0;
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const char *key = groups[g].table[i].key;
            if (!((typed ? typed[g] : groups[g].given) >> i & 1)) continue;
            for (const opt_when_t *when = whens; when->keys; when++)
                if (opt_is_among(key, when->keys) && !applies(groups, n_groups, when, facts)) {
                    warn(when, key);
                    n++;
                    break;
                }
        }
    return n;
}
