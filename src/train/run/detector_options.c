/* SPDX-License-Identifier: MIT */
/* Options that depend on the kind of model: those that detectors have alone, and those that they lack. */
#include <string.h>

#include "compute/models/model.h"
#include "train/run/options.h"

static err_t check_residual(const train_options_t *o)
{
    if (o->zero_init_residual) TRY(model_check_residual(o->model, "zero-init-residual"));
    return model_stem(o->stem) == MODEL_STEM_AUTO ? ERR_OK : model_check_residual(o->model, "stem");
}

static err_t check_classifier(const train_options_t *o)
{
    for (int g = TRAIN_CLASSIFIER_GROUPS; g < TRAIN_N_GROUPS; g++)
        for (int i = 0; i < o->groups[g].n; i++)
            if (o->groups[g].given >> i & 1)
                RAISE(ERR_USAGE,
                      "--%s applies to detectors (--model maskrcnn_resnet50_fpn, ...); %s is a classifier",
                      o->groups[g].table[i].key, o->model);
    TRY(check_residual(o));
    if (strcmp(o->transform.task, transform_tasks[TASK_DETECT]) == 0)
        RAISE(
            ERR_USAGE,
            "--task detect needs a detector; add --model maskrcnn_resnet50_fpn or another that dptrain info lists");
    return ERR_OK;
}

enum { SHUFFLE_WINDOW = 256 }; /* the default */

static err_t check_detector(train_options_t *o)
{
    const char *task = o->transform.task, *detect = transform_tasks[TASK_DETECT];
    const struct {
        const char *key, *why;
        bool given;
    } lacked[] = {
        {"accumulate",
         "gradients add up over all images of a --batch anyway; --micro-batch N sets how many are computed at a time",
         o->accumulate > 1},
        {"label-smoothing", "it is for classifiers", o->label_smoothing > 0},
        {"bn-group", "batch norm is over the images of a --micro-batch", o->bn_group > 0},
        {"shuffle-block", "batches are formed by the images' sizes", o->shuffle_block > 0},
        {"shuffle-window", "batches are formed by the images' sizes", o->shuffle_window != SHUFFLE_WINDOW},
    };
    if (strcmp(task, transform_tasks[TASK_AUTO]) != 0 && strcmp(task, detect) != 0)
        RAISE(ERR_USAGE, "--task %s: %s is a detector, which needs --task detect (its default)", task,
              o->model);
    for (size_t i = 0; i < sizeof lacked / sizeof *lacked; i++)
        if (lacked[i].given)
            RAISE(ERR_USAGE, "--%s does not apply to detectors such as %s: %s", lacked[i].key, o->model,
                  lacked[i].why);
    TRY(check_residual(o));
    if (o->detect.mask_block % 4 != 0)
        RAISE(ERR_USAGE, "invalid --mask-block '%lld': expected a multiple of 4",
              (long long)o->detect.mask_block);
    o->transform.task = detect;
    transform_settings_t settings;
    return detect_train_transform(&o->detect, &settings);
}

err_t train_options_check_model(train_options_t *o)
{
    const model_t *model;
    TRY(model_find(o->model, &model));
    o->detects = model->detects;
    /* The checkpoint's model is not known yet; what it cannot have is then a change that is refused. */
    if (!o->detects && strcmp(o->resume, "none") != 0 && !train_options_given(o, "model")) return ERR_OK;
    return o->detects ? check_detector(o) : check_classifier(o);
}

err_t train_options_check_default_model(const train_options_t *o)
{
    return o->detects ? ERR_OK : check_classifier(o);
}
