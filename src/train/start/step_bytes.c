/* SPDX-License-Identifier: MIT */
/* Runs a training step on a backend that counts kernels instead of running them (backend_t.counted). */
#include "train/start/train.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "compute/graph/exec.h"
#include "train/learn/optim.h"

static void hear(void *context, const char *kernel, int64_t n_bytes)
{
    step_bytes_t *t = context;
    int i = 0;
    while (i < t->n && strcmp(t->kernels[i].name, kernel) != 0) i++;
    if (i == t->n) {
        ASSERT(t->n < STEP_BYTES_MAX);
        t->kernels[t->n++].name = kernel;
    }
    t->kernels[i].n_launches++;
    t->kernels[i].n_bytes += n_bytes;
}

/* What a step uses, all on a device that does not exist. */
typedef struct counted_step {
    const backend_t *backend;
    const graph_t *graph;
    int64_t batch;
    const char *algorithm;
    algorithms_t algorithms;
    exec_t *exec;
    optim_t *optim;
    float *params, *grads, *states, *totals;
    void *image, *label;
    uint8_t *bytes;
    affine_t *maps;
} counted_step_t;

/* Enters the algorithm for the passes that have it. `names` gets all there are, for the message. */
static err_t choose_algorithm(counted_step_t *s, const op_desc_t *desc, char *names, size_t n_names)
{
    const char *listed[OP_MAX_ALGORITHMS];
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        int n = op_list_algorithms(s->backend, desc, (op_pass_t)pass, true, listed, OP_MAX_ALGORITHMS);
        for (int i = 0; i < n; i++) {
            char word[OP_ALGORITHM_MAX + 3];
            snprintf(word, sizeof word, ", %s,", listed[i]);
            if (strcmp(listed[i], s->algorithm) == 0)
                TRY(algorithms_set(&s->algorithms, desc, (op_pass_t)pass, listed[i]));
            if (!strstr(names, word) && strlen(names) + strlen(word) < n_names)
                strcpy(names + strlen(names) - 1, word); /* in place of the last comma */
        }
    }
    return ERR_OK;
}

static err_t choose_algorithms(counted_step_t *s)
{
    const graph_t *g = exec_graph(s->exec);
    char names[512] = "fixed,";
    op_desc_t *descs;
    TRY(mem_new_array(g->n_nodes, sizeof *descs, "algorithms", &descs));
    err_t err = graph_infer(g, s->batch, NULL, descs);
    for (int i = 0; i < g->n_nodes && err == ERR_OK; i++)
        err = choose_algorithm(s, &descs[i], names, sizeof names);
    mem_free(&descs);
    if (err == ERR_OK && s->algorithms.n == 0)
        RAISE(
            ERR_USAGE,
            "--algorithms %s: no layer of %s has this algorithm in this build (make info); choose from %.*s",
            s->algorithm, g->model, (int)strlen(names) - 1, names);
    return err;
}

static err_t prepare(counted_step_t *s)
{
    static const char what[] = "counting launches";
    const graph_t *g = s->graph;
    optim_options_t optim = {0};
    opt_group_t group = {"", optim_option_table, n_optim_options, &optim, 0};
    int64_t n_pixels = s->batch * shape_count(graph_shape(g, g->inputs[0].value));
    TRY(opt_defaults(&group, 1));
    optim.weight_decay = 1e-4; /* no launch depends on how much */
    TRY(optim_new(&optim, g, s->backend, NULL, NULL, &s->optim));
    TRY(backend_alloc(s->backend, (size_t)g->n_flat_params * sizeof(float), what, &s->params));
    TRY(backend_alloc(s->backend, (size_t)g->n_flat_trained * sizeof(float), what, &s->grads));
    TRY(backend_alloc(s->backend, (size_t)g->n_flat_states * sizeof(float), what, &s->states));
    TRY(backend_alloc(s->backend, (size_t)n_pixels * sizeof(float), what, &s->image));
    TRY(backend_alloc(s->backend, (size_t)n_pixels, what, &s->bytes));
    TRY(backend_alloc(s->backend, (size_t)s->batch * sizeof *s->maps, what, &s->maps));
    TRY(backend_alloc(s->backend,
                      (size_t)(s->batch * shape_count(graph_shape(g, g->inputs[1].value))) * sizeof(float),
                      what, &s->label));
    TRY(backend_alloc(s->backend, sizeof(float) * 2 * GRAPH_MAX_OUTPUTS, what, &s->totals));
    exec_options_t options = {.graph = g,
                              .backend = s->backend,
                              .params = s->params,
                              .grads = s->grads,
                              .states = s->states,
                              .algorithms = &s->algorithms};
    TRY(exec_new(&options, &s->exec));
    exec_time_layers(s->exec, true); /* counts their work, too */
    if (s->algorithm) TRY(choose_algorithms(s));
    TRY(exec_prepare(s->exec, s->batch, true));
    return exec_ready(s->exec);
}

static err_t run_step(const counted_step_t *s)
{
    const shape_t image = graph_shape(s->graph, s->graph->inputs[0].value);
    pixels_args_t pixels = {.bytes = s->bytes,
                            .maps = s->maps,
                            .n = s->batch,
                            .height = image.dim[1],
                            .width = image.dim[2],
                            .channels = image.dim[3],
                            .pixels = s->image};
    exec_batch_t batch = {.n = s->batch,
                          .input = {s->image, s->label},
                          .tally = s->totals,
                          .loss_scale = 1.0f / (float)s->batch};
    optim_step_t step = {.weights = s->params, .gradients = s->grads, .lr = 0.1};
    TRY(s->backend->pixels(&pixels));
    TRY(exec_forward(s->exec, &batch, true));
    TRY(exec_backward(s->exec, &batch, NULL, NULL));
    return optim_step(s->optim, &step);
}

static void release(counted_step_t *s)
{
    void **blocks[] = {(void **)&s->params, (void **)&s->grads, (void **)&s->states, (void **)&s->totals,
                       &s->image,           &s->label,          (void **)&s->bytes,  (void **)&s->maps};
    exec_free(&s->exec);
    algorithms_free(&s->algorithms);
    optim_free(&s->optim);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) backend_release(s->backend, blocks[i]);
}

/* The most bytes first. Insertion sort. */
static void sort(step_bytes_t *t)
{
    for (int i = 1; i < t->n; i++) {
        kernel_bytes_t one = t->kernels[i];
        int at = i;
        for (; at > 0 && t->kernels[at - 1].n_bytes < one.n_bytes; at--) t->kernels[at] = t->kernels[at - 1];
        t->kernels[at] = one;
    }
}

err_t step_bytes_count(const graph_t *graph, const step_bytes_options_t *options, step_bytes_t *out)
{
    counted_step_t step = {.graph = graph, .batch = options->batch, .algorithm = options->algorithm};
    backend_options_t open = {.n_threads = 1, .workspace_bytes = options->workspace_bytes};
    *out = (step_bytes_t){.n = 0};
    TRY(backend_find_counted(options->device, hear, out, &step.backend));
    TRY(step.backend->open(&open));
    err_t err = prepare(&step);
    *out = (step_bytes_t){.n = 0}; /* not of the preparation */
    if (err == ERR_OK) err = run_step(&step);
    for (int i = 0; err == ERR_OK && i < exec_graph(step.exec)->n_nodes; i++)
        for (int pass = 0; pass < OP_PASS_COUNT; pass++)
            out->n_least_bytes += exec_costs(step.exec)[i].pass[pass].work.bytes;
    release(&step);
    step.backend->close();
    sort(out);
    return err;
}
