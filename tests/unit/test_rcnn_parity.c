/* SPDX-License-Identifier: MIT */
/* RUN np=0 san=slow : Mask R-CNN with ResNet-18 on a small canvas against torchvision 0.29.2: maps, losses on
 * given targets, gradients. All inputs are by a formula (tests/formula.h); tests/unit/rcnn_parity.npz has a few
 * numbers of each result, written by scripts/bench/peers/detection_golden.py. */
#include <stdlib.h>

#include "base/mem.h"
#include "compute/graph/exec.h"
#include "compute/models/model.h"
#include "compute/models/rcnn.h"
#include "compute/ops/backend.h"
#include "store/checkpoint/arrays.h"
#include "tests/formula.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "train/weights/transfer.h"

enum { HEIGHT = 160, WIDTH = 224, IMAGE_HEIGHT = 150, IMAGE_WIDTH = 200, CLASSES = 91 };
enum {
    BOXES = 24,
    MASKS = 6,
    PROJECTIONS = 4,
    SAMPLES = 16,
    SUMMARY = 1 + PROJECTIONS,
    SIDE = RCNN_MASK_SIDE
};
enum { BLOCK = 512 }; /* the largest of the sections */

typedef struct net {
    graph_t *graph;
    exec_t *exec;
    transfer_t names; /* torchvision's */
    float *params, *grads, *states;
    void *input[GRAPH_MAX_INPUTS];
    arrays_t *golden;
} net_t;

/* What detection_golden.py notes of an array: norm, projections, largest value, samples. */
static void summarize(const char *name, const float *values, int64_t n, double *out)
{
    char of[160];
    double square = 0, most = 0, projection[PROJECTIONS] = {0};
    formula_t f = {.key = formula_key(name)};
    for (int64_t i = 0; i < n; i++) {
        double v = values[i];
        formula_next(&f, i);
        square += v * v;
        most = fmax(most, fabs(v));
        for (int k = 0; k < PROJECTIONS; k++) projection[k] += f.block.word[i % 4] >> k & 1 ? -v : v;
    }
    out[0] = sqrt(square);
    memcpy(out + 1, projection, sizeof projection);
    out[SUMMARY] = most;
    snprintf(of, sizeof of, "samples.%s", name);
    f.key = formula_key(of);
    for (int k = 0; k < SAMPLES; k++)
        out[SUMMARY + 1 + k] = values[(int64_t)((formula_next(&f, k) + 1) / 2 * (double)n)];
}

static int64_t read_golden(const net_t *net, const char *name, float *out, int64_t most)
{
    array_info_t array;
    must(arrays_describe(net->golden, name, &array), name);
    ASSERT(shape_count(array.shape) <= most);
    must(arrays_read(net->golden, name, &array, out), name);
    return shape_count(array.shape);
}

/* Whether norm and projections agree within limit · norm. */
static bool near(const float *golden, const double *ours, double limit, double *worst)
{
    for (int k = 0; k < SUMMARY; k++) *worst = fmax(*worst, fabs(ours[k] - golden[k]) / golden[0]);
    return *worst <= limit;
}

static void check_map(const net_t *net, const exec_results_t *results, int output)
{
    const graph_port_t *port = &net->graph->outputs[output];
    const graph_value_t *value = &net->graph->values[port->value];
    const int64_t rows[] = {1, BOXES, MASKS};
    double ours[SUMMARY + 1 + SAMPLES], worst = 0, worst_sample = 0;
    float golden[SUMMARY + 1 + SAMPLES];
    if (!arrays_has(net->golden, port->name)) return;
    summarize(port->name, results->output[output], rows[value->section] * shape_count(value->shape), ours);
    read_golden(net, port->name, golden, SUMMARY + 1 + SAMPLES);
    const double most = golden[SUMMARY];
    for (int k = 0; k <= SAMPLES; k++)
        worst_sample = fmax(worst_sample, fabs(ours[SUMMARY + k] - golden[SUMMARY + k]) / most);
    const bool whole = near(golden, ours, 1e-4, &worst);
    OK(whole && worst_sample <= 1e-4,
       "%s: samples within %.1g of the maximum, the whole within %.1g of the norm", port->name, worst_sample,
       worst);
}

static float *new_input(net_t *net, const char *name, int64_t n)
{
    float *values;
    int i = graph_find_input(net->graph, name);
    ASSERT(i >= 0);
    const graph_value_t *value = &net->graph->values[net->graph->inputs[i].value];
    const int64_t all = value->section == 0 ? n : BLOCK * shape_count(value->shape);
    must(mem_new_array(all, sizeof *values, name, &values), "memory");
    net->input[i] = values;
    return values;
}

static void add_regions(net_t *net, const char *name, int n)
{
    float *out = new_input(net, name, 5 * (int64_t)n);
    formula_t f = {.key = formula_key(name)};
    for (int i = 0; i < n; i++, out += 5) {
        double u[4];
        for (int k = 0; k < 4; k++) u[k] = (formula_next(&f, 4 * i + k) + 1) / 2;
        const double x = 0.7 * IMAGE_WIDTH * u[0], y = 0.7 * IMAGE_HEIGHT * u[1];
        out[1] = (float)x, out[2] = (float)y;
        out[3] = (float)(x + 8 + (IMAGE_WIDTH - 8 - x) * u[2]);
        out[4] = (float)(y + 8 + (IMAGE_HEIGHT - 8 - y) * u[3]);
    }
}

