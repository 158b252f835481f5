/* SPDX-License-Identifier: MIT */
/* Checks every line of a file against the tables of records. */
#include "report/records/check.h"

#include "base/log.h"
#include "records/record.h"
#include "report/records/jsonl.h"

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
