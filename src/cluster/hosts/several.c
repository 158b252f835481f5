/* SPDX-License-Identifier: MIT */
/* Hosts in numbers: Slurm's ranges node[1-4], and several lines for the same host, as PBS and LSF write them. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cluster/hosts/hosts.h"
#include "cluster/hosts/parse.h"

/* A name that is being put together. */
typedef struct range {
    hosts_t *hosts;
    int line;
    char name[HOST_KEY_MAX];
} range_t;

static err_t raise_range(const char *text, size_t n)
{
    RAISE(ERR_DATA, "invalid '%s': expected numbers in brackets, such as node[1-4] or node[01-04,7]",
          hosts_quote(text, n).text);
}

static err_t append_text(range_t *r, size_t used, const char *text, size_t n)
{
    if (used + n >= sizeof r->name)
        RAISE(ERR_DATA, "the host name '%s' is longer than 253 characters", hosts_quote(text, n).text);
    memcpy(r->name + used, text, n);
    r->name[used + n] = '\0';
    return ERR_OK;
}

static err_t add_rest(range_t *r, size_t used, const char *rest, size_t n);

/* FIRST[-LAST], with as many digits as FIRST has, each followed by `rest`. */
static err_t add_numbers(range_t *r, size_t used, hosts_word_t numbers, hosts_word_t rest)
{
    int first, last;
    char digits[16];
    const char *dash = memchr(numbers.at, '-', numbers.n);
    size_t n_first = dash ? (size_t)(dash - numbers.at) : numbers.n;
    if (!hosts_number(numbers.at, n_first, 0, 999999999, &first)) return raise_range(numbers.at, numbers.n);
    last = first;
    if (dash && !hosts_number(dash + 1, numbers.n - n_first - 1, first, 999999999, &last))
        return raise_range(numbers.at, numbers.n);
    for (int i = first; i <= last; i++) {
        int n = snprintf(digits, sizeof digits, "%0*d", (int)n_first, i);
        TRY(append_text(r, used, digits, (size_t)n));
        TRY(add_rest(r, used + (size_t)n, rest.at, rest.n));
    }
    return ERR_OK;
}

/* Recursive: a name may have several brackets, and at most 253 characters. */
static err_t add_rest(range_t *r, size_t used, const char *rest, size_t n)
{
    host_t *host;
    const char *open = memchr(rest, '[', n), *close = memchr(rest, ']', n), *end = rest + n;
    if (!open && !close) {
        TRY(append_text(r, used, rest, n));
        return hosts_add(r->hosts, r->name, used + n, r->line, &host);
    }
    if (!open || !close || close < open) return raise_range(rest, n);
    TRY(append_text(r, used, rest, (size_t)(open - rest)));
    used += (size_t)(open - rest);
    for (const char *at = open + 1;; at++) {
        const char *comma = memchr(at, ',', (size_t)(close - at));
        hosts_word_t numbers = {at, (size_t)((comma ? comma : close) - at)};
        TRY(add_numbers(r, used, numbers, (hosts_word_t){close + 1, (size_t)(end - close - 1)}));
        if (!comma) return ERR_OK;
        at = comma;
    }
}

err_t hosts_add_range(hosts_t *hosts, hosts_word_t name, int line)
{
    range_t range = {.hosts = hosts, .line = line};
    host_t *host;
    if (!memchr(name.at, '[', name.n)) return hosts_add(hosts, name.at, name.n, line, &host);
    if (name.n >= sizeof range.name)
        RAISE(ERR_DATA, "the host name '%s' is longer than 253 characters",
              hosts_quote(name.at, name.n).text);
    return add_rest(&range, 0, name.at, name.n);
}

/* By address; equal ones keep the order of the text. */
static int compare_hosts(const void *a, const void *b)
{
    const host_t *x = *(host_t *const *)a, *y = *(host_t *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x > y) - (x < y);
}

/* A line without slots is one slot. */
static err_t merge(const hosts_t *hosts, host_t *first, host_t *again)
{
    if (first->user && again->user && strcmp(first->user, again->user) != 0)
        return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, "%s has two users: %s in %s %d, and %s",
                                       again->address, hosts_quote(first->user, strlen(first->user)).text,
                                       hosts->is_list ? "entry" : "line", first->line,
                                       hosts_quote(again->user, strlen(again->user)).text),
                             hosts, again->line);
    if (!first->user) first->user = again->user;
    if (!first->slots) first->slots = 1;
    first->slots += again->slots ? again->slots : 1;
    first->max_slots = first->max_slots && again->max_slots ? first->max_slots + again->max_slots : 0;
    again->key = NULL;
    if (first->slots <= HOSTS_MAX_SLOTS) return ERR_OK;
    return hosts_at_line(err_raise(ERR_DATA, __FILE__, __LINE__, "%s has more than %d slots in total",
                                   again->address, HOSTS_MAX_SLOTS),
                         hosts, again->line);
}

/* Whether some line without slots is that of a host with several. */
static err_t merge_sorted(const hosts_t *hosts, host_t **sorted, bool *counts_lines)
{
    for (int i = 1, first = 0; i < hosts->n; i++) {
        if (strcmp(sorted[i]->key, sorted[first]->key) != 0) {
            first = i;
            continue;
        }
        *counts_lines |= !sorted[first]->slots || !sorted[i]->slots;
        TRY(merge(hosts, sorted[first], sorted[i]));
    }
    return ERR_OK;
}

err_t hosts_add_up(hosts_t *hosts)
{
    host_t **sorted;
    bool counts_lines = false;
    int n = 0;
    if (hosts->n == 0) return ERR_OK;
    TRY(mem_new_array(hosts->n, sizeof *sorted, "a table of hosts", &sorted));
    for (int i = 0; i < hosts->n; i++) sorted[i] = &hosts->at[i];
    qsort(sorted, (size_t)hosts->n, sizeof *sorted, compare_hosts);
    err_t err = merge_sorted(hosts, sorted, &counts_lines);
    mem_free(&sorted);
    TRY(err);
    for (int i = 0; i < hosts->n; i++) {
        if (!hosts->at[i].key) continue;
        hosts->at[n] = hosts->at[i];
        if (counts_lines && !hosts->at[n].slots) hosts->at[n].slots = 1;
        n++;
    }
    hosts->n = n;
    return ERR_OK;
}
