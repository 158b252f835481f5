/* SPDX-License-Identifier: MIT */
/* Pairs of hosts: the order of measuring them, and which are slow. Private to src/tools/check. Nothing here
 * communicates: all ranks compute the same result from the same numbers. */
#ifndef TOOLS_CHECK_PAIRS_H
#define TOOLS_CHECK_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Number of rounds that cover all pairs of n hosts when each host has at most one partner per round (the
 * circle method of round-robin tournaments): n - 1, or n if n is odd. */
int pairs_rounds(int n);
/* The partner of `host` in a round; itself if it has none. */
int pairs_partner(int n, int round, int host);

/* A pair is slow if its time exceeds PAIRS_SLOW times the usual time plus a slack, and broken beyond
 * PAIRS_BROKEN times the usual. */
enum { PAIRS_SLOW = 3, PAIRS_BROKEN = 10 };

typedef struct pairs {
    int n;
    /* Over the measured pairs. usual is the first quartile: one slow host among three or four affects half of
     * all pairs, and with them the median. */
    double least, median, greatest, usual;
    double limit;    /* times above it are slow */
    bool *slow;      /* [n × n], symmetric: slow pairs not explained by a slow host or by groups */
    bool *slow_host; /* [n]: slow to all other hosts, or to more than half of at least four */
    double *of_host; /* [n]: the median time of its pairs */
    int n_groups;    /* 2 or more: hosts form groups (switches), fast inside, slow between */
    int *group;      /* [n]: numbered by first host; -1: a slow host */
    double between;  /* the median time of pairs between groups */
} pairs_t;

/* Classifies the pairs. Free with pairs_free.
 *
 *   sec  [n × n]: times of pairs a < b; NaN: not measured */
err_t pairs_judge(const double *sec, int n, double slack_sec, pairs_t *out);
void pairs_free(pairs_t *pairs);

/* Iterates over all pairs above the limit. Start with *a = *b = 0; false: no more. */
bool pairs_next_slow(const pairs_t *pairs, const double *sec, int *a, int *b);

#endif
