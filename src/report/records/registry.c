/* SPDX-License-Identifier: MIT */
/* Reads a file of records and dispatches each to the reader of its kind; checks a file against the tables of records. */
#include "base/log.h"
#include "base/mem.h"
#include "records/record.h"
#include "report/records/jsonl.h"
#include "report/records/records.h"

record_reader_t record_reader_find(const char *kind)
{
    record_reader_t read = bench_record_reader(kind);
    if (!read) read = train_record_reader(kind);
    if (!read) read = job_record_reader(kind);
    if (!read) read = result_record_reader(kind);
    return read;
}

static err_t read_record(const report_input_t *in)
{
    const char *kind;
    if (in->record->kind != JSON_OBJECT) RAISE(ERR_DATA, "not a record: not a JSON object");
    if (!json_get_text(in->record, "record", &kind)) RAISE(ERR_DATA, "not a record: \"record\" is missing");
    record_reader_t read = record_reader_find(kind);
    if (!read) RAISE(ERR_DATA, "unknown kind of record, \"%.40s\"", kind);
    return read(in);
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
    const report_input_t in = {reading->report, file, reading->file_index, line->number, line->value};
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
