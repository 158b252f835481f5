/* SPDX-License-Identifier: MIT */
/* The parts of a training run that guard it against faults: slow ranks, replicas that differ, what
 * a resumed run must reproduce. Internal to train/run; parts.h has the others. */
#ifndef TRAIN_RUN_GUARDS_H
#define TRAIN_RUN_GUARDS_H

#include "cluster/comm/topo.h"
#include "train/output/rank_times.h"

/* The times of the ranks. train/run/stragglers.h. */
typedef struct train_stragglers {
    rank_times_t times; /* rank 0 only */
    rank_step_t *steps; /* [size], of one step; rank 0 only */
    float mine[5];      /* this rank's slot: times of step `number` */
    int64_t number;
    bool has_times;   /* mine is of a whole batch after the warm-up */
    double spent_sec; /* in the comparison, so far */
} train_stragglers_t;

/* What a rank tells the others at each comparison of replicas: of its weights and optimizer state, and the means so
 * far. */
typedef struct replica_note {
    uint64_t hash;
    double check_sec, step_sec;
} replica_note_t;

/* --check-replicas. train/run/replicas.h. */
typedef struct train_replicas {
    replica_note_t *notes;      /* [size], of the last check; NULL: no checks */
    int64_t every;              /* steps; 0: not chosen yet */
    int64_t last_step;          /* steps done at the last check, or at the start */
    bool last_states;           /* it compared running statistics, too */
    int64_t n_checks, n_steps;  /* of this process */
    double check_sec, step_sec; /* their sums */
    uint64_t hash;              /* weights and optimizer state at the last check */
    uint64_t saved_hash;        /* and at the last checkpoint; read by the writer's thread */
    int64_t saved_step;
} train_replicas_t;

/* What the run before recorded of the step that a resumed run computes first. train/run/resume_check.h. */
typedef struct resume_record {
    double loss;                        /* NAN: no record */
    int64_t ranks, threads, accumulate; /* of the process that computed it; ranks 0: unknown */
    int64_t micro_batch;                /* of a detector; 0: a classifier */
    char git[64], backend[160];
    double cost_sec; /* of the last checkpoint; 0: unknown */
} resume_record_t;

#endif
