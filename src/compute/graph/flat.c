/* SPDX-License-Identifier: MIT */
/* Finishes a graph: checks its connections, lays out the flat parameter and state buffers, and draws initial
 * values. */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "compute/graph/needs.h"

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
    for (int n = 0; n < g->n_nodes; n++) loss = loss || op_traits(g->nodes[n].desc.kind)->loss;
    for (int n = 0; n < g->n_nodes; n++) {
        const graph_node_t *node = &g->nodes[n];
        int n_readers = 0;
        for (int i = 0; i < node->desc.n_outputs; i++) n_readers += graph_readers(g, node->output[i]);
        ASSERT(n_readers > 0);
        bool trained = node->desc.n_params > 0 && !g->params[node->first_param].frozen;
        ASSERT(!loss || !trained || node->shared || needs[n].dparam);
    }
    mem_free(&needs);
    return ERR_OK;
}

err_t graph_finish(graph_t *g)
{
    if (g->status != ERR_OK) return err_put(&g->first_error);
    ASSERT(g->n_nodes > 0);
    TRY(graph_check_freeze(g));
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

/* The distributions of param.h: bound of a uniform one, or standard deviation of a normal one. */
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

static double draw(init_rule_t rule, rng_t *rng)
{
    return rule.scale * (rule.uniform ? 2 * rng_uniform(rng) - 1 : rng_normal(rng));
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
        for (int64_t i = first; i < count && i < first + PIECE; i++) value[i] = (float)draw(rule, &rng);
    }
}

void graph_init(const graph_t *g, uint64_t seed, float *params, float *states)
{
    for (int i = 0; i < g->n_params; i++) init_tensor(&g->params[i], seed, i, params);
    for (int i = 0; i < g->n_states; i++) init_tensor(&g->states[i], seed, i, states);
}
