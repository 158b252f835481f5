/* SPDX-License-Identifier: MIT */
/* Prints option tables: aligned columns for --help; tab-separated lines for --help=tsv, the source of shell
 * completion and the manual page. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/opt.h"
#include "base/print.h"
#include "base/table.h"

enum { PLACEHOLDER_MAX = 96, COLUMNS = 80, LEFT = 24, NARROW = 60, UNDER = 6 };

const char *opt_placeholder(const opt_t *opt, char *out, size_t n_bytes)
{
    if (opt->type == OPT_FLAG) return "";
    if (opt->type != OPT_CHOICE) return opt->unit;
    opt_join(opt->choices, "|", out, n_bytes);
    return out;
}

int opt_help_columns(void)
{
    return isatty(STDOUT_FILENO) ? OPT_WIDE : COLUMNS;
}

static void help_default(const opt_t *opt, char *out, size_t n_bytes)
{
    bool is_on = opt->type == OPT_FLAG && opt->initial && strcmp(opt->initial, "true") == 0;
    out[0] = '\0';
    if (is_on)
        snprintf(out, n_bytes, " [on; off: --no-%s]", opt->key);
    else if (opt->initial && opt->type != OPT_FLAG)
        snprintf(out, n_bytes, " [%s]", opt->initial);
}

/* One option of a terminal that has no room for two columns. */
static void help_narrow(const opt_t *opt, const char *value, const char *initial)
{
    char text[1024];
    snprintf(text, sizeof text, "%s%s", opt->help, initial);
    print_out("  --%s%s%s\n", opt->key, value && value[0] ? " " : "", value ? value : "");
    table_put_wrapped(stdout, text, 0, UNDER, opt_help_columns());
}

static err_t help_group(const opt_group_t *group, bool all, int *n_left_out)
{
    table_t table = {.columns = {{NULL, true, .min_width = LEFT, .max_width = LEFT}, {NULL, true}},
                     .n_columns = 2,
                     .indent = 2,
                     .max_width = opt_help_columns()};
    const bool narrow = table_line_width(stdout, opt_help_columns()) < NARROW;
    int n_shown = 0;
    for (int i = 0; i < group->n; i++) {
        const opt_t *opt = &group->table[i];
        char choices[PLACEHOLDER_MAX], initial[96];
        if (opt->level == OPT_HIDDEN) continue;
        if (!all && opt->level != OPT_COMMON) {
            ++*n_left_out;
            continue;
        }
        const char *value = opt_placeholder(opt, choices, sizeof choices);
        help_default(opt, initial, sizeof initial);
        if (n_shown++ == 0) print_out("\n%s:\n", group->title);
        if (narrow) {
            help_narrow(opt, value, initial);
            continue;
        }
        table_cell(&table, "--%s%s%s", opt->key, value && value[0] ? " " : "", value ? value : "");
        table_cell(&table, "%s%s", opt->help, initial);
    }
    err_t err = table_print(&table, stdout);
    table_free(&table);
    return err;
}

err_t opt_help(const opt_group_t *groups, int n_groups, bool all, int *n_left_out)
{
    int n = 0;
    for (int g = 0; g < n_groups; g++) TRY(help_group(&groups[g], all, &n));
    if (n_left_out) *n_left_out = n;
    return ERR_OK;
}

void opt_help_tsv(const opt_group_t *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++) {
        print_out("group\t%s\n", groups[g].title);
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
