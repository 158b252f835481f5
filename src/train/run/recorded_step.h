/* SPDX-License-Identifier: MIT */
/* Recorded steps (CUDA graphs): whether they are available, and recordings by size of the global batch, so
 * that all ranks record and launch the same steps. Not collective, but recorded_step_run.
 *
 * A slot is backend_graph_t's: steps that may be in flight at once are in different slots, and each slot has
 * its recording. */
#ifndef TRAIN_RUN_RECORDED_STEP_H
#define TRAIN_RUN_RECORDED_STEP_H

#include "cluster/comm/comm.h"
#include "compute/ops/backend.h"

enum { RECORDED_STEP_MAX = 4 };

typedef struct recorded_step {
    const backend_t *backend;
    const char *why_not; /* why steps are not recorded; NULL: they are */
    bool required;       /* --cuda-graph on */
    int n;
    struct {
        int64_t n_samples;          /* of the global batch */
        void *graph[BACKEND_SLOTS]; /* NULL: batches of this size have run, but are not recorded */
    } recordings[RECORDED_STEP_MAX];
} recorded_step_t;

/* Decides whether steps are recorded.
 *
 *   choice   --cuda-graph: "auto", "on" or "off"
 *   why_not  why this run's steps cannot be recorded, or NULL
 *
 * ERR_USAGE when the choice is "on" and recording is not available. */
err_t recorded_step_open(const backend_t *backend, const char *choice, const char *why_not,
                         recorded_step_t *out);
void recorded_step_close(recorded_step_t *recorded);

/* The recording for batches of n_samples; NULL if there is none yet. */
void *recorded_step_find(const recorded_step_t *recorded, int64_t n_samples, int slot);

/* Notes that a batch of n_samples has run. Its first run may load kernels and allocate, which a recording
 * cannot. */
void recorded_step_ran(recorded_step_t *recorded, int64_t n_samples);

/* Whether a batch of n_samples is to be recorded: one has run. */
bool recorded_step_wants(const recorded_step_t *recorded, int64_t n_samples, int slot);

/* Records nothing more, and releases what was recorded.
 *
 *   why_not  a constant */
void recorded_step_give_up(recorded_step_t *recorded, const char *why_not);

/* Work to record. */
typedef struct recorded_work {
    err_t (*run)(void *context);
    void *context;
} recorded_work_t;

/* Records the device work that `work` launches, without running it. Returns its errors unchanged. */
err_t recorded_step_record(recorded_step_t *recorded, int64_t n_samples, int slot, recorded_work_t work);

typedef struct recorded_batch {
    int64_t n_samples;
    int slot;
    bool warm; /* recordings may be made and launched */
} recorded_batch_t;

/* Collective, the same on all ranks. Runs the work of a batch, or launches its recording, which is made first if one is
 * wanted. --cuda-graph auto goes on without recordings where making one fails.
 *
 *   launch  of work.context */
err_t recorded_step_run(recorded_step_t *recorded, comm_t *comm, recorded_batch_t batch, recorded_work_t work,
                        err_t (*launch)(void *context, void *recording));

#endif
