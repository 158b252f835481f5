/* SPDX-License-Identifier: MIT */
/* Training steps of a detector, one image each, for comparison with scripts/bench/peers/detector_train.py: seconds by
 * part, the fastest step each, the least that each part could take (detector_floor.h), and the peak memory.
 *
 * An input (detection_input.h) has also "proposals" [n, 4], which take the place of the network's, or none; "sample"
 * [2], anchors and regions of an image; "sgd" [3], learning rate, momentum and weight decay of all parameters. Steps
 * take the inputs in turn. OUT receives "losses" [steps, 5] and "counts" [steps, 3]: proposals, regions, those with an
 * object; EXPORT the weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "compute/graph/exec.h"
#include "compute/models/model.h"
#include "compute/ops/backend.h"
#include "scripts/bench/detection_input.h"
#include "scripts/bench/detection_model.h"
#include "scripts/bench/detector_floor.h"
#include "scripts/bench/peak_memory.h"
#include "train/weights/weights.h"

enum { MAX_INPUTS = 8, LOSSES = 5, MAX_LOSSES = 16, SEED = 1 };

enum { BODY, FPN, RPN, BOX_POOL, BOX_HEAD, MASK_POOL, MASK_HEAD, BOXES, MASKS, OPTIMIZER, REST, N_PARTS };
static const struct {
    const char *name, *prefix;
} parts[N_PARTS] = {{"trunk", "backbone.body."},
                    {"pyramid", "backbone.fpn."},
                    {"proposal head", "rpn."},
                    {"box RoIAlign", "roi_heads.box_roi_pool"},
                    {"box head", "roi_heads.box_"},
                    {"mask RoIAlign", "roi_heads.mask_roi_pool"},
                    {"mask head", "roi_heads.mask_"},
                    {"boxes", NULL},
                    {"mask targets", NULL},
                    {"optimizer", NULL},
                    {"rest", NULL}};

typedef struct input {
    float *pixels, *proposals;
    detection_objects_t objects;
    train_image_input_t image;
} input_t;

typedef struct training {
    graph_t *graph;
    algorithms_t algorithms;
    exec_t *exec;
    train_image_t *train;
    float *params, *grads, *states, *velocity;
    int n_inputs, n_steps;
    input_t inputs[MAX_INPUTS];
    int64_t sample[2];
    double sgd[3];
    float tally[2 * MAX_LOSSES];
    float *losses, *counts;                     /* [n_steps, LOSSES], [n_steps, 3] */
    double best[N_PARTS], products, total, cpu; /* cpu: of a step */
} training_t;

/* Layers of no part are losses of the two heads. */
static int part_of(const char *layer)
{
    for (int i = 0; i < BOXES; i++)
        if (strncmp(layer, parts[i].prefix, strlen(parts[i].prefix)) == 0) return i;
    return strncmp(layer, "mask.", 5) == 0 ? MASK_HEAD : BOX_HEAD;
}

static err_t read_numbers(const arrays_t *file, const char *name, int n, double *out)
{
    shape_t shape;
    float *values = NULL;
    err_t err = detection_read(file, name, &shape, &values);
    if (err == ERR_OK && shape_count(shape) != n) err = ERR_DATA;
    for (int i = 0; i < n && err == ERR_OK; i++) out[i] = (double)values[i];
    mem_free(&values);
    return err;
}

static err_t read_input(training_t *t, const char *path)
{
    input_t *in = &t->inputs[t->n_inputs++];
    arrays_t *file = NULL;
    shape_t image, proposals;
    map_size_t size;
    double sample[2];
    err_t err;
    TRY(arrays_open(path, &file));
    TRY_OUT(err, detection_read(file, "image", &image, &in->pixels));
    TRY_OUT(err, detection_read_size(file, &size));
    TRY_OUT(err, detection_objects_read(file, size, &in->objects));
    TRY_OUT(err, read_numbers(file, "sample", 2, sample));
    TRY_OUT(err, read_numbers(file, "sgd", 3, t->sgd));
    t->sample[0] = (int64_t)sample[0], t->sample[1] = (int64_t)sample[1];
    in->image = detection_input(&in->objects, (map_size_t){image.dim[0], image.dim[1]}, size);
    in->image.pixels = in->pixels;
    if (!arrays_has(file, "proposals")) goto out;
    TRY_OUT(err, detection_read(file, "proposals", &proposals, &in->proposals));
    in->image.given = (const box_t *)in->proposals;
    in->image.n_given = proposals.dim[0];
out:
    arrays_close(&file);
    return err;
}

