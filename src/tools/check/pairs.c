/* SPDX-License-Identifier: MIT */
/* Pairs of hosts: their schedule as a tournament; slow pairs, slow hosts and groups in a matrix of times. */
#include <math.h>

#include "base/mem.h"
#include "base/stats.h"
#include "tools/check/network.h"

int pairs_rounds(int n)
{
    return n < 2 ? 0 : n % 2 ? n : n - 1;
}

int pairs_partner(int n, int round, int host)
{
    int n_ring = pairs_rounds(n);
    if (host >= n_ring) {
        /* The host in the centre of the circle meets the one whose partner would be itself: 2 x = round. */
        return (round % 2 ? round + n_ring : round) / 2;
    }
    int partner = (round - host + n_ring) % n_ring;
    if (partner != host) return partner;
    return n % 2 ? host : n - 1;
}

static double pair_sec(const double *sec, int n, int a, int b)
{
    return a < b ? sec[a * n + b] : sec[b * n + a];
}

/* False for pairs that were not measured. */
static bool is_above_limit(const pairs_t *p, const double *sec, int a, int b)
{
    return a != b && pair_sec(sec, p->n, a, b) > p->limit;
}

/* Copies the measured times of wanted pairs (NULL: all), sorted; returns their number. */
static int64_t collect_times(const pairs_t *p, const double *sec,
                             bool (*wanted)(const pairs_t *p, int a, int b), double *out)
{
    int64_t n = 0;
    for (int a = 0; a < p->n; a++)
        for (int b = a + 1; b < p->n; b++)
            if (!isnan(sec[a * p->n + b]) && (!wanted || wanted(p, a, b))) out[n++] = sec[a * p->n + b];
    stats_sort(out, n);
    return n;
}

static bool in_different_groups(const pairs_t *p, int a, int b)
{
    return p->group[a] != p->group[b] && p->group[a] >= 0 && p->group[b] >= 0;
}

/* Assigns a group to all hosts that `host` reaches over pairs that are not slow; returns their number. */
static int flood_group(pairs_t *p, const double *sec, int host, int *queue)
{
    int n_queue = 0;
    int group = p->n_groups;
    p->group[host] = group;
    queue[n_queue++] = host;
    for (int i = 0; i < n_queue; i++)
        for (int b = 0; b < p->n; b++) {
            if (p->group[b] >= 0 || is_above_limit(p, sec, queue[i], b)) continue;
            p->group[b] = group;
            queue[n_queue++] = b;
        }
    return n_queue;
}

/* Connected components over pairs that are not slow: a single host is slow, larger components are groups. */
static void find_groups(pairs_t *p, const double *sec, int *queue)
{
    for (int h = 0; h < p->n; h++) p->group[h] = -1;
    for (int h = 0; h < p->n; h++) {
        if (p->group[h] >= 0) continue;
        bool alone = flood_group(p, sec, h, queue) == 1;
        if (alone) {
            p->group[h] = -1;
            p->slow_host[h] = p->n > 2;
        } else {
            p->n_groups++;
        }
    }
}

/* Hosts slow to most of their group, if the group is large enough to distinguish them from their partners. */
static void find_slow_hosts(pairs_t *p, const double *sec)
{
    for (int a = 0; a < p->n; a++) {
        int n_others = 0, n_slow = 0;
        for (int b = 0; b < p->n; b++) {
            if (a == b || p->group[a] < 0 || p->group[b] != p->group[a]) continue;
            n_others++;
            n_slow += is_above_limit(p, sec, a, b);
        }
        if (n_others > 3 && 2 * n_slow > n_others) p->slow_host[a] = true;
    }
}

static void find_slow_pairs(pairs_t *p, const double *sec, double slack_sec)
{
    double limit_between = PAIRS_APART * PAIRS_SLOW * p->between + slack_sec;
    for (int a = 0; a < p->n; a++)
        for (int b = 0; b < p->n; b++)
            p->slow[a * p->n + b] =
                is_above_limit(p, sec, a, b) && !p->slow_host[a] && !p->slow_host[b] &&
                (!in_different_groups(p, a, b) || pair_sec(sec, p->n, a, b) > limit_between);
}

static void find_of_host(pairs_t *p, const double *sec, double *scratch)
{
    for (int a = 0; a < p->n; a++) {
        int64_t n = 0;
        for (int b = 0; b < p->n; b++)
            if (a != b && !isnan(pair_sec(sec, p->n, a, b))) scratch[n++] = pair_sec(sec, p->n, a, b);
        p->of_host[a] = stats_median(scratch, n);
    }
}

static err_t pairs_alloc(pairs_t *p, int64_t n, double **scratch, int **queue)
{
    TRY(mem_new_array(n * n, sizeof *p->slow, "slow pairs", &p->slow));
    TRY(mem_new_array(n, sizeof *p->slow_host, "slow hosts", &p->slow_host));
    TRY(mem_new_array(n, sizeof *p->of_host, "times of hosts", &p->of_host));
    TRY(mem_new_array(n, sizeof *p->group, "groups of hosts", &p->group));
    TRY(mem_new_array(n * n, sizeof **scratch, "times of pairs", scratch));
    return mem_new_array(n, sizeof **queue, "groups of hosts", queue);
}

err_t pairs_judge(const double *sec, int n, double slack_sec, pairs_t *out)
{
    double *scratch = NULL;
    int *queue = NULL;
    *out = (pairs_t){.n = n,
                     .slack = slack_sec,
                     .least = NAN,
                     .median = NAN,
                     .greatest = NAN,
                     .usual = NAN,
                     .between = NAN};
    err_t err = pairs_alloc(out, n, &scratch, &queue);
    if (err != ERR_OK) pairs_free(out);
    int64_t n_pairs = err == ERR_OK ? collect_times(out, sec, NULL, scratch) : 0;
    if (n_pairs > 0) {
        out->least = scratch[0];
        out->usual = scratch[(n_pairs - 1) / 4];
        out->median = stats_quantile(scratch, n_pairs, 0.5);
        out->greatest = scratch[n_pairs - 1];
        out->limit = PAIRS_SLOW * out->usual + slack_sec;
        out->broken = PAIRS_BROKEN * out->usual + slack_sec;
        find_groups(out, sec, queue);
        out->between = stats_quantile(scratch, collect_times(out, sec, in_different_groups, scratch), 0.5);
        find_slow_hosts(out, sec);
        find_slow_pairs(out, sec, slack_sec);
        find_of_host(out, sec, scratch);
    }
    mem_free(&scratch);
    mem_free(&queue);
    return err;
}

void pairs_free(pairs_t *p)
{
    mem_free(&p->slow);
    mem_free(&p->slow_host);
    mem_free(&p->of_host);
    mem_free(&p->group);
}

bool pairs_next_slow(const pairs_t *p, const double *sec, int *a, int *b)
{
    do {
        if (++*b >= p->n) *b = ++*a + 1;
        if (*b >= p->n) return false;
    } while (!is_above_limit(p, sec, *a, *b));
    return true;
}
