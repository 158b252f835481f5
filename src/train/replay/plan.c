/* SPDX-License-Identifier: MIT */
/* Chooses the steps of a replay from the record and the checkpoints, and reads what they were computed with. */
#include "train/replay/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "store/checkpoint/store.h"
#include "train/run/options.h"

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

/* Lists targets by their place in the record; checkpoints that no record tells of come last. */
static err_t list_targets(const run_record_t *record, const int64_t *saved, int n_saved, target_t **out,
                          int *n)
{
    static const char what[] = "steps to compare";
    *n = 0;
    TRY(mem_new_array(record->n_events + n_saved, sizeof **out, what, out));
    for (int i = n_saved - 1; i >= 0; i--) {
        const int start = run_record_start_of(record, record->n_starts - 1, saved[i]);
        if (saved[i] > record->starts[start].first_step) (*out)[(*n)++] = (target_t){saved[i], start, false};
    }
    for (int i = 0; i < record->n_events; i++) {
        const run_event_t *e = &record->events[i];
        if (e->kind == RUN_CHECK) (*out)[(*n)++] = (target_t){e->step, e->start, e->differs};
    }
    return ERR_OK;
}

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
    TRY_OUT(err, list_targets(record, saved, n_saved, &targets, &n));
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
static bool is_unset(const opt_t *opt, const char *text)
{
    return !opt->initial && (text[0] == '\0' || strcmp(text, "0") == 0);
}

/* As opt_config_write would have written them, from the record's object. */
static err_t write_options(const json_value_t *from, char **out)
{
    train_options_t unused;
    opt_group_t groups[TRAIN_N_GROUPS];
    size_t used = 0;
    TRY(train_options_bind(&unused, groups));
    TRY(mem_new(1, "options", out));
    for (int g = 0; g < TRAIN_N_GROUPS; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            const json_value_t *value = json_get(from, opt->key);
            if (!value || value->kind == JSON_NULL || opt_listed(train_options_per_run, opt->key)) continue;
            const char *text = value->kind == JSON_BOOL ? (value->truth ? "true" : "false") : value->text;
            if (!text || is_unset(opt, text)) continue;
            const size_t need = used + strlen(opt->key) + strlen(text) + 8;
            TRY(mem_grow((int64_t)need, 1, "options", out));
            used += (size_t)snprintf(*out + used, need - used, "%s = %s\n", opt->key, text);
        }
    return ERR_OK;
}

/* Another program may compute other bits. */
static err_t check_program(const json_value_t *software)
{
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
    return ERR_OK;
}

static void copy_text(const json_value_t *object, const char *key, char *out, size_t n_bytes)
{
    const char *text = "";
    json_get_text(object, key, &text);
    snprintf(out, n_bytes, "%s", text);
}

/* The data that the run found without --data. */
static void choose_data(const json_value_t *run, const json_value_t *options, char out[FS_PATH_MAX])
{
    copy_text(options, "data", out, FS_PATH_MAX);
    if (out[0]) return;
    copy_text(json_get(run, "data"), "source", out, FS_PATH_MAX);
    if (!fs_is_folder(out)) out[0] = '\0';
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
    TRY(check_program(software));
    if (!json_get_int(topology, "ranks", &out->n_ranks) || out->n_ranks < 1 ||
        out->n_shards % out->n_ranks != 0 || !json_get_int(topology, "threads", &out->n_threads))
        RAISE(ERR_DATA, "%s: a run record without its topology", record->path);
    copy_text(topology, "device", out->device, sizeof out->device);
    copy_text(software, "backend", out->backend, sizeof out->backend);
    copy_text(json_get(run, "data"), "xxh3", out->data_xxh3, sizeof out->data_xxh3);
    choose_data(run, options, out->data);
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
