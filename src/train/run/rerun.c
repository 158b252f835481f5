/* SPDX-License-Identifier: MIT */
/* A trainer for steps that were computed before. Which steps, and what their results mean, is left to train/replay. */
#include "train/run/rerun.h"

#include <string.h>

#include "base/mem.h"
#include "train/run/checkpoint_content.h"
#include "train/run/options.h"
#include "train/run/replicas.h"
#include "train/run/setup.h"
#include "train/run/trainer.h"

struct rerun {
    trainer_t t;
    train_options_t options;
    char *storage; /* text that the options point into */
};

/* The options of the record, which a resumed run may have changed since its checkpoint. */
static err_t take_options(rerun_t *rerun, const rerun_options_t *o)
{
    train_options_t *options = &rerun->options;
    mem_free(&rerun->storage);
    TRY(train_options_inherit(options, o->saved, &rerun->storage));
    options->data = o->data ? o->data : options->data;
    options->eval = false; /* it changes no bits */
    options->runtime.threads = o->n_threads;
    if (o->micro_batch > 0) options->detect.micro_batch = o->micro_batch;
    return ERR_OK;
}

static err_t make_options(rerun_t *rerun, const rerun_options_t *o)
{
    TRY(train_options_bind(&rerun->options));
    TRY(take_options(rerun, o));
    rerun->options.resume = o->checkpoint ? o->checkpoint : "none";
    return ERR_OK;
}

static err_t check_data(const trainer_t *t, const char *xxh3)
{
    const dataset_info_t *info = &t->input.dataset->info;
    if (!xxh3 || strcmp(dataset_hash(info).text, xxh3) == 0) return ERR_OK;
    RAISE(ERR_DATA, "%s is not the data of the run; point --data to the same files", info->source);
}

/* A checkpoint that was written while the validation of its step was due. */
static void enter_epoch(trainer_t *t)
{
    if (t->at.batch == sampler_batches(t->input.sampler)) trainer_next_epoch(t);
    t->at.evaluation_due = false;
}

static err_t build(rerun_t *rerun, const rerun_options_t *o)
{
    static const char what[] = "preparing a replay";
    trainer_t *t = &rerun->t;
    TRY(comm_agree(t->comm, make_options(rerun, o), what));
    TRY(trainer_find_checkpoint(t));
    TRY(comm_agree(t->comm, take_options(rerun, o), what));
    TRY(trainer_build(t));
    TRY(comm_agree(t->comm, check_data(t, o->data_xxh3), what));
    ASSERT(t->options->reproducible > 0);
    TRY(trainer_restore(t));
    enter_epoch(t);
    t->steps.n = o->n_steps; /* the schedule knows the run's own length */
    t->saving.saved_threads = o->n_threads;
    TRY(trainer_set_threads(t));
    TRY(trainer_prepare(t));
    TRY(trainer_plan(t));
    return trainer_begin(t);
}

err_t rerun_open(const rerun_options_t *options, const runtime_t *runtime, rerun_t **out)
{
    rerun_t *rerun = NULL;
    *out = NULL;
    TRY(comm_agree(runtime->comm, mem_new(sizeof *rerun, "a replay", &rerun), "preparing a replay"));
    rerun->t.is_trial = true;
    rerun->t.options = &rerun->options;
    rerun->t.runtime = *runtime;
    rerun->t.comm = runtime->comm;
    err_t err = build(rerun, options);
    if (err == ERR_OK)
        *out = rerun;
    else
        rerun_close(&rerun);
    return err;
}

void rerun_close(rerun_t **rerun)
{
    if (!*rerun) return;
    comm_buffer_t grads = (*rerun)->t.learning.buffer;
    comm_t *comm = (*rerun)->t.comm;
    char *saved = (*rerun)->t.saving.saved_options;
    trainer_teardown(&(*rerun)->t);
    comm_buffer_free(comm, &grads);
    mem_free(&saved);
    mem_free(&(*rerun)->storage);
    mem_free(rerun);
}

int64_t rerun_position(const rerun_t *rerun)
{
    return rerun->t.at.step;
}

err_t rerun_step(rerun_t *rerun)
{
    trainer_t *t = &rerun->t;
    step_result_t result;
    TRY(trainer_step(t, &result));
    if (t->at.batch == sampler_batches(t->input.sampler)) trainer_next_epoch(t);
    return ERR_OK;
}

err_t rerun_average(rerun_t *rerun)
{
    return trainer_average_states(&rerun->t);
}

const char *rerun_followed(const rerun_t *rerun)
{
    const task_metrics_t *metrics = &rerun->t.task.metrics;
    return rerun->t.learning.schedule.kind == SCHEDULE_PLATEAU ? metrics->at[metrics->plateau]->name : NULL;
}

void rerun_follow(rerun_t *rerun, double value)
{
    const task_metrics_t *metrics = &rerun->t.task.metrics;
    const bool higher = metrics->at[metrics->plateau]->higher_is_better;
    schedule_plateau_update(&rerun->t.learning.plateau, higher ? -value : value);
}

uint32_t rerun_gradient_hash(const rerun_t *rerun, int n_ranks, int rank)
{
    return shards_gradient_hash(rerun->t.learning.shards, n_ranks, rank);
}

uint32_t rerun_states_hash(const rerun_t *rerun, int n_ranks, int rank)
{
    return shards_states_hash(rerun->t.learning.shards, n_ranks, rank);
}

err_t rerun_hash(const rerun_t *rerun, bool with_states, uint64_t *out)
{
    return replicas_hash(&rerun->t, with_states, out);
}

static err_t compare_arrays(checkpoint_t *checkpoint, const ckpt_content_t *mine, message_t *differ,
                            int *n_differ)
{
    enum { SHOWN = 6 };
    for (int i = 0; i < mine->n_arrays; i++) {
        const ckpt_array_t *array = &mine->arrays[i], *saved = checkpoint_find(checkpoint, array->name);
        int64_t n_bytes = 0;
        void *data = NULL;
        if (saved) TRY(checkpoint_read_new(checkpoint, saved, &n_bytes, &data));
        const bool same = saved && n_bytes == shape_count(array->shape) * (int64_t)dtype_size(array->dtype) &&
                          memcmp(data, array->data, (size_t)n_bytes) == 0;
        mem_free(&data);
        if (same) continue;
        if (++*n_differ <= SHOWN) message_append(differ, "%s%s", *n_differ > 1 ? ", " : "", array->name);
    }
    if (*n_differ > SHOWN) message_append(differ, ", …");
    return ERR_OK;
}

err_t rerun_compare(const rerun_t *rerun, const char *path, message_t *differ, int *n_differ, int *n_all)
{
    const trainer_t *t = &rerun->t;
    model_content_t content;
    checkpoint_t *checkpoint = NULL;
    const model_file_t file = {.graph = t->model.graph,
                               .norm = t->input.dataset->info.norm,
                               .params = t->model.params.host,
                               .states = t->model.states.host,
                               .optim = t->learning.optim};
    *differ = (message_t){0};
    *n_differ = *n_all = 0;
    TRY(replicas_pull(t));
    TRY(checkpoint_open(path, &checkpoint));
    err_t err = model_file_content(&file, &content);
    if (err == ERR_OK) {
        err = compare_arrays(checkpoint, &content.content, differ, n_differ);
        *n_all = content.content.n_arrays;
        model_file_release(&content);
    }
    checkpoint_close(&checkpoint);
    return err;
}
