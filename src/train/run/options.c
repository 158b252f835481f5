/* SPDX-License-Identifier: MIT */
/* Options of a training run: config file, validation, and what a resumed run inherits from its checkpoint. The
 * table is in option_table.c. */
#include "train/run/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "train/run/target.h"
#include "train/task/task.h"

enum { TEXT_MAX = 4200, MAX_CONFIG = 1 << 20, BATCH = 64 };

/* Options that may change on --resume. Per-run options never come from the checkpoint; those of may_change
 * do, unless given. Documented in docs/checkpoints.md. */
const char *const train_options_per_run[] = {
    "config",      "print-config",   "out",           "overwrite",      "resume",           "trace",
    "trace-steps", "tensorboard",    "device",        "comm",           "threads",          "timeout",
    "allreduce",   "ranks-per-host", "gpus",          "share-gpu",      "workspace",        "bucket",
    "cuda-graph",  "wire",           "nccl-register", "loader-threads", "profile",          "progress",
    "quiet",       "verbose",        "stall-warning", "measure-time",   "straggler-window", "preview",
    NULL};
static const char *const may_change[] = {"data",
                                         "epochs",
                                         "steps",
                                         "checkpoint-every",
                                         "mtbf",
                                         "checkpoint-async",
                                         "on-checkpoint-error",
                                         "keep",
                                         "eval",
                                         "eval-every",
                                         "eval-samples",
                                         "check-replicas",
                                         "log-every",
                                         "target-accuracy",
                                         "target",
                                         "keep-best",
                                         "batch",
                                         "batch-per-rank",
                                         "accumulate",
                                         "micro-batch",
                                         "algorithms",
                                         "max-bad",
                                         "max-image-pixels",
                                         NULL};

static err_t parse_eval_every(train_options_t *o)
{
    char *end = "";
    o->eval_steps = 0;
    o->eval_epochs = 1;
    if (!o->eval_every) return ERR_OK;
    errno = 0;
    int64_t value = strtoll(o->eval_every, &end, 10);
    bool steps = strcmp(end, "s") == 0;
    if (errno || value < 1 || o->eval_every[0] < '0' || o->eval_every[0] > '9' || (*end && !steps))
        RAISE(ERR_USAGE, "invalid --eval-every '%s': expected epochs such as 2, or steps such as 500s",
              o->eval_every);
    o->eval_epochs = steps ? 0 : value;
    o->eval_steps = steps ? value : 0;
    return ERR_OK;
}

/* --eval-every and --eval-samples ask for evaluations, also when the checkpoint's run had none. */
static err_t check_evaluation(train_options_t *o)
{
    const char *key = train_options_given(o, "eval-every")     ? "eval-every"
                      : train_options_given(o, "eval-samples") ? "eval-samples"
                                                               : NULL;
    if (key && !train_options_given(o, "eval")) o->eval = true;
    if (key && !o->eval) RAISE(ERR_USAGE, "--no-eval and --%s are mutually exclusive; give one of them", key);
    if (o->target && o->target_accuracy > 0)
        RAISE(ERR_USAGE, "--target and --target-accuracy are mutually exclusive; give one of them");
    if (o->target) TRY(train_target_check(o->target));
    if (!o->eval && (o->target || o->target_accuracy > 0))
        RAISE(ERR_USAGE, "--target%s requires evaluations; omit --no-eval", o->target ? "" : "-accuracy");
    if (!o->eval && o->keep_best) RAISE(ERR_USAGE, "--keep-best requires evaluations; omit --no-eval");
    if (!o->eval && strcmp(o->schedule.schedule, "plateau") == 0)
        RAISE(ERR_USAGE, "--schedule plateau follows the validation loss; omit --no-eval");
    return parse_eval_every(o);
}

/* Alternatives: one on the command line overrides the other in a config file. */
static const char *const pairs[][2] = {
    {"epochs", "steps"}, {"batch", "batch-per-rank"}, {"target", "target-accuracy"}};

/* Whether the alternative to an option is given. */
static bool is_settled(const train_options_t *o, const char *key)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(pairs[i][k], key) == 0) return train_options_given(o, pairs[i][1 - k]);
    return false;
}