static err_t build(training_t *t, char *model, const char *weights, bool rule)
{
    const map_size_t canvas = t->inputs[0].image.canvas;
    model_options_t options = {
        .sample = shape_3d(canvas.height, canvas.width, 3),
        .freeze = "backbone.body.conv1,backbone.body.bn1,backbone.body.layer1",
    };
    const batch_size_t size = {1, true, NULL};
    weights_report_t report;
    TRY(detection_model_build(model, &options, &t->graph));
    const graph_t *g = t->graph;
    TRY(mem_new_array(g->n_flat_params, sizeof(float), "weights", &t->params));
    TRY(mem_new_array(g->n_flat_trained, sizeof(float), "gradients", &t->grads));
    TRY(mem_new_array(g->n_flat_trained, sizeof(float), "momentum", &t->velocity));
    TRY(mem_new_array(g->n_flat_states, sizeof(float), "running values", &t->states));
    TRY(weights_import(weights, "torchvision", g, t->params, t->states, &report));
    if (report.reinitialized[0]) RAISE(ERR_DATA, "%s: %s", weights, report.reinitialized);
    if (rule) TRY(rcnn_algorithms(g, &backend_cpu, &size, 1, &t->algorithms));
    const exec_options_t exec = {.graph = g,
                                 .backend = &backend_cpu,
                                 .params = t->params,
                                 .grads = t->grads,
                                 .states = t->states,
                                 .algorithms = &t->algorithms};
    TRY(exec_new(&exec, &t->exec));
    TRY(exec_prepare(t->exec, 1, true));
    return exec_ready(t->exec);
}

static err_t open_training(training_t *t)
{
    const map_size_t canvas = t->inputs[0].image.canvas;
    train_image_options_t options = {.graph = t->graph,
                                     .backend = &backend_cpu,
                                     .exec = t->exec,
                                     .canvases = &canvas,
                                     .n_canvases = 1,
                                     .max_images = 1,
                                     .max_objects = DETECTION_MAX_OBJECTS,
                                     .proposals = proposals_training,
                                     .targets = targets_training};
    options.targets.anchors = t->sample[0];
    options.targets.regions = t->sample[1];
    if (t->sample[1] * options.targets.object_regions > RCNN_MASK_MAX)
        options.targets.object_regions = (double)RCNN_MASK_MAX / (double)t->sample[1];
    TRY(mem_new_array(t->n_steps * LOSSES, sizeof *t->losses, "losses", &t->losses));
    TRY(mem_new_array(t->n_steps * 3, sizeof *t->counts, "counts", &t->counts));
    for (int i = 0; i < N_PARTS; i++) t->best[i] = INFINITY;
    t->products = t->total = t->cpu = INFINITY;
    return train_image_new(&options, &t->train);
}

static err_t update(training_t *t)
{
    return backend_cpu.optim[OPTIM_SGD](&(optim_args_t){.weight = t->params,
                                                        .gradient = t->grads,
                                                        .state = {t->velocity},
                                                        .n = t->graph->n_flat_trained,
                                                        .lr = t->sgd[0],
                                                        .momentum = t->sgd[1],
                                                        .weight_decay = t->sgd[2],
                                                        .gradient_scale = 1});
}

/* The five of torchvision, in its order: levels are added up. */
static void keep_losses(training_t *t, int step)
{
    static const char *const names[LOSSES] = {".objectness_loss", ".box_loss", "box.class_loss",
                                              "box.box_loss", "mask.loss"};
    float *out = t->losses + step * LOSSES;
    for (int n = 0, loss = 0; n < t->graph->n_nodes; n++) {
        if (graph_count_losses(t->graph, n + 1) == loss) continue;
        const char *name = t->graph->nodes[n].name;
        const bool rpn = strncmp(name, "rpn.", 4) == 0;
        for (int i = rpn ? 0 : 2; i < (rpn ? 2 : LOSSES); i++)
            if (strstr(name, names[i])) out[i] += t->tally[2 * loss];
        loss++;
    }
}

