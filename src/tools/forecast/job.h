/* SPDX-License-Identifier: MIT */
/* The time of a whole job on N ranks:
 *
 *   start + steps · step + evaluations · (fixed + shared / N) + checkpoints · cost
 *
 * Steps are those of the same epochs at N times the batch. Evaluations are shared by the ranks, checkpoints are not. */
#ifndef TOOLS_FORECAST_JOB_H
#define TOOLS_FORECAST_JOB_H

typedef struct job {
    double start_sec;
    double n_samples, n_epochs, batch;      /* of an epoch; of a rank */
    double eval_fixed_sec, eval_shared_sec; /* of an evaluation; one an epoch */
    double checkpoint_sec;                  /* one an epoch */
} job_t;

typedef struct job_time {
    double sec, start_sec, steps_sec, eval_sec, checkpoint_sec;
    double efficiency; /* ideal / actual: the steps of ranks that never wait, and nothing else */
} job_time_t;

/*
 *   step_sec   of a step on n_ranks
 *   alone_sec  of a rank that never waits */
job_time_t job_time(const job_t *job, double n_ranks, double step_sec, double alone_sec);

#endif
