/* SPDX-License-Identifier: MIT */
/* Implements algorithms_measure: times the algorithms of each layer and pass on scratch buffers, within a
 * time limit, and enters the fastest in the table. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "compute/graph/algorithms.h"
#include "compute/graph/scratch.h"

enum { N_WARM_UP = 2, MIN_RUNS = 3, MAX_RUNS = 12 };
/* Time for the runs of one algorithm. A slower algorithm is timed twice only: the clock is accurate enough
 * then. */
static const double candidate_sec = 0.02;
/* Runs slower than this many times the best so far end the timing. The first run also pays for new pages. */
static const double hopeless_first = 6, hopeless = 2;
static const double advantage = 0.97; /* relative to the default's time, required to replace it */

typedef struct measuring {
    const measure_options_t *options;
    algorithms_t *table;
    measure_result_t *result;
    double start;
    double longest_sec; /* longest run so far */
    scratch_t scratch;  /* of the current layer, created when its first pass is measured */
    bool has_scratch;
} measuring_t;

static bool has_time(const measuring_t *m)
{
    return clock_sec() - m->start + m->longest_sec <= m->options->limit_sec;
}

/* *sec: the shortest of a few runs, as disturbances only make a run longer. *in_time: the limit was not
 * reached. */
static err_t time_runs(measuring_t *m, const op_t *op, op_pass_t pass, double best, double *sec,
                       bool *in_time)
{
    const backend_t *backend = op->backend;
    err_t err = ERR_OK;
    char *workspace = NULL, *saved = NULL;
    double total = 0;
    *sec = INFINITY;
    TRY_OUT(err,
            backend_alloc(backend, op->n_workspace_bytes, "workspace for measuring algorithms", &workspace));
    TRY_OUT(err, backend_alloc(backend, op->n_saved_bytes, "buffers for measuring algorithms", &saved));
    for (int i = 0; i < N_WARM_UP + MAX_RUNS; i++) {
        if (!(*in_time = has_time(m))) break;
        double start = clock_sec();
        TRY_OUT(err, scratch_run(&m->scratch, op, pass, saved, workspace));
        TRY_OUT(err, backend_sync(backend));
        double one = clock_sec() - start;
        m->longest_sec = fmax(m->longest_sec, one);
        if (i > 0 && one < *sec) *sec = one;
        if (one > hopeless_first * best || (i > 0 && *sec > hopeless * best)) break;
        if (i >= N_WARM_UP) total += one;
        if (i >= (one > candidate_sec ? N_WARM_UP : N_WARM_UP + MIN_RUNS - 1) && total > candidate_sec) break;
    }
out:
    backend_release(backend, &workspace);
    backend_release(backend, &saved);
    return err;
}

typedef struct candidates {
    const char *names[OP_MAX_ALGORITHMS];
    int n;
} candidates_t;

/* *name: the fastest; NULL if time ran out. */
static err_t choose_fastest(measuring_t *m, const op_desc_t *desc, op_pass_t pass, bool training,
                            const candidates_t *c, const char **name)
{
    double rule = INFINITY, best = INFINITY;
    err_t err = ERR_OK;
    bool in_time = has_time(m);
    *name = NULL;
    if (in_time && !m->has_scratch) {
        TRY(scratch_new(desc, m->options->backend, training, "buffers for measuring algorithms",
                        &m->scratch));
        m->has_scratch = true;
    }
    for (int i = 0; i < c->n && err == ERR_OK && in_time; i++) {
        op_algorithms_t wanted = {0};
        op_t *op = NULL;
        double sec = INFINITY;
        memcpy(wanted.name[pass], c->names[i], strlen(c->names[i]) + 1);
        err = op_plan(m->options->backend, desc, training, &wanted, &op);
        if (err == ERR_OK) err = time_runs(m, op, pass, best, &sec, &in_time);
        op_free(&op);
        mem_trim();
        if (i == 0) rule = sec;
        if (sec < best) {
            best = sec;
            *name = c->names[i];
        }
    }
    if (!in_time) *name = NULL;
    if (*name && best > advantage * rule) *name = c->names[0];
    return err;
}

static bool is_candidate(const char *name, const candidates_t *c)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->names[i], name) == 0) return true;
    return false;
}

static err_t decide_pass(measuring_t *m, const op_desc_t *desc, op_pass_t pass, bool training)
{
    candidates_t c;
    c.n = op_list_algorithms(m->options->backend, desc, pass, training, c.names, OP_MAX_ALGORITHMS);
    const char *name = algorithms_find(m->table, desc, pass);
    if (name && is_candidate(name, &c)) return ERR_OK;
    m->result->n_dropped += name != NULL;
    if (c.n < 2) {
        algorithms_drop(m->table, desc, pass); /* of another backend */
        return ERR_OK;
    }
    name = m->options->cache ? algorithms_find(m->options->cache, desc, pass) : NULL;
    if (name && is_candidate(name, &c)) {
        m->result->n_cached++;
        return algorithms_set(m->table, desc, pass, name);
    }
    TRY(choose_fastest(m, desc, pass, training, &c, &name));
    if (!name) {
        m->result->n_left++;
        return algorithms_set(m->table, desc, pass, c.names[0]);
    }
    m->result->n_measured++;
    if (m->options->cache) TRY(algorithms_set(m->options->cache, desc, pass, name));
    return algorithms_set(m->table, desc, pass, name);
}

static err_t decide_layer(measuring_t *m, const graph_node_t *node, const op_desc_t *desc, bool training)
{
    err_t err = ERR_OK;
    for (int pass = 0; pass < (training ? OP_PASS_COUNT : 1) && err == ERR_OK; pass++)
        if (pass != OP_BACKWARD_DATA || node->input[0] != 0)
            err = decide_pass(m, desc, (op_pass_t)pass, training);
    if (m->has_scratch) {
        scratch_free(&m->scratch);
        mem_trim();
    }
    m->has_scratch = false;
    if (m->result->n_left > 0 && !m->result->first_left) m->result->first_left = node->name;
    return err == ERR_OK ? ERR_OK : err_context(err, "layer %s", node->name);
}

err_t algorithms_measure(const measure_options_t *options, algorithms_t *table, measure_result_t *result)
{
    *result = (measure_result_t){0};
    measuring_t m = {.options = options, .table = table, .result = result, .start = clock_sec()};
    for (int k = 0; k < options->n_sizes; k++)
        for (int i = 0; i < options->graph->n_nodes; i++) {
            const graph_node_t *node = &options->graph->nodes[i];
            op_desc_t desc;
            bool training = options->sizes[k].training;
            TRY(graph_batch_desc(options->graph, i, options->sizes[k].n, &desc));
            TRY(decide_layer(&m, node, &desc, training));
        }
    result->sec = clock_sec() - m.start;
    return ERR_OK;
}
