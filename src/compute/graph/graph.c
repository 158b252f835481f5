/* SPDX-License-Identifier: MIT */
/* Builds a graph layer by layer, infers shapes, and finishes it: checks its connections, lays out the flat parameter
 * and state buffers, and draws initial values. Layers' defaults are in layers.c. */
#include "compute/graph/graph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* ---- Building ---- */
enum { MAX_NODES = 1024, MAX_VALUES = GRAPH_MAX_INPUTS + MAX_NODES * OP_MAX_OUTPUTS };

err_t graph_new(const char *model, graph_t **out)
{
    err_t err = ERR_OK;
    graph_t *g = NULL;
    TRY(mem_new(sizeof *g, "a graph", &g));
    snprintf(g->model, sizeof g->model, "%s", model);
    g->n_sections = 1;
    g->norm = GRAPH_NORM_BATCH;
    g->norm_epsilon = 1e-5;
    TRY_OUT(err, mem_new_array(MAX_VALUES, sizeof *g->values, "layers", &g->values));
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
    mem_free(&(*graph)->values);
    mem_free(&(*graph)->nodes);
    mem_free(&(*graph)->params);
    mem_free(&(*graph)->states);
    mem_free(graph);
}

shape_t graph_shape(const graph_t *graph, int value)
{
    return graph->values[value].shape;
}

static int find_port(const graph_port_t *ports, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(ports[i].name, name) == 0) return i;
    return -1;
}

int graph_find_input(const graph_t *g, const char *name)
{
    return find_port(g->inputs, g->n_inputs, name);
}

int graph_find_output(const graph_t *g, const char *name)
{
    return find_port(g->outputs, g->n_outputs, name);
}

int graph_readers(const graph_t *g, int value)
{
    int count = 0;
    for (int n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->nodes[n].desc.n_inputs; i++) count += g->nodes[n].input[i] == value;
    for (int i = 0; i < g->n_outputs; i++) count += g->outputs[i].value == value;
    return count;
}

static bool is_loss(const graph_node_t *node)
{
    return op_traits(node->desc.kind)->loss;
}

static void set_name(char out[GRAPH_NAME_MAX], const char *name)
{
    int n = snprintf(out, GRAPH_NAME_MAX, "%s", name);
    ASSERT(n < GRAPH_NAME_MAX);
}

static int new_value(graph_t *g, shape_t shape, dtype_t dtype, int node)
{
    g->values[g->n_values] = (graph_value_t){shape, dtype, node, g->n_sections - 1};
    return g->n_values++;
}

int graph_input(graph_t *g, const char *name, shape_t shape, dtype_t dtype)
{
    ASSERT(g->n_inputs < GRAPH_MAX_INPUTS && graph_find_input(g, name) < 0);
    shape_t sample = {shape.n_dims + 1, {1}};
    ASSERT(sample.n_dims <= SHAPE_MAX_DIMS);
    memcpy(sample.dim + 1, shape.dim, (size_t)shape.n_dims * sizeof *shape.dim);
    graph_port_t *port = &g->inputs[g->n_inputs++];
    set_name(port->name, name);
    return port->value = new_value(g, sample, dtype, -1);
}

void graph_output(graph_t *g, const char *name, int value)
{
    if (g->status != ERR_OK) return;
    ASSERT(g->n_outputs < GRAPH_MAX_OUTPUTS && graph_find_output(g, name) < 0);
    graph_port_t *port = &g->outputs[g->n_outputs++];
    set_name(port->name, name);
    port->value = value;
}

void graph_begin_rows(graph_t *g, const char *name, int64_t block, int64_t max_rows)
{
    ASSERT(g->n_sections < GRAPH_MAX_SECTIONS && block > 0 && max_rows > 0);
    graph_section_t *section = &g->sections[g->n_sections++];
    *section = (graph_section_t){.first_node = g->n_nodes, .block = block, .max_rows = max_rows};
    set_name(section->name, name);
}

