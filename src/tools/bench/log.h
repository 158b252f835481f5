/* SPDX-License-Identifier: MIT */
/* The records of a `dptrain bench`: its head, its points, its end. Part of bench. */
#ifndef TOOLS_BENCH_LOG_H
#define TOOLS_BENCH_LOG_H

#include "tools/bench/bench.h"
#include "train/output/metrics.h"

enum { BENCH_SCHEMA = 1 };

struct bench_log {
    metrics_t metrics; /* rank 0's */
    char id[20];       /* of the run; every record has it */
    int64_t n_points, n_inconclusive, n_disturbed;
    double start_sec, begun_sec; /* of the run; of the record being written */
    double recording_sec;        /* spent on records so far */
};

/* Collective. Opens options->out (made with its folder where it is not there; appended to where it is), or a
 * new file in runs/; writes the head. ERR_SYSTEM, ERR_USAGE. With --turns it
 * first meets the other job: the errors of turns_open. `groups`: the options, for the head. */
err_t bench_log_open(bench_t *bench, const opt_group_t *groups, int n_groups);

/* Collective. Writes the end, says to people where the records are, and frees. why: "finished",
 * "interrupted", "failed". */
err_t bench_log_close(bench_t *bench, const char *why);

#endif
