/* SPDX-License-Identifier: MIT */
/* The sums of losses, and results copied to the host. */
#include "base/mem.h"
#include "compute/graph/exec_impl.h"

/* On the host if the backend has no tally function. */
err_t exec_tally(const exec_t *exec, const exec_call_t *call, int n)
{
    const backend_t *backend = exec->options.backend;
    const graph_node_t *node = &exec->graph->nodes[n];
    if (!call->batch->tally || !op_traits(node->desc.kind)->loss) return ERR_OK;
    float *tally = call->batch->tally + 2 * graph_count_losses(exec->graph, n);
    const float *losses = exec_value(exec, call, node->output[0]);
    const bool predicts = node->desc.n_outputs > 1;
    const int32_t *predictions = predicts ? exec_value(exec, call, node->output[1]) : NULL;
    const int32_t *labels = predicts ? exec_value(exec, call, node->input[1]) : NULL;
    const int64_t count = call->section == 0 ? call->batch->n : call->n_rows;
    if (backend->tally) return backend->tally(losses, predictions, labels, count, tally);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += losses[i];
        tally[1] += predictions && predictions[i] == labels[i] ? 1.0f : 0.0f;
    }
    tally[0] += (float)sum;
    return ERR_OK;
}

err_t exec_results(exec_t *exec, exec_results_t *out)
{
    const graph_t *g = exec->graph;
    const backend_memory_t *memory = exec->options.backend->memory;
    char *next = exec->results;
    *out = (exec_results_t){0};
    if (!exec->plan) return ERR_OK;
    for (int i = 0; i < g->n_outputs; i++) {
        const int value = g->outputs[i].value, section = g->values[value].section;
        const exec_call_t all = {exec->plan, &exec->batch, section, 0, 0};
        const void *at = exec->absent[value] ? NULL : exec_value(exec, &all, value);
        size_t n_bytes = section == 0 ? plan_value_bytes(exec->plan, value)
                                      : (size_t)exec->n_rows[section] * plan_row_bytes(exec->plan, value);
        out->output[i] = at;
        if (!memory || !at || n_bytes == 0) continue;
        TRY(memory->download(next, at, n_bytes));
        out->output[i] = next;
        next += mem_round(n_bytes);
    }
    return memory ? memory->sync() : ERR_OK;
}
