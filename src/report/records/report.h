/* SPDX-License-Identifier: MIT */
/* What records say (docs/records.md), as a model: runs, and their points or epochs. Rendering is elsewhere
 * (print.h, src/report/regress, src/report/html), so that what compares or draws them has the same input. All
 * text is the report's own and lives as long as it. Samples are kept where they are asked for; otherwise
 * memory depends on the number of points. */
#ifndef REPORT_RECORDS_REPORT_H
#define REPORT_RECORDS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/intern.h"
#include "report/records/curve.h"

enum { REPORT_SCHEMA = 1 }; /* the newest that is understood */

typedef enum field_kind { FIELD_MISSING, FIELD_NUMBER, FIELD_TEXT } field_kind_t;

/* Names and texts are interned: equal ones have equal pointers. */
typedef struct report_field {
    const char *name;
    field_kind_t kind;
    double number;    /* FIELD_NUMBER */
    const char *text; /* FIELD_TEXT; of a key's number as it was written; otherwise NULL */
} report_field_t;

typedef struct report_fields {
    const report_field_t *at;
    int n;
} report_fields_t;

/* NAN: missing. */
typedef struct report_timing {
    const char *unit, *verdict, *disturbances;
    double n, per_sample, n_disturbed, min, p50, p95, p99, max, mean, cv, ci_low, ci_high;
    double slowest_rank, slowest_share;
    double clock_sec;  /* of the protocol's fixed loop while this was measured */
    int64_t n_missing; /* samples that are no finite number */
} report_timing_t;

/* What a point's samples are, in the order taken. One array for the whole, and one of the same length for
 * each part of it that was timed ("forward": forward_samples); a part of another length is left out. In the
 * report's arena. */
typedef struct report_samples {
    const char *part;  /* interned; "": the whole */
    const double *sec; /* NAN: null, or no finite number */
    int64_t n;
} report_samples_t;

typedef struct report_point report_point_t;
struct report_point {
    int64_t line;
    int file; /* index */
    report_fields_t key, metrics;
    const report_timing_t *timing;   /* NULL where nothing was timed */
    const report_samples_t *samples; /* the whole first; NULL: none, or not asked for */
    const int32_t *batch_n; /* samples of each of the protocol's batches; NULL: not said, or not their sum */
    int n_samples, n_batches;
    report_point_t *next; /* of the same group */
};

/* The points of one case and test of a run, in the order of the records. */
typedef struct report_group report_group_t;
struct report_group {
    const char *case_name, *test;
    int64_t n_points;
    report_point_t *first, *last;
    report_group_t *next;
};

enum { STEP_TOTAL, STEP_DATA, STEP_FORWARD, STEP_BACKWARD, STEP_COMM, STEP_OPTIMIZER, STEP_PARTS };
extern const char *const report_step_parts[STEP_PARTS]; /* names in the record: "step_sec", … */

typedef struct report_epoch report_epoch_t;
struct report_epoch {
    int64_t epoch, line;
    double step, train_loss, train_accuracy, val_loss, val_accuracy, images_per_sec; /* NAN: missing */
    report_epoch_t *next;
};

/* What is known of a training run; where it was resumed, of its last part. */
typedef struct report_train {
    const char *model, *device, *precision;                                  /* NULL: not said */
    double ranks, hosts, threads, global_batch, n_steps, n_parameters, seed; /* NAN: not said */
    double images_per_sec, peak_memory_bytes, last_step, last_loss;
    int64_t first_step; /* of this process */
    int n_resumed;
    report_epoch_t *epochs, *last_epoch; /* ascending */
    double median[STEP_PARTS]; /* seconds; of the last 65,536 steps without the first 10 of each process */
    int64_t n_steady;          /* steps in the medians */
    const report_samples_t *samples; /* of these steps, parts named as a point's; NULL: not asked for */
    int n_samples;
    struct train_steps *steps; /* while the run is being read */
    curve_t curve;             /* of the steps' losses; empty where it was not asked for */
    int64_t n_checkpoints;
} report_train_t;

typedef struct report_run report_run_t;
struct report_run {
    const char *id, *time; /* interned; "" where not said */
    int file;              /* that its head is in, or its first record */
    int64_t line;          /* of its head; 0: there is none, it is an unknown run */
    report_train_t *train; /* NULL: a run of dptrain bench */
    report_fields_t hardware, fabric, software;
    const char *hardware_id, *fabric_id, *software_id;
    const char *end_reason;        /* how it ended; NULL: not said */
    const char *interleaved_with;  /* id of the run that it took turns with, batch by batch; NULL: none */
    double seconds, n_points_said; /* NAN: not said */
    double ranks, threads;         /* of the bench run; NAN: not said */
    int64_t n_points;
    report_group_t *groups, *last_group, *now_group;
    int again_file; /* the run's head came a second time, in this file: its points there are left out; -1 */
    report_run_t *next;
};

/* What went wrong in a file. line 0: nothing did. */
typedef struct report_trouble {
    int64_t n, line; /* of the first */
    char why[192];
} report_trouble_t;

typedef struct report_file {
    const char *name;
    int64_t n_lines, n_records;         /* n_records: that were taken */
    report_trouble_t bad, newer, again; /* no records; of a newer schema; of a run that was read already */
    report_run_t *train;                /* that its records belong to */
    bool is_newer;                      /* the training run being read is */
} report_file_t;

typedef struct report {
    arena_t arena;
    intern_t words;
    report_run_t *runs, *last, *now;
    report_file_t *files;
    int n_files;
    const char *only_case, *only_test; /* NULL: all. Set before reading */
    bool keep_samples, keep_curves;    /* set before reading */
    int64_t n_filtered;                /* points that these left out */
} report_t;

/* Reads a file (or, from `fd`, what is called `name`) into the report; one that is zeroed is empty. Lines
 * that are no records are noted in report->files. Errors: those of jsonl_read; what was read before stays. */
err_t report_read(report_t *report, int fd, const char *name);
void report_free(report_t *report);

/* What tells a point from others, as "bytes=8;datatype=float". */
err_t report_key_text(arena_t *arena, const report_point_t *point, const char **out);

#endif
