/* SPDX-License-Identifier: MIT */
/* Checks files of records against docs/records.md. The rules of each kind are in schema_*.c. */
#include "report/records/schema.h"

#include "base/log.h"
#include "report/records/jsonl.h"
#include "report/records/schema_rules.h"

schema_checker_t schema_checker_find(const char *kind)
{
    schema_checker_t check = schema_bench_checker(kind);
    if (!check) check = schema_train_checker(kind);
    if (!check) check = schema_job_checker(kind);
    if (!check) check = schema_results_checker(kind);
    return check;
}

err_t schema_check(const json_value_t *record)
{
    const char *kind;
    if (record->kind != JSON_OBJECT) RAISE(ERR_DATA, "not a record: not a JSON object");
    if (!json_get_text(record, "record", &kind)) RAISE(ERR_DATA, "not a record: \"record\" is missing");
    schema_checker_t check = schema_checker_find(kind);
    if (!check) RAISE(ERR_DATA, "unknown kind of record, \"%.40s\"", kind);
    err_t err = check(record);
    return err == ERR_OK ? ERR_OK : err_context(err, "%s", kind);
}

typedef struct checking {
    const char *name;
    FILE *out;
    schema_counts_t *counts;
} checking_t;

static err_t check_line(void *context, const jsonl_line_t *line)
{
    const checking_t *c = context;
    err_t err = line->value ? schema_check(line->value) : ERR_DATA;
    c->counts->n_records++;
    if (err != ERR_DATA) return err;
    c->counts->n_bad++;
    print_to(c->out, "%s:%lld: %s\n", c->name, (long long)line->number,
             line->value ? err_message() : line->problem);
    return ERR_OK;
}

err_t schema_check_file(int fd, const char *name, FILE *out, schema_counts_t *counts)
{
    checking_t checking = {name, out, counts};
    const jsonl_options_t options = {.visit = check_line, .context = &checking};
    return jsonl_read(fd, name, &options, NULL);
}
