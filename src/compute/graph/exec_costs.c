/* SPDX-License-Identifier: MIT */
/* What layers cost, and where a NaN comes from. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "compute/graph/exec_impl.h"
#include "compute/tensor/float16.h"

/* The first of n values that is NaN or infinite; -1: none. */
static int64_t nonfinite_here(const void *values, int64_t n, dtype_t dtype)
{
    const float *wide = values;
    const uint16_t *narrow = values;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(dtype == DTYPE_BF16 ? bf16_to_float(narrow[i]) : wide[i])) return i;
    return -1;
}

/* Used only after a run has failed: it allocates. */
static err_t find_nonfinite(const exec_t *exec, const void *values, int64_t n, dtype_t dtype, int64_t *out)
{
    enum { PIECE = 1 << 18 };
    const size_t size = dtype_size(dtype);
    const backend_memory_t *memory = exec->options.backend->memory;
    void *here = NULL;
    *out = -1;
    if (!memory) {
        *out = nonfinite_here(values, n, dtype);
        return ERR_OK;
    }
    TRY(mem_new_array(PIECE, size, "looking for NaN", &here));
    err_t err = ERR_OK;
    for (int64_t i = 0; i < n && *out < 0 && err == ERR_OK; i += PIECE) {
        int64_t count = n - i < PIECE ? n - i : PIECE;
        err = memory->download(here, (const char *)values + (size_t)i * size, (size_t)count * size);
        if (err == ERR_OK) err = memory->sync();
        if (err == ERR_OK) *out = nonfinite_here(here, count, dtype);
        if (err == ERR_OK && *out >= 0) *out += i;
    }
    mem_free(&here);
    return err;
}

err_t exec_check_layer(const exec_t *exec, const exec_call_t *call, int node, exec_nonfinite_t *out)
{
    const graph_t *g = exec->graph;
    const graph_node_t *layer = &g->nodes[node];
    int64_t at;
    for (int i = 0; i < layer->desc.n_params; i++) {
        const graph_param_t *p = &g->params[layer->first_param + i];
        TRY(find_nonfinite(exec, exec->options.params + p->offset, shape_count(p->shape), DTYPE_F32, &at));
        if (at >= 0) {
            snprintf(out->where, EXEC_WHERE_MAX, "the parameter %s", p->name);
            return ERR_OK;
        }
    }
    const op_desc_t *desc = &call->plan->nodes[node].op->desc;
    for (int i = 0; i < desc->n_outputs; i++) {
        if (desc->y_dtype[i] == DTYPE_I32) continue;
        const int64_t n_sample = shape_count(desc->y[i]) / desc->y[i].dim[0];
        /* The rest of a block is not computed. */
        const int64_t n = n_sample * (call->section > 0 ? call->n_rows : desc->y[i].dim[0]);
        TRY(find_nonfinite(exec, exec_value(exec, call, layer->output[i]), n, desc->y_dtype[i], &at));
        if (at < 0 || out->where[0]) continue;
        snprintf(out->where, EXEC_WHERE_MAX, "the output of layer %s", layer->name);
        out->sample = call->first_row + at / n_sample;
    }
    return ERR_OK;
}

/* Seconds since `start`, the time of a layer's pass; also added to the trace. */
static double pass_sec(const exec_t *exec, int node, const exec_batch_t *batch, double start)
{
    const graph_node_t *layer = &exec->graph->nodes[node];
    double end = clock_sec();
    trace_add(TRACE_TRAINING, &(trace_span_t){layer->name, op_traits(layer->desc.kind)->name, start, end,
                                              (int64_t)batch->step, 0});
    return end - start;
}

static void add_work(exec_cost_t *cost, const op_t *op, const op_args_t *args, op_pass_t pass)
{
    const op_work_t work = op_work(op, args, pass);
    exec_pass_t *sum = &cost->pass[pass];
    if (work.macs <= 0 && work.bytes <= 0) return;
    sum->n_calls++;
    sum->work.macs += work.macs;
    sum->work.bytes += work.bytes;
}

err_t exec_count_forward(exec_t *exec, const exec_call_t *call, int node, const op_args_t *args, double start)
{
    exec_cost_t *cost = &exec->costs[node];
    const op_t *op = call->plan->nodes[node].op;
    if (!exec->timed) return ERR_OK;
    TRY(backend_sync(exec->options.backend));
    if (!call->plan->key.training) {
        cost->evaluation_sec += clock_sec() - start;
        return ERR_OK;
    }
    cost->forward_sec += pass_sec(exec, node, call->batch, start);
    cost->forward_macs += (double)op_macs(&op->desc);
    if (!cost->algorithms) cost->algorithms = &op->algorithms;
    add_work(cost, op, args, OP_FORWARD);
    return ERR_OK;
}

/* The gradient of the input and that of the weights each take as many products as forward. */
err_t exec_count_backward(exec_t *exec, const exec_call_t *call, int node, const op_args_t *args,
                          double start)
{
    const graph_needs_t *needs = &call->plan->needs[node];
    exec_cost_t *cost = &exec->costs[node];
    const op_t *op = call->plan->nodes[node].op;
    if (!exec->timed) return ERR_OK;
    TRY(backend_sync(exec->options.backend));
    cost->backward_sec += pass_sec(exec, node, call->batch, start);
    cost->backward_macs += (needs->dparam + needs->dx[0]) * (double)op_macs(&op->desc);
    add_work(cost, op, args, OP_BACKWARD_DATA);
    add_work(cost, op, args, OP_BACKWARD_WEIGHTS);
    return ERR_OK;
}

void exec_time_layers(exec_t *exec, bool on)
{
    if (exec->options.backend->memory) exec->timed = on;
}

const exec_cost_t *exec_costs(const exec_t *exec)
{
    return exec->costs;
}

void exec_clear_costs(exec_t *exec)
{
    memset(exec->costs, 0, (size_t)exec->graph->n_nodes * sizeof *exec->costs);
}
