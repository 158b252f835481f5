/* SPDX-License-Identifier: MIT */
/* A fictitious job of four hosts, node1 to node4, with a rank each, for tests of dptrain check. */
#ifndef TESTS_FOUR_HOSTS_H
#define TESTS_FOUR_HOSTS_H

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tools/check/lines.h"

static check_rank_t ranks[4];
static check_options_t options;
static comm_t comm = {.rank = 0, .size = 4};

static inline check_t check_new(void)
{
    for (int r = 0; r < 4; r++) {
        ranks[r] = (check_rank_t){.host = r};
        snprintf(ranks[r].host_name, sizeof ranks[r].host_name, "node%d", r + 1);
    }
    return (check_t){.options = &options, .comm = &comm, .ranks = ranks, .n_hosts = 4, .current = "network"};
}

/* Whether exactly one line has this status, host (-1: the job) and words. Discards all lines. */
static inline bool only(check_t *check, check_status_t status, int host, const char *words)
{
    check_lines_t lines = {0};
    int n = 0, n_bad = 0;
    if (check->text) check_lines_unpack(check->text, check->n_text, &lines);
    for (int64_t i = 0; i < lines.n; i++) {
        const check_line_t *line = &lines.line[i];
        bool this_host =
            host < 0 ? line->scope == CHECK_JOB : line->scope == CHECK_HOST && line->index == host;
        n += line->status == status && this_host && strstr(line->found, words) != NULL;
        n_bad += line->status > CHECK_SKIP;
        if (line->status > CHECK_SKIP && !line->advice[0]) n_bad += 100;
    }
    bool right = n == 1 && n_bad == (status > CHECK_SKIP);
    for (int64_t i = 0; !right && i < lines.n; i++)
        printf("# %s %d %s: %s\n", check_status_names[lines.line[i].status], lines.line[i].index,
               lines.line[i].name, lines.line[i].found);
    mem_free(&lines.line);
    mem_free(&check->text);
    check->n_text = 0;
    return right;
}

#endif
