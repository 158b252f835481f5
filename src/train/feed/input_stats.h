/* SPDX-License-Identifier: MIT */
/* Input-pipeline statistics: where the time of loading images goes. Reported at the end of an epoch in which
 * training waited for images. */
#ifndef TRAIN_FEED_INPUT_STATS_H
#define TRAIN_FEED_INPUT_STATS_H

#include "cluster/comm/comm.h"
#include "data/load/loader.h"
#include "text/json.h"

/* Of an epoch, or the part of it that ran in this process. Of one rank; after input_stats_gather, of all. */
typedef struct input_stats {
    double wait_sec, step_sec; /* time spent waiting for data; total time of the steps */
    loader_cost_t loader;      /* summed over the loader's threads */
    double copy_sec;           /* time spent waiting for copies to the GPU */
} input_stats_t;

/* Share of step time spent waiting for data from which it is reported. */
#define INPUT_STATS_SHARE 0.05
enum { INPUT_STATS_TEXT_MAX = 400 };

/* Collective. Sums over the ranks. */
err_t input_stats_gather(comm_t *comm, input_stats_t *input_stats);

/* Time that a GPU step waited for data while the next batch was fetched: the part of the fetch during which
 * the GPU was idle.
 *
 *   feed_sec   time of the fetch
 *   step_sec   time of the step
 *   busy_sec   time of the GPU's work in it */
double input_stats_hidden_wait(double feed_sec, double step_sec, double busy_sec);

/* Human-readable: how long training waited, where the loader threads spend their time, and what to do. ""
 * below INPUT_STATS_SHARE, or without a breakdown (images in memory). */
void input_stats_text(const input_stats_t *input_stats, char out[INPUT_STATS_TEXT_MAX]);

/* Adds the fields of the epoch record; none without a breakdown. */
void input_stats_json(const input_stats_t *input_stats, json_t *j);

#endif
