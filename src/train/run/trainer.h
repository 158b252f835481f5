/* SPDX-License-Identifier: MIT */
/* A training run: everything it owns, and its stages. Part of train; train/run/train.h is the entry. */
#ifndef TRAIN_RUN_TRAINER_H
#define TRAIN_RUN_TRAINER_H

#include "cluster/session/runtime.h"
#include "compute/models/model.h"
#include "store/checkpoint/async.h"
#include "train/evaluate/evaluate.h"
#include "train/feed/corrupt_samples.h"
#include "train/feed/input_stats.h"
#include "train/feed/prefetcher.h"
#include "train/learn/bucket.h"
#include "train/learn/virtual_shards.h"
#include "train/output/metrics.h"
#include "train/output/profile.h"
#include "train/output/tensorboard.h"
#include "train/output/trace_file.h"
#include "train/run/choose_algorithms.h"
#include "train/run/options.h"
#include "train/run/recorded_step.h"
#include "train/weights/weights.h"

/* Behind the gradients, in the same allreduce: what all ranks must know of a step. */
enum { TAIL_LOSS_SUM, TAIL_CORRECT, TAIL_CHECKPOINT, TAIL_STOP, TAIL_FAILED, TAIL_BAD, TAIL_COUNT };

/* Where the run stands; in every checkpoint. */
typedef struct train_position {
    int64_t step;         /* optimizer steps done */
    int64_t epoch, batch; /* of the next step */
    double loss_sum;      /* over the samples of the epoch so far */
    int64_t n_correct, n_samples;
    double best_accuracy; /* of the validations so far */
} train_position_t;

typedef struct trainer {
    train_options_t *options;
    opt_group_t *groups;
    char *saved_options; /* text that resumed options point into */
    runtime_t runtime;
    comm_t *comm; /* runtime.comm */
    dataset_t *dataset;
    char data_where[FS_PATH_MAX], data_why[128]; /* as dataset_choose chose */
    graph_t *graph;
    char *saved_algorithms; /* rank 0's: of the checkpoint */
    algorithm_choice_t algorithms;
    exec_t *exec;
    evaluator_t evaluator;
    sampler_t *sampler;
    prefetcher_t prefetcher;
    corrupt_samples_t bad;
    input_stats_t input_stats;  /* of the epoch so far */
    hd_buffer_t params, states; /* flat; the host's side is what checkpoints are made of */
    optim_t *optim;
    float *accumulated;             /* gradients of the parts of a batch so far; NULL without --accumulate */
    shards_t *shards;               /* NULL without --reproducible */
    transform_settings_t transform; /* of images in memory */
    comm_buffer_t buffer;           /* n_flat_params + TAIL_COUNT floats */
    hd_buffer_t grads;              /* over it */
    bucket_t bucket;
    recorded_step_t recorded;
    metrics_t metrics;
    tensorboard_t tensorboard;
    trace_file_t trace;
    char out[FS_PATH_MAX];
    char resumed_from[FS_PATH_MAX]; /* "" */
    weights_report_t imported;      /* rank 0's, of --weights */
    schedule_t schedule;
    schedule_plateau_t plateau;
    int64_t global_batch, max_local; /* samples a step: of all ranks, at most on this one */
    train_position_t at;
    int64_t n_steps;      /* of the whole run */
    ckpt_async_t *writer; /* rank 0's */
    err_info_t last_write;
    double checkpoint_stall_sec;
    int64_t last_checkpoint_step;
    double last_checkpoint_sec;
    double *step_rates; /* images/s of the last steady steps, a ring */
    int64_t n_rates;
    double smooth_step_sec;               /* of the last dozen steps, for people; records hold every step */
    int64_t n_first_steps;                /* steps done in this process, for the warm-up of measurements */
    int64_t n_allocations, n_page_faults; /* in steps after the warm-up: both should stand still */
    double cpu_sec;                       /* that they took */
    profile_split_t steady;               /* sums over the steps after the warm-up */
    double slowed_sec, unslowed_sec;      /* --burn: wasted in this step; the last step's time without that */
} trainer_t;

enum { RATE_RING = 1 << 16, RATE_WARMUP_STEPS = 10, LAYER_STEPS = 5 };

/* Collective, in this order. */
err_t trainer_setup(trainer_t *t);
err_t trainer_loop(trainer_t *t);
void trainer_teardown(trainer_t *t);

/* Collective. Parts of trainer_setup: data, model and executor; then, once the weights are what they shall
 * be, what a step needs besides. Between them a run restores a checkpoint and makes its folder, a trial
 * (train/run/trial.h) nothing. */
err_t trainer_build(trainer_t *t);
err_t trainer_begin(trainer_t *t);

/* Rank 0, not collective: what t->out is. Then, Collective, once the model is built and what was to be
 * restored is: makes the folder, clears an earlier run or refuses it, opens metrics, events and the
 * checkpoint writer. */
err_t trainer_choose_out(trainer_t *t);
err_t trainer_open_out(trainer_t *t);

void trainer_print_header(const trainer_t *t);
err_t trainer_record_run(trainer_t *t);

/* Collective. Batch norm's running values are averaged over the ranks (or shards), rank 0 copies the state
 * and, in the background, writes it; all agree. wait: return when it is on the device. */
err_t trainer_checkpoint(trainer_t *t, bool wait);
err_t trainer_average_states(trainer_t *t);

/* That read and decode images. */
int trainer_loader_threads(const trainer_t *t);

/* Shards of a batch that are this rank's: 1 without --reproducible. */
int trainer_local_shards(const trainer_t *t);

/* The parts that --accumulate cuts a shard of n samples into: *first and count of one. */
int64_t trainer_part(const trainer_t *t, int64_t n, int part, int64_t *first);

/* Not collective, rank 0, every step: records a write that has ended; its error unless the run is to go on.
 */
err_t trainer_poll_checkpoint(trainer_t *t);

/* Not collective, any rank: before weights or optimizer state change, waits until a checkpoint has its copy.
 */
void trainer_release_weights(trainer_t *t);

/* Collective. Waits for the write in flight; an error when the last one failed. */
err_t trainer_finish_checkpoints(trainer_t *t);

/* Collective. --resume: finds the checkpoint and takes over its options (before anything is built), then
 * loads it (after). trainer_restore also checks that data and model are those of the checkpoint, and reads
 * --weights of a new run. */
err_t trainer_find_checkpoint(trainer_t *t);
err_t trainer_restore(trainer_t *t);

#endif
