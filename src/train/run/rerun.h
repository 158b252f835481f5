/* SPDX-License-Identifier: MIT */
/* Steps of an earlier run computed again, for dptrain replay: a trainer that starts from one of its checkpoints, without
 * a folder and records of its own. Nothing is written. Collective, unless stated otherwise. */
#ifndef TRAIN_RUN_RERUN_H
#define TRAIN_RUN_RERUN_H

#include "base/err.h"
#include "cluster/session/runtime.h"
#include "train/run/train_options.h"

typedef struct rerun rerun_t;

typedef struct rerun_options {
    const char *saved;      /* the run's options, "key = value" lines; with --reproducible */
    const char *checkpoint; /* path; NULL: from the start of the run */
    const char *data;       /* in place of the run's; NULL: its own */
    const char *data_xxh3;  /* the data's hash; another one is ERR_DATA */
    int64_t n_steps;        /* the last step to compute; at least one more than the checkpoint's */
    int n_threads;          /* the run's */
    int64_t micro_batch;    /* of a detector: the run's */
} rerun_options_t;

/* *out is NULL after an error, which all ranks return. */
err_t rerun_open(const rerun_options_t *options, const runtime_t *runtime, rerun_t **out);
/* Accepts NULL. */
void rerun_close(rerun_t **rerun);

/* Not collective. Steps done. */
int64_t rerun_position(const rerun_t *rerun);

/* Computes the next step. */
err_t rerun_step(rerun_t *rerun);

/* What the run did after a step besides: averaging running statistics, before an evaluation or a checkpoint; and
 * --schedule plateau with the value of an evaluation (not collective, on all ranks). */
err_t rerun_average(rerun_t *rerun);
void rerun_follow(rerun_t *rerun, double value);
/* The metric that it follows, such as "loss"; NULL: the schedule is another one. */
const char *rerun_followed(const rerun_t *rerun);

/* Not collective. As the run's record holds them: shards_gradient_hash of the last step, shards_states_hash of the last
 * average, replicas_hash. */
uint32_t rerun_gradient_hash(const rerun_t *rerun, int n_ranks, int rank);
uint32_t rerun_states_hash(const rerun_t *rerun, int n_ranks, int rank);
err_t rerun_hash(const rerun_t *rerun, bool with_states, uint64_t *out);

/* Rank 0, not collective. Compares the state with a checkpoint of the same step, bit by bit.
 *
 *   differ     receives the names of the first arrays that differ
 *   n_differ, n_all  numbers of arrays
 *
 * ERR_DATA: it cannot be read. */
err_t rerun_compare(const rerun_t *rerun, const char *checkpoint, message_t *differ, int *n_differ,
                    int *n_all);

#endif
