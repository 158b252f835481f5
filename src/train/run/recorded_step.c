/* SPDX-License-Identifier: MIT */
/* CUDA graphs by size of the global batch and slot. What part of a step is recorded is left to step.c. */
#include "train/run/recorded_step.h"

#include <string.h>

#include "base/log.h"

err_t recorded_step_open(const backend_t *backend, const char *choice, const char *why_not,
                         recorded_step_t *out)
{
    *out = (recorded_step_t){.backend = backend, .why_not = why_not, .required = strcmp(choice, "on") == 0};
    if (!backend->graph) out->why_not = "only steps on a GPU can be recorded";
    if (out->required && out->why_not)
        RAISE(ERR_USAGE, "--cuda-graph on is not available: %s; use --cuda-graph auto", out->why_not);
    if (strcmp(choice, "off") == 0) out->why_not = "switched off";
    return ERR_OK;
}

void recorded_step_close(recorded_step_t *recorded)
{
    for (int i = 0; i < recorded->n; i++)
        for (int slot = 0; slot < BACKEND_SLOTS; slot++)
            if (recorded->recordings[i].graph[slot])
                recorded->backend->graph->release(recorded->recordings[i].graph[slot]);
    recorded->n = 0;
}

void recorded_step_give_up(recorded_step_t *recorded, const char *why_not)
{
    recorded_step_close(recorded);
    recorded->why_not = why_not;
}

/* -1: no batch of this size has run. */
static int index_of(const recorded_step_t *recorded, int64_t n_samples)
{
    for (int i = 0; i < recorded->n; i++)
        if (recorded->recordings[i].n_samples == n_samples) return i;
    return -1;
}

void *recorded_step_find(const recorded_step_t *recorded, int64_t n_samples, int slot)
{
    const int i = index_of(recorded, n_samples);
    return i < 0 ? NULL : recorded->recordings[i].graph[slot];
}

void recorded_step_ran(recorded_step_t *recorded, int64_t n_samples)
{
    if (recorded->why_not || recorded->n == RECORDED_STEP_MAX || index_of(recorded, n_samples) >= 0) return;
    for (int slot = 0; slot < BACKEND_SLOTS; slot++) recorded->recordings[recorded->n].graph[slot] = NULL;
    recorded->recordings[recorded->n++].n_samples = n_samples;
}

bool recorded_step_wants(const recorded_step_t *recorded, int64_t n_samples, int slot)
{
    const int i = index_of(recorded, n_samples);
    return !recorded->why_not && i >= 0 && !recorded->recordings[i].graph[slot];
}

err_t recorded_step_record(recorded_step_t *recorded, int64_t n_samples, int slot, recorded_work_t work)
{
    const backend_graph_t *graph = recorded->backend->graph;
    const int i = index_of(recorded, n_samples);
    void *recording = NULL;
    ASSERT(i >= 0);
    TRY(graph->begin(slot));
    err_t err = work.run(work.context);
    err_t ended = graph->end(err != ERR_OK, &recording);
    if (err == ERR_OK) err = ended;
    if (err != ERR_OK) return err;
    recorded->recordings[i].graph[slot] = recording;
    return ERR_OK;
}

static err_t record_on_all(recorded_step_t *recorded, comm_t *comm, recorded_batch_t batch,
                           recorded_work_t work)
{
    err_t err = recorded_step_record(recorded, batch.n_samples, batch.slot, work);
    err = comm_agree(comm, err, "recording a step");
    if (err != ERR_SYSTEM || recorded->required) return err;
    if (comm->rank == 0)
        log_warn("steps run without a CUDA graph, because recording one failed: %s", err_message());
    recorded_step_give_up(recorded, "recording failed");
    return ERR_OK;
}

err_t recorded_step_run(recorded_step_t *recorded, comm_t *comm, recorded_batch_t batch, recorded_work_t work,
                        err_t (*launch)(void *context, void *recording))
{
    if (batch.warm && recorded_step_wants(recorded, batch.n_samples, batch.slot))
        TRY(record_on_all(recorded, comm, batch, work));
    void *recording = batch.warm ? recorded_step_find(recorded, batch.n_samples, batch.slot) : NULL;
    if (recording) return launch(work.context, recording);
    recorded_step_ran(recorded, batch.n_samples);
    return work.run(work.context);
}
