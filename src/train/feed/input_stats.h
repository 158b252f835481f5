/* SPDX-License-Identifier: MIT */
/* Where the time to get images in goes, told at the end of an epoch in which training waited for them. Part
 * of train. */
#ifndef TRAIN_FEED_INPUT_STATS_H
#define TRAIN_FEED_INPUT_STATS_H

#include "base/json.h"
#include "cluster/comm/comm.h"
#include "data/load/loader.h"

/* Of an epoch, or of what of it ran in this process. */
typedef struct input_stats {
    double wait_sec, step_sec; /* for data, in all: of one rank, then of all */
    loader_cost_t loader;      /* of all its threads */
    double copy_sec;           /* waited for copies to the GPU */
} input_stats_t;

/* What is worth telling: the share of a step that waits for data. */
#define INPUT_STATS_SHARE 0.05
enum { INPUT_STATS_TEXT_MAX = 400 };

/* Collective. Sums over the ranks. */
err_t input_stats_gather(comm_t *comm, input_stats_t *input_stats);

/* What a step on a GPU waited for data while it fetched the next batch: feed_sec went by in fetching, but
 * only what the GPU, whose work took busy_sec of the step's step_sec, was idle of it was waited. */
double input_stats_hidden_wait(double feed_sec, double step_sec, double busy_sec);

/* For people: how much was waited, what takes the threads' time, and what to do; "" where it was less than
 * INPUT_STATS_SHARE, or nothing is known of the parts (images in memory). */
void input_stats_text(const input_stats_t *input_stats, char out[INPUT_STATS_TEXT_MAX]);

/* Fields of the epoch's record; none where nothing is known of the parts. */
void input_stats_json(const input_stats_t *input_stats, json_t *j);

#endif