static void keep_error(graph_t *g, err_t err)
{
    g->status = err;
    err_take(err, &g->first_error);
}

/* Of a layer's weight: terms of an output, and outputs of an input at stride 1. PyTorch exchanges the two for transposed
 * convolutions, whose weights have inputs before outputs there. */
static void count_fans(shape_t weight, const char *meaning, int64_t *fan_in, int64_t *fan_out)
{
    const int last = weight.n_dims - 1;
    const bool transposed = strcmp(meaning, "HWOI") == 0;
    *fan_in = shape_count(weight) / weight.dim[transposed ? last : 0];
    *fan_out = shape_count(weight) / weight.dim[transposed ? last - 1 : last];
}

static void add_tensors(graph_param_t *list, int *n, const char *layer, const shape_t *shapes, int n_shapes,
                        const graph_param_spec_t *specs)
{
    for (int i = 0; i < n_shapes; i++) {
        graph_param_t *p = &list[(*n)++];
        int n_name = snprintf(p->name, sizeof p->name, "%s/%s", layer, specs[i].name);
        ASSERT(n_name < GRAPH_PARAM_NAME_MAX);
        p->meaning = specs[i].meaning;
        p->shape = shapes[i];
        p->init = specs[i].init;
        count_fans(shapes[0], specs[0].meaning, &p->fan_in, &p->fan_out);
    }
}

/* An operator takes a value as `dtype`. */
static err_t check_type(const graph_t *g, int value, dtype_t dtype)
{
    dtype_t have = g->values[value].dtype;
    if (have != dtype)
        RAISE(ERR_USAGE, "expected an input of %s, got %s", dtype_name(dtype), dtype_name(have));
    return ERR_OK;
}

/* Adds a layer, all but its parameters. NULL after an error. */
static graph_node_t *add_node(graph_t *g, const char *name, op_desc_t desc, const int *inputs)
{
    if (g->status != ERR_OK) return NULL;
    ASSERT(g->n_nodes < MAX_NODES);
    graph_node_t *node = &g->nodes[g->n_nodes];
    set_name(node->name, name);
    for (int i = 0; i < desc.n_inputs; i++) {
        ASSERT(inputs[i] >= 0 && inputs[i] < g->n_values);
        const graph_value_t *value = &g->values[inputs[i]];
        ASSERT(value->section == 0 || value->section == g->n_sections - 1);
        node->input[i] = inputs[i];
        desc.x[i] = value->shape;
        desc.x_dtype[i] = value->dtype;
    }
    err_t err = op_infer(&desc);
    for (int i = 0; i < desc.n_inputs && err == ERR_OK; i++) err = check_type(g, inputs[i], desc.x_dtype[i]);
    if (err != ERR_OK) {
        keep_error(g, err_context(err, "%s: layer %s", g->model, name));
        return NULL;
    }
    node->desc = desc;
    node->layer = g->n_nodes++;
    node->section = g->n_sections - 1;
    node->first_param = g->n_params;
    node->first_state = g->n_states;
    node->weight = 1;
    for (int i = 0; i < desc.n_outputs; i++)
        node->output[i] = new_value(g, desc.y[i], desc.y_dtype[i], node->layer);
    if (is_loss(node)) graph_output(g, name, node->output[0]);
    return node;
}

int graph_add(graph_t *g, const char *name, op_desc_t desc, const int *inputs,
              const graph_param_spec_t *params, const graph_param_spec_t *states)
{
    const graph_node_t *node = add_node(g, name, desc, inputs);
    if (!node) return 0;
    desc = node->desc;
    bool frozen = graph_freezes(g, name);
    add_tensors(g->params, &g->n_params, name, desc.param, desc.n_params, params);
    add_tensors(g->states, &g->n_states, name, desc.state, desc.n_states, states);
    for (int i = 0; i < desc.n_params; i++) g->params[node->first_param + i].frozen = frozen;
    return node->output[0];
}

/* A layer computes with `have` in place of `want`, the layer as it was added: its parameters and states must have the
 * same shapes. */