/* Times of a step, of which the layers' are counted. */
static void keep_times(training_t *t, const train_image_counts_t *counts, double total, double optimizer)
{
    const graph_t *g = exec_graph(t->exec);
    const exec_cost_t *cost = exec_costs(t->exec);
    double sec[N_PARTS] = {0}, products = 0;
    for (int n = 0; n < g->n_nodes; n++) {
        const double one = cost[n].forward_sec + cost[n].backward_sec;
        sec[part_of(g->nodes[n].name)] += one;
        if (op_macs(&g->nodes[n].desc) > 0) products += one;
    }
    sec[BOXES] = counts->boxes_sec, sec[MASKS] = counts->masks_sec, sec[OPTIMIZER] = optimizer;
    sec[REST] = total;
    for (int i = 0; i < REST; i++) sec[REST] -= sec[i];
    for (int i = 0; i < N_PARTS; i++) t->best[i] = fmin(t->best[i], sec[i]);
    t->products = fmin(t->products, products);
    t->total = fmin(t->total, total);
}

static err_t run_step(training_t *t, int step)
{
    const exec_batch_t batch = {.loss_scale = 1, .tally = t->tally, .step = (uint64_t)step};
    input_t *in = &t->inputs[step % t->n_inputs];
    train_image_counts_t counts;
    memset(t->tally, 0, sizeof t->tally);
    in->image.draw = (targets_draw_t){SEED, (uint32_t)step, (uint32_t)(step % t->n_inputs)};
    exec_clear_costs(t->exec);
    const clock_t cpu = clock();
    const double start = clock_sec();
    TRY(train_image_run(t->train, &batch, &in->image, 1, &counts));
    const double middle = clock_sec();
    TRY(update(t));
    const double end = clock_sec();
    keep_times(t, &counts, end - start, end - middle);
    t->cpu = fmin(t->cpu, (double)(clock() - cpu) / CLOCKS_PER_SEC);
    keep_losses(t, step);
    const float n_of[] = {(float)counts.n_proposals, (float)counts.n_regions, (float)counts.n_positives};
    memcpy(t->counts + 3 * step, n_of, sizeof n_of);
    return ERR_OK;
}

static void print_losses(const training_t *t)
{
    for (int step = 0; step < t->n_steps; step++) {
        const float *l = t->losses + step * LOSSES, *n = t->counts + step * 3;
        printf("step %d: losses %.6f %.6f %.6f %.6f %.6f; %g proposals, %g regions, %g with an object\n",
               step, (double)l[0], (double)l[1], (double)l[2], (double)l[3], (double)l[4], (double)n[0],
               (double)n[1], (double)n[2]);
    }
}

static void print_times(const training_t *t)
{
    for (int i = 0; i < N_PARTS; i++) printf("%-16s %8.3f s\n", parts[i].name, t->best[i]);
    printf("%-16s %8.3f s\n%-16s %8.3f s\n%-16s %8.3f s\n", "products", t->products, "all", t->total,
           "CPU time", t->cpu);
    printf("%-16s %8ld KiB\n%-16s %8zu KiB\n%-16s %8zu KiB\n", "peak memory", peak_kib(), "arena",
           exec_arena_bytes(t->exec) >> 10, "least arena", exec_floor_bytes(t->exec) >> 10);
}

