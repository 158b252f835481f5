/* SPDX-License-Identifier: MIT */
/* Prints option tables: aligned columns for --help, whole or by topics; tab-separated lines for --help=tsv, the source of
 * shell completion and the manual page. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "text/opt.h"
#include "text/table.h"

enum { PLACEHOLDER_MAX = 96, COLUMNS = 80, LEFT = 24, NARROW = 60, UNDER = 6 };

int opt_help_columns(void)
{
    return isatty(STDOUT_FILENO) ? OPT_WIDE : COLUMNS;
}

static void help_option(table_t *table, const opt_t *opt)
{
    char choices[PLACEHOLDER_MAX], initial[96] = "", text[1024];
    const char *value = opt_placeholder(opt, choices, sizeof choices);
    const bool is_on = opt->type == OPT_FLAG && opt->initial && strcmp(opt->initial, "true") == 0;
    if (is_on)
        snprintf(initial, sizeof initial, " [on; off: --no-%s]", opt->key);
    else if (opt->initial && opt->type != OPT_FLAG)
        snprintf(initial, sizeof initial, " [%s]", opt->initial);
    if (table_line_width(stdout, opt_help_columns()) >= NARROW) {
        table_cell(table, "--%s%s%s", opt->key, value && value[0] ? " " : "", value ? value : "");
        table_cell(table, "%s%s", opt->help, initial);
        return;
    }
    /* No room for two columns. */
    snprintf(text, sizeof text, "%s%s", opt->help, initial);
    print_out("  --%s%s%s\n", opt->key, value && value[0] ? " " : "", value ? value : "");
    table_put_wrapped(stdout, text, 0, UNDER, opt_help_columns());
}

static void topic_of(const opt_group_t *group, char out[OPT_TOPIC_BYTES])
{
    int n = 0;
    for (const char *at = group->title; isalpha((unsigned char)*at) && n < OPT_TOPIC_BYTES - 1; at++)
        out[n++] = (char)tolower((unsigned char)*at);
    out[n] = '\0';
}

static bool is_about(const opt_group_t *group, const char *topic)
{
    char own[OPT_TOPIC_BYTES];
    topic_of(group, own);
    return strcmp(topic, "all") == 0 || strcmp(topic, own) == 0;
}

/* Prints the options of a group under its title, or, without a topic, adds common ones to the list of all groups. */
static err_t help_group(table_t *table, const opt_group_t *group, const char *topic, bool first, int *n_shown)
{
    const int before = *n_shown;
    for (int i = 0; i < group->n; i++) {
        const opt_t *opt = &group->table[i];
        if (opt->level == OPT_HIDDEN || (!topic && opt->level != OPT_COMMON)) continue;
        if (topic && *n_shown == before) print_out("%s%s:\n", first ? "" : "\n", group->title);
        if (!topic && *n_shown == 0) print_out("\nOptions:\n");
        ++*n_shown;
        help_option(table, opt);
    }
    return topic && *n_shown > before ? table_print(table, stdout) : ERR_OK;
}

err_t opt_help(const opt_group_t *groups, int n_groups, const char *topic, int *n_left_out)
{
    table_t table = {.columns = {{NULL, true, .min_width = LEFT, .max_width = LEFT}, {NULL, true}},
                     .n_columns = 2,
                     .indent = 2,
                     .max_width = opt_help_columns()};
    const bool alone = topic && strcmp(topic, "all") != 0; /* nothing is printed before */
    int n_all = 0, n_shown = 0;
    err_t err = ERR_OK;
    for (int g = 0; g < n_groups; g++) {
        for (int i = 0; i < groups[g].n; i++) n_all += groups[g].table[i].level != OPT_HIDDEN;
        if (topic && !is_about(&groups[g], topic)) continue;
        TRY_OUT(err, help_group(&table, &groups[g], topic, alone && n_shown == 0, &n_shown));
    }
    if (!topic && n_shown > 0) err = table_print(&table, stdout);
out:
    table_free(&table);
    if (n_left_out) *n_left_out = n_all - n_shown;
    return err;
}

int opt_topics(const opt_group_t *groups, int n_groups, char out[OPT_MAX_TOPICS][OPT_TOPIC_BYTES])
{
    int n = 0;
    for (int g = 0; g < n_groups; g++) {
        bool seen = true;
        for (int i = 0; i < groups[g].n; i++) seen &= groups[g].table[i].level == OPT_HIDDEN;
        for (int k = 0; k < n; k++) seen |= is_about(&groups[g], out[k]);
        if (seen) continue;
        ASSERT(n < OPT_MAX_TOPICS);
        topic_of(&groups[g], out[n++]);
    }
    return n;
}

bool opt_topic_of(const opt_group_t *groups, int n_groups, const char *key, char out[OPT_TOPIC_BYTES])
{
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < groups[g].n; i++) {
            if (groups[g].table[i].level == OPT_HIDDEN || strcmp(groups[g].table[i].key, key) != 0) continue;
            topic_of(&groups[g], out);
            return true;
        }
    return false;
}

void opt_help_tsv(const opt_group_t *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++) {
        char topic[OPT_TOPIC_BYTES];
        topic_of(&groups[g], topic);
        print_out("group\t%s\t%s\n", groups[g].title, topic);
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            if (opt->level == OPT_HIDDEN) continue;
            char choices[PLACEHOLDER_MAX];
            print_out("option\t%s\t%s\t%s\t%s\t%s\n", opt->key, opt->type == OPT_FLAG ? "flag" : "value",
                      opt_placeholder(opt, choices, sizeof choices), opt->initial ? opt->initial : "",
                      opt->help);
        }
    }
}
