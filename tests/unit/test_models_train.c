/* SPDX-License-Identifier: MIT */
/* Two steps of ResNet-18 on small images, on a device and on ref: the same losses, and they fall. The second loss follows
 * from the gradients of every layer. Tolerance: an error of rounding is amplified by a batch norm over few values; 1e-3 of
 * the loss is a thousand times what the first forward pass is off by, and a hundredth of what a step changes.
 *
 * RUN device=cpu san=slow */
#include <math.h>

#include "compute/graph/exec.h"
#include "compute/models/model.h"
#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

enum { SIDE = 8, BATCH = 4, CLASSES = 5, STEPS = 2 };

typedef struct net {
    const backend_t *backend;
    graph_t *graph;
    exec_t *exec;
    float *params, *grads, *velocity, *states, *pixels, *targets;
    int32_t *labels;
    void *answers; /* targets or labels */
} net_t;

static void net_open(net_t *net, const backend_t *backend, bool multi_label)
{
    model_options_t options = {
        .sample = shape_3d(SIDE, SIDE, 3), .n_classes = CLASSES, .multi_label = multi_label};
    *net = (net_t){.backend = backend};
    must(model_build("resnet18", &options, &net->graph), "resnet18");
    size_t n_flat = (size_t)net->graph->n_flat_params * sizeof(float);
    net->params = util_block(backend, n_flat);
    net->grads = util_block(backend, n_flat);
    net->velocity = util_block(backend, n_flat);
    net->states = util_block(backend, (size_t)net->graph->n_flat_states * sizeof(float));
    net->pixels = util_block(backend, BATCH * SIDE * SIDE * 3 * sizeof(float));
    net->targets = util_block(backend, BATCH * CLASSES * sizeof(float));
    net->labels = util_block(backend, BATCH * sizeof(int32_t));
    net->answers = multi_label ? (void *)net->targets : net->labels;
    rng_t rng = rng_new(6, RNG_TEST, 0);
    for (int i = 0; i < BATCH * SIDE * SIDE * 3; i++) net->pixels[i] = (float)rng_normal(&rng);
    for (int i = 0; i < BATCH * CLASSES; i++) net->targets[i] = (float)rng_below(&rng, 2);
    for (int i = 0; i < BATCH; i++) net->labels[i] = i % CLASSES;
    exec_options_t run = {.graph = net->graph,
                          .backend = backend,
                          .params = util_device(net->params),
                          .grads = util_device(net->grads),
                          .states = util_device(net->states)};
    must(exec_new(&run, &net->exec), "exec_new");
    must(exec_prepare(net->exec, BATCH, true), "planning");
    must(exec_ready(net->exec), "memory");
}

static void net_close(net_t *net)
{
    exec_free(&net->exec);
    graph_free(&net->graph);
    util_free(&net->params), util_free(&net->grads), util_free(&net->velocity), util_free(&net->states);
    util_free(&net->pixels), util_free(&net->targets), util_free(&net->labels);
}

/* The mean loss before the step. */
static double train(net_t *net, uint64_t step)
{
    exec_batch_t batch = {.n = BATCH,
                          .input = {util_device(net->pixels), util_device(net->answers)},
                          .step = step,
                          .loss_scale = 1.0f / BATCH};
    exec_results_t results;
    optim_args_t sgd = {.weight = net->params,
                        .gradient = net->grads,
                        .state = {net->velocity},
                        .n = net->graph->n_flat_params,
                        .lr = 0.001,
                        .momentum = 0.9,
                        .gradient_scale = 1};
    double loss = 0;
    util_push(net->backend);
    must(exec_forward(net->exec, &batch, true), "forward");
    must(exec_results(net->exec, &results), "results");
    const float *losses = results.output[graph_find_output(net->graph, "loss")];
    for (int i = 0; i < BATCH; i++) loss += losses[i] / BATCH;
    must(exec_backward(net->exec, &batch, NULL, NULL), "backward");
    util_pull(net->backend);
    must(util_optim(net->backend, OPTIM_SGD, &sgd), "sgd");
    return loss;
}

static void check(const backend_t *device, bool multi_label, const float *start, const float *states)
{
    net_t net, ref;
    bool same = true;
    double loss[2] = {0, 0}, first = 0;
    net_open(&net, device, multi_label), net_open(&ref, &backend_ref, multi_label);
    for (int i = 0; i < 2; i++) {
        net_t *n = i ? &ref : &net;
        memcpy(n->params, start, (size_t)n->graph->n_flat_params * sizeof(float));
        memcpy(n->states, states, (size_t)n->graph->n_flat_states * sizeof(float));
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        loss[0] = train(&net, step), loss[1] = train(&ref, step);
        if (step == 0) first = loss[1];
        printf("# step %d: loss %.7g, by ref %.7g\n", (int)step, loss[0], loss[1]);
        same = same && fabs(loss[0] - loss[1]) <= 1e-3 * loss[1];
    }
    OK(same, "resnet18 with %s: as ref", multi_label ? "several labels" : "one label");
    OK(loss[0] < 0.95 * first, "the loss falls from %g to %g", first, loss[0]);
    net_close(&net), net_close(&ref);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 1);
    model_options_t options = {.sample = shape_3d(SIDE, SIDE, 3), .n_classes = CLASSES};
    graph_t *g = NULL;
    float *start = NULL, *states = NULL;
    tap_plan(2 + 2 + 1);
    must(model_build("resnet18", &options, &g), "resnet18");
    must(mem_new_array(g->n_flat_params, sizeof *start, "weights", &start), "memory");
    must(mem_new_array(g->n_flat_states, sizeof *states, "running values", &states), "memory");
    graph_init(g, 8, start, states);
    check(device, false, start, states);
    check(device, true, start, states);
    mem_free(&start);
    mem_free(&states);
    graph_free(&g);
    if (device->close) device->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
