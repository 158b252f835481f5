#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "check/check.h"

enum { SAME_TEXT = 121 };
typedef char text_t[SAME_TEXT];

/* The first rank that says what most hosts say; first[h] is the local rank 0 of host h. */
static int find_common(text_t *all, const int *first, int n_hosts)
{
    int best = 0, best_count = 0;
    for (int h = 0; h < n_hosts; h++) {
        int count = 0;
        for (int other = 0; other < n_hosts; other++) count += strcmp(all[first[h]], all[first[other]]) == 0;
        if (count <= best_count) continue;
        best_count = count;
        best = h;
    }
    return first[best];
}

/* who: a host that has what is common. */
static void say(check_t *check, const char *name, check_status_t unequal, const char *advice,
                const char *mine, const char *common, const char *who, bool all_equal)
{
    const char *shown = mine[0] ? mine : "none";
    check_where_t where = check_host(check);
    if (strcmp(mine, common) != 0)
        check_line(check, where, name, unequal, advice, "%s; %s has %s", shown, who,
                   common[0] ? common : "none");
    else if (all_equal && !mine[0])
        check_line(check, check_job(check), name, CHECK_SKIP, NULL, "none on any host");
    else
        check_line(check, where, name, CHECK_OK, NULL, "%s", shown);
}

err_t check_same(check_t *check, const char *name, check_status_t unequal, const char *advice,
                 const char *text)
{
    comm_t *comm = check->comm;
    text_t mine = "", *all = NULL;
    int *first = NULL;
    snprintf(mine, sizeof mine, "%s", text);
    err_t err = mem_new_array(comm->size, sizeof *all, "what hosts say", &all);
    if (err == ERR_OK) err = mem_new_array(check->n_hosts, sizeof *first, "hosts", &first);
    TRY_OUT(err, comm_agree(comm, err, name));
    TRY_OUT(err, comm_allgather(comm, mine, sizeof mine, all, name));
    for (int r = 0; r < comm->size; r++)
        if (check->ranks[r].local_rank == 0) first[check->ranks[r].host] = r;
    int common = find_common(all, first, check->n_hosts);
    bool all_equal = true;
    for (int h = 0; h < check->n_hosts; h++) all_equal &= strcmp(all[first[h]], all[common]) == 0;
    say(check, name, unequal, advice, mine, all[common], check->ranks[common].host_name, all_equal);
out:
    mem_free(&first);
    mem_free(&all);
    return err;
}
