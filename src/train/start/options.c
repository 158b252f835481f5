/* SPDX-License-Identifier: MIT */
/* Options of a training run: their table, the config file, validation, what a resumed run inherits from its checkpoint, and
 * those that change nothing. */
#include "train/start/options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "cluster/comm/device.h"
#include "compute/models/model.h"
#include "train/guard/target.h"
#include "train/task/task.h"

static const char *const on_errors[] = {"stop", "continue", NULL};

#define FIELD(name) offsetof(train_options_t, name)
static const opt_t table[] = {
    {"data", OPT_STRING, FIELD(data), NULL, 0, 0, NULL, "DIR",
     "dataset: image folder (one folder per class, or COCO), shards, MNIST's IDX files, digits (built in), synthetic "
     "[$DPTRAIN_DATA/mnist, data/mnist, digits]",
     OPT_COMMON},
    {"val-split", OPT_REAL, FIELD(val_split), "0", 0, HOLDOUT_MAX, NULL, "X",
     "for data without a validation part: share of each class's training images that validates, drawn by --seed; of lists "
     "of objects, of all images",
     OPT_MORE},
    {"model", OPT_STRING, FIELD(model), "lenet5", 0, 0, NULL, "NAME", "model; dptrain info lists them",
     OPT_COMMON},
    {"preview", OPT_STRING, FIELD(preview), NULL, 0, 0, NULL, "FILE.png",
     "draw the first training samples as the model gets them, and exit", OPT_COMMON},
    {"weights", OPT_STRING, FIELD(weights), NULL, 0, 0, NULL, "FILE",
     "initial weights (.npz, .safetensors); a classifier for another number of classes is reinitialized",
     OPT_COMMON},
    {"weights-names", OPT_STRING, FIELD(weights_names), "torchvision", 0, 0, NULL, "TABLE",
     "parameter names in --weights: torchvision, detectron2, tensorpack, huggingface, dptrain, or a file of rules",
     OPT_MORE},
    {"freeze", OPT_STRING, FIELD(freeze), NULL, 0, 0, NULL, "LAYERS",
     "do not train these layers: a list such as conv1,bn1,layer1; batch norm among them uses its running statistics",
     OPT_MORE},
    {"stem", OPT_CHOICE, FIELD(stem), "auto", 0, 0, model_stems, NULL,
     "of ResNets: first layers; imagenet: 7x7, stride 2, max pooling; small: 3x3, stride 1, no pooling; auto: small for "
     "inputs of up to 64 pixels",
     OPT_MORE},
    {"zero-init-residual", OPT_FLAG, FIELD(zero_init_residual), "false", 0, 0, NULL, NULL,
     "of ResNets: start each block as the identity (the scale of its last batch norm is 0 instead of 1), for long runs "
     "with large batches",
     OPT_MORE},
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "DIR",
     "folder for metrics and checkpoints [runs/MODEL-DATE]", OPT_COMMON},
    {"overwrite", OPT_FLAG, FIELD(overwrite), "false", 0, 0, NULL, NULL,
     "delete an earlier run in --out and start over", OPT_COMMON},
    {"resume", OPT_STRING, FIELD(resume), "none", 0, 0, NULL, "auto|none|PATH",
     "continue from the newest checkpoint in --out, or from PATH, such as DIR/best", OPT_COMMON},
    {"config", OPT_STRING, FIELD(config), NULL, 0, 0, NULL, "FILE",
     "file of KEY = VALUE lines; the command line wins", OPT_COMMON},
    {"print-config", OPT_FLAG, FIELD(print_config), "false", 0, 0, NULL, NULL,
     "print the resolved options in the format of --config and exit", OPT_MORE},
    {"seed", OPT_INT, FIELD(seed), "1", 0, 9e15, NULL, "N",
     "random seed of weights, sample order, dropout and augmentation", OPT_MORE},
    {"reproducible", OPT_INT, FIELD(reproducible), NULL, 1, 4096, NULL, "V",
     "sum the gradients of V virtual shards in a fixed order: bitwise-identical results on any number of "
     "ranks that divides V",
     OPT_MORE},
    {"batch", OPT_INT, FIELD(batch), NULL, 1, 1 << 24, NULL, "N",
     "global batch size, in samples [64; detectors 16]", OPT_COMMON},
    {"batch-per-rank", OPT_INT, FIELD(batch_per_rank), NULL, 1, 1 << 24, NULL, "N",
     "batch size per rank, instead of --batch", OPT_MORE},
    {"accumulate", OPT_INT, FIELD(accumulate), "1", 1, 4096, NULL, "N",
     "gradient accumulation: micro-batches per step on each rank; less memory, same update", OPT_MORE},
    {"epochs", OPT_INT, FIELD(epochs), "3", 1, 1000000, NULL, "N", "passes over the training set",
     OPT_COMMON},
    {"steps", OPT_INT, FIELD(steps), NULL, 1, 1e15, NULL, "N", "total optimizer steps, instead of --epochs",
     OPT_MORE},
    {"max-time", OPT_STRING, FIELD(max_time), NULL, 0, 0, NULL, "N(s|m|h|d)",
     "stop with a checkpoint before the job has run for this time, such as 2h; --resume auto goes on",
     OPT_MORE},
    {"label-smoothing", OPT_REAL, FIELD(label_smoothing), "0", 0, 0.999, NULL, "X",
     "label smoothing of the training targets", OPT_MORE},
    {"bn-group", OPT_INT, FIELD(bn_group), NULL, 1, 1 << 24, NULL, "N",
     "batch norm over groups of N samples [all samples of a rank]", OPT_MORE},
    {"sync-bn", OPT_FLAG, FIELD(sync_bn), "false", 0, 0, NULL, NULL,
     "batch norm over the samples of all ranks", OPT_MORE},
    {"shuffle-block", OPT_INT, FIELD(shuffle_block), NULL, 1, UINT32_MAX, NULL, "N",
     "consecutive samples that are shuffled, and read from shards, as one block; 1: shuffle all samples "
     "(the default for images in memory) [about 2 MiB of images]",
     OPT_MORE},
    {"shuffle-window", OPT_INT, FIELD(shuffle_window), "256", 1, 65536, NULL, "N",
     "number of blocks, over all ranks, whose samples are mixed; a smaller dataset is shuffled as a whole",
     OPT_MORE},
    {"precision", OPT_CHOICE, FIELD(precision), "fp32", 0, 0, model_precisions, NULL,
     "of matrix products; bf16: of activations too", OPT_COMMON},
    {"algorithms", OPT_STRING, FIELD(algorithms), "measure", 0, 0, NULL, "fixed|measure|rule|FILE",
     "convolution algorithms: the backend's rule, the fastest measured at startup, the rule of detectors (their "
     "default), or those in FILE; with --reproducible the default is fixed",
     OPT_MORE},
    {"measure-time", OPT_REAL, FIELD(measure_sec), "20", 0, 86400, NULL, "SEC",
     "time limit for measuring algorithms, in seconds; the backend's rule chooses the rest, and a later new "
     "run measures them",
     OPT_MORE},
    {"eval", OPT_FLAG, FIELD(eval), "true", 0, 0, NULL, NULL, "evaluate the model during and after training",
     OPT_MORE},
    {"eval-every", OPT_STRING, FIELD(eval_every), NULL, 0, 0, NULL, "N|Ns",
     "evaluation interval: N epochs or N steps; the last step is always evaluated [1]", OPT_MORE},
    {"eval-samples", OPT_INT, FIELD(eval_samples), NULL, 1, 1e15, NULL, "N",
     "validation samples to evaluate, evenly spaced, always the same [all]", OPT_MORE},
    {"target", OPT_STRING, FIELD(target), NULL, 0, 0, NULL, "METRIC=X",
     "stop when a validation reaches a value, such as accuracy=0.99, map=0.5 or loss=0.05; exit code 1 if "
     "none does",
     OPT_MORE},
    {"patience", OPT_INT, FIELD(patience), "0", 0, 1000000, NULL, "N",
     "stop when N evaluations in a row are no better than the best before them (accuracy, mAP with several labels, AP of "
     "detectors), with --keep-best; 0: off",
     OPT_MORE},
    {"target-accuracy", OPT_REAL, FIELD(target_accuracy), "0", 0, 1, NULL, "X",
     "--target for the task's main metric: accuracy, or mAP with several labels; 0: off", OPT_MORE},
    {"checkpoint-every", OPT_STRING, FIELD(checkpoint_every), NULL, 0, 0, NULL, "N|Nm|auto",
     "checkpoint interval: N steps, N minutes, or the best one for --mtbf [every epoch]", OPT_COMMON},
    {"mtbf", OPT_STRING, FIELD(mtbf), NULL, 0, 0, NULL, "N(s|m|h|d)",
     "mean time between failures, for --checkpoint-every auto, such as 6h", OPT_MORE},
    {"checkpoint-async", OPT_FLAG, FIELD(checkpoint_async), "true", 0, 0, NULL, NULL,
     "write checkpoints in the background", OPT_MORE},
    {"on-checkpoint-error", OPT_CHOICE, FIELD(on_checkpoint_error), "stop", 0, 0, on_errors, NULL,
     "action when a checkpoint cannot be written; a failure of the last one is always an error", OPT_MORE},
    {"keep", OPT_INT, FIELD(keep), "3", 1, 1000000, NULL, "K", "number of checkpoints to keep", OPT_MORE},
    {"keep-best", OPT_FLAG, FIELD(keep_best), "false", 0, 0, NULL, NULL,
     "also keep the checkpoint with the best validation (accuracy, or mAP with several labels), and write one at each "
     "new best",
     OPT_MORE},
    {"log-every", OPT_INT, FIELD(log_every), "100", 1, 1e15, NULL, "N",
     "interval of lines of progress, in steps; a line also follows 30 s without one", OPT_MORE},
    {"tensorboard", OPT_STRING, FIELD(tensorboard), NULL, 0, 0, NULL, "DIR",
     "also write metrics for TensorBoard to DIR; to DIR/run-2, ... if another run's are there", OPT_MORE},
    {"profile", OPT_FLAG, FIELD(profile), "false", 0, 0, NULL, NULL,
     "print the whole profile at the end: layers, how near they are to their bounds, hints", OPT_MORE},
    {"trace", OPT_STRING, FIELD(trace), NULL, 0, 0, NULL, "FILE",
     "write a timeline of all ranks, for ui.perfetto.dev or chrome://tracing", OPT_MORE},
    {"trace-steps", OPT_INT, FIELD(trace_steps), "1000", 0, 1e15, NULL, "N",
     "steps to trace, from the first, within 64 MiB per rank; 0: as many as fit", OPT_MORE},
    {"check-replicas", OPT_STRING, FIELD(check_replicas), "auto", 0, 0, NULL, "K|auto|off",
     "compare the ranks' weights every K steps, before each checkpoint and before each evaluation; auto: at a cost "
     "below 0.5 % of a step",
     OPT_MORE},
    {"straggler-window", OPT_REAL, FIELD(straggler_sec), "2", 0, 86400, NULL, "SEC",
     "shortest window over which the ranks' times are compared", OPT_HIDDEN},
};
/* The table's parts, each with a heading in --help. */
static const struct {
    const char *title, *first;
} sections[TRAIN_SECTIONS] = {
    {"Data", "data"},
    {"Model", "model"},
    {"Run", "out"},
    {"Batches and length", "batch"},
    {"Precision and algorithms", "precision"},
    {"Evaluation", "eval"},
    {"Checkpoints", "checkpoint-every"},
    {"Monitoring", "log-every"},
};
enum { N_OPTIONS = sizeof table / sizeof table[0] };