/* n of base … base + classes − 1. */
static const int32_t *add_labels(net_t *net, const char *name, int64_t n, int classes, int base)
{
    int32_t *out = (void *)new_input(net, name, n);
    formula_t f = {.key = formula_key(name)};
    for (int64_t i = 0; i < n; i++) out[i] = (int32_t)((formula_next(&f, i) + 1) / 2 * classes) + base;
    return out;
}

static void add_targets(net_t *net, const char *name, int64_t n, double scale, float base)
{
    float *out = new_input(net, name, n);
    formula_t f = {.key = formula_key(name)};
    for (int64_t i = 0; i < n; i++) out[i] = (float)(scale * formula_next(&f, i)) + base;
}

static void add_weights(net_t *net, const char *name, int64_t n, double weight)
{
    float *out = new_input(net, name, n);
    for (int64_t i = 0; i < n; i++) out[i] = (float)weight;
}

static void add_levels(net_t *net)
{
    int64_t n_sampled = 0, n[RCNN_LEVELS];
    char name[32];
    for (int level = 0; level < RCNN_LEVELS; level++) {
        int64_t rows, columns;
        rcnn_cells(HEIGHT, WIDTH, level, &rows, &columns);
        n[level] = rows * columns * RCNN_ANCHORS;
        snprintf(name, sizeof name, "rpn.%d.label", level);
        const int32_t *labels = add_labels(net, name, n[level], 3, -1);
        for (int64_t i = 0; i < n[level]; i++) n_sampled += labels[i] >= 0;
        snprintf(name, sizeof name, "rpn.%d.target", level);
        add_targets(net, name, 4 * n[level], 0.5, 0);
    }
    for (int level = 0; level < RCNN_LEVELS; level++) {
        snprintf(name, sizeof name, "rpn.%d.weight", level);
        add_weights(net, name, n[level], 1.0 / (double)n_sampled);
    }
}

static void add_inputs(net_t *net)
{
    formula_image(IMAGE_HEIGHT, IMAGE_WIDTH, WIDTH, HEIGHT * WIDTH * 3,
                  new_input(net, "image", HEIGHT * WIDTH * 3));
    add_levels(net);
    add_regions(net, "box.regions", BOXES);
    add_labels(net, "box.label", BOXES, CLASSES, 0);
    add_targets(net, "box.target", 4 * BOXES, 2, 0);
    add_weights(net, "box.weight", BOXES, 1.0 / BOXES);
    add_regions(net, "mask.regions", MASKS);
    add_labels(net, "mask.label", MASKS, CLASSES - 1, 1);
    add_targets(net, "mask.target", MASKS * SIDE * SIDE, 0.5, 0.5f);
    add_weights(net, "mask.weight", MASKS, 1.0 / (MASKS * SIDE * SIDE));
}

/* The largest tensor, in the file's layout. */
static float *new_scratch(const net_t *net)
{
    int64_t most = 0;
    float *out;
    for (int i = 0; i < net->names.n; i++) {
        const int64_t n = shape_count(net->names.tensors[i].layout.shape);
        most = n > most ? n : most;
    }
    must(mem_new_array(most, sizeof *out, "a tensor", &out), "memory");
    return out;
}

static void set_weights(net_t *net)
{
    float *theirs = new_scratch(net);
    for (int i = 0; i < net->names.n; i++) {
        const named_tensor_t *t = &net->names.tensors[i];
        formula_weight(t->name, t->layout.shape, theirs);
        tensor_import(&t->layout, false, theirs,
                      (i < net->graph->n_params ? net->params : net->states) + t->param->offset);
    }
    mem_free(&theirs);
}

/* The model, with the maps of the pyramid among its outputs. */
static graph_t *build(void)
{
    static const char *const maps[RCNN_LEVELS][2] = {
        {"backbone.fpn.layer_blocks.0.0", "fpn.0"}, {"backbone.fpn.layer_blocks.1.0", "fpn.1"},
        {"backbone.fpn.layer_blocks.2.0", "fpn.2"}, {"backbone.fpn.layer_blocks.3.0", "fpn.3"},
        {"backbone.fpn.pool.4", "fpn.4"},
    };
    const model_options_t options = {.sample = shape_3d(HEIGHT, WIDTH, 3), .n_classes = CLASSES};
    const model_t *model;
    graph_t *g = NULL;
    must(model_find("maskrcnn_resnet18_fpn", &model), "the model");
    must(graph_new("maskrcnn_resnet18_fpn", &g), "a graph");
    graph_input(g, "image", options.sample, DTYPE_F32);
    g->norm = GRAPH_NORM_FROZEN;
    model_add_layers(model, g, &options);
    for (int i = 0; i < RCNN_LEVELS; i++)
        for (int n = 0; n < g->n_nodes; n++)
            if (strcmp(g->nodes[n].name, maps[i][0]) == 0) graph_output(g, maps[i][1], g->nodes[n].output[0]);
    must(graph_finish(g), "graph_finish");
    return g;
}

