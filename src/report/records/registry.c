/* SPDX-License-Identifier: MIT */
/* Reads a file of records and dispatches each to the reader of its kind; checks a file against the tables of records. */
#include "base/log.h"
#include "base/mem.h"
#include "records/record.h"
#include "report/records/jsonl.h"
#include "report/records/records.h"

record_reader_t *const record_readers[N_RECORD_KINDS] = {
    [RECORD_RUN] = read_run,
    [RECORD_STEP] = read_step,
    [RECORD_EPOCH] = read_epoch,
    [RECORD_EVALUATION] = read_evaluation,
    [RECORD_CHECKPOINT] = read_checkpoint,
    [RECORD_STRAGGLER] = read_straggler,
    [RECORD_RESUME] = read_resume,
    [RECORD_REPLICAS] = read_replicas,
    [RECORD_PROFILE] = read_profile,
    [RECORD_END] = read_end,
    [RECORD_BENCH_RUN] = read_bench_run,
    [RECORD_BENCH] = read_bench_point,
    [RECORD_BENCH_END] = read_bench_end,
    [RECORD_JOB_START] = read_job_start,
    [RECORD_JOB_CONTINUE] = read_job_event,
    [RECORD_JOB_RANKS] = read_job_ranks,
    [RECORD_JOB_TRAINING] = read_job_training,
    [RECORD_JOB_FAULT] = read_job_event,
    [RECORD_JOB_LEFT_OUT] = read_job_event,
    [RECORD_JOB_WAIT] = read_job_event,
    [RECORD_JOB_END] = read_job_end,
    [RECORD_EVAL] = read_result,
    [RECORD_PREDICTION] = read_result,
    [RECORD_CHECK] = read_result,
    [RECORD_CHECK_PROFILE] = read_result,
    [RECORD_CHECK_HISTORY] = read_result,
    [RECORD_COMPARISON] = read_result,
    [RECORD_HISTORY] = read_result,
};

/* *newer: the caller skips the record, which was noted. */
static err_t check_schema(const report_input_t *in, bool *newer)
{
    int64_t schema;
    const bool is_of_run = in->kind > RECORD_RUN && in->kind < RECORD_BENCH_RUN; /* whose schema it has */
    *newer = in->file->is_newer;
    if (!is_of_run) {
        const bool has_schema = json_get_int(in->record, "schema", &schema);
        if (has_schema ? schema < 1 : record_field(&record_kinds[in->kind], "schema") != NULL)
            RAISE(ERR_DATA, "\"schema\" is not a number from 1");
        *newer = has_schema && schema > RECORD_SCHEMA;
    }
    if (in->kind == RECORD_RUN) in->file->is_newer = *newer;
    if (*newer)
        report_note(&in->file->newer, in->line, is_of_run ? "the run has a newer schema" : "newer schema");
    return ERR_OK;
}

static err_t read_record(report_input_t *in)
{
    const char *kind;
    bool newer = false;
    if (in->record->kind != JSON_OBJECT) RAISE(ERR_DATA, "not a record: not a JSON object");
    if (!json_get_text(in->record, "record", &kind)) RAISE(ERR_DATA, "not a record: \"record\" is missing");
    const record_row_t *row = record_find(kind);
    if (!row) RAISE(ERR_DATA, "unknown kind of record, \"%.40s\"", kind);
    in->kind = (record_kind_t)(row - record_kinds);
    TRY(check_schema(in, &newer));
    if (newer) return ERR_OK;
    TRY(record_readers[in->kind](in));
    in->file->n_records++;
    return ERR_OK;
}

typedef struct reading {
    report_t *report;
    int file_index;
} reading_t;

static err_t visit_line(void *context, const jsonl_line_t *line)
{
    const reading_t *reading = context;
    report_file_t *file = &reading->report->files[reading->file_index];
    if (!line->value) {
        report_note(&file->bad, line->number, line->problem);
        return ERR_OK;
    }
    report_input_t in = {.report = reading->report,
                         .file = file,
                         .file_index = reading->file_index,
                         .line = line->number,
                         .record = line->value};
    err_t err = read_record(&in);
    if (err == ERR_DATA) {
        report_note(&file->bad, line->number, err_message());
        return ERR_OK;
    }
    return err;
}

static err_t add_file(report_t *report, const char *name)
{
    TRY(mem_grow(report->n_files + 1, sizeof *report->files, "a list of files", &report->files));
    report_file_t *file = &report->files[report->n_files];
    TRY(intern_text(&report->words, name, &file->name));
    report->n_files++;
    return ERR_OK;
}

err_t report_read(report_t *report, int fd, const char *name)
{
    static const char *const skip[] = {
        "samples",           "data_samples",      "forward_samples", "backward_samples",
        "allreduce_samples", "optimizer_samples", "batch_n",         NULL};
    TRY(add_file(report, name));
    reading_t reading = {report, report->n_files - 1};
    const jsonl_options_t options = {
        .skip = report->keep_samples ? NULL : skip, .visit = visit_line, .context = &reading};
    report_file_t *file = &report->files[reading.file_index];
    err_t err = jsonl_read(fd, name, &options, &file->n_lines);
    if (err == ERR_OK) return train_run_finish(report, file->train);
    err_info_t first;
    err_take(err, &first);
    if (file->train) train_run_finish(report, file->train);
    return err_put(&first);
}

typedef struct checking {
    const char *name;
    FILE *out;
    check_counts_t *counts;
} checking_t;

static err_t check_line(void *context, const jsonl_line_t *line)
{
    const checking_t *c = context;
    err_t err = line->value ? record_check(line->value) : ERR_DATA;
    c->counts->n_records++;
    if (err != ERR_DATA) return err;
    c->counts->n_bad++;
    print_to(c->out, "%s:%lld: %s\n", c->name, (long long)line->number,
             line->value ? err_message() : line->problem);
    return ERR_OK;
}

err_t report_check_file(int fd, const char *name, FILE *out, check_counts_t *counts)
{
    checking_t checking = {name, out, counts};
    const jsonl_options_t options = {.visit = check_line, .context = &checking};
    return jsonl_read(fd, name, &options, NULL);
}
