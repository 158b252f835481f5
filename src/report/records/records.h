/* SPDX-License-Identifier: MIT */
/* From one record to the model; used by registry.c and records*.c alone. Each returns ERR_DATA with the
 * reason where the record is not what it says it is. */
#ifndef REPORT_RECORDS_RECORDS_H
#define REPORT_RECORDS_RECORDS_H

#include "base/json_read.h"
#include "report/records/report.h"

/* A record on its way in. */
typedef struct report_input {
    report_t *report;
    report_file_t *file;
    int file_index;
    int64_t line;
    const json_value_t *record;
} report_input_t;

/* NULL where the record is of no such kind. */
typedef err_t (*record_reader_t)(const report_input_t *in);
record_reader_t bench_record_reader(const char *kind);
record_reader_t train_record_reader(const char *kind);

/* Medians of a run's steps and, where they are kept, samples; their list is then freed. Also for NULL and for
 * other runs. */
err_t train_run_finish(report_t *report, report_run_t *run);

/* A point's samples and its batches. */
err_t report_copy_samples(report_t *report, const json_value_t *record, report_point_t *point);

err_t report_add_run(const report_input_t *in, const char *id, report_run_t **out);
/* The members of an object; numbers keep their text where keep_text. Missing object: no fields. */
err_t report_copy_fields(report_t *report, const json_value_t *object, bool keep_text, report_fields_t *out);
/* "" and NAN where there is none. */
err_t report_copy_text(report_t *report, const json_value_t *object, const char *key, const char **out);
double report_get_real(const json_value_t *object, const char *key);

/* Adds one to a trouble; the first one's line and reason stay. */
void report_note(report_trouble_t *trouble, int64_t line, const char *why);

#endif