err_t train_options_read_config(train_options_t *options, char **storage)
{
    char *text = NULL;
    *storage = NULL;
    if (!options->config) return ERR_OK;
    opt_group_t *groups = options->groups;
    uint64_t settled[TRAIN_N_GROUPS] = {0};
    for (int g = 0; g < TRAIN_SECTIONS; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (is_settled(options, groups[g].table[i].key))
                settled[g] |= ((uint64_t)1 << i) & ~groups[g].given;
    /* Given options are not read from the file. */
    for (int g = 0; g < TRAIN_SECTIONS; g++) groups[g].given |= settled[g];
    err_t err = fs_read_text(options->config, MAX_CONFIG, &text);
    if (err == ERR_OK) err = opt_config_read(groups, TRAIN_N_GROUPS, text, options->config, storage);
    for (int g = 0; g < TRAIN_SECTIONS; g++) groups[g].given &= ~settled[g];
    mem_free(&text);
    return err;
}

/* The fastest algorithm differs from one start to the next. */
static err_t check_algorithms(train_options_t *o)
{
    const bool given = train_options_given(o, "algorithms");
    if (!o->algorithms[0])
        RAISE(ERR_USAGE, "invalid --algorithms '': expected fixed, measure, rule or a file");
    if (strcmp(o->algorithms, TRAIN_BY_RULE) == 0 && !o->detects && strcmp(o->resume, "none") == 0)
        RAISE(ERR_USAGE,
              "--algorithms rule applies to detectors; %s has the backend's rule, --algorithms fixed",
              o->model);
    if (strcmp(o->algorithms, "measure") != 0) return ERR_OK;
    if (o->reproducible && given)
        RAISE(ERR_USAGE, "--reproducible excludes --algorithms measure; use --algorithms fixed, or a file");
    if (o->reproducible)
        o->algorithms = "fixed";
    else if (o->detects && !given)
        o->algorithms = TRAIN_BY_RULE;
    return ERR_OK;
}

/* Refuses options that would make results depend on the number of ranks or the order of sums. */
static err_t check_reproducible(train_options_t *o)
{
    if (o->sync_bn && o->bn_group)
        RAISE(ERR_USAGE, "--sync-bn and --bn-group are mutually exclusive; give one of them");
    if (!o->reproducible) return ERR_OK;
    if (o->sync_bn)
        RAISE(ERR_USAGE,
              "--sync-bn is not available with --reproducible, which computes one shard at a time; "
              "use --bn-group");
    if (schedule_is_scaled(&o->schedule) && !(o->batch && o->schedule.lr_batch))
        RAISE(ERR_USAGE,
              "--lr-scale %s makes the learning rate depend on the number of ranks, which --reproducible "
              "excludes; give --batch and --lr-batch, or use --lr-scale none and set the rate by --lr",
              o->schedule.lr_scale);
    if (!o->runtime.threads) o->runtime.threads = 1;
    return ERR_OK;
}

void train_options_set_rate(train_options_t *o, int64_t batch)
{
    const task_defaults_t *d = &task_get(TASK_DETECT)->defaults;
    const bool sgd = strcmp(o->optim.optimizer, "sgd") == 0 || strcmp(o->optim.optimizer, "nesterov") == 0;
    if (o->schedule.lr > 0) return;
    if (o->schedule.lr_batch) batch = o->schedule.lr_batch;
    o->schedule.lr = o->detects && sgd ? d->rate * (double)batch / (double)d->batch
                                       : optim_default_rate(o->optim.optimizer);
}

void train_options_set_warmup(train_options_t *o, int64_t n_steps)
{
    const task_defaults_t *d = &task_get(TASK_DETECT)->defaults;
    schedule_options_t *s = &o->schedule;
    if (!o->detects || train_options_given(o, "warmup-steps") || s->warmup_epochs > 0) return;
    s->warmup_steps = d->warmup_steps < n_steps / 4 ? d->warmup_steps : n_steps / 4;
    if (!(s->warmup_from > 0)) s->warmup_from = d->warmup_from;
}

/* --lr-batch alone asks for scaling. */
static err_t settle_scale(schedule_options_t *s, bool given)
{
    if (!s->lr_batch || schedule_is_scaled(s)) return ERR_OK;
    if (given)
        RAISE(ERR_USAGE, "--lr-batch %lld scales the rate, which --lr-scale none excludes; omit one of them",
              (long long)s->lr_batch);
    s->lr_scale = "linear";
    return ERR_OK;
}

err_t train_options_check_scale(const train_options_t *o)
{
    if (schedule_is_scaled(&o->schedule) && !o->schedule.lr_batch && !o->batch_per_rank)
        RAISE(
            ERR_USAGE,
            "--lr-scale %s needs the samples per step that --lr is meant for: give them by --lr-batch N, or the "
            "batch by --batch-per-rank N instead of --batch",
            o->schedule.lr_scale);
    return ERR_OK;
}

err_t train_options_check(train_options_t *o)
{
    if (o->batch && o->batch_per_rank)
        RAISE(ERR_USAGE, "--batch and --batch-per-rank are mutually exclusive; give one of them");
    if (o->steps && train_options_given(o, "epochs") && train_options_given(o, "steps"))
        RAISE(ERR_USAGE, "--epochs and --steps are mutually exclusive; give one of them");
    if (strcmp(o->resume, "auto") == 0 && !o->out)
        RAISE(ERR_USAGE, "--resume auto requires --out, the folder of the run to continue");
    if (strcmp(o->resume, "none") != 0 && o->overwrite)
        RAISE(ERR_USAGE, "--overwrite deletes the run that --resume %s would continue; give one of them",
              o->resume);
    if (o->preview && !o->preview[0])
        RAISE(ERR_USAGE, "invalid --preview '': expected a file, such as sheet.png");
    if (o->preview && strcmp(o->resume, "none") != 0)
        RAISE(ERR_USAGE, "--preview draws the first samples of a new run; omit --resume %s", o->resume);
    TRY(train_options_check_model(o));
    if (!o->batch && !o->batch_per_rank)
        o->batch = o->detects ? task_get(TASK_DETECT)->defaults.batch : BATCH;
    if (o->out && !o->out[0]) RAISE(ERR_USAGE, "invalid --out '': expected a folder (. is the current one)");
    TRY(settle_scale(&o->schedule, train_options_given(o, "lr-scale")));
    TRY(check_reproducible(o));
    if (strcmp(o->resume, "none") == 0) TRY(train_options_check_scale(o));
    TRY(transform_check(&o->transform));
    /* --print-config writes the default, which is not a request. */
    if (!o->weights && strcmp(o->weights_names, "torchvision") != 0)
        RAISE(ERR_USAGE, "--weights-names requires --weights FILE.npz");
    if (o->tensorboard && !o->tensorboard[0])
        RAISE(ERR_USAGE, "invalid --tensorboard '': expected a folder (. is the current one)");
    TRY(check_algorithms(o));
    TRY(optim_options_check(&o->optim));
    if (o->batch) train_options_set_rate(o, o->batch);
    TRY(train_options_check_checkpoints(o));
    TRY(train_options_check_replicas(o));
    TRY(check_evaluation(o));
    /* Options that a checkpoint cannot store fail here, before any training. */
    char *text;
    TRY(opt_config_write(o->groups, train_options_groups(o), train_options_per_run, &text));
    mem_free(&text);
    return ERR_OK;
}

static err_t read_saved(const char *saved, train_options_t *options, char **storage)
{
    TRY(train_options_bind(options));
    return opt_config_read(options->groups, TRAIN_N_GROUPS, saved, "the checkpoint's options", storage);
}

err_t train_options_inherit(train_options_t *options, const char *saved, char **storage)
{
    train_options_t old;
    opt_group_t *groups = options->groups;
    TRY(read_saved(saved, &old, storage));

    char refused[512] = "";
    for (int g = 0; g < TRAIN_N_GROUPS; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const char *key = groups[g].table[i].key;
            char now[TEXT_MAX], then[TEXT_MAX];
            bool given = groups[g].given >> i & 1 || is_settled(options, key);
            if (opt_listed(train_options_per_run, key)) continue;
            if (!given) {
                opt_copy(&groups[g], &old.groups[g], i);
                continue;
            }
            opt_text(&groups[g], i, now, sizeof now);
            opt_text(&old.groups[g], i, then, sizeof then);
            if (strcmp(now, then) == 0 || opt_listed(may_change, key)) continue;
            size_t used = strlen(refused);
            snprintf(refused + used, sizeof refused - used, "%s--%s %.40s (it was %.40s)", used ? ", " : "",
                     key, now, then);
        }
    if (refused[0])
        RAISE(ERR_USAGE, "a resumed run cannot change %s; omit it, or start a new run with --resume none",
              refused);
    return train_options_check(options);
}

err_t train_options_canvas(const char *saved, canvas_options_t *out, char **storage)
{
    train_options_t options;
    TRY(read_saved(saved, &options, storage));
    *out = options.detect.canvas;
    return ERR_OK;
}

err_t train_options_transform(const char *saved, transform_settings_t *out)
{
    train_options_t options;
    char *storage = NULL;
    err_t err = read_saved(saved, &options, &storage);
    if (err == ERR_OK) *out = transform_settings(&options.transform);
    if (err == ERR_OK) out->list = list_rules(&options.loader.list, 0);
    if (err == ERR_OK && out->task == TASK_DETECT) err = detect_train_transform(&options.detect, out);
    mem_free(&storage);
    return err;
}
