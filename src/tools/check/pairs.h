/* SPDX-License-Identifier: MIT */
/* Paths between hosts: in which order they are measured, and which of them are slow. Private to
 * src/tools/check. Nothing here talks to anybody: all ranks come to the same result from the same numbers. */
#ifndef TOOLS_CHECK_PAIRS_H
#define TOOLS_CHECK_PAIRS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* All pairs of n hosts as rounds in which each host has at most one partner (the circle method of round-robin
 * tournaments): n - 1 rounds, n where n is odd. */
int pairs_rounds(int n);
/* The partner of `host`; itself where it looks on. */
int pairs_partner(int n, int round, int host);

/* Times are the greater the worse; a pair is slow beyond PAIRS_SLOW times the usual and slack_sec. */
enum { PAIRS_SLOW = 3, PAIRS_BROKEN = 10 };

typedef struct pairs {
    int n;
    /* Of the measured pairs: the least time, the median and the greatest; usual is that of the best quarter,
     * because one slow host among three or four spoils half of all pairs and the median with them. */
    double least, median, greatest, usual;
    double limit;    /* what is above it is slow */
    bool *slow;      /* [n × n]: pairs that nothing below explains; symmetric */
    bool *slow_host; /* [n]: slow to all other hosts, or to more than half of four and more */
    double *of_host; /* [n]: the median time of its pairs */
    int n_groups;    /* 2 or more: hosts in groups of two and more (switches), quick inside, slow between */
    int *group;      /* [n]; groups count from 0 in the order of their first hosts. -1: a slow host */
    double between;  /* the median time of pairs between groups */
} pairs_t;

/* sec: n × n, of which pairs a < b are read; NaN: not measured. Free with pairs_free. */
err_t pairs_judge(const double *sec, int n, double slack_sec, pairs_t *out);
void pairs_free(pairs_t *pairs);

/* How many pairs are above the limit, for whatever reason; those that *a and *b follow, in order. Start with
 * *a = *b = 0; false: no more. */
bool pairs_next_slow(const pairs_t *pairs, const double *sec, int *a, int *b);

#endif