static void bind_sections(train_options_t *options)
{
    opt_group_t *groups = options->groups;
    int g = -1;
    for (int i = 0; i < N_OPTIONS; i++) {
        if (g + 1 < TRAIN_SECTIONS && strcmp(table[i].key, sections[g + 1].first) == 0)
            groups[++g] = (opt_group_t){NULL, &table[i], 0, options, 0};
        ASSERT(g >= 0);
        groups[g].title = sections[g].title;
        groups[g].n++;
    }
    ASSERT(g == TRAIN_SECTIONS - 1);
}

err_t train_options_bind(train_options_t *options)
{
    *options = (train_options_t){0};
    bind_sections(options);
    const opt_group_t others[] = {
        {"Learning rate", schedule_option_table, n_schedule_options, &options->schedule, 0},
        {"Optimizer", optim_option_table, n_optim_options, &options->optim, 0},
        {"Augmentation", random_affine_option_table, n_random_affine_options, &options->transform.affine, 0},
        {"Data: images", transform_option_table, n_transform_options, &options->transform, 0},
        {"Data: loading", loader_option_table, n_loader_options, &options->loader, 0},
        {"Runtime", runtime_option_table, n_runtime_options, &options->runtime, 0},
        {"GPU", gpu_option_table, n_gpu_options, &options->runtime, 0},
        {"Output", console_option_table, n_console_options, &options->console, 0},
        {"Detectors", detect_train_option_table, n_detect_train_options, &options->detect, 0},
        {"Detectors: images", canvas_option_table, n_canvas_options, &options->detect.canvas, 0},
    };
    static_assert(sizeof others / sizeof *others == TRAIN_N_GROUPS - TRAIN_SECTIONS, "all groups");
    memcpy(options->groups + TRAIN_SECTIONS, others, sizeof others);
    return opt_defaults(options->groups, TRAIN_N_GROUPS);
}

