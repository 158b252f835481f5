/* SPDX-License-Identifier: MIT */
/* Reads metrics.jsonl, of which steps, most of its lines, are parsed only when they are asked for; chooses the steps
 * of a replay from it and the checkpoints, and reads what they were computed with. */
#include "train/replay/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "store/checkpoint/store.h"
#include "train/start/options.h"

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
    if (strcmp(kind, "epoch") != 0 && strcmp(kind, "evaluation") != 0) return false;
    for (const json_value_t *at = value->first; at; at = at->next)
        if (strncmp(at->key, "val_", 4) == 0 && at->kind == JSON_NUMBER) return true;
    return false;
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

bool replay_has_checkpoint(const char *folder, int64_t step, char path[FS_PATH_MAX])
{
    return checkpoint_store_path(folder, step, path) == ERR_OK && fs_exists(path);
}

/* ---- The interval ---- */
/* Something with known bits: a check of replicas, or a checkpoint. */
typedef struct target {
    int64_t step;
    int start;
    bool differs;
} target_t;

/* Whether a is the better end of an interval from step `from` that contains `step`; -1: any. */
static bool is_better(const target_t *a, const target_t *b, int64_t step)
{
    if (!b) return true;
    if (step < 0) return a->differs || (!b->differs && a->step >= b->step);
    return a->step != b->step ? a->step < b->step : a->differs || !b->differs;
}

static const target_t *choose_target(const target_t *targets, int n, int64_t from, int64_t step)
{
    const target_t *best = NULL;
    for (int i = 0; i < n; i++)
        if (targets[i].step > from && targets[i].step >= step && is_better(&targets[i], best, step))
            best = &targets[i];
    return best;
}

/* The newest intact checkpoint of at most `step`; 0: the start of the run. */
static int64_t choose_checkpoint(const char *folder, const int64_t *saved, int n, int64_t step, char *path)
{
    for (int i = 0; i < n; i++) {
        if (saved[i] > step || !replay_has_checkpoint(folder, saved[i], path)) continue;
        if (checkpoint_verify(path) == ERR_OK) return saved[i];
        log_warn("skipped: %s", err_message());
    }
    path[0] = '\0';
    return 0;
}

static err_t choose_steps(const run_record_t *record, const char *folder, int64_t step, replay_plan_t *out)
{
    int64_t *saved = NULL;
    target_t *targets = NULL;
    const target_t *target;
    int n_saved = 0, n = 0;
    err_t err;
    TRY_OUT(err, checkpoint_store_list(folder, &saved, &n_saved));
    /* By their place in the record; checkpoints that no record tells of come last. */
    TRY_OUT(err, mem_new_array(record->n_events + n_saved, sizeof *targets, "steps to compare", &targets));
    for (int i = n_saved - 1; i >= 0; i--) {
        const int start = run_record_start_of(record, record->n_starts - 1, saved[i]);
        if (saved[i] > record->starts[start].first_step) targets[n++] = (target_t){saved[i], start, false};
    }
    for (int i = 0; i < record->n_events; i++) {
        const run_event_t *e = &record->events[i];
        if (e->kind == RUN_CHECK) targets[n++] = (target_t){e->step, e->start, e->differs};
    }
    out->from = step < 0 ? -1 : choose_checkpoint(folder, saved, n_saved, step, out->checkpoint);
    target = choose_target(targets, n, out->from, step);
    if (!target && step >= 0)
        target = choose_target(targets, n, -1, out->from); /* the last step of the run */
    if (!target || target->step < step)
        RAISE_OUT(
            err, ERR_DATA,
            "%s has neither a checkpoint nor a comparison of replicas after %s%lld, so there are no bits to compare",
            folder, step < 0 ? "its start, step " : "step ", (long long)(step < 0 ? 0 : step));
    if (step < 0 || target->step <= out->from)
        out->from = choose_checkpoint(folder, saved, n_saved, target->step - 1, out->checkpoint);
    out->to = target->step;
    out->start = target->start;
out:
    mem_free(&saved);
    mem_free(&targets);
    return err;
}