static void net_open(net_t *net)
{
    *net = (net_t){.graph = build()};
    const graph_t *g = net->graph;
    must(arrays_open("tests/unit/rcnn_parity.npz", &net->golden), "torchvision's numbers");
    must(mem_new_array(g->n_flat_params, sizeof *net->params, "weights", &net->params), "memory");
    must(mem_new_array(g->n_flat_params, sizeof *net->grads, "gradients", &net->grads), "memory");
    must(mem_new_array(g->n_flat_states, sizeof *net->states, "statistics", &net->states), "memory");
    must(transfer_open(g, "torchvision", &net->names), "names");
    set_weights(net);
    add_inputs(net);
    exec_options_t options = {.graph = g,
                              .backend = &backend_cpu,
                              .params = net->params,
                              .grads = net->grads,
                              .states = net->states};
    must(exec_new(&options, &net->exec), "exec_new");
    must(exec_prepare(net->exec, 1, true), "planning");
    must(exec_ready(net->exec), "memory");
}

static void net_close(net_t *net)
{
    for (int i = 0; i < GRAPH_MAX_INPUTS; i++) mem_free(&net->input[i]);
    transfer_close(&net->names);
    exec_free(&net->exec);
    graph_free(&net->graph);
    arrays_close(&net->golden);
    mem_free(&net->params);
    mem_free(&net->grads);
    mem_free(&net->states);
}

static exec_batch_t batch_of(const net_t *net, int64_t n, float *tally)
{
    exec_batch_t batch = {.n = n, .loss_scale = 1, .tally = tally};
    for (int i = 0; i < net->graph->n_inputs; i++) batch.input[i] = net->input[i];
    return batch;
}

/* The five losses in torchvision's order. */
static void check_losses(const net_t *net, const float *tally)
{
    static const char *const names[] = {"objectness_loss", "box_loss", "box.class_loss", "box.box_loss",
                                        "mask.loss"};
    float golden[5];
    double sums[5] = {0};
    read_golden(net, "losses", golden, 5);
    for (int n = 0, loss = 0; n < net->graph->n_nodes; n++) {
        const char *name = net->graph->nodes[n].name;
        if (!strstr(name, "loss")) continue;
        for (int k = 0; k < 5; k++)
            if (strcmp(name, names[k]) == 0 ||
                (k < 2 && strncmp(name, "rpn.", 4) == 0 && strcmp(strrchr(name, '.') + 1, names[k]) == 0))
                sums[k] += tally[2 * loss];
        loss++;
    }
    for (int k = 0; k < 5; k++)
        OK(fabs(sums[k] - golden[k]) <= 1e-5 * golden[k], "%s %.7g, torchvision's %.7g", names[k], sums[k],
           (double)golden[k]);
}

static void check_gradients(const net_t *net)
{
    float *theirs = new_scratch(net), golden[SUMMARY];
    double ours[SUMMARY + 1 + SAMPLES], worst = 0;
    int n_compared = 0;
    for (int i = 0; i < net->graph->n_params; i++) {
        const named_tensor_t *t = &net->names.tensors[i];
        char name[192];
        double difference = 0;
        snprintf(name, sizeof name, "gradient.%s", t->name);
        if (!arrays_has(net->golden, name)) continue;
        n_compared++;
        read_golden(net, name, golden, SUMMARY);
        tensor_export(&t->layout, net->grads + t->param->offset, theirs);
        summarize(t->name, theirs, shape_count(t->layout.shape), ours);
        if (!near(golden, ours, 1e-3, &difference)) printf("# %s differs by %.1g\n", t->name, difference);
        worst = fmax(worst, difference);
    }
    OK(n_compared == 62 && worst <= 1e-3, "gradients of %d parameters within %.1g of their norm", n_compared,
       worst);
    mem_free(&theirs);
}

int main(void)
{
    net_t net;
    exec_results_t results;
    float tally[2 * GRAPH_MAX_OUTPUTS] = {0};
    must(backend_open(&backend_cpu, 2), "opening the CPU");
    tap_plan(RCNN_LEVELS * 3 + 3 + 5 + 1 + 1);
    net_open(&net);
    exec_batch_t images = batch_of(&net, 1, tally), boxes = batch_of(&net, BOXES, tally),
                 masks = batch_of(&net, MASKS, tally);
    must(exec_forward(net.exec, &images, true), "forward");
    must(exec_rows(net.exec, 1, &boxes), "boxes");
    must(exec_rows(net.exec, 2, &masks), "masks");
    must(exec_results(net.exec, &results), "results");
    for (int i = 0; i < net.graph->n_outputs; i++) check_map(&net, &results, i);
    must(exec_backward(net.exec, &images, NULL, NULL), "backward");
    check_losses(&net, tally);
    check_gradients(&net);
    net_close(&net);
    if (backend_cpu.close) backend_cpu.close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