enum { TEXT_MAX = 4200, MAX_CONFIG = 1 << 20 };

/* Options that may change on --resume. Per-run options never come from the checkpoint; those of may_change
 * do, unless given. Documented in docs/checkpoints.md. */
const char *const train_options_per_run[] = {"config",
                                             "print-config",
                                             "out",
                                             "overwrite",
                                             "resume",
                                             "trace",
                                             "trace-steps",
                                             "tensorboard",
                                             "device",
                                             "comm",
                                             "threads",
                                             "timeout",
                                             "allreduce",
                                             "ranks-per-host",
                                             "gpus",
                                             "share-gpu",
                                             "workspace",
                                             "bucket",
                                             "cuda-graph",
                                             "wire",
                                             "nccl-register",
                                             "loader-threads",
                                             "profile",
                                             "progress",
                                             "quiet",
                                             "verbose",
                                             "stall-warning",
                                             "measure-time",
                                             "max-time",
                                             "straggler-window",
                                             "preview",
                                             "shard-optimizer",
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
                                         "patience",
                                         "batch",
                                         "batch-per-rank",
                                         "accumulate",
                                         "micro-batch",
                                         "algorithms",
                                         "max-bad",
                                         "max-image-pixels",
                                         NULL};

static err_t parse_checkpoint_steps(train_options_t *o)
{
    const char *text = o->checkpoint_every;
    char *end;
    o->checkpoint_steps = 0;
    o->checkpoint_sec = 0;
    o->checkpoint_auto = text && strcmp(text, "auto") == 0;
    if (!text || o->checkpoint_auto) return ERR_OK;
    double value = strtod(text, &end);
    bool minutes = *end == 'm' && end[1] == '\0';
    bool whole = value < 1e15 && (double)(int64_t)value >= value;
    if (end == text || !(value > 0) || (*end && !minutes) || (!minutes && !whole))
        RAISE(ERR_USAGE,
              "invalid --checkpoint-every '%s': expected steps such as 500, minutes such as 10m, or auto",
              text);
    if (minutes)
        o->checkpoint_sec = 60 * value;
    else
        o->checkpoint_steps = (int64_t)value;
    return ERR_OK;
}