/* ---- What they were computed with ---- */
/* As opt_config_write would have written them, from the record's object. */
static err_t write_options(const json_value_t *from, char **out)
{
    train_options_t unused;
    size_t used = 0;
    TRY(train_options_bind(&unused));
    TRY(mem_new(1, "options", out));
    for (int g = 0; g < TRAIN_N_GROUPS; g++)
        for (int i = 0; i < unused.groups[g].n; i++) {
            const opt_t *opt = &unused.groups[g].table[i];
            const json_value_t *value = json_get(from, opt->key);
            if (!value || value->kind == JSON_NULL || opt_listed(train_options_per_run, opt->key)) continue;
            const char *text = value->kind == JSON_BOOL ? (value->truth ? "true" : "false") : value->text;
            const bool unset = text && !opt->initial && (text[0] == '\0' || strcmp(text, "0") == 0);
            if (!text || unset) continue;
            const size_t need = used + strlen(opt->key) + strlen(text) + 8;
            TRY(mem_grow((int64_t)need, 1, "options", out));
            used += (size_t)snprintf(*out + used, need - used, "%s = %s\n", opt->key, text);
        }
    return ERR_OK;
}

static void copy_text(const json_value_t *object, const char *key, char *out, size_t n_bytes)
{
    const char *text = "";
    json_get_text(object, key, &text);
    snprintf(out, n_bytes, "%s", text);
}

static err_t read_start(run_record_t *record, int start, replay_plan_t *out, char **text)
{
    const json_value_t *run;
    TRY(run_record_read(record, record->starts[start].line, record->starts[start].n_line, &run));
    const json_value_t *options = json_get(run, "options"), *topology = json_get(run, "topology"),
                       *software = json_get(run, "software");
    out->n_shards = out->micro_batch = 0;
    json_get_int(options, "reproducible", &out->n_shards);
    json_get_int(run, "micro_batch", &out->micro_batch);
    if (out->n_shards == 0)
        RAISE(
            ERR_USAGE,
            "the run was not made with --reproducible V: its bits depend on the number of ranks and on measured choices, "
            "and cannot be computed again");
    /* Another program may compute other bits. */
    static const char *const keys[] = {"dptrain", "git", "compiler", "flags"};
    const char *const here[] = {version_number, version_git_hash, version_compiler, version_flags};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *there = "";
        json_get_text(software, keys[i], &there);
        if (strcmp(there, here[i]) != 0)
            RAISE(
                ERR_USAGE,
                "the run was computed by another build of dptrain (%s '%s'; this one: '%s'), which may give other bits: "
                "replay with the run's own",
                keys[i], there, here[i]);
    }
    if (!json_get_int(topology, "ranks", &out->n_ranks) || out->n_ranks < 1 ||
        out->n_shards % out->n_ranks != 0 || !json_get_int(topology, "threads", &out->n_threads))
        RAISE(ERR_DATA, "%s: a run record without its topology", record->path);
    copy_text(topology, "device", out->device, sizeof out->device);
    copy_text(software, "backend", out->backend, sizeof out->backend);
    copy_text(json_get(run, "data"), "xxh3", out->data_xxh3, sizeof out->data_xxh3);
    copy_text(options, "data", out->data, FS_PATH_MAX);
    if (!out->data[0]) { /* what the run found without --data */
        copy_text(json_get(run, "data"), "source", out->data, FS_PATH_MAX);
        if (!fs_is_folder(out->data)) out->data[0] = '\0';
    }
    return write_options(options, text);
}

/* The steps before the last start on the way were computed with its options. */
static err_t check_earlier(run_record_t *record, const replay_plan_t *plan, const char *options)
{
    for (int start = plan->start; plan->from < record->starts[start].first_step && start > 0;) {
        const int64_t resumed = record->starts[start].first_step;
        replay_plan_t unused = *plan;
        char *text = NULL;
        start = run_record_start_of(record, start - 1, resumed);
        err_t err = read_start(record, start, &unused, &text);
        const bool same = err == ERR_OK && strcmp(text, options) == 0 &&
                          unused.n_threads == plan->n_threads && unused.micro_batch == plan->micro_batch;
        mem_free(&text);
        TRY(err);
        if (!same)
            RAISE(
                ERR_USAGE,
                "the run was resumed at step %lld with other options, and that checkpoint is gone: steps after it can be "
                "replayed only from a later one",
                (long long)resumed);
    }
    return ERR_OK;
}

err_t replay_plan(run_record_t *record, const char *folder, int64_t step, replay_plan_t *out, char **options)
{
    *out = (replay_plan_t){0};
    *options = NULL;
    /* What makes every replay impossible comes first. */
    TRY(read_start(record, record->n_starts - 1, out, options));
    mem_free(options);
    TRY(choose_steps(record, folder, step, out));
    TRY(read_start(record, out->start, out, options));
    TRY(check_earlier(record, out, *options));
    if (!out->checkpoint[0] && record->starts[0].first_step > 0)
        RAISE(
            ERR_USAGE,
            "%s has no checkpoint before step %lld, and the start of the run is not in it: nothing to start from",
            folder, (long long)out->to);
    out->n_options = (int64_t)strlen(*options) + 1;
    return ERR_OK;
}
