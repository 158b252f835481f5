/* SPDX-License-Identifier: MIT */
/* The parts of a training run, each with its own fields. A function takes the parts that it works on, or the
 * whole (trainer.h) where it works on most. */
#ifndef TRAIN_RUN_PARTS_H
#define TRAIN_RUN_PARTS_H

#include "compute/models/model.h"
#include "data/dataset/dataset.h"
#include "store/checkpoint/async.h"
#include "store/owner/owner.h"
#include "train/feed/data.h"
#include "train/feed/input_stats.h"
#include "train/feed/prefetcher.h"
#include "train/learn/gradient_sums.h"
#include "train/learn/optim.h"
#include "train/learn/schedule.h"
#include "train/output/metrics.h"
#include "train/output/profile.h"
#include "train/output/tensorboard.h"
#include "train/output/trace_file.h"
#include "train/run/choices.h"
#include "train/run/recorded_step.h"
#include "train/task/task.h"
#include "train/weights/weights.h"

/* The position of a run; every checkpoint stores it. */
typedef struct train_position {
    int64_t step;                  /* optimizer steps done */
    int64_t epoch, batch;          /* of the next step */
    double sums[TASK_N_SUMS];      /* over the samples of the epoch so far */
    int64_t n_samples;             /* these samples */
    double best[TASK_MAX_METRICS]; /* of each metric in all validations so far; NAN: none */
    int64_t best_step;             /* with the best main metric; -1: unknown */
    int64_t n_no_better;           /* evaluations since then */
    bool evaluation_due;           /* the validation after the last step is still to be done */
} train_position_t;

/* From the dataset to batches. */
typedef struct train_input {
    char where[FS_PATH_MAX], why[128]; /* as dataset_choose chose */
    dataset_t *dataset;
    images_sizes_t sizes;           /* on rank 0 */
    transform_settings_t transform; /* of images in memory */
    dataset_weigher_t weigher;      /* sampler_options_t's */
    sampler_t *sampler;
    int64_t global_batch, max_local; /* samples per step: over all ranks, at most on this one */
    /* This rank's shards of a batch, one without --reproducible; --accumulate cuts each into parts between groups of
     * `grain` samples. */
    int n_shards, n_parts;
    int64_t grain;
    int n_threads; /* that read and decode images on this rank: of the CPUs that computing leaves */
    prefetcher_t prefetcher;
    corrupt_samples_t bad;
    input_stats_t stats; /* of the epoch so far, in this process */
    int64_t n_trained;   /* samples of these steps, of all ranks */
} train_input_t;

/* Whether the position is behind the last batch of its epoch. */
static inline bool train_epoch_ended(const train_position_t *at, const train_input_t *input)
{
    return at->batch == sampler_batches(input->sampler);
}

/* Size and first sample of a part of a shard of n samples. */
static inline int64_t train_part(const train_input_t *input, int64_t n, int part, int64_t *first)
{
    return sampler_split(n, part, input->n_parts, input->grain, first);
}
/* Samples of rank 0's first part of a whole batch. */
static inline int64_t train_first_part(const train_input_t *input, int n_ranks)
{
    int64_t first;
    return train_part(input, sampler_shard(input->sampler, input->global_batch, 0, n_ranks, &first), 0,
                      &first);
}

/* The network, its weights, and how a step computes. */
typedef struct train_model {
    graph_t *graph;
    hd_buffer_t params, states; /* flat; checkpoints are written from the host side */
    weights_report_t imported;  /* of --weights; rank 0 only */
    char *saved_algorithms;     /* the checkpoint's; rank 0 only */
    algorithm_choice_t algorithms;
    cpu_watch_t cpu_watch; /* of start-up, then of the steps after the warm-up */
    cpu_use_t start_use;   /* of start-up */
    thread_choice_t threads;
    int64_t n_threads; /* the same number on all ranks; 0: they differ */
    exec_t *exec;
    recorded_step_t recorded;
} train_model_t;

/* What the samples are trained for. */
typedef struct train_task {
    task_metrics_t metrics; /* of the dataset's task */
    task_run_t run;
} train_task_t;

/* Gradients and what they change: sums over ranks, the optimizer's state, the learning rate. */
typedef struct train_learning {
    comm_slices_t slices;  /* of the trained parameters; size 0: every rank updates all of them */
    int64_t tail;          /* where the gradients end */
    int64_t n_tail;        /* TAIL_COUNT, and the floats of guests */
    comm_buffer_t buffer;  /* tail + n_tail floats */
    hd_buffer_t grads;     /* wraps `buffer` */
    comm_buffer_t weights; /* where parameters are shared out: of the model's params */
    /* What follows the gradients (TAIL_…), with a host side for each step that may be in flight. On the host all
     * are the end of `grads`. */
    hd_buffer_t tails[BACKEND_SLOTS];
    bucket_t bucket;
    float *accumulated;       /* gradients summed over parts of a batch; NULL without --accumulate */
    virtual_shards_t *shards; /* NULL without --reproducible */
    optim_t *optim;
    schedule_t schedule;
    schedule_plateau_t plateau;
} train_learning_t;

/* Floats of the state that a checkpoint holds: weights, optimizer state, running statistics. */
static inline int64_t train_state_floats(const graph_t *graph, const optim_t *optim)
{
    return graph->n_flat_params + optim->n_buffers * graph->n_flat_trained + graph->n_flat_states;
}

/* Learning rate of a step. */
static inline double train_rate(const train_learning_t *learning, int64_t step)
{
    return schedule_rate(&learning->schedule, step) * learning->plateau.scale;
}

/* The run's folder and the files that it writes. */
typedef struct train_output {
    char folder[FS_PATH_MAX];
    bool made;      /* train_own_folder created it; rank 0 only */
    owner_t *owner; /* of the folder; rank 0 only */
    metrics_t records;
    tensorboard_t tensorboard;
    trace_file_t trace;
} train_output_t;

/* What the run before recorded of the step that a resumed run computes first. */
typedef struct resume_record {
    double loss;                        /* NAN: no record */
    int64_t ranks, threads, accumulate; /* of the process that computed it; ranks 0: unknown */
    int64_t micro_batch;                /* task_run_t's */
    char git[64], backend[160];
    double cost_sec; /* of the last checkpoint; 0: unknown */
} resume_record_t;

/* Checkpoints: the one that the run resumed from, and those that it writes. */
typedef struct train_saving {
    char resumed_from[FS_PATH_MAX]; /* "" */
    resume_record_t record;         /* rank 0 only */
    char *saved_options;            /* text that resumed options point into */
    char *options;                  /* those that checkpoints keep, as text; rank 0 only */
    bool keeps_bits;       /* resumed as it was: on the same number of ranks, or with --reproducible */
    int64_t saved_threads; /* the checkpoint's, if keeps_bits; 0: unknown */
    int64_t rate_ranks;    /* of the start of the run: schedule_run_t.n_ranks */
    ckpt_async_t *writer;  /* rank 0 only */
    err_info_t last_write;
    double begun_sec;           /* of the checkpoint in progress */
    double stall_sec, cost_sec; /* of the checkpoint in progress; cost_sec: of all ranks, as rank 0 sees it */
    double
        written_sec; /* of the last checkpoint that was written: copied, written and verified; 0: none yet */
    int64_t last_step;
    double last_sec;
} train_saving_t;

#endif
