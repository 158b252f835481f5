/* SPDX-License-Identifier: MIT */
/* Reads metrics.jsonl. Steps, the most of its lines, are parsed only when they are asked for. */
#include "train/replay/run_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char step_begin[] = "{\"record\":\"step\",\"step\":";
static const int64_t longest_file = INT64_C(1) << 34;

bool run_record_hex(const json_value_t *value, uint64_t *out)
{
    char *end;
    if (!value || value->kind != JSON_STRING || !value->text[0]) return false;
    errno = 0;
    *out = strtoull(value->text, &end, 16);
    return errno == 0 && *end == '\0';
}

err_t run_record_read(run_record_t *record, const char *line, size_t n_line, const json_value_t **out)
{
    json_reader_reset(&record->reader);
    err_t err = json_read(&record->reader, line, n_line, out);
    return err == ERR_OK ? ERR_OK : err_context(ERR_DATA, "%s", record->path);
}

static bool was_evaluated(const json_value_t *record)
{
    for (const json_value_t *at = record->first; at; at = at->next)
        if (strncmp(at->key, "val_", 4) == 0 && at->kind == JSON_NUMBER) return true;
    return false;
}

static bool is_event(const json_value_t *value, const char *kind, run_event_t *out)
{
    const json_value_t *equal = json_get(value, "equal"), *states = json_get(value, "with_states");
    if (!json_get_int(value, "step", &out->step)) return false;
    if (strcmp(kind, "replicas") == 0) {
        out->kind = RUN_CHECK;
        out->differs = equal && !equal->truth;
        out->with_states = states && states->truth;
        return states != NULL; /* else no check ended here, or the record is of an earlier version */
    }
    out->kind = strcmp(kind, "checkpoint") == 0 ? RUN_CHECKPOINT : RUN_EVALUATION;
    if (out->kind == RUN_CHECKPOINT) {
        const json_value_t *error = json_get(value, "error");
        return error && error->kind == JSON_NULL;
    }
    return (strcmp(kind, "epoch") == 0 || strcmp(kind, "evaluation") == 0) && was_evaluated(value);
}

static err_t add_line(run_record_t *record, const char *line, size_t n)
{
    static const char what[] = "the record of a run";
    const json_value_t *value;
    const char *kind = "";
    run_event_t event = {.start = record->n_starts - 1, .line = line, .n_line = n};
    if (strncmp(line, step_begin, sizeof step_begin - 1) == 0) return ERR_OK;
    /* A line that is not whole may be followed by others after a crash. */
    if (run_record_read(record, line, n, &value) != ERR_OK || !json_get_text(value, "record", &kind))
        return ERR_OK;
    if (strcmp(kind, "run") == 0) {
        run_start_t start = {.line = line, .n_line = n, .end = record->text + record->n_bytes};
        json_get_int(value, "first_step", &start.first_step);
        TRY(mem_grow(record->n_starts + 1, sizeof *record->starts, what, &record->starts));
        if (record->n_starts > 0) record->starts[record->n_starts - 1].end = line;
        record->starts[record->n_starts++] = start;
    } else if (record->n_starts > 0 && is_event(value, kind, &event)) {
        TRY(mem_grow(record->n_events + 1, sizeof *record->events, what, &record->events));
        record->events[record->n_events++] = event;
    }
    return ERR_OK;
}

err_t run_record_open(const char *folder, run_record_t *out)
{
    *out = (run_record_t){0};
    TRY(fs_join(out->path, folder, "metrics.jsonl"));
    err_t err = fs_read_file(out->path, longest_file, &out->text, &out->n_bytes);
    if (err == ERR_USAGE) return err_context(ERR_DATA, "%s holds no record of a run", folder);
    TRY(err);
    for (const char *line = out->text, *end; (end = strchr(line, '\n')); line = end + 1)
        TRY(add_line(out, line, (size_t)(end - line)));
    if (out->n_starts == 0) RAISE(ERR_DATA, "%s holds no record of a run", out->path);
    return ERR_OK;
}

void run_record_close(run_record_t *record)
{
    mem_free(&record->text);
    mem_free(&record->starts);
    mem_free(&record->events);
    json_reader_free(&record->reader);
}

const json_value_t *run_record_step(run_record_t *record, int start, int64_t step)
{
    const run_start_t *s = &record->starts[start];
    const json_value_t *value;
    if (!record->cursor || record->cursor < s->line || record->cursor >= s->end) record->cursor = s->line;
    for (const char *line = record->cursor, *end; line < s->end && (end = strchr(line, '\n'));
         line = end + 1) {
        if (strncmp(line, step_begin, sizeof step_begin - 1) != 0) continue;
        const int64_t number = strtoll(line + sizeof step_begin - 1, NULL, 10);
        if (number < step) continue;
        record->cursor = line;
        const bool found =
            number == step && run_record_read(record, line, (size_t)(end - line), &value) == ERR_OK;
        return found ? value : NULL;
    }
    return NULL;
}

int run_record_start_of(const run_record_t *record, int last, int64_t step)
{
    while (last > 0 && record->starts[last].first_step >= step) last--;
    return last;
}
