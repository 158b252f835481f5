/* SPDX-License-Identifier: MIT */
/* The parts of the measuring protocol: samples, other load on the machine, turns with another job, the records of a
 * run. Private to src/tools/bench. */
#ifndef TOOLS_BENCH_PROTOCOL_H
#define TOOLS_BENCH_PROTOCOL_H

#include "tools/bench/bench.h"
#include "train/output/metrics.h"

/* The samples of a work during its measurement, and their statistics. */
typedef struct samples {
    double *sec;    /* [BENCH_MAX_SAMPLES]: times of the slowest rank */
    int32_t *batch; /* of each sample */
    int64_t n;
    double *parts[BENCH_MAX_PARTS];
    bench_parts_t parts_of;
    /* Of each batch: LOAD_… on any rank, this rank's probe, duration. */
    int32_t *loads;
    double *probe_sec, *batch_sec;
    int n_batches;
    /* Count disturbed samples, too: with --samples; with --turns the other job was disturbed as much. */
    bool keep_all;
} samples_t;

err_t samples_new(const bench_parts_t *parts, bool keep_all, samples_t *out);
void samples_free(samples_t *samples);

/* Computes the statistics and moves the samples to *out.
 *
 *   sorted  scratch, [BENCH_MAX_SAMPLES] */
void samples_summarise(samples_t *samples, double precision, double *sorted, bench_result_t *out);

/* Other load on the machine during an interval. Not collective: the view of one thread on one host. */
void load_begin(load_t *load);
/* Returns LOAD_… of the interval, except LOAD_CLOCK. Takes about 1.5 ms.
 *
 *   n_cpus           of this host
 *   cpus_are_shared  more threads than CPUs: ranks preempt each other, so LOAD_PREEMPTED is not reported
 *   probe_sec        time of the loop before or after the interval, whichever is longer */
unsigned load_end(load_t *load, int n_cpus, bool cpus_are_shared, double *probe_sec);
/* Whether probe_sec means LOAD_CLOCK, by the best time known so far; a better one may follow. */
bool load_clock_was_slow(const load_t *load, double probe_sec);

/* Writes "steal, clock" or, for no load, "". */
void load_text(unsigned loads, char *out, size_t n_bytes);

/* Two jobs on the same host that take turns, batch by batch: while one measures, the other sleeps. Slow
 * disturbances then affect both and cancel in the ratio of neighbouring batches, so that two builds or
 * settings can be compared on a machine that is not quiet. Both jobs measure the same points in the same
 * order, in batches A B B A A B B A …; a job also does all other work (preparing, checking) in its turn.
 * Rank 0 of each job communicates through two FIFOs in a folder. */
/* Collective. Connects to the other job and waits for the first turn.
 *
 *   spec  FOLDER:first or FOLDER:second
 *   id    of this run, sent to the other job
 *
 * ERR_USAGE: the spec. ERR_SYSTEM: the folder. ERR_PEER: the other job did not start within timeout_sec, or
 * ended. ERR_GATE: a signal (cluster/session/signals.h) ended the wait. */
err_t turns_open(comm_t *comm, const char *spec, const char *id, double timeout_sec, turns_t **out);

/* Id of the other run, on rank 0; elsewhere "". */
const char *turns_other(const turns_t *turns);

/* Collective. Call before the batches of a point. ERR_USAGE if the other job is at another point.
 *
 *   what  name of the point
 *   n     batches that this job asks for
 *   out   batches that both jobs take: as the first job asks */
err_t turns_begin_point(turns_t *turns, const char *what, int n, int *out);

/* Collective. Call after every batch: hands over the turn, if due, and waits for its return. */
err_t turns_end_batch(turns_t *turns);

/* Collective. Leaves the remaining time to the other job. Takes NULL. */
void turns_close(turns_t **turns);

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
