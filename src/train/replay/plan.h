/* SPDX-License-Identifier: MIT */
/* The record of a run (metrics.jsonl), as dptrain replay needs it: the starts of the job, and what each computed. The
 * run may still be going on. Then which of its steps are computed again, from what, and whether that can be done here.
 * Rank 0 only, not collective. */
#ifndef TRAIN_REPLAY_PLAN_H
#define TRAIN_REPLAY_PLAN_H

#include "base/fs.h"
#include "text/json.h"

typedef enum run_event_kind { RUN_CHECK, RUN_EVALUATION, RUN_CHECKPOINT } run_event_kind_t;

/* After a step: replicas were compared, the model was evaluated, or a checkpoint was written. */
typedef struct run_event {
    run_event_kind_t kind;
    int start;                 /* index */
    int64_t step;              /* steps done */
    bool differs, with_states; /* of a check */
    const char *line;          /* the record */
    size_t n_line;
} run_event_t;

/* A process of the job, from its `run` record to the next one's. */
typedef struct run_start {
    const char *line, *end;
    size_t n_line;
    int64_t first_step;
} run_start_t;

typedef struct run_record {
    char path[FS_PATH_MAX];
    char *text;
    size_t n_bytes;
    run_start_t *starts;
    run_event_t *events;
    int n_starts, n_events;
    json_reader_t reader;
    const char *cursor; /* of run_record_step */
} run_record_t;

/* ERR_DATA: the folder has no record of a run. Call run_record_close in any case. */
err_t run_record_open(const char *folder, run_record_t *out);
void run_record_close(run_record_t *record);

/* Reads a line of the record. The tree is valid until the next call of a function that reads. */
err_t run_record_read(run_record_t *record, const char *line, size_t n_line, const json_value_t **out);

/* The `step` record of step number `step`, from 0, of a start; NULL: there is none. Ask for steps in ascending order. */
const json_value_t *run_record_step(run_record_t *record, int start, int64_t step);

/* The start that computed the step after which `step` were done, on the way to `last` and its later steps. */
int run_record_start_of(const run_record_t *record, int last, int64_t step);

/* A number of hexadecimal digits; false if it is not one. */
bool run_record_hex(const json_value_t *value, uint64_t *out);

/* A plain block of memory, which rank 0 broadcasts. */
typedef struct replay_plan {
    int64_t from, to;             /* steps done before the first and after the last step */
    char checkpoint[FS_PATH_MAX]; /* of step `from`; "": the start of the run */
    int start;                    /* the process of the job that computed the last of them */
    int64_t n_ranks, n_threads, n_shards;
    int64_t micro_batch; /* of a detector; else 0 */
    char device[16], backend[128], data_xxh3[24];
    char data[FS_PATH_MAX]; /* "": training's default */
    int64_t n_options;      /* bytes of the options' text */
} replay_plan_t;

/* Rank 0, not collective.
 *
 *   step     -1: the last disagreement of replicas, or else the last steps that can be compared
 *   options  receives the run's options, "key = value" lines; mem_free it
 *
 * ERR_USAGE: the bits cannot be compared, with the reason. ERR_DATA: a damaged record, or no step to compute. */
err_t replay_plan(run_record_t *record, const char *folder, int64_t step, replay_plan_t *out, char **options);

/* Whether the folder has the step's checkpoint. */
bool replay_has_checkpoint(const char *folder, int64_t step, char path[FS_PATH_MAX]);

#endif
