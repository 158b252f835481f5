/* SPDX-License-Identifier: MIT */
/* Compares a text over all hosts and reports hosts that differ from the majority. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tools/check/check.h"

enum { SAME_TEXT = 120 };

typedef struct entry {
    bool speaks; /* the host's local rank 0, and it has a text */
    char text[SAME_TEXT + 1];
} entry_t;

/* The first rank with the most frequent text; -1: no host has one. */
static int find_common(const entry_t *all, int size, bool *all_equal)
{
    int best = -1, best_count = 0, n = 0;
    for (int r = 0; r < size; r++) {
        int count = 0;
        for (int other = 0; all[r].speaks && other < size; other++)
            count += all[other].speaks && strcmp(all[r].text, all[other].text) == 0;
        n += all[r].speaks;
        if (count <= best_count) continue;
        best_count = count;
        best = r;
    }
    *all_equal = best_count == n;
    return best;
}

err_t check_same(check_t *check, const char *name, check_status_t unequal, const char *advice,
                 const char *text)
{
    static const char what[] = "comparing hosts";
    comm_t *comm = check->comm;
    check_where_t where = check_host(check);
    entry_t mine = {.speaks = where.speaks && text}, *all = NULL;
    bool all_equal;
    if (mine.speaks) snprintf(mine.text, sizeof mine.text, "%s", text);
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, "values of hosts", &all), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, what);
    int common = err == ERR_OK ? find_common(all, comm->size, &all_equal) : -1;
    if (common >= 0) {
        const char *most = all[common].text[0] ? all[common].text : "none";
        if (all_equal && !all[common].text[0])
            check_line(check, check_job(check), name, CHECK_SKIP, NULL, "none on any host");
        else if (!mine.speaks || strcmp(mine.text, all[common].text) == 0)
            check_line(check, (check_where_t){where.scope, where.index, mine.speaks}, name, CHECK_OK, NULL,
                       "%s", most);
        else
            check_line(check, where, name, unequal, advice, "%s; %s has %s",
                       mine.text[0] ? mine.text : "none", check->ranks[common].host_name, most);
    }
    mem_free(&all);
    return err;
}
