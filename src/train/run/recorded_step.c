/* SPDX-License-Identifier: MIT */
/* One CUDA graph for each batch size. Which part of a step is recorded is decided in step.c. */
#include "train/run/recorded_step.h"

#include <string.h>

err_t replay_open(const backend_t *backend, const char *choice, const char *why_not, replay_t *out)
{
    *out = (replay_t){.backend = backend, .why_not = why_not};
    if (!backend->graph) out->why_not = "only a GPU's work can be recorded";
    if (strcmp(choice, "on") == 0 && out->why_not)
        RAISE(ERR_USAGE, "--cuda-graph on can't be had: %s; use --cuda-graph auto", out->why_not);
    if (strcmp(choice, "off") == 0) out->why_not = "switched off";
    return ERR_OK;
}

void replay_close(replay_t *replay)
{
    for (int i = 0; i < replay->n; i++) replay->backend->graph->release(replay->recordings[i].graph);
    replay->n = 0;
}

void *replay_find(const replay_t *replay, int64_t n_samples)
{
    for (int i = 0; i < replay->n; i++)
        if (replay->recordings[i].n_samples == n_samples) return replay->recordings[i].graph;
    return NULL;
}

bool replay_wants(const replay_t *replay, int64_t n_samples)
{
    return !replay->why_not && replay->n < REPLAY_MAX && !replay_find(replay, n_samples);
}

err_t replay_record(replay_t *replay, int64_t n_samples, err_t (*work)(void *context), void *context)
{
    const backend_graph_t *graph = replay->backend->graph;
    void *recording = NULL;
    TRY(graph->begin());
    err_t err = work(context);
    err_t ended = graph->end(err != ERR_OK, &recording);
    if (err == ERR_OK) err = ended;
    if (err != ERR_OK) return err;
    replay->recordings[replay->n].n_samples = n_samples;
    replay->recordings[replay->n++].graph = recording;
    return ERR_OK;
}