/* 0: not given. */
static err_t parse_duration(const char *key, const char *text, double *out_sec)
{
    *out_sec = 0;
    if (!text || opt_duration(text, out_sec)) return ERR_OK;
    RAISE(ERR_USAGE, "invalid --%s '%s': expected a duration such as 90m, 6h or 2d", key, text);
}

/* --checkpoint-every and --mtbf. */
static err_t parse_checkpoint_every(train_options_t *o)
{
    TRY(parse_checkpoint_steps(o));
    TRY(parse_duration("mtbf", o->mtbf, &o->mtbf_sec));
    if (o->checkpoint_auto && !o->mtbf)
        RAISE(ERR_USAGE,
              "--checkpoint-every auto requires --mtbf, the mean time between failures of the job's hosts, "
              "such as 6h");
    /* A resumed run may have it from its checkpoint. */
    if (!o->checkpoint_auto && train_options_given(o, "mtbf"))
        RAISE(ERR_USAGE, "--mtbf requires --checkpoint-every auto");
    return ERR_OK;
}

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
    if (!o->eval && o->patience) RAISE(ERR_USAGE, "--patience requires evaluations; omit --no-eval");
    if (o->patience && !train_options_given(o, "keep-best")) o->keep_best = true;
    if (!o->eval && o->keep_best) RAISE(ERR_USAGE, "--keep-best requires evaluations; omit --no-eval");
    if (!o->eval && strcmp(o->schedule.schedule, "plateau") == 0)
        RAISE(ERR_USAGE, "--schedule plateau follows the validation loss; omit --no-eval");
    return parse_eval_every(o);
}

