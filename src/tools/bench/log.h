/* SPDX-License-Identifier: MIT */
/* The records of a `dptrain bench` run: head, points, end. Private to src/tools/bench. */
#ifndef TOOLS_BENCH_LOG_H
#define TOOLS_BENCH_LOG_H

#include "tools/bench/bench.h"
#include "train/output/metrics.h"

enum { BENCH_SCHEMA = 1 };

struct bench_log {
    metrics_t metrics; /* on rank 0 */
    char id[20];       /* of the run, in every record */
    int64_t n_points, n_inconclusive, n_disturbed;
    double start_sec, begun_sec; /* of the run; of the current record */
    double recording_sec;        /* time spent on records so far */
};

/* Collective. Opens options->out for appending, creating it and its folder as needed, or a new file in runs/,
 * and writes the head. With --turns, first connects to the other job (errors as turns_open). ERR_SYSTEM,
 * ERR_USAGE.
 *
 *   groups  all options, for the head */
err_t bench_log_open(bench_t *bench, const opt_group_t *groups, int n_groups);

/* Collective. Writes the end record, prints where the records are, and frees the log.
 *
 *   why  "finished", "interrupted" or "failed" */
err_t bench_log_close(bench_t *bench, const char *why);

#endif
