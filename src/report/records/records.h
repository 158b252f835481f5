/* SPDX-License-Identifier: MIT */
/* Readers of records into the model. */
#ifndef REPORT_RECORDS_RECORDS_H
#define REPORT_RECORDS_RECORDS_H

#include <stddef.h>

#include "records/record.h"
#include "report/records/report.h"
#include "text/json.h"

/* A record and where it was read. */
typedef struct report_input {
    report_t *report;
    report_file_t *file;
    int file_index;
    int64_t line;
    record_kind_t kind;
    const json_value_t *record;
} report_input_t;

/* Reads a record, of which it returns ERR_DATA with the reason if it is malformed. registry.c checks its schema and counts it. */
typedef err_t record_reader_t(const report_input_t *in);
extern record_reader_t *const record_readers[N_RECORD_KINDS];

record_reader_t read_bench_run, read_bench_point, read_bench_end;
record_reader_t read_run, read_step, read_epoch, read_checkpoint, read_straggler, read_resume, read_replicas,
    read_end, read_evaluation, read_profile, read_other; /* of training, not shown */
record_reader_t read_job_start, read_job_event, read_job_ranks, read_job_training, read_job_end;
record_reader_t read_result;

/* Where a value of a record is kept: a number (double; NAN: missing), a text (interned; "": missing) or the members of an
 * object (report_fields_t). */
typedef enum place_kind { PLACE_NUMBER, PLACE_TEXT, PLACE_FIELDS } place_kind_t;
typedef struct record_place {
    const char *path; /* as "topology.ranks"; NULL ends a list */
    size_t at;
    place_kind_t kind;
} record_place_t;

#define PLACE_OF(value)                                                                                      \
    _Generic((value), double : PLACE_NUMBER, const char * : PLACE_TEXT, report_fields_t : PLACE_FIELDS)
#define PLACE(type, member, path)                                                                            \
    {                                                                                                        \
        path, offsetof(type, member), PLACE_OF(((type *)0)->member)                                          \
    }

/* Of a report_job_t: the values of its job_end record, "" and NAN without one. */
extern const record_place_t job_end_places[];

/* Copies a record's values to the places of *out. ASSERTs that a field without value is in the kind's table. */
err_t report_fill(const report_input_t *in, const record_place_t *places, void *out);
/* The members of an object inside the record. */
err_t report_fill_members(report_t *report, const json_value_t *object, const record_place_t *places,
                          void *out);
/* As if the record had none of them. */
err_t report_fill_none(const report_input_t *in, const record_place_t *places, void *out);
/* One number of the record itself, as report_fill copies it. */
double report_get_real(const report_input_t *in, const char *name);

/* Computes medians of a training run's steps, keeps their samples if requested, and frees the list of steps.
 * Does nothing for NULL and other runs. */
err_t train_run_finish(report_t *report, report_run_t *run);

err_t report_add_run(const report_input_t *in, const char *id, report_run_t **out);
/* Copies a value under its key, as report_copy_fields does. */
err_t report_copy_field(report_t *report, const json_value_t *value, bool keep_text, report_field_t *out);
/* Copies the members of an object; numbers keep their text if keep_text. NULL: no fields. */
err_t report_copy_fields(report_t *report, const json_value_t *object, bool keep_text, report_fields_t *out);

/* Counts a trouble; line and reason of the first one are kept. */
void report_note(report_trouble_t *trouble, int64_t line, const char *why);

#endif