/* Of the last step, by part. */
static err_t print_floors(const training_t *t)
{
    const graph_t *g = exec_graph(t->exec);
    const float *counts = t->counts + 3 * (t->n_steps - 1);
    double sec[N_PARTS] = {0}, flop[N_PARTS] = {0};
    floor_rates_t rates;
    TRY(floor_measure(&backend_cpu, &rates));
    for (int n = 0; n < g->n_nodes; n++) {
        const graph_node_t *node = &g->nodes[n];
        const exec_cost_t *cost = &exec_costs(t->exec)[n];
        const int part = part_of(node->name);
        const bool masks = part == MASK_POOL || part == MASK_HEAD;
        const double rows = node->section == 0 ? 1 : (double)counts[masks ? 2 : 1];
        sec[part] += floor_of_layer(g, node, cost, rows, &rates);
        flop[part] += 2 * (cost->forward_macs + cost->backward_macs);
    }
    /* Reads weights, gradients and velocity, writes weights and velocity. */
    sec[OPTIMIZER] = 20 * (double)t->graph->n_flat_trained / rates.bytes;
    for (int i = 0; i < REST; i++)
        printf("floor %-16s %8.3f s\nwork %-16s %8.1f GFLOP\n", parts[i].name, sec[i], parts[i].name,
               1e-9 * flop[i]);
    printf("%-16s %8.1f GFLOP/s\n%-16s %8.1f GB/s\n", "matrix product", 1e-9 * rates.flops, "copy",
           1e-9 * rates.bytes);
    return ERR_OK;
}

/* Of the last step. */
static void print_layers(const training_t *t)
{
    const graph_t *g = exec_graph(t->exec);
    for (int n = 0; n < g->n_nodes; n++) {
        const op_algorithms_t *a = exec_algorithms(t->exec, 1, true, n);
        const exec_cost_t *c = &exec_costs(t->exec)[n];
        printf("  %-52s %8.1f ms %5.0f GFLOP/s %8.1f ms %5.0f GFLOP/s %s %s %s\n", g->nodes[n].name,
               1e3 * c->forward_sec, c->forward_sec > 0 ? 2e-9 * c->forward_macs / c->forward_sec : 0,
               1e3 * c->backward_sec, c->backward_sec > 0 ? 2e-9 * c->backward_macs / c->backward_sec : 0,
               a ? a->name[0] : "", a ? a->name[1] : "", a ? a->name[2] : "");
    }
}

static err_t write_results(const training_t *t, const char *out, const char *weights)
{
    const array_entry_t entries[] = {{"losses", shape_2d(t->n_steps, LOSSES), t->losses},
                                     {"counts", shape_2d(t->n_steps, 3), t->counts}};
    TRY(arrays_write(out, entries, 2, NULL));
    return weights_export(weights, "torchvision", t->graph, t->params, t->states);
}

static err_t run(training_t *t, char **argv, int argc)
{
    for (int i = 8; i < argc && t->n_inputs < MAX_INPUTS; i++) TRY(read_input(t, argv[i]));
    TRY(build(t, argv[1], argv[2], strcmp(argv[3], "rule") == 0));
    TRY(open_training(t));
    for (int step = 0; step < t->n_steps; step++) TRY(run_step(t, step));
    print_losses(t);
    print_times(t);
    TRY(print_floors(t));
    if (strcmp(argv[6], "layers") == 0)
        print_layers(t);
    else if (strcmp(argv[6], "-") != 0)
        return write_results(t, argv[6], argv[7]);
    return ERR_OK;
}

static void close_training(training_t *t)
{
    train_image_free(&t->train);
    exec_free(&t->exec);
    algorithms_free(&t->algorithms);
    graph_free(&t->graph);
    for (int i = 0; i < t->n_inputs; i++) {
        mem_free(&t->inputs[i].pixels);
        mem_free(&t->inputs[i].proposals);
        detection_objects_free(&t->inputs[i].objects);
    }
    mem_free(&t->params);
    mem_free(&t->grads);
    mem_free(&t->velocity);
    mem_free(&t->states);
    mem_free(&t->losses);
    mem_free(&t->counts);
}

static const char usage[] =
    "usage: detector_train MODEL WEIGHTS.npz default|rule THREADS STEPS OUT.npz|-|layers EXPORT.npz|- IN.npz...\n"
    "MODEL: a detector's name, with \":bf16\" for products of bfloat16\n";

int main(int argc, char **argv)
{
    training_t t = {0};
    if (argc < 9) {
        fputs(usage, stderr);
        return ERR_USAGE;
    }
    t.n_steps = atoi(argv[5]);
    err_t err = backend_open(&backend_cpu, atoi(argv[4]));
    if (err == ERR_OK) err = run(&t, argv, argc);
    if (err != ERR_OK) fprintf(stderr, "detector_train: %s\n", err_message());
    close_training(&t);
    if (backend_cpu.close) backend_cpu.close();
    return (int)err;
}
