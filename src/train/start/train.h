/* SPDX-License-Identifier: MIT */
/* `dptrain train`: one run from start to end; and what other commands need of a step. */
#ifndef TRAIN_START_TRAIN_H
#define TRAIN_START_TRAIN_H

#include "cluster/session/runtime.h"
#include "compute/graph/graph.h"
#include "train/run/options.h"
#include "train/run/trainer.h"

/* Collective. Trains, logs progress, and writes metrics and checkpoints; with --preview, only draws the first samples.
 *
 *   options    parsed and checked by train_options_check
 *   abort_job  ends the whole job; callable from any thread
 *
 * ERR_GATE when the loss is not finite or --target is not reached. */
err_t train_run(train_options_t *options, void (*abort_job)(err_t code));

/* ---- Training steps without a run: no folder, no records, no checkpoints. For benchmarks ---- */
typedef struct trial trial_t;

enum { TRIAL_BATCH = 64 };

/* The samples of a rank's step on the CPU, of so many multiply-adds each in the forward pass: a power of two, at most
 * TRIAL_BATCH, for a step of a second or so on one core. */
int64_t trial_batch_for(double macs);

typedef struct trial_options {
    const char *model, *data; /* data as --data; NULL: training's default */
    const char *precision, *algorithms, *stem;
    bool shard;    /* --shard-optimizer */
    int64_t batch; /* global; 0: TRIAL_BATCH per rank, on the CPU less for large models */
    double timeout_sec;
} trial_options_t;

/* Collective over `comm`. All of its ranks return the same error.
 *
 *   runtime  supplies the backend and its threads
 *   comm     the whole job's communicator or part of it
 *   out      NULL after an error */
err_t trial_open(const trial_options_t *options, const runtime_t *runtime, comm_t *comm, trial_t **out);

/* Collective. One training step of a whole batch, and its cost. */
err_t trial_step(trial_t *trial, step_cost_t *cost);

/* Collective. Steps up to the first recorded ones on a GPU, since training has recorded ones; none on the host. */
err_t trial_warm_up(trial_t *trial);

/* The global batch. */
int64_t trial_batch(const trial_t *trial);

const dataset_info_t *trial_data(const trial_t *trial);

/* Collective. Accepts NULL. */
void trial_close(trial_t **trial);

/* ---- Launches of a training step and the bytes that they move, counted without a device. Not collective ---- */
typedef struct step_bytes_options {
    const char *device;
    int64_t batch;
    int64_t workspace_bytes; /* as --workspace */
    const char *algorithm;   /* for each pass that has one of this name; NULL: the backend's defaults */
} step_bytes_options_t;

typedef struct kernel_bytes {
    const char *name; /* static */
    int64_t n_launches, n_bytes;
} kernel_bytes_t;

enum { STEP_BYTES_MAX = 64 };

typedef struct step_bytes {
    kernel_bytes_t kernels[STEP_BYTES_MAX]; /* the most bytes first */
    int n;
    double n_least_bytes; /* op_work of all passes of the operators */
} step_bytes_t;

/* A step on one GPU: images to network input, forward, backward, the optimizer with its default options.
 * ERR_USAGE if the device's launches cannot be counted, or if no operator has the algorithm. */
err_t step_bytes_count(const graph_t *graph, const step_bytes_options_t *options, step_bytes_t *out);

#endif
