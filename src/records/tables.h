/* SPDX-License-Identifier: MIT */
/* The tables of registry.c, and how their rows are written. Private to src/records. */
#ifndef RECORDS_TABLES_H
#define RECORDS_TABLES_H

#include "records/record.h"

/* The first members of a row, as {REAL("lr", "learning rate"), .optional = true}. {0} ends a table. */
#define VERSION(field, about)  .name = field, .help = about, .type = RECORD_VERSION
#define TEXT(field, about)     .name = field, .help = about, .type = RECORD_TEXT
#define WORDS(field, about)    .name = field, .help = about, .type = RECORD_WORDS
#define HEX(field, about)      .name = field, .help = about, .type = RECORD_HEX
#define FLAG(field, about)     .name = field, .help = about, .type = RECORD_FLAG
#define COUNT(field, about)    .name = field, .help = about, .type = RECORD_COUNT
#define POSITIVE(field, about) .name = field, .help = about, .type = RECORD_POSITIVE
#define INTEGER(field, about)  .name = field, .help = about, .type = RECORD_INTEGER
#define REAL(field, about)     .name = field, .help = about, .type = RECORD_REAL
#define NUMBER(field, about)   .name = field, .help = about, .type = RECORD_NUMBER
#define OBJECT(field, about)   .name = field, .help = about, .type = RECORD_OBJECT
#define ARRAY(field, about)    .name = field, .help = about, .type = RECORD_ARRAY

extern const record_field_t record_run[], record_step[], record_epoch[], record_evaluation[],
    record_checkpoint[], record_straggler[], record_resume[], record_replicas[], record_profile[],
    record_end[];
extern const record_field_t record_bench_run[], record_bench[], record_bench_end[];
extern const record_field_t record_job_start[], record_job_continue[], record_job_ranks[],
    record_job_training[], record_job_fault[], record_job_left_out[], record_job_wait[], record_job_end[];
extern const record_field_t record_eval[], record_prediction[], record_check_result[], record_check_profile[],
    record_check_history[], record_comparison[], record_history[];

/* The times of a `bench` record agree: order of quantiles, interval, number of samples. */
err_t record_check_times(const json_value_t *record);

#endif