/* Alternatives: one on the command line overrides the other in a config file. */
static const char *const pairs[][2] = {{"epochs", "steps"},           {"batch", "batch-per-rank"},
                                       {"target", "target-accuracy"}, {"warmup", "warmup-steps"},
                                       {"sync-bn", "bn-group"},       {"flip", "augment-flip"}};

/* They need evaluations. */
static const char *const of_evaluation[] = {"eval-every", "eval-samples",    "keep-best", "patience",
                                            "target",     "target-accuracy", NULL};

/* keys: ends with NULL. */
static bool gives_any(const train_options_t *o, const char *const *keys)
{
    bool any = false;
    for (; *keys; keys++) any = any || train_options_given(o, *keys);
    return any;
}

static bool is_typed(const train_options_t *o, const char *key)
{
    return opt_typed(o->groups, TRAIN_N_GROUPS, o->typed, key);
}

/* Whether what is given contradicts an option, which then keeps its default. */
static bool is_settled(const train_options_t *o, const char *key)
{
    const bool no_eval = train_options_given(o, "eval") && !o->eval;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (int k = 0; k < 2; k++)
            if (strcmp(pairs[i][k], key) == 0 && train_options_given(o, pairs[i][1 - k])) return true;
    return strcmp(key, "eval") == 0 ? !no_eval && gives_any(o, of_evaluation)
                                    : no_eval && opt_listed(of_evaluation, key);
}

err_t train_options_read_config(train_options_t *options, char **storage)
{
    char *text = NULL;
    *storage = NULL;
    if (!options->config) return ERR_OK;
    opt_group_t *groups = options->groups;
    uint64_t settled[TRAIN_N_GROUPS] = {0};
    for (int g = 0; g < TRAIN_N_GROUPS; g++)
        for (int i = 0; i < groups[g].n; i++)
            if (is_settled(options, groups[g].table[i].key))
                settled[g] |= ((uint64_t)1 << i) & ~groups[g].given;
    /* Given options are not read from the file. */
    for (int g = 0; g < TRAIN_N_GROUPS; g++) groups[g].given |= settled[g];
    err_t err = fs_read_text(options->config, MAX_CONFIG, &text);
    if (err == ERR_OK) err = opt_config_read(groups, TRAIN_N_GROUPS, text, options->config, storage);
    for (int g = 0; g < TRAIN_N_GROUPS; g++) groups[g].given &= ~settled[g];
    mem_free(&text);
    return err;
}

