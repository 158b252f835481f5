/* SPDX-License-Identifier: MIT */
/* The kinds of records, as named in their first member, `record`. docs/records.md describes the fields. A record can
 * be written only under a kind of this list; tests/unit/test_records.c checks that dptrain report reads each. */
#ifndef BASE_RECORD_H
#define BASE_RECORD_H

#include "base/json.h"

#define RECORD_KINDS(X)                                                                                      \
    /* dptrain train */                                                                                      \
    X(RUN, "run")                                                                                            \
    X(STEP, "step")                                                                                          \
    X(EPOCH, "epoch")                                                                                        \
    X(EVALUATION, "evaluation")                                                                              \
    X(CHECKPOINT, "checkpoint")                                                                              \
    X(STRAGGLER, "straggler")                                                                                \
    X(RESUME, "resume")                                                                                      \
    X(REPLICAS, "replicas")                                                                                  \
    X(PROFILE, "profile")                                                                                    \
    X(END, "end")                                                                                            \
    /* dptrain bench */                                                                                      \
    X(BENCH_RUN, "bench_run")                                                                                \
    X(BENCH, "bench")                                                                                        \
    X(BENCH_END, "bench_end")                                                                                \
    /* scripts/run.sh --restarts: scripts/launch/life.sh writes them */                                      \
    X(JOB_START, "job_start")                                                                                \
    X(JOB_CONTINUE, "job_continue")                                                                          \
    X(JOB_RANKS, "job_ranks")                                                                                \
    X(JOB_TRAINING, "job_training")                                                                          \
    X(JOB_FAULT, "job_fault")                                                                                \
    X(JOB_LEFT_OUT, "job_left_out")                                                                          \
    X(JOB_WAIT, "job_wait")                                                                                  \
    X(JOB_END, "job_end")                                                                                    \
    /* --json, --format json */                                                                              \
    X(EVAL, "eval")                                                                                          \
    X(PREDICTION, "prediction")                                                                              \
    X(CHECK, "check")                                                                                        \
    X(COMPARISON, "comparison")                                                                              \
    X(HISTORY, "history")

#define RECORD_ENUM(id, name) RECORD_##id,
typedef enum record_kind { RECORD_KINDS(RECORD_ENUM) N_RECORD_KINDS } record_kind_t;
#undef RECORD_ENUM

extern const char *const record_names[N_RECORD_KINDS];

/* Begins a record; the caller adds the other members, and ends the object. */
void json_record_begin(json_t *j, record_kind_t kind);

#endif
