/* SPDX-License-Identifier: MIT */
/* One CUDA graph for each size of the global batch. What part of a step is recorded is left to step.c. */
#include "train/run/recorded_step.h"

#include <string.h>

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
        if (recorded->recordings[i].graph) recorded->backend->graph->release(recorded->recordings[i].graph);
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

void *recorded_step_find(const recorded_step_t *recorded, int64_t n_samples)
{
    const int i = index_of(recorded, n_samples);
    return i < 0 ? NULL : recorded->recordings[i].graph;
}

void recorded_step_ran(recorded_step_t *recorded, int64_t n_samples)
{
    if (recorded->why_not || recorded->n == RECORDED_STEP_MAX || index_of(recorded, n_samples) >= 0) return;
    recorded->recordings[recorded->n].graph = NULL;
    recorded->recordings[recorded->n++].n_samples = n_samples;
}

bool recorded_step_wants(const recorded_step_t *recorded, int64_t n_samples)
{
    const int i = index_of(recorded, n_samples);
    return !recorded->why_not && i >= 0 && !recorded->recordings[i].graph;
}

err_t recorded_step_record(recorded_step_t *recorded, int64_t n_samples, err_t (*work)(void *context),
                           void *context)
{
    const backend_graph_t *graph = recorded->backend->graph;
    const int i = index_of(recorded, n_samples);
    void *recording = NULL;
    ASSERT(i >= 0);
    TRY(graph->begin());
    err_t err = work(context);
    err_t ended = graph->end(err != ERR_OK, &recording);
    if (err == ERR_OK) err = ended;
    if (err != ERR_OK) return err;
    recorded->recordings[i].graph = recording;
    return ERR_OK;
}
