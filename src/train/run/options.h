/* SPDX-License-Identifier: MIT */
/* Options of `dptrain train`. */
#ifndef TRAIN_RUN_OPTIONS_H
#define TRAIN_RUN_OPTIONS_H

#include "base/opt.h"
#include "base/progress.h"
#include "cluster/session/runtime.h"
#include "data/load/loader.h"
#include "data/transform/settings.h"
#include "train/detect/train_options.h"
#include "train/learn/optim.h"
#include "train/learn/schedule.h"

/* The first are sections of one table, the last two are for detectors. */
enum {
    TRAIN_SECTIONS = 8,
    TRAIN_CLASSIFIER_GROUPS = TRAIN_SECTIONS + 8,
    TRAIN_N_GROUPS = TRAIN_CLASSIFIER_GROUPS + 2
};

typedef struct train_options {
    const char *model, *data, *out, *resume, *checkpoint_every, *on_checkpoint_error, *config, *trace;
    const char *tensorboard, *algorithms, *precision, *weights, *weights_names, *eval_every, *target, *freeze,
        *check_replicas, *mtbf, *preview, *stem;
    int64_t batch, batch_per_rank, accumulate, epochs, steps, seed, keep, log_every, trace_steps;
    int64_t reproducible, bn_group, eval_samples;
    int64_t shuffle_block, shuffle_window; /* sampler_options_t's; a block of 0: the dataset's */
    double label_smoothing, target_accuracy, measure_sec, straggler_sec, mtbf_sec;
    bool overwrite, checkpoint_async, print_config, sync_bn, eval, profile, keep_best, zero_init_residual;
    optim_options_t optim;
    schedule_options_t schedule;
    transform_options_t transform;
    loader_settings_t loader;
    detect_train_options_t detect;
    runtime_options_t runtime;
    console_options_t console;
    /* Parsed from checkpoint_every; none: at the end of every epoch. */
    int64_t checkpoint_steps;
    double checkpoint_sec;
    bool checkpoint_auto; /* with mtbf_sec, from mtbf */
    /* Parsed from eval_every; one is 0. */
    int64_t eval_epochs, eval_steps;
    /* Parsed from check_replicas; 0: auto. */
    int64_t replica_steps;
    bool replicas_off;
    bool detects;                       /* the model is a detector */
    opt_group_t groups[TRAIN_N_GROUPS]; /* all options; bound to this struct, so it is never copied */
    uint64_t typed[TRAIN_N_GROUPS];     /* options of the command line, without those of --config */
} train_options_t;

/* The groups that apply to the model; records and checkpoints have no others. */
static inline int train_options_groups(const train_options_t *options)
{
    return options->detects ? TRAIN_N_GROUPS : TRAIN_CLASSIFIER_GROUPS;
}

static inline bool train_options_given(const train_options_t *options, const char *key)
{
    return opt_given(options->groups, TRAIN_N_GROUPS, key);
}

/* --algorithms of detectors by default: measuring every layer on every canvas would take minutes. */
#define TRAIN_BY_RULE "rule"

/* Binds options->groups and sets the defaults. */
err_t train_options_bind(train_options_t *options);

/* --config: reads options that the command line did not give. *storage as in train_options_inherit. */
err_t train_options_read_config(train_options_t *options, char **storage);

/* Refuses conflicts and derives values; called after parsing, before MPI. */
err_t train_options_check(train_options_t *options);

/* What follows from the task once a step's samples and a new run's steps are known: the rate, unless it is set, and
 * warm-up, unless options of it are given. */
void train_options_set_rate(train_options_t *options, int64_t batch);
void train_options_set_warmup(train_options_t *options, int64_t n_steps);

/* The part of it that depends on the kind of model; sets options->detects. detector_options.c. */
err_t train_options_check_model(train_options_t *options);
/* What it leaves open for --resume without --model: there is no checkpoint, which would name the model. */
err_t train_options_check_default_model(const train_options_t *options);

/* Refuses --lr-scale in a new run without the batch that --lr is meant for. */
err_t train_options_check_scale(const train_options_t *options);

/* The part of it that parses checkpoint_every and mtbf. checkpoint_interval.c. */
err_t train_options_check_checkpoints(train_options_t *options);
/* The part of it that parses check_replicas. replicas.c. */
err_t train_options_check_replicas(train_options_t *options);

/* Options of a single start of the program; checkpoints do not keep them. NULL ends the list. */
extern const char *const train_options_per_run[];

/* --resume: takes options that the user did not give from the checkpoint.
 *
 *   saved    the checkpoint's options, "key = value" lines
 *   storage  receives the text of the options; mem_free it after their last use
 *
 * ERR_USAGE names given options that differ and must not change. */
err_t train_options_inherit(train_options_t *options, const char *saved, char **storage);

/* The image transform of a run, from its saved options. */
err_t train_options_transform(const char *saved, transform_settings_t *out);
/* The options of a detector's canvases; *storage as in train_options_inherit. */
err_t train_options_canvas(const char *saved, canvas_options_t *out, char **storage);

#endif
