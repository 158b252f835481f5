/* SPDX-License-Identifier: MIT */
/* The memory of a run's gradients: shared with the communicator, and with --reproducible of each shard. */
#include "base/mem.h"
#include "train/run/setup.h"
#include "train/run/trainer.h"

static err_t wrap_tails(const backend_t *backend, train_learning_t *learning)
{
    const size_t n_bytes = (size_t)learning->n_tail * sizeof(float),
                 offset = learning->grads.n_bytes - n_bytes;
    void *host = backend->memory ? NULL : (char *)learning->grads.host + offset;
    void *device = backend->memory ? (char *)learning->grads.device + offset : NULL;
    for (int i = 0; i < BACKEND_SLOTS; i++)
        TRY(hd_buffer_wrap(backend, n_bytes, "a step's totals", host, device, &learning->tails[i]));
    return ERR_OK;
}

/* Gradients live in the communicator's memory. The backend writes there directly or through its own copy. */
err_t trainer_prepare(trainer_t *t)
{
    t->learning.n_tail = TAIL_COUNT + t->guests.n_floats;
    int64_t n = t->model.graph->n_flat_trained + t->learning.n_tail;
    size_t n_bytes = (size_t)n * sizeof(float);
    TRY(comm_buffer_new(t->comm, n_bytes, &t->learning.buffer));
    TRY(comm_buffer_choose(t->comm, &t->learning.buffer, n));
    comm_buffer_set_exact(&t->learning.buffer, t->learning.n_tail);
    t->learning.bucket =
        (bucket_t){.comm = t->comm,
                   .buffer = &t->learning.buffer,
                   .n_min = bucket_floats(t->options->runtime.bucket, t->model.graph->n_flat_trained)};
    err_t err = hd_buffer_wrap(t->runtime.backend, n_bytes, "gradients", t->learning.buffer.data,
                               t->learning.buffer.device, &t->learning.grads);
    if (err == ERR_OK) err = wrap_tails(t->runtime.backend, &t->learning);
    t->steps.plan = step_plan_make(t);
    if (err == ERR_OK)
        err = recorded_step_open(t->runtime.backend, t->options->runtime.cuda_graph, t->steps.plan.why_host,
                                 &t->model.recorded);
    return comm_agree(t->comm, err, "allocating gradient buffers");
}

err_t trainer_open_shards(trainer_t *t)
{
    TRY(mem_new(sizeof *t->learning.shards, "shards", &t->learning.shards));
    const shards_options_t options = {.n_all = (int)t->options->reproducible,
                                      .n_floats = t->model.graph->n_flat_trained + t->learning.n_tail,
                                      .n_hashed = t->model.graph->n_flat_trained + TASK_N_SUMS,
                                      .n_states = t->model.graph->n_flat_states};
    TRY(shards_open(t->comm, t->runtime.backend, &options, t->learning.shards));
    return shards_set_states(t->learning.shards, t->model.states.host);
}
