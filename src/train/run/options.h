/* SPDX-License-Identifier: MIT */
/* Options of `dptrain train`: their values. train/start/options.h reads and checks them. */
#ifndef TRAIN_RUN_OPTIONS_H
#define TRAIN_RUN_OPTIONS_H

#include "cluster/session/runtime.h"
#include "data/load/loader.h"
#include "data/transform/settings.h"
#include "text/opt.h"
#include "text/progress.h"
#include "train/detect/train_options.h"
#include "train/learn/optim.h"
#include "train/learn/schedule.h"
#include "train/task/task.h"

/* The first are sections of one table, the last two are for detectors. */
enum {
    TRAIN_SECTIONS = 8,
    TRAIN_COMMON_GROUPS = TRAIN_SECTIONS + 8,
    TRAIN_N_GROUPS = TRAIN_COMMON_GROUPS + 2
};

typedef struct train_options {
    const char *model, *data, *out, *resume, *checkpoint_every, *on_checkpoint_error, *config, *trace;
    const char *tensorboard, *algorithms, *precision, *weights, *weights_names, *eval_every, *target, *freeze,
        *check_replicas, *mtbf, *preview, *stem, *max_time;
    int64_t batch, batch_per_rank, accumulate, epochs, steps, seed, keep, log_every, trace_steps;
    int64_t reproducible, bn_group, eval_samples, patience;
    int64_t shuffle_block, shuffle_window; /* sampler_options_t's; a block of 0: the dataset's */
    double label_smoothing, target_accuracy, measure_sec, straggler_sec, mtbf_sec, val_split;
    double max_sec; /* parsed from max_time; 0: none */
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
    const task_kind_t *kind;            /* of the model */
    opt_group_t groups[TRAIN_N_GROUPS]; /* all options; bound to this struct, so it is never copied */
    uint64_t typed[TRAIN_N_GROUPS];     /* options of the command line, without those of --config */
} train_options_t;

/* On the command line or in --config. */
static inline bool train_options_given(const train_options_t *options, const char *key)
{
    return opt_given(options->groups, TRAIN_N_GROUPS, key);
}

#endif
