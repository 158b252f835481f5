/* SPDX-License-Identifier: MIT */
/* Reads and checks the options of `dptrain train`. Not collective. */
#ifndef TRAIN_START_OPTIONS_H
#define TRAIN_START_OPTIONS_H

#include "data/dataset/dataset.h"
#include "train/run/options.h"

/* The groups that apply to the model; records and checkpoints have no others. */
static inline int train_options_groups(const train_options_t *options)
{
    return TRAIN_COMMON_GROUPS + options->kind->n_option_groups;
}

/* --algorithms of detectors by default: measuring every layer on every canvas would take minutes. */
#define TRAIN_BY_RULE "rule"

/* Binds options->groups and sets the defaults. */
err_t train_options_bind(train_options_t *options);

/* --config: reads options that the command line did not give. *storage as in train_options_inherit. */
err_t train_options_read_config(train_options_t *options, char **storage);

/* Refuses conflicts and derives values; called after parsing, before MPI. */
err_t train_options_check(train_options_t *options);

/* The checks that depend on the kind of model. With --resume but without --model they wait until a checkpoint, which would
 * set the model, has been looked for and not found. */
err_t train_options_check_model(train_options_t *options);

/* What follows from the task once a step's samples and a new run's steps are known: the rate, unless it is set, and
 * warm-up, unless options of it are given. Warm-up of --config gives way to a shorter run on the command line: it is a
 * quarter of it at most. */
void train_options_set_rate(train_options_t *options, int64_t batch);
void train_options_set_warmup(train_options_t *options, const schedule_run_t *run);

/* Refuses --lr-scale in a new run without the batch that --lr is meant for. */
err_t train_options_check_scale(const train_options_t *options);

/* Options of a single start of the program; checkpoints do not keep them. NULL ends the list. */
extern const char *const train_options_per_run[];

/* --resume: takes options that the user did not give from the checkpoint.
 *
 *   saved    the checkpoint's options, "key = value" lines
 *   storage  receives the text of the options; mem_free it after their last use
 *
 * ERR_USAGE names given options that differ and must not change. */
err_t train_options_inherit(train_options_t *options, const char *saved, char **storage);

/* Warns of given options that change nothing in this run.
 *
 *   resumed  the run continues from a checkpoint */
void train_options_warn_idle(const train_options_t *options, const runtime_t *runtime,
                             const dataset_t *dataset, bool resumed);

/* The image transform of a run, from its saved options. */
err_t train_options_transform(const char *saved, transform_settings_t *out);
/* The options of a detector's canvases; *storage as in train_options_inherit. */
err_t train_options_canvas(const char *saved, canvas_options_t *out, char **storage);

#endif