static err_t check_tensors(const op_desc_t *want, const op_desc_t *have)
{
    bool same = want->n_params == have->n_params && want->n_states == have->n_states;
    for (int i = 0; same && i < want->n_params; i++) same = shape_equal(want->param[i], have->param[i]);
    for (int i = 0; same && i < want->n_states; i++) same = shape_equal(want->state[i], have->state[i]);
    if (same) return ERR_OK;
    RAISE(ERR_USAGE, "inputs of %s need parameters of other shapes than inputs of %s",
          shape_format(have->x[0]).text, shape_format(want->x[0]).text);
}

int graph_repeat(graph_t *g, const char *name, const char *of, const int *inputs)
{
    if (g->status != ERR_OK) return 0;
    const graph_node_t *first = NULL;
    for (int n = 0; n < g->n_nodes && !first; n++)
        if (strcmp(g->nodes[n].name, of) == 0) first = &g->nodes[n];
    ASSERT(first && first->section == g->n_sections - 1);
    graph_node_t *node = add_node(g, name, first->desc, inputs);
    if (!node) return 0;
    err_t err = check_tensors(&first->desc, &node->desc);
    if (err != ERR_OK) keep_error(g, err_context(err, "%s: layer %s", g->model, name));
    node->first_param = first->first_param;
    node->first_state = first->first_state;
    node->shared = true;
    return node->output[0];
}

int graph_count_losses(const graph_t *g, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) count += is_loss(&g->nodes[i]);
    return count;
}

bool graph_has_batch_norm(const graph_t *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].desc.kind == OP_BATCH_NORM && !g->nodes[i].desc.attr.batch_norm.frozen) return true;
    return false;
}

void graph_weigh(graph_t *g, int loss, float weight)
{
    if (g->status != ERR_OK) return;
    graph_node_t *node = &g->nodes[g->values[loss].node];
    ASSERT(is_loss(node));
    node->weight = weight;
}

/* First dimension of a value in a batch of n: samples, or the rows of a block. */
static int64_t first_dimension(const graph_t *g, int value, int64_t n)
{
    int section = g->values[value].section;
    return section == 0 ? n : g->sections[section].block;
}

err_t graph_batch_desc(const graph_t *g, int node, int64_t n, op_desc_t *out)
{
    *out = g->nodes[node].desc;
    for (int i = 0; i < out->n_inputs; i++)
        out->x[i] = shape_with_batch(out->x[i], first_dimension(g, g->nodes[node].input[i], n));
    return op_infer(out);
}

/* The shape of a value, from the descriptions of the layers before. */
static shape_t shape_of_value(const graph_t *g, int value, const shape_t *inputs, const op_desc_t *descs)
{
    int node = g->values[value].node;
    if (node < 0) {
        for (int i = 0; inputs && i < g->n_inputs; i++)
            if (g->inputs[i].value == value) return inputs[i];
        return g->values[value].shape;
    }
    for (int i = 0; i < descs[node].n_outputs; i++)
        if (g->nodes[node].output[i] == value) return descs[node].y[i];
    ASSERT(!"a value of the graph");
    return g->values[value].shape;
}

err_t graph_infer(const graph_t *g, int64_t n, const shape_t *inputs, op_desc_t *descs)
{
    for (int k = 0; k < g->n_nodes; k++) {
        const graph_node_t *node = &g->nodes[k];
        op_desc_t *desc = &descs[k];
        *desc = node->desc;
        for (int i = 0; i < desc->n_inputs; i++)
            desc->x[i] = shape_with_batch(shape_of_value(g, node->input[i], inputs, descs),
                                          first_dimension(g, node->input[i], n));
        err_t err = op_infer(desc);
        if (err == ERR_OK) err = check_tensors(&node->desc, desc);
        if (err != ERR_OK) return err_context(err, "%s: layer %s", g->model, node->name);
    }
    return ERR_OK;
}

