/* SPDX-License-Identifier: MIT */
/* Options of `dptrain train`. */
#ifndef TRAIN_RUN_OPTIONS_H
#define TRAIN_RUN_OPTIONS_H

#include "base/opt.h"
#include "cluster/session/runtime.h"
#include "data/load/loader.h"
#include "data/transform/settings.h"
#include "train/learn/optim.h"
#include "train/learn/schedule.h"

typedef struct train_options {
    const char *model, *data, *out, *resume, *checkpoint_every, *on_checkpoint_error, *config, *trace;
    const char *tensorboard, *algorithms, *precision, *weights, *weights_names;
    int64_t batch, batch_per_rank, accumulate, epochs, steps, seed, keep, log_every, trace_steps;
    int64_t reproducible, bn_group;
    int64_t shuffle_block, shuffle_window; /* sampler_options_t's; a block of 0: the dataset's */
    double label_smoothing, target_accuracy;
    bool overwrite, checkpoint_async, print_config, sync_bn;
    optim_options_t optim;
    schedule_options_t schedule;
    transform_options_t transform;
    loader_settings_t loader;
    runtime_options_t runtime;
    /* Parsed from checkpoint_every; both 0: at the end of every epoch. */
    int64_t checkpoint_steps;
    double checkpoint_sec;
} train_options_t;

enum { TRAIN_N_GROUPS = 7 };

/* The groups bound to `options`, with defaults set. */
err_t train_options_bind(train_options_t *options, opt_group_t groups[TRAIN_N_GROUPS]);

/* --config: reads the file for what the command line did not give. *storage as train_options_inherit. */
err_t train_options_read_config(const train_options_t *options, opt_group_t groups[TRAIN_N_GROUPS],
                                char **storage);

/* Conflicts and derived values; after parsing and before MPI. */
err_t train_options_check(train_options_t *options, const opt_group_t groups[TRAIN_N_GROUPS]);

/* Options that belong to one start of the program and not to the training: not kept in checkpoints. */
extern const char *const train_options_per_run[];

/* --resume: takes options that the user did not give from the checkpoint's (`saved`: "key = value" lines).
 * ERR_USAGE naming those given with another value that must not change. *storage holds their text; mem_free
 * it after the last use of the options. */
err_t train_options_inherit(train_options_t *options, opt_group_t groups[TRAIN_N_GROUPS], const char *saved,
                            char **storage);

/* How the run of these saved options transforms images. */
err_t train_options_transform(const char *saved, transform_settings_t *out);

#endif
