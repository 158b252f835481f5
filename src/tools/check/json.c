/* SPDX-License-Identifier: MIT */
/* Writes all findings as JSON (--json). */
#include "base/clock.h"
#include "records/record.h"
#include "tools/check/show.h"

static void write_line_json(const check_t *check, const check_line_t *line, json_t *j)
{
    const char *host = line->scope == CHECK_RANK   ? check->ranks[line->index].host_name
                       : line->scope == CHECK_HOST ? check_host_name(check, line->index)
                                                   : NULL;
    json_object_begin(j, NULL);
    json_string(j, "host", host);
    if (line->scope == CHECK_RANK)
        json_int(j, "rank", line->index);
    else
        json_string(j, "rank", NULL);
    json_string(j, "check", line->check);
    json_string(j, "name", line->name);
    json_string(j, "status", check_status_names[line->status]);
    json_string(j, "found", line->found);
    if (line->measured) json_real(j, "value", line->value);
    json_string(j, "advice", line->advice[0] ? line->advice : NULL);
    json_object_end(j);
}

static void write_lines_json(const check_t *check, const check_lines_t *lines, json_t *j)
{
    char now[32];
    check_status_t worst = CHECK_OK;
    for (int64_t i = 0; i < lines->n; i++)
        if (lines->line[i].status > worst) worst = lines->line[i].status;
    clock_utc(now, sizeof now);
    record_begin(j, RECORD_CHECK);
    json_string(j, "time", now);
    json_int(j, "hosts", check->n_hosts);
    json_int(j, "ranks", check->comm->size);
    json_bool(j, "ready", !check_prevents(check, worst));
    json_array_begin(j, "lines");
    for (int64_t i = 0; i < lines->n; i++) write_line_json(check, &lines->line[i], j);
    json_array_end(j);
    json_object_end(j);
}

err_t check_show_json(const check_t *check, const check_lines_t *lines, const char *path)
{
    json_t j = {0};
    write_lines_json(check, lines, &j);
    err_t err = json_write_file(&j, path);
    if (err != ERR_OK) err_context(err, "--json");
    json_free(&j);
    return err;
}
