/* SPDX-License-Identifier: MIT */
/* Evaluation and prediction: reads the model, and leaves the rest to its kind. */
#include "train/inference/trained_model.h"

extern const inference_t inference_classifier, inference_detector;

static const inference_t *kind_of(const char *model)
{
    return model_detects(model) ? &inference_detector : &inference_classifier;
}

err_t inference_check(const inference_options_t *o, const opt_group_t *groups, int n_groups)
{
    const char *model = o->weights.model;
    return model ? kind_of(model)->check_options(model, o, groups, n_groups) : ERR_OK;
}

static err_t read_rest(const checkpoint_t *checkpoint, trained_model_t *model)
{
    const inference_t *kind = kind_of(model->about.model);
    return kind->read ? kind->read(checkpoint, model) : ERR_OK;
}

err_t inference_run(runtime_t *runtime, const inference_options_t *o, const opt_group_t *groups, int n_groups)
{
    comm_t *comm = runtime->comm;
    trained_model_t model = {.graph = NULL};
    err_t err;
    TRY_OUT(err, trained_open(comm, o->where, runtime->backend, read_rest, &model));
    const char *name = model.about.weights ? o->weights.model : model.about.model;
    const inference_t *kind = kind_of(name);
    if (!model.about.weights) {
        err = kind->check_options(name, o, groups, n_groups);
        TRY_OUT(err, comm_agree(comm, err, "loading the checkpoint"));
    }
    if (o->images) {
        if (comm->size > 1)
            err = err_raise(ERR_USAGE, __FILE__, __LINE__, "dptrain predict runs on one rank, not %d",
                            comm->size);
        TRY_OUT(err, comm_agree(comm, err, "starting"));
    }
    err = (o->images ? kind->predict : kind->evaluate)(runtime, &model, o);
out:
    trained_free(&model);
    return err;
}
