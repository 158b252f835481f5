/* SPDX-License-Identifier: MIT */
/* A training run: its state, and what the loop is made of. It starts in train/start/train.h. */
#ifndef TRAIN_RUN_TRAINER_H
#define TRAIN_RUN_TRAINER_H

#include "cluster/session/runtime.h"
#include "train/run/guest.h"
#include "train/run/options.h"
#include "train/run/parts.h"

/* Values that follow the gradients in the same allreduce; after them, the floats of guests (guest.h). */
enum {
    TAIL_SUMS,               /* [TASK_N_SUMS] */
    TAIL_SAVE = TASK_N_SUMS, /* > 0: requested by a rank */
    TAIL_STOP,
    TAIL_FAILED, /* > 0: a rank could not write a checkpoint */
    TAIL_COUNT
};

/* The first steps of a process, which are not measured. */
enum { RATE_WARMUP_STEPS = 10 };

/* How steps go: decided once, by trainer_prepare. */
typedef enum step_way {
    STEP_ON_HOST,   /* the host computes, sums and updates */
    STEP_BY_PHASES, /* a device computes, and the host takes part in the sum */
    STEP_THROUGH,   /* a device goes from the batch to new weights without the host */
} step_way_t;
typedef enum sum_way { SUM_NOTHING, SUM_IN_HOST_MEMORY, SUM_ON_DEVICE, SUM_SHARDS } sum_way_t;
typedef struct step_plan {
    step_way_t way;
    sum_way_t sum;        /* of gradients over ranks or shards */
    bool in_parts;        /* forward and backward run several times, or their gradients are kept apart */
    bool overlaps;        /* a bucket's sum begins while the backward pass goes on */
    bool ahead;           /* the next step may begin before the result of a step is read */
    const char *why_host; /* why the host must act within a step, which then is not recorded; or NULL */
} step_plan_t;

/* A step that has begun. */
typedef struct train_step {
    struct trainer *t;
    int64_t number;
    prefetcher_batch_t data;
    exec_batch_t batch;
    int64_t n_global;
    err_t failure; /* this rank's, behind TAIL_FAILED */
    bool follows;  /* it began before its predecessor had ended */
    double start, have_data, begun_comm, begun_update, begun_gather, end;
    double feed_sec, fed_sec; /* spent fetching the next batch; by its predecessor, if it follows */
    step_cost_t cost;
} train_step_t;

/* Steps: how many, how they go, and those in flight: where a GPU runs steps without the host, the next one begins before
 * the results of a step are read. */
typedef struct train_steps {
    int64_t n;        /* of the whole run */
    int64_t n_done;   /* in this process */
    double total_sec; /* of these */
    step_plan_t plan;
    train_step_t slots[BACKEND_SLOTS]; /* by number modulo BACKEND_SLOTS */
    bool ahead;                        /* step t->at.step has begun; within trainer_step: the one after it */
    bool held_save, held_stop;         /* requested in a result, while the next step was in flight */
    /* Of the step in progress: injected slowdown, and waiting for --sync-bn; of the fastest, its time without slowdown. */
    double slowed_sec, shared_sec, unslowed_sec;
} train_steps_t;

typedef struct trainer {
    train_options_t *options;
    runtime_t runtime;
    comm_t *comm; /* runtime.comm */
    train_task_t task;
    train_position_t at;
    train_input_t input;
    train_model_t model;
    train_learning_t learning;
    train_steps_t steps;
    train_output_t output;
    train_saving_t saving;
    guests_t guests;
} trainer_t;

/* Collective. From the position to the end, once set up (train/start/setup.h). */
err_t trainer_loop(trainer_t *t);

/* Collective. Runs step t->at.step, and moves t->at past it. ERR_GATE naming step and layer when the loss is not finite.
 * On a GPU the step after it may have begun (t->steps.ahead), unless something is due that needs its weights. */
err_t trainer_step(trainer_t *t, step_result_t *result);

/* Collective. With --shard-optimizer: gives all ranks the trained weights that each has changed of its own slices. */
err_t trainer_gather_weights(trainer_t *t);

/* Not collective. At the end of an epoch, after what follows it: moves to the next. */
void train_next_epoch(train_position_t *at);

/* Whether the end of an epoch or of the run, or an evaluation follows after a number of steps: those done, or one
 * more. */
bool trainer_epoch_follows(const trainer_t *t, int64_t done);

/* Collective. What trainer_epoch_follows says: evaluates, reports, and moves t->at to the next epoch. */
err_t trainer_end_epoch(trainer_t *t);

/* Collective. Averages running statistics, copies the state on rank 0 and writes it in the background.
 *
 *   wait    return only when the file is on stable storage */
err_t trainer_checkpoint(trainer_t *t, bool wait);

/* Collective. Averages batch norm's running statistics over the ranks (or shards). */
err_t trainer_average_states(trainer_t *t);

/* Which checkpoints pruning keeps. */
ckpt_keep_t train_keep(const train_options_t *options, const train_position_t *at);

/* Rank 0, every step, not collective. Records a finished write. Returns its error, or logs a warning with
 * --on-checkpoint-error continue. */
err_t trainer_poll_checkpoint(trainer_t *t);

/* Any rank, not collective. Before weights, optimizer state or position change: waits until a checkpoint in progress
 * has copied them, and tells the guests. */
err_t trainer_begin_change(trainer_t *t, change_t change);

/* Collective. Waits for the write in flight; fails if the last write failed. */
err_t trainer_finish_checkpoints(trainer_t *t);

#endif
