/* SPDX-License-Identifier: MIT */
/* Which options of a run depend on others, on the device, the model or the data: those that change nothing are
 * warned of. What would change results or contradicts another option is an error, in options.c. */
#include "train/run/setup.h"

#include <stddef.h>

#include "cluster/comm/device.h"

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
void train_warn_idle(const trainer_t *t)
{
    const train_options_t *o = t->options;
    const bool warms_up = o->schedule.warmup_epochs > 0 || o->schedule.warmup_steps > 0;
    const bool resumed = t->saving.resumed_from[0] != '\0';
    const opt_fact_t facts[] = {
        {"warm-up", warms_up ? "yes" : "no"},
        {"milestones", o->schedule.milestones ? "yes" : "no"},
        {"initial weights", o->weights ? "of a file" : "random"},
        {"evaluation", resumed || !o->eval ? "was off" : "on"},
        {"device", t->runtime.backend->name},
        /* A script for any number of ranks is right with one, too. */
        {"gradients", t->comm->size > 1 ? comm_gradients_name(t->comm) : NULL},
        {"data", t->input.dataset->ops->read ? "files" : "memory"},
        {NULL, NULL},
    };
    if (!t->is_trial) opt_warn_idle(o->groups, train_options_groups(o), whens, facts, o->typed);
}