/* ---- Freezing ---- */
/* Whether the first n characters of a word name the layer, or the layers that it is one of: "layer1". */
static bool names_layer(const char *word, size_t n, const char *layer)
{
    return strncmp(word, layer, n) == 0 && (layer[n] == '\0' || layer[n] == '.');
}

/* The word after this one; NULL: it is the last. Sets *n to its own length. */
static const char *next_word(const char *word, size_t *n)
{
    *n = strcspn(word, ",");
    return word[*n] ? word + *n + 1 : NULL;
}

bool graph_freezes(const graph_t *graph, const char *name)
{
    size_t n;
    bool found = graph->frozen;
    for (const char *word = graph->freeze, *next; word && !found; word = next) {
        next = next_word(word, &n);
        found = names_layer(word, n, name);
    }
    return found;
}

/* ERR_USAGE if graph->freeze names a layer that there is not, or that has no parameters. */
static err_t check_freeze(const graph_t *graph)
{
    size_t n;
    for (const char *word = graph->freeze, *next; word; word = next) {
        bool found = false;
        next = next_word(word, &n);
        for (int i = 0; i < graph->n_nodes && !found; i++)
            found = graph->nodes[i].desc.n_params > 0 && names_layer(word, n, graph->nodes[i].name);
        if (!found)
            RAISE(
                ERR_USAGE,
                "%s has no layer '%.*s' with parameters to freeze; `dptrain info --model %s` lists the layers",
                graph->model, (int)n, word, graph->model);
    }
    return ERR_OK;
}

/* ---- What backward has to compute ---- */
/* The layer whose gradient input i of a layer is; NULL: the input is constant. */
static graph_needs_t *producer_of(const graph_t *g, graph_needs_t *needs, const graph_node_t *node, int i)
{
    int producer = g->values[node->input[i]].node;
    return i < op_traits(node->desc.kind)->n_gradients && producer >= 0 ? &needs[producer] : NULL;
}

static bool is_trained(const graph_t *g, const graph_node_t *node)
{
    return node->desc.n_params > 0 && !g->params[node->first_param].frozen;
}

err_t graph_needs_new(const graph_t *g, graph_needs_t **out)
{
    graph_needs_t *needs;
    TRY(mem_new_array(g->n_nodes, sizeof *needs, "a graph's gradients", &needs));
    for (int n = 0; n < g->n_nodes; n++) {
        const graph_node_t *node = &g->nodes[n];
        needs[n].depends = is_trained(g, node);
        for (int i = 0; i < node->desc.n_inputs; i++) {
            const graph_needs_t *producer = producer_of(g, needs, node, i);
            if (producer && producer->depends) needs[n].depends = true;
        }
    }
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const graph_node_t *node = &g->nodes[n];
        graph_needs_t *need = &needs[n];
        need->backward = need->depends && (need->leads || is_loss(node));
        need->dparam = need->backward && is_trained(g, node);
        for (int i = 0; i < node->desc.n_inputs && need->backward; i++) {
            graph_needs_t *producer = producer_of(g, needs, node, i);
            need->dx[i] = producer && producer->depends;
            if (need->dx[i]) producer->leads = true;
        }
    }
    *out = needs;
    return ERR_OK;
}

/* ---- Finishing ---- */
enum { FLAT_ALIGN = 16 };

static int64_t padded_count(const graph_param_t *p)
{
    return (shape_count(p->shape) + FLAT_ALIGN - 1) / FLAT_ALIGN * FLAT_ALIGN;
}

void graph_flat_range(const graph_t *g, int node, int64_t *offset, int64_t *count)
{
    const graph_node_t *layer = &g->nodes[node];
    int n = layer->shared ? 0 : layer->desc.n_params;
    *offset = n > 0 ? g->params[layer->first_param].offset : 0;
    *count = 0;
    for (int i = 0; i < n; i++) *count += padded_count(&g->params[layer->first_param + i]);
}

