/* SPDX-License-Identifier: MIT */
/* proportion K N: the share K of N and its 95 % interval, in percent: "3 of 60: 5.0 % (1.0–13.9)". */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "report/stats/stats.h"

/* -1: not a number. */
static long long count_of(const char *text)
{
    char *end;
    long long n = strtoll(text, &end, 10);
    return end == text || *end ? -1 : n;
}

int main(int argc, char **argv)
{
    long long k = argc == 3 ? count_of(argv[1]) : -1, n = argc == 3 ? count_of(argv[2]) : 0;
    double low, high;
    if (k < 0 || k > n || n < 1) {
        fprintf(stderr, "usage: proportion K N, with 0 <= K <= N and N >= 1\n");
        return ERR_USAGE;
    }
    stats_proportion_interval(k, n, 0.05, &low, &high);
    printf("%lld of %lld: %.1f %% (%.1f–%.1f)\n", k, n, 100.0 * (double)k / (double)n, 100 * low, 100 * high);
    return 0;
}