/* The fastest algorithm differs from one start to the next. */
static err_t check_algorithms(train_options_t *o)
{
    const bool given = train_options_given(o, "algorithms");
    if (!o->algorithms[0])
        RAISE(ERR_USAGE, "invalid --algorithms '': expected fixed, measure, rule or a file");
    if (strcmp(o->algorithms, TRAIN_BY_RULE) == 0 && !o->kind->rule && strcmp(o->resume, "none") == 0)
        RAISE(ERR_USAGE,
              "--algorithms rule applies to detectors; %s has the backend's rule, --algorithms fixed",
              o->model);
    if (strcmp(o->algorithms, "measure") != 0) return ERR_OK;
    if (o->reproducible && given)
        RAISE(ERR_USAGE, "--reproducible excludes --algorithms measure; use --algorithms fixed, or a file");
    if (o->reproducible)
        o->algorithms = "fixed";
    else if (o->kind->rule && !given)
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
    static const char *const of_sgd[] = {"optimizer", "momentum", "lr-scale", "lr-batch", NULL};
    const task_defaults_t *d = &o->kind->defaults;
    if (o->schedule.lr > 0) return;
    if (d->scratch_optimizer && !o->weights && !gives_any(o, of_sgd)) {
        o->optim.optimizer = d->scratch_optimizer, o->schedule.lr = d->scratch_rate;
        return;
    }
    const bool sgd = strcmp(o->optim.optimizer, "sgd") == 0 || strcmp(o->optim.optimizer, "nesterov") == 0;
    if (o->schedule.lr_batch) batch = o->schedule.lr_batch;
    o->schedule.lr = d->rate > 0 && sgd ? d->rate * (double)batch / (double)d->batch
                                        : optim_default_rate(o->optim.optimizer);
}

