/* SPDX-License-Identifier: MIT */
/* A training run: its state and its stages. Internal to train/run; train/run/train.h is the entry point. */
#ifndef TRAIN_RUN_TRAINER_H
#define TRAIN_RUN_TRAINER_H

#include "cluster/session/runtime.h"
#include "compute/models/model.h"
#include "store/checkpoint/async.h"
#include "store/owner/owner.h"
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
#include "train/run/choose_threads.h"
#include "train/run/options.h"
#include "train/run/recorded_step.h"
#include "train/task/task.h"
#include "train/weights/weights.h"

/* Values that follow the gradients in the same allreduce. */
enum {
    TAIL_SUMS, /* [TASK_N_SUMS] */
    TAIL_CHECKPOINT = TASK_N_SUMS,
    TAIL_STOP,
    TAIL_FAILED,
    TAIL_BAD,
    TAIL_COUNT
};

/* The position of a run; every checkpoint stores it. */
typedef struct train_position {
    int64_t step;             /* optimizer steps done */
    int64_t epoch, batch;     /* of the next step */
    double sums[TASK_N_SUMS]; /* over the samples of the epoch so far */
    int64_t n_samples;        /* these samples */
    double best;              /* of the main metric in all validations so far */
    bool evaluation_due;      /* the validation after the last step is still to be done */
} train_position_t;

typedef struct trainer {
    train_options_t *options;
    opt_group_t *groups;
    bool is_trial;       /* train/run/trial.h: without header, folder and records */
    char *saved_options; /* text that resumed options point into */
    runtime_t runtime;
    comm_t *comm; /* runtime.comm */
    dataset_t *dataset;
    task_metrics_t task_metrics;                 /* of its task */
    char data_where[FS_PATH_MAX], data_why[128]; /* as dataset_choose chose */
    graph_t *graph;
    char *saved_algorithms; /* the checkpoint's; rank 0 only */
    algorithm_choice_t algorithms;
    bool keeps_bits;       /* resumed as it was: on the same number of ranks, or with --reproducible */
    int64_t saved_threads; /* the checkpoint's, if keeps_bits; 0: unknown */
    int64_t n_threads;     /* the same number on all ranks; 0: they differ */
    thread_choice_t threads;
    exec_t *exec;
    evaluator_t evaluator;
    sampler_t *sampler;
    prefetcher_t prefetcher;
    corrupt_samples_t bad;
    input_stats_t input_stats;  /* of the epoch so far */
    hd_buffer_t params, states; /* flat; checkpoints are written from the host side */
    optim_t *optim;
    float *accumulated;             /* gradients summed over parts of a batch; NULL without --accumulate */
    shards_t *shards;               /* NULL without --reproducible */
    transform_settings_t transform; /* of images in memory */
    comm_buffer_t buffer;           /* n_flat_params + TAIL_COUNT floats */
    hd_buffer_t grads;              /* wraps `buffer` */
    bucket_t bucket;
    recorded_step_t recorded;
    metrics_t metrics;
    tensorboard_t tensorboard;
    trace_file_t trace;
    char out[FS_PATH_MAX];
    bool made_out;                  /* trainer_own_out created it; rank 0 only */
    owner_t *owner;                 /* of the folder; rank 0 only */
    char resumed_from[FS_PATH_MAX]; /* "" */
    weights_report_t imported;      /* of --weights; rank 0 only */
    schedule_t schedule;
    schedule_plateau_t plateau;
    int64_t global_batch, max_local; /* samples per step: over all ranks, at most on this one */
    train_position_t at;
    int64_t n_steps;      /* of the whole run */
    ckpt_async_t *writer; /* rank 0 only */
    err_info_t last_write;
    double checkpoint_stall_sec;
    bool kept_run, kept_cache; /* the hashes of files that are known */
    int64_t last_checkpoint_step;
    double last_checkpoint_sec;
    double last_line_sec; /* time of the last line of progress */
    double *step_rates;   /* images/s of the last steady steps, a ring of RATE_RING */
    int64_t n_rates;
    double smooth_step_sec; /* over the last dozen steps, for the console; records hold every step */
    int64_t n_first_steps;  /* steps done in this process; the first RATE_WARMUP_STEPS are not measured */
    /* Over the steps after the warm-up. */
    int64_t n_allocations, n_page_faults; /* expected to stay 0 */
    double cpu_sec;
    profile_split_t steady;          /* sums */
    cpu_watch_t cpu_watch;           /* of the start, then of the steps after the warm-up */
    cpu_use_t cpu_use;               /* of the start */
    double slowed_sec, unslowed_sec; /* injected slowdown of this step; the last step's time without it */
} trainer_t;

enum { RATE_RING = 1 << 16, RATE_WARMUP_STEPS = 10, LAYER_STEPS = 5, LINE_SEC = 30 };

/* Collective, in this order. */
err_t trainer_setup(trainer_t *t);
err_t trainer_loop(trainer_t *t);
void trainer_teardown(trainer_t *t);

/* Collective. Writes the run record. */
err_t trainer_record_run(trainer_t *t);

/* Collective. Averages running statistics, copies the state on rank 0 and writes it in the background.
 *
 *   wait    return only when the file is on stable storage */
err_t trainer_checkpoint(trainer_t *t, bool wait);

/* Collective. Compares the files that ranks have read, and keeps their hashes in the run's folder; `keep`: also in
 * the user's cache. ERR_DATA: a file differs. compare_files.c. */
err_t trainer_compare_files(trainer_t *t, bool keep);
/* Collective. Reads the hashes of the resumed run. */
err_t trainer_expect_files(trainer_t *t);

/* Collective. Averages batch norm's running statistics over the ranks (or shards). */
err_t trainer_average_states(trainer_t *t);

/* Threads that read and decode images on this rank. */
int trainer_loader_threads(const trainer_t *t);

/* This rank's shards of a batch: 1 without --reproducible. */
int trainer_local_shards(const trainer_t *t);

/* Size and first sample of one of the parts that --accumulate cuts a shard of n samples into. */
int64_t trainer_part(const trainer_t *t, int64_t n, int part, int64_t *first);

/* Rank 0, every step, not collective. Records a finished write. Returns its error, or logs a warning with
 * --on-checkpoint-error continue. */
err_t trainer_poll_checkpoint(trainer_t *t);

/* Any rank, not collective. Call before weights or optimizer state change: waits until a checkpoint in
 * progress has copied them. */
void trainer_release_weights(trainer_t *t);

/* Collective. Waits for the write in flight; fails if the last write failed. */
err_t trainer_finish_checkpoints(trainer_t *t);

/* Collective. --resume: finds the checkpoint and inherits its options, before anything is built. */
err_t trainer_find_checkpoint(trainer_t *t);

/* Collective. Loads that checkpoint after checking its data and model; a new run imports --weights. */
err_t trainer_restore(trainer_t *t);

#endif
