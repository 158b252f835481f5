/* SPDX-License-Identifier: MIT */
/* Prints option tables: aligned columns for --help, tab-separated lines for --help=tsv, which completion and
 * the manual page are made from. */
#include <stdio.h>
#include <string.h>

#include "base/opt.h"

enum { PLACEHOLDER_MAX = 96 };

const char *opt_placeholder(const opt_t *opt, char *out, size_t n_bytes)
{
    if (opt->type == OPT_FLAG) return "";
    if (opt->type != OPT_CHOICE) return opt->unit;
    out[0] = '\0';
    for (const char *const *choice = opt->choices; *choice; choice++) {
        size_t used = strlen(out);
        snprintf(out + used, n_bytes - used, "%s%s", used ? "|" : "", *choice);
    }
    return out;
}

void opt_help(const opt_group_t *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++) {
        printf("\n%s:\n", groups[g].title);
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            if (opt->hidden) continue;
            char left[128], choices[PLACEHOLDER_MAX];
            snprintf(left, sizeof left, "--%s %s", opt->key, opt_placeholder(opt, choices, sizeof choices));
            printf("  %-32s%s%s", left, strlen(left) > 31 ? "\n                                  " : "",
                   opt->help);
            if (opt->initial && opt->type != OPT_FLAG) printf(" [%s]", opt->initial);
            printf("\n");
        }
    }
}

void opt_help_tsv(const opt_group_t *groups, int n_groups)
{
    for (int g = 0; g < n_groups; g++) {
        printf("group\t%s\n", groups[g].title);
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            if (opt->hidden) continue;
            char choices[PLACEHOLDER_MAX];
            printf("option\t%s\t%s\t%s\t%s\t%s\n", opt->key, opt->type == OPT_FLAG ? "flag" : "value",
                   opt_placeholder(opt, choices, sizeof choices), opt->initial ? opt->initial : "",
                   opt->help);
        }
    }
}