void train_options_set_warmup(train_options_t *o, const schedule_run_t *run)
{
    const int64_t longest = run->n_steps / 4;
    const task_defaults_t *d = &o->kind->defaults;
    schedule_options_t *s = &o->schedule;
    const bool shorter = is_typed(o, "steps") || is_typed(o, "epochs");
    if (shorter && !is_typed(o, "warmup-steps") && !is_typed(o, "warmup") &&
        schedule_warmup_steps(s, run) >= run->n_steps)
        s->warmup_steps = longest, s->warmup_epochs = 0;
    if (!d->warmup_steps || train_options_given(o, "warmup-steps") || s->warmup_epochs > 0) return;
    s->warmup_steps = d->warmup_steps < longest ? d->warmup_steps : longest;
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

/* Those that the kind of model lacks keep their defaults. */
static err_t check_lacks(const train_options_t *o)
{
    train_options_t usual;
    TRY(train_options_bind(&usual));
    for (const task_lack_t *lack = o->kind->lacks; lack && lack->key; lack++)
        for (int g = 0; g < TRAIN_SECTIONS; g++)
            for (int i = 0; i < o->groups[g].n; i++) {
                char now[TEXT_MAX], then[TEXT_MAX];
                if (strcmp(o->groups[g].table[i].key, lack->key) != 0) continue;
                opt_text(&o->groups[g], i, now, sizeof now);
                opt_text(&usual.groups[g], i, then, sizeof then);
                if (strcmp(now, then) != 0)
                    RAISE(ERR_USAGE, "--%s does not apply to %ss such as %s: %s", lack->key, o->kind->name,
                          o->model, lack->why);
            }
    return ERR_OK;
}

err_t train_options_check_model(train_options_t *o)
{
    for (int g = train_options_groups(o); g < TRAIN_N_GROUPS; g++)
        for (int i = 0; i < o->groups[g].n; i++)
            if (o->groups[g].given >> i & 1)
                RAISE(ERR_USAGE,
                      "--%s applies to detectors (--model maskrcnn_resnet50_fpn, ...); %s is a classifier",
                      o->groups[g].table[i].key, o->model);
    const char *task = o->transform.task, *needed = o->kind->task;
    if (needed && strcmp(task, transform_tasks[TASK_AUTO]) != 0 && strcmp(task, needed) != 0)
        RAISE(ERR_USAGE, "--task %s: %s is a %s, which needs --task %s (its default)", task, o->model,
              o->kind->name, needed);
    TRY(check_lacks(o));
    if (o->zero_init_residual) TRY(model_check_residual(o->model, "zero-init-residual"));
    if (model_stem(o->stem) != MODEL_STEM_AUTO) TRY(model_check_residual(o->model, "stem"));
    if (needed) o->transform.task = needed;
    return o->kind->check_options(&o->detect, task);
}

static err_t parse_check_replicas(train_options_t *o)
{
    const char *text = o->check_replicas;
    char *end = "";
    o->replica_steps = 0;
    o->replicas_off = strcmp(text, "off") == 0;
    if (o->replicas_off || strcmp(text, "auto") == 0) return ERR_OK;
    errno = 0;
    o->replica_steps = strtoll(text, &end, 10);
    if (errno || *end || o->replica_steps < 1 || text[0] < '0' || text[0] > '9')
        RAISE(ERR_USAGE, "invalid --check-replicas '%s': expected auto, off, or steps such as 500", text);
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
    const model_t *model;
    TRY(model_find(o->model, &model));
    o->kind = task_kind_of(model);
    /* With --resume the checkpoint's model is not known yet. */
    if (!o->kind->is_default || strcmp(o->resume, "none") == 0 || train_options_given(o, "model"))
        TRY(train_options_check_model(o));
    if (!o->batch && !o->batch_per_rank) o->batch = o->kind->defaults.batch;
    if (o->out && !o->out[0]) RAISE(ERR_USAGE, "invalid --out '': expected a folder (. is the current one)");
    TRY(settle_scale(&o->schedule, train_options_given(o, "lr-scale")));
    TRY(check_reproducible(o));
    if (strcmp(o->resume, "none") == 0) TRY(train_options_check_scale(o));
    /* Both are in files of --print-config of earlier versions. */
    if (train_options_given(o, "flip") && !train_options_given(o, "augment-flip"))
        o->transform.affine.flip = o->transform.flip;
    TRY(transform_check(&o->transform));
    /* --print-config writes the default, which is not a request. */
    if (!o->weights && strcmp(o->weights_names, "torchvision") != 0)
        RAISE(ERR_USAGE, "--weights-names requires --weights FILE");
    if (o->tensorboard && !o->tensorboard[0])
        RAISE(ERR_USAGE, "invalid --tensorboard '': expected a folder (. is the current one)");
    TRY(check_algorithms(o));
    TRY(optim_options_check(&o->optim));
    if (o->batch) train_options_set_rate(o, o->batch);
    TRY(parse_checkpoint_every(o));
    TRY(parse_duration("max-time", o->max_time, &o->max_sec));
    TRY(parse_check_replicas(o));
    TRY(check_evaluation(o));
    /* Options that a checkpoint cannot store fail here, before any training. */
    char *text;
    TRY(opt_config_write(o->groups, train_options_groups(o), train_options_per_run, &text));
    mem_free(&text);
    return ERR_OK;
}

static err_t read_saved_options(const char *saved, train_options_t *options, char **storage)
{
    TRY(train_options_bind(options));
    return opt_config_read(options->groups, TRAIN_N_GROUPS, saved, "the checkpoint's options", storage);
}

err_t train_options_inherit(train_options_t *options, const char *saved, char **storage)
{
    train_options_t old;
    opt_group_t *groups = options->groups;
    TRY(read_saved_options(saved, &old, storage));

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
            if (strcmp(key, "augment-flip") == 0) continue; /* goes with flip */
            opt_text(&groups[g], i, now, sizeof now);
            opt_text(&old.groups[g], i, then, sizeof then);
            if (strcmp(key, "flip") == 0) {
                snprintf(now, sizeof now, "%s", transform_flip(&options->transform));
                snprintf(then, sizeof then, "%s", transform_flip(&old.transform));
            }
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
    TRY(read_saved_options(saved, &options, storage));
    *out = options.detect.canvas;
    return ERR_OK;
}

err_t train_options_transform(const char *saved, transform_settings_t *out)
{
    train_options_t options;
    char *storage = NULL;
    err_t err = read_saved_options(saved, &options, &storage);
    if (err == ERR_OK) *out = transform_settings(&options.transform);
    if (err == ERR_OK) out->list = list_rules(&options.loader.list, 0);
    if (err == ERR_OK) out->list.holdout = (holdout_t){options.val_split, options.seed, false};
    if (err == ERR_OK && task_get(out->task)->kind->transform)
        err = task_get(out->task)->kind->transform(&options.detect, out);
    mem_free(&storage);
    return err;
}

/* Options that depend on others, on the device, the model or the data. What would change results or contradicts another
 * option is an error instead. */
static const opt_when_t whens[] = {
    {"momentum", "optimizer", "sgd|nesterov|lars", NULL},
    {"rho", "optimizer", "adadelta", NULL},
    {"beta1|beta2", "optimizer", "adamw", NULL},
    {"epsilon", "optimizer", "adadelta|adamw|lars", NULL},
    {"lars-trust", "optimizer", "lars", NULL},
    {"decay-all", "weight-decay", NULL, NULL},
    {"warmup-from", "warm-up", "yes", "warm-up: --warmup or --warmup-steps"},
    {"lr-step|lr-gamma", "schedule", "step", NULL},
    {"lr-step", "milestones", "no", "--schedule step without --lr-milestones"},
    {"lr-power", "schedule", "polynomial", NULL},
    {"plateau-factor|plateau-patience|plateau-threshold|min-lr", "schedule", "plateau", NULL},
    {"measure-time", "algorithms", "measure|rule", NULL},
    {"trace-steps", "trace", NULL, NULL},
    {"eval", "evaluation", "was off",
     "resuming a run with --no-eval; dptrain eval CHECKPOINT evaluates a checkpoint"},
    {"bucket|nccl-register|wire", "gradients", "nccl", "gradients that NCCL sums between GPUs"},
    {"workspace|cuda-graph|gpus|share-gpu", "device", "cuda", NULL},
    {"allreduce", "gradients", "mpi", "gradients that MPI sums"},
    {"max-bad|max-image-pixels", "data", "files", "folders of images and shards"},
    {"zero-init-residual", "initial weights", "random", "initial weights without --weights"},
    {"crop-scale", "crop", "auto|random", NULL},
    {NULL, NULL, NULL, NULL},
};

/* Typed options alone: a config file, such as one of --print-config, may list all. */
void train_options_warn_idle(const train_options_t *o, const runtime_t *runtime, const dataset_t *dataset,
                             bool resumed)
{
    const bool warms_up = o->schedule.warmup_epochs > 0 || o->schedule.warmup_steps > 0;
    const opt_fact_t facts[] = {
        {"warm-up", warms_up ? "yes" : "no"},
        {"milestones", o->schedule.milestones ? "yes" : "no"},
        {"initial weights", o->weights ? "of a file" : "random"},
        {"evaluation", resumed || !o->eval ? "was off" : "on"},
        {"device", runtime->backend->name},
        /* A script for any number of ranks is right with one, too. */
        {"gradients", runtime->comm->size > 1 ? comm_gradients_name(runtime->comm) : NULL},
        {"data", dataset->read ? "files" : "memory"},
        {NULL, NULL},
    };
    opt_warn_idle(o->groups, train_options_groups(o), whens, facts, o->typed);
}
