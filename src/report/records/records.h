/* SPDX-License-Identifier: MIT */
/* Readers from a record to the model; used by registry.c and records*.c alone. Each returns ERR_DATA with the
 * reason if the record is malformed. */
#ifndef REPORT_RECORDS_RECORDS_H
#define REPORT_RECORDS_RECORDS_H

#include "base/json.h"
#include "report/records/report.h"

/* A record and where it was read. */
typedef struct report_input {
    report_t *report;
    report_file_t *file;
    int file_index;
    int64_t line;
    const json_value_t *record;
} report_input_t;

/* The reader of a kind of record (base/json.h), and those of each family; NULL: unknown kind. */
typedef err_t (*record_reader_t)(const report_input_t *in);
record_reader_t record_reader_find(const char *kind);
record_reader_t bench_record_reader(const char *kind);
record_reader_t train_record_reader(const char *kind);
record_reader_t job_record_reader(const char *kind);
record_reader_t result_record_reader(const char *kind);

/* Computes medians of a training run's steps, keeps their samples if requested, and frees the list of steps.
 * Does nothing for NULL and other runs. */
err_t train_run_finish(report_t *report, report_run_t *run);

/* Sets the metrics of a run without a table of them; reads the table of a `run` record, if it has one; and an
 * epoch's values. */
void train_metrics_begin(report_train_t *train);
err_t train_metrics_read(const report_input_t *in, report_train_t *train);
void train_metrics_read_epoch(const json_value_t *record, report_train_t *train, report_epoch_t *epoch);

/* Copies a point's samples and batches into the report. */
err_t report_copy_samples(report_t *report, const json_value_t *record, report_point_t *point);

err_t report_add_run(const report_input_t *in, const char *id, report_run_t **out);
/* Copies a value under its key, as report_copy_fields does. */
err_t report_copy_field(report_t *report, const json_value_t *value, bool keep_text, report_field_t *out);
/* Copies the members of an object; numbers keep their text if keep_text. NULL: no fields. */
err_t report_copy_fields(report_t *report, const json_value_t *object, bool keep_text, report_fields_t *out);
/* A missing member gives "" or NAN. */
err_t report_copy_text(report_t *report, const json_value_t *object, const char *key, const char **out);
double report_get_real(const json_value_t *object, const char *key);

/* *newer: the record's schema is newer; it was noted, and the caller skips the record. */
err_t report_check_schema(const report_input_t *in, bool *newer);

/* Counts a trouble; line and reason of the first one are kept. */
void report_note(report_trouble_t *trouble, int64_t line, const char *why);

#endif
