/* SPDX-License-Identifier: MIT */
/* Builds a graph layer by layer, lays out the flat parameter and state buffers, and draws initial values.
 * Layers' defaults are in the file of each layer. */
#include "compute/graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

enum { MAX_NODES = 512, FLAT_ALIGN = 16 };

err_t graph_new(const char *model, shape_t sample, int n_classes, graph_t **out)
{
    if (sample.n_dims != 3)
        RAISE(ERR_USAGE, "%s: expected samples [height, width, channels], got %s", model,
              shape_format(sample).text);
    err_t err = ERR_OK;
    graph_t *g = NULL;
    TRY(mem_new(sizeof *g, "a graph", &g));
    snprintf(g->model, sizeof g->model, "%s", model);
    g->sample = shape_4d(1, sample.dim[0], sample.dim[1], sample.dim[2]);
    g->n_classes = n_classes;
    TRY_OUT(err, mem_new_array(MAX_NODES, sizeof *g->nodes, "layers", &g->nodes));
    TRY_OUT(err, mem_new_array(MAX_NODES * OP_MAX_PARAMS, sizeof *g->params, "parameters", &g->params));
    TRY_OUT(err, mem_new_array(MAX_NODES * OP_MAX_STATES, sizeof *g->states, "states", &g->states));
    *out = g;
    return ERR_OK;
out:
    graph_free(&g);
    return err;
}

void graph_free(graph_t **graph)
{
    if (!*graph) return;
    mem_free(&(*graph)->nodes);
    mem_free(&(*graph)->params);
    mem_free(&(*graph)->states);
    mem_free(graph);
}

bool graph_multi_label(const graph_t *graph)
{
    return graph->nodes[graph->n_nodes - 1].desc.kind == OP_SIGMOID_BCE;
}

shape_t graph_shape(const graph_t *graph, int value)
{
    return value == 0 ? graph->sample : graph->nodes[value - 1].desc.y[0];
}

err_t graph_batch_desc(const graph_t *g, int node, int64_t n, op_desc_t *out)
{
    *out = g->nodes[node].desc;
    for (int i = 0; i < out->n_inputs; i++) out->x[i] = shape_with_batch(out->x[i], n);
    return op_infer(out);
}

int graph_readers(const graph_t *g, int value)
{
    int count = 0;
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].desc.n_inputs; i++) count += g->nodes[n].input[i] == value;
    return count;
}

static void keep_error(graph_t *g, err_t err)
{
    g->status = err;
    err_take(err, &g->first_error);
}

static void add_tensors(graph_param_t *list, int *n, const char *layer, const shape_t *shapes, int n_shapes,
                        const graph_param_spec_t *specs)
{
    for (int i = 0; i < n_shapes; i++) {
        graph_param_t *p = &list[(*n)++];
        snprintf(p->name, sizeof p->name, "%s/%s", layer, specs[i].name);
        p->meaning = specs[i].meaning;
        p->shape = shapes[i];
        p->init = specs[i].init;
        p->fan_in = shape_sample_count(shapes[i]);
        p->fan_out = shape_count(shapes[i]) / shapes[i].dim[shapes[i].n_dims - 1];
    }
}

int graph_add(graph_t *g, const char *name, op_desc_t desc, const int *inputs,
              const graph_param_spec_t *params, const graph_param_spec_t *states)
{
    if (g->status != ERR_OK) return 0;
    ASSERT(g->n_nodes < MAX_NODES && strlen(name) < GRAPH_NAME_MAX);
    graph_node_t *node = &g->nodes[g->n_nodes];
    snprintf(node->name, sizeof node->name, "%s", name);
    for (int i = 0; i < desc.n_inputs; i++) {
        ASSERT(inputs[i] >= GRAPH_TRUTH && inputs[i] <= g->n_nodes);
        node->input[i] = inputs[i];
        if (inputs[i] != GRAPH_TRUTH) desc.x[i] = graph_shape(g, inputs[i]);
    }
    err_t err = op_infer(&desc);
    if (err != ERR_OK) {
        keep_error(g, err_context(err, "%s: layer %s", g->model, name));
        return 0;
    }
    node->desc = desc;
    node->layer = g->n_nodes;
    node->first_param = g->n_params;
    node->first_state = g->n_states;
    add_tensors(g->params, &g->n_params, name, desc.param, desc.n_params, params);
    add_tensors(g->states, &g->n_states, name, desc.state, desc.n_states, states);
    return ++g->n_nodes;
}

static int64_t padded_count(int64_t count)
{
    return (count + FLAT_ALIGN - 1) / FLAT_ALIGN * FLAT_ALIGN;
}

err_t graph_finish(graph_t *g)
{
    if (g->status != ERR_OK) return err_put(&g->first_error);
    ASSERT(g->n_nodes > 0 && op_traits(g->nodes[g->n_nodes - 1].desc.kind)->loss);
    for (int value = 1; value < g->n_nodes; value++) ASSERT(graph_readers(g, value) > 0);
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const graph_node_t *node = &g->nodes[n];
        for (int i = 0; i < node->desc.n_params; i++) {
            graph_param_t *p = &g->params[node->first_param + i];
            p->offset = g->n_flat_params;
            g->n_flat_params += padded_count(shape_count(p->shape));
            g->n_parameters += shape_count(p->shape);
        }
    }
    for (int i = 0; i < g->n_states; i++) {
        g->states[i].offset = g->n_flat_states;
        g->n_flat_states += padded_count(shape_count(g->states[i].shape));
    }
    return ERR_OK;
}

static double init_scale(const graph_param_t *p)
{
    double variance = p->init == INIT_KAIMING_IN    ? 2.0 / (double)p->fan_in
                      : p->init == INIT_KAIMING_OUT ? 2.0 / (double)p->fan_out
                                                    : 1.0 / (double)p->fan_in;
    return sqrt(variance);
}

/* Each value has its own position in the random sequence: any number of threads draws the same values. */
static void init_tensor(const graph_param_t *p, uint64_t seed, int index, float *flat)
{
    enum { PIECE = 1 << 13 };
    int64_t count = shape_count(p->shape);
    float *value = flat + p->offset;
    const rng_t start = rng_new(seed, RNG_INIT, (uint64_t)index);
    double scale = init_scale(p);
    if (p->init == INIT_ZERO || p->init == INIT_ONE) {
        for (int64_t i = 0; i < count; i++) value[i] = p->init == INIT_ONE ? 1.0f : 0.0f;
        return;
    }
#pragma omp parallel for schedule(static) if (count > PIECE)
    for (int64_t first = 0; first < count; first += PIECE) {
        rng_t rng = start;
        rng.position = RNG_NORMAL_WORDS * (uint64_t)first;
        for (int64_t i = first; i < count && i < first + PIECE; i++)
            value[i] = (float)(scale * rng_normal(&rng));
    }
}

void graph_init(const graph_t *g, uint64_t seed, float *params, float *states)
{
    for (int i = 0; i < g->n_params; i++) init_tensor(&g->params[i], seed, i, params);
    for (int i = 0; i < g->n_states; i++) init_tensor(&g->states[i], seed, i, states);
}
