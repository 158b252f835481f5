/* SPDX-License-Identifier: MIT */
/* Times training steps on random inputs, labels 0. What the time decides is left to the caller. */
#include "compute/graph/measure_step.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/rng.h"
#include "base/stats.h"
#include "compute/graph/exec.h"
#include "compute/ops/hd_buffer.h"

enum { MIN_STEPS = 6, RING = 256 };
/* OpenMP's threads take a quarter of calm_sec to adapt to other processes (kernels/cpu/idle.h). */
static const double calm_sec = 0.2, busy_sec = 0.4;
/* Largest share of the time that this thread waits for a CPU, and largest ratio of the median step to the shortest,
 * on a machine without other processes. */
static const double calm_wait = 0.1, calm_ratio = 1.25;

enum { PARAMS, GRADS, STATES, INPUTS, MAX_BUFFERS = INPUTS + GRAPH_MAX_INPUTS };

typedef struct step_measure {
    hd_buffer_t buffer[MAX_BUFFERS];
    exec_t *exec;
    double limit_sec; /* left */
    int64_t n_steps;
    double sec[RING]; /* of the last steps */
} step_measure_t;

double measure_step_macs(const graph_t *graph, int64_t n)
{
    double macs = 0;
    for (int i = 0; i < graph->n_nodes; i++) macs += (double)op_macs(&graph->nodes[i].desc);
    return 3 * macs * (double)n;
}

static err_t open_buffers(step_measure_t *m, const graph_t *graph, const backend_t *backend, int64_t n)
{
    static const char what[] = "buffers for measuring a step";
    const int64_t counts[INPUTS] = {graph->n_flat_params, graph->n_flat_trained, graph->n_flat_states};
    for (int i = 0; i < INPUTS; i++)
        TRY(hd_buffer_new(backend, (size_t)counts[i] * sizeof(float), what, &m->buffer[i]));
    graph_init(graph, 1, m->buffer[PARAMS].host, m->buffer[STATES].host);
    rng_t rng = rng_new(1, RNG_TEST, 0);
    for (int i = 0; i < graph->n_inputs; i++) {
        const graph_value_t *input = &graph->values[graph->inputs[i].value];
        const int64_t count = n * shape_count(input->shape);
        hd_buffer_t *buffer = &m->buffer[INPUTS + i];
        TRY(hd_buffer_new(backend, (size_t)count * dtype_size(input->dtype), what, buffer));
        float *values = buffer->host;
        for (int64_t k = 0; k < count && input->dtype == DTYPE_F32; k++) values[k] = (float)rng_normal(&rng);
    }
    for (int i = 0; i < INPUTS + graph->n_inputs; i++) TRY(hd_buffer_push_all(&m->buffer[i]));
    return ERR_OK;
}

static err_t open_exec(step_measure_t *m, const graph_t *graph, const backend_t *backend, int64_t n)
{
    exec_options_t options = {.graph = graph,
                              .backend = backend,
                              .params = m->buffer[PARAMS].device,
                              .grads = m->buffer[GRADS].device,
                              .states = m->buffer[STATES].device};
    TRY(exec_new(&options, &m->exec));
    TRY(exec_prepare(m->exec, n, true));
    return exec_ready(m->exec);
}

static err_t run_step(step_measure_t *m, int64_t n)
{
    exec_batch_t batch = {.n = n, .loss_scale = 1.0f / (float)n};
    for (int i = 0; i < GRAPH_MAX_INPUTS; i++) batch.input[i] = m->buffer[INPUTS + i].device;
    const double start = clock_sec();
    TRY(exec_forward(m->exec, &batch, true));
    TRY(exec_backward(m->exec, &batch, NULL, NULL));
    m->sec[m->n_steps++ % RING] = clock_sec() - start;
    return ERR_OK;
}

/* Runs steps for a time, at least six. *wait: the share of it that this thread waited for a CPU. */
static err_t run_steps(step_measure_t *m, int64_t n, double enough_sec, double *wait, double *spent)
{
    const double start = clock_sec();
    contention_t contention;
    err_t err = ERR_OK;
    m->n_steps = 0;
    contention_open(&contention);
    do {
        err = run_step(m, n);
        *spent = clock_sec() - start;
    } while (err == ERR_OK && *spent < m->limit_sec && (m->n_steps < MIN_STEPS || *spent < enough_sec));
    *wait = contention_share(&contention);
    contention_close(&contention);
    m->limit_sec -= *spent;
    return err;
}

/* Beside other processes, the mean of a longer time tells how fast the steps of a run will be. */
static err_t time_steps(step_measure_t *m, int64_t n, step_time_t *out)
{
    double wait, spent;
    TRY(run_steps(m, n, calm_sec, &wait, &spent));
    const int64_t n_sec = m->n_steps < RING ? m->n_steps : RING;
    double sec = stats_median(m->sec, n_sec);
    out->calm = wait < calm_wait && sec < calm_ratio * m->sec[0];
    if (!out->calm && m->limit_sec > 0) {
        TRY(run_steps(m, n, busy_sec, &wait, &spent));
        sec = spent / (double)m->n_steps;
    }
    if (m->limit_sec > 0) out->sec = sec;
    return ERR_OK;
}

err_t measure_step(const graph_t *graph, const backend_t *backend, int64_t n, double limit_sec,
                   step_time_t *out)
{
    step_measure_t m = {.limit_sec = limit_sec};
    *out = (step_time_t){.sec = INFINITY};
    err_t err = open_buffers(&m, graph, backend, n);
    if (err == ERR_OK) err = open_exec(&m, graph, backend, n);
    if (err == ERR_OK) err = time_steps(&m, n, out);
    exec_free(&m.exec);
    for (int i = 0; i < MAX_BUFFERS; i++) hd_buffer_free(&m.buffer[i]);
    mem_trim();
    return err;
}