/* Places the parameters that are trained, or those that are not. */
static void place_params(graph_t *g, bool frozen)
{
    for (int n = g->n_nodes - 1; n >= 0; n--) {
        const graph_node_t *node = &g->nodes[n];
        for (int i = 0; i < node->desc.n_params && !node->shared; i++) {
            graph_param_t *p = &g->params[node->first_param + i];
            if (p->frozen != frozen) continue;
            p->offset = g->n_flat_params;
            g->n_flat_params += padded_count(p);
            g->n_parameters += shape_count(p->shape);
            if (frozen) g->n_frozen += shape_count(p->shape);
        }
    }
}

/* Every layer must be read, and backward must give every trained parameter a gradient. */
static err_t check_connections(const graph_t *g)
{
    graph_needs_t *needs;
    bool loss = false;
    TRY(graph_needs_new(g, &needs));
    for (int n = 0; n < g->n_nodes; n++) loss = loss || is_loss(&g->nodes[n]);
    for (int n = 0; n < g->n_nodes; n++) {
        const graph_node_t *node = &g->nodes[n];
        int n_readers = 0;
        for (int i = 0; i < node->desc.n_outputs; i++) n_readers += graph_readers(g, node->output[i]);
        ASSERT(n_readers > 0);
        ASSERT(!loss || !is_trained(g, node) || node->shared || needs[n].dparam);
    }
    mem_free(&needs);
    return ERR_OK;
}

err_t graph_finish(graph_t *g)
{
    if (g->status != ERR_OK) return err_put(&g->first_error);
    ASSERT(g->n_nodes > 0);
    TRY(check_freeze(g));
    g->freeze = NULL;
    TRY(check_connections(g));
    place_params(g, false);
    g->n_flat_trained = g->n_flat_params;
    place_params(g, true);
    for (int i = 0; i < g->n_states; i++) {
        g->states[i].offset = g->n_flat_states;
        g->n_flat_states += padded_count(&g->states[i]);
    }
    return ERR_OK;
}

/* The distributions of init_kind_t: bound of a uniform one, or standard deviation of a normal one. */
typedef struct init_rule {
    bool uniform;
    double scale;
} init_rule_t;

static init_rule_t init_rule(const graph_param_t *p)
{
    const double in = (double)p->fan_in, out = (double)p->fan_out;
    switch (p->init) {
    case INIT_KAIMING_OUT:
        return (init_rule_t){false, sqrt(2 / out)};
    case INIT_KAIMING_IN:
        return (init_rule_t){true, sqrt(3 / in)};
    case INIT_SMALL:
        return (init_rule_t){false, 0.01};
    default:
        return (init_rule_t){true, sqrt(1 / in)};
    }
}

/* Each value has its own position in the random sequence: any number of threads draws the same values. */
static void init_tensor(const graph_param_t *p, uint64_t seed, int index, float *flat)
{
    enum { PIECE = 1 << 13 };
    int64_t count = shape_count(p->shape);
    float *value = flat + p->offset;
    const rng_t start = rng_new(seed, RNG_INIT, (uint64_t)index);
    const init_rule_t rule = init_rule(p);
    if (p->init == INIT_ZERO || p->init == INIT_ONE) {
        for (int64_t i = 0; i < count; i++) value[i] = p->init == INIT_ONE ? 1.0f : 0.0f;
        return;
    }
#pragma omp parallel for schedule(static) if (count > PIECE)
    for (int64_t first = 0; first < count; first += PIECE) {
        rng_t rng = start;
        rng.position = (rule.uniform ? 1 : RNG_NORMAL_WORDS) * (uint64_t)first;
        for (int64_t i = first; i < count && i < first + PIECE; i++)
            value[i] = (float)(rule.scale * (rule.uniform ? 2 * rng_uniform(&rng) - 1 : rng_normal(&rng)));
    }
}

void graph_init(const graph_t *g, uint64_t seed, float *params, float *states)
{
    for (int i = 0; i < g->n_params; i++) init_tensor(&g->params[i], seed, i, params);
    for (int i = 0; i < g->n_states; i++) init_tensor(&g->states[i], seed, i, states);
}
