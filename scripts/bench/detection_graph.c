/* SPDX-License-Identifier: MIT */
/* Runs a detector on the inputs of an .npz for scripts/bench/peers/detection_parity.py: detection_graph MODEL
 * WEIGHTS.npz IN.npz OUT.npz EXPORT.npz [rule].
 *
 * IN has the graph's inputs by name, of one image, and "size" [2], the part of the canvas that it fills. OUT gets all
 * outputs, the maps of the pyramid as fpn.0 to fpn.4, and proposals [n, 4] and detections [n, 6] (box, score, class)
 * from the program's own outputs; EXPORT the weights. With labels, OUT gets the losses, EXPORT the gradients; the same
 * with "objects.boxes" [n, 4], "objects.labels" [n] and "objects.masks" [n, height, width], from which targets are made
 * of all anchors and regions. rule: with the algorithms of rcnn_algorithms instead of the backend's defaults. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "compute/graph/exec.h"
#include "compute/models/model.h"
#include "compute/models/rcnn.h"
#include "compute/ops/backend.h"
#include "scripts/bench/detection_input.h"
#include "train/detect/postprocess.h"
#include "train/weights/weights.h"

enum { MAX_OUTPUTS = 64, N_THREADS = 2 };

typedef struct run {
    graph_t *graph;
    algorithms_t algorithms;
    exec_t *exec;
    bool rule, training, objects; /* objects: from which train_image makes all targets */
    float tally[2 * MAX_OUTPUTS];
    float *params, *grads, *states; /* grads: as many as params */
    void *input[GRAPH_MAX_INPUTS];  /* NULL: not in the file */
    int64_t rows[GRAPH_MAX_SECTIONS];
    array_entry_t out[MAX_OUTPUTS];
    float *data[MAX_OUTPUTS];
    int n_out;
} run_t;

static err_t add_output(run_t *r, const char *name, shape_t shape, const float *values)
{
    const int64_t n = shape_count(shape);
    ASSERT(r->n_out < MAX_OUTPUTS);
    float **data = &r->data[r->n_out];
    TRY(mem_new_array(n > 0 ? n : 1, sizeof **data, "an output", data));
    if (n > 0) memcpy(*data, values, (size_t)n * sizeof **data);
    r->out[r->n_out++] = (array_entry_t){name, shape, *data};
    return ERR_OK;
}

/* The model with the maps of the pyramid among its outputs. */
static err_t build(const char *name, const model_options_t *options, graph_t **out)
{
    static const char *const maps[RCNN_LEVELS][2] = {
        {"backbone.fpn.layer_blocks.0.0", "fpn.0"}, {"backbone.fpn.layer_blocks.1.0", "fpn.1"},
        {"backbone.fpn.layer_blocks.2.0", "fpn.2"}, {"backbone.fpn.layer_blocks.3.0", "fpn.3"},
        {"backbone.fpn.pool.4", "fpn.4"},
    };
    const model_t *model;
    TRY(model_find(name, &model));
    if (!model->detects) RAISE(ERR_USAGE, "%s does not detect", name);
    TRY(graph_new(name, out));
    graph_input(*out, "image", options->sample, DTYPE_F32);
    (*out)->norm = GRAPH_NORM_FROZEN;
    model_add_layers(model, *out, options);
    for (int i = 0; i < RCNN_LEVELS; i++)
        for (int n = 0; n < (*out)->n_nodes; n++)
            if (strcmp((*out)->nodes[n].name, maps[i][0]) == 0)
                graph_output(*out, maps[i][1], (*out)->nodes[n].output[0]);
    return graph_finish(*out);
}

/* Reads an input of the graph, as whole blocks of its section. */
static err_t read_input(run_t *r, const arrays_t *file, int i)
{
    const graph_port_t *port = &r->graph->inputs[i];
    const graph_value_t *value = &r->graph->values[port->value];
    const graph_section_t *section = &r->graph->sections[value->section];
    array_info_t array;
    if (!arrays_has(file, port->name)) return ERR_OK;
    TRY(arrays_describe(file, port->name, &array));
    const int64_t n = shape_count(array.shape), each = shape_count(value->shape);
    const int64_t rows = value->section == 0 ? 1 : n / each;
    const int64_t block = value->section == 0 ? 1 : section->block;
    const int64_t n_all = (rows + block - 1) / block * block * each;
    if (n != rows * each) RAISE(ERR_DATA, "%s has %lld values", port->name, (long long)n);
    TRY(mem_new_array(n_all + 1, sizeof(float), port->name, &r->input[i]));
    TRY(arrays_read(file, port->name, &array, r->input[i]));
    r->rows[value->section] = rows;
    float *values = r->input[i];
    int32_t *labels = r->input[i];
    if (value->dtype == DTYPE_I32)
        for (int64_t k = 0; k < n; k++) labels[k] = (int32_t)values[k];
    return ERR_OK;
}

static err_t open_run(run_t *r, const char *model, const char *weights, const arrays_t *file)
{
    array_info_t image;
    weights_report_t report;
    model_options_t options = {.sample = shape_3d(RCNN_STRIDE, RCNN_STRIDE, 3), .n_classes = 2};
    TRY(arrays_describe(file, "image", &image));
    TRY(build(model, &options, &r->graph));
    TRY(weights_count_classes(weights, "torchvision", r->graph, &options.n_classes));
    graph_free(&r->graph);
    options.sample = shape_3d(image.shape.dim[0], image.shape.dim[1], 3);
    TRY(build(model, &options, &r->graph));
    const graph_t *g = r->graph;
    TRY(mem_new_array(g->n_flat_params, sizeof *r->params, "weights", &r->params));
    TRY(mem_new_array(g->n_flat_params, sizeof *r->grads, "gradients", &r->grads));
    TRY(mem_new_array(g->n_flat_states, sizeof *r->states, "running statistics", &r->states));
    TRY(weights_import(weights, "torchvision", g, r->params, r->states, &report));
    if (report.reinitialized[0]) RAISE(ERR_DATA, "%s: %s", weights, report.reinitialized);
    for (int i = 0; i < g->n_inputs; i++) TRY(read_input(r, file, i));
    r->objects = arrays_has(file, "objects.boxes");
    r->training = r->objects || r->input[graph_find_input(g, "rpn.0.label")];
    shape_t shapes[GRAPH_MAX_INPUTS];
    rcnn_shapes(g, image.shape.dim[0], image.shape.dim[1], shapes);
    if (r->rule)
        TRY(rcnn_algorithms(g, &backend_cpu, &(batch_size_t){1, r->training, shapes}, 1, &r->algorithms));
    exec_options_t exec = {.graph = g,
                           .backend = &backend_cpu,
                           .algorithms = r->rule ? &r->algorithms : NULL,
                           .params = r->params,
                           .grads = r->training ? r->grads : NULL,
                           .states = r->states};
    TRY(exec_new(&exec, &r->exec));
    TRY(exec_prepare(r->exec, 1, r->training));
    return exec_ready(r->exec);
}

static err_t keep_outputs(run_t *r)
{
    exec_results_t results;
    TRY(exec_results(r->exec, &results));
    for (int i = 0; i < r->graph->n_outputs; i++) {
        const graph_port_t *port = &r->graph->outputs[i];
        const graph_value_t *value = &r->graph->values[port->value];
        shape_t shape = value->shape;
        if (value->section > 0) shape.dim[0] = r->rows[value->section];
        if (results.output[i] && shape.dim[0] > 0) TRY(add_output(r, port->name, shape, results.output[i]));
    }
    return ERR_OK;
}

static err_t keep_losses(run_t *r)
{
    for (int n = 0; n < r->graph->n_nodes; n++)
        if (graph_count_losses(r->graph, n + 1) > graph_count_losses(r->graph, n))
            TRY(add_output(r, r->graph->nodes[n].name, shape_1d(1),
                           &r->tally[2 * graph_count_losses(r->graph, n)]));
    return ERR_OK;
}

static exec_batch_t batch_of(run_t *r, int64_t n)
{
    exec_batch_t batch = {.n = n, .loss_scale = 1, .tally = r->training ? r->tally : NULL};
    for (int i = 0; i < r->graph->n_inputs; i++) batch.input[i] = r->input[i];
    return batch;
}

static err_t run_sections(run_t *r)
{
    exec_batch_t images = batch_of(r, 1);
    TRY(exec_forward(r->exec, &images, r->training));
    for (int s = 1; s < r->graph->n_sections; s++) {
        exec_batch_t rows = batch_of(r, r->rows[s]);
        if (r->rows[s] > 0) TRY(exec_rows(r->exec, s, &rows));
    }
    return r->training ? exec_backward(r->exec, &images, NULL, NULL) : keep_outputs(r);
}

static const float *result(const exec_results_t *results, const graph_t *g, const char *name)
{
    return results->output[graph_find_output(g, name)];
}

/* Proposals and detections from the outputs of the last forward. */
static err_t detect(run_t *r, map_size_t canvas, map_size_t image)
{
    const graph_t *g = r->graph;
    proposals_level_t levels[RCNN_LEVELS];
    exec_results_t results;
    proposals_t proposals = {.keys = NULL};
    detections_t detections = {.keys = NULL};
    box_t *boxes = NULL;
    float *regions = NULL, (*found)[6] = NULL;
    found_t *best = NULL;
    err_t err;
    detections_options_t options = {0};
    opt_group_t group = {"", detections_option_table, n_detections_options, &options, 0};
    TRY(exec_results(r->exec, &results));
    for (int l = 0; l < RCNN_LEVELS; l++) {
        char name[2][GRAPH_NAME_MAX];
        snprintf(name[0], sizeof name[0], "rpn.%d.logits", l);
        snprintf(name[1], sizeof name[1], "rpn.%d.deltas", l);
        rcnn_cells(canvas.height, canvas.width, l, &levels[l].height, &levels[l].width);
        levels[l].logits = result(&results, g, name[0]);
        levels[l].deltas = result(&results, g, name[1]);
    }
    TRY_OUT(err, opt_defaults(&group, 1));
    TRY_OUT(err, proposals_new(&proposals_evaluation, levels[0].height * levels[0].width, &proposals));
    TRY_OUT(err, detections_new(&options, model_classes(g), proposals_evaluation.after, &detections));
    TRY_OUT(err, mem_new_array(proposals_evaluation.after, sizeof *boxes, "proposals", &boxes));
    TRY_OUT(err, mem_new_array(RCNN_BOX_MAX * ROI_ALIGN_VALUES, sizeof *regions, "regions", &regions));
    TRY_OUT(err, mem_new_array(options.detections, sizeof *best, "detections", &best));
    TRY_OUT(err, mem_new_array(options.detections, sizeof *found, "detections", &found));
    const int64_t n = proposals_find(&proposals, levels, canvas, image, boxes);
    TRY_OUT(err, add_output(r, "proposals", shape_2d(n, 4), &boxes[0].x1));
    for (int64_t i = 0; i < n; i++) memcpy(regions + i * ROI_ALIGN_VALUES + 1, &boxes[i], sizeof boxes[i]);
    exec_batch_t rows = batch_of(r, n);
    rows.input[graph_find_input(g, "box.regions")] = regions;
    TRY_OUT(err, exec_rows(r->exec, 1, &rows));
    TRY_OUT(err, exec_results(r->exec, &results));
    detections_input_t input = {n, boxes, result(&results, g, "box.logits"),
                                result(&results, g, "box.deltas"), image};
    const int64_t n_found = detections_find(&detections, &input, best);
    for (int64_t i = 0; i < n_found; i++) {
        memcpy(found[i], &best[i].box, sizeof best[i].box);
        found[i][4] = best[i].score, found[i][5] = (float)best[i].class;
    }
    TRY_OUT(err, add_output(r, "detections", shape_2d(n_found, 6), found[0]));
out:
    mem_free(&found);
    mem_free(&best);
    mem_free(&regions);
    mem_free(&boxes);
    detections_free(&detections);
    proposals_free(&proposals);
    return err;
}

enum { MAX_POSITIVES = 128 };

/* Samples are larger than the candidates, so that nothing is drawn. */
static err_t train_objects(run_t *r, const arrays_t *file, map_size_t canvas, map_size_t size)
{
    targets_options_t targets = targets_training;
    targets.anchors = (int64_t)1 << 30, targets.regions = RCNN_BOX_MAX;
    targets.object_regions = (double)MAX_POSITIVES / RCNN_BOX_MAX;
    const train_image_options_t options = {.graph = r->graph,
                                           .backend = &backend_cpu,
                                           .exec = r->exec,
                                           .canvases = &canvas,
                                           .n_canvases = 1,
                                           .max_images = 1,
                                           .max_objects = DETECTION_MAX_OBJECTS,
                                           .proposals = proposals_training,
                                           .targets = targets};
    const exec_batch_t batch = {.loss_scale = 1, .tally = r->tally};
    detection_objects_t objects = {.n = 0};
    train_image_t *train = NULL;
    train_image_counts_t counts;
    err_t err;
    TRY_OUT(err, detection_objects_read(file, size, &objects));
    TRY_OUT(err, train_image_new(&options, &train));
    train_image_input_t input = detection_input(&objects, canvas, size);
    input.pixels = r->input[0];
    TRY_OUT(err, train_image_run(train, &batch, &input, 1, &counts));
    const float n_of[] = {(float)counts.n_proposals, (float)counts.n_regions, (float)counts.n_positives};
    err = add_output(r, "counts", shape_1d(3), n_of);
out:
    train_image_free(&train);
    detection_objects_free(&objects);
    return err;
}

static err_t run_all(run_t *r, char **argv)
{
    arrays_t *file = NULL;
    map_size_t size = {0, 0};
    err_t err;
    TRY(arrays_open(argv[3], &file));
    TRY_OUT(err, open_run(r, argv[1], argv[2], file));
    TRY_OUT(err, detection_read_size(file, &size));
    const shape_t image = graph_shape(r->graph, 0);
    const map_size_t canvas = {image.dim[1], image.dim[2]};
    TRY_OUT(err, r->objects ? train_objects(r, file, canvas, size) : run_sections(r));
    TRY_OUT(err, r->training ? keep_losses(r) : detect(r, canvas, size));
    TRY_OUT(err, arrays_write(argv[4], r->out, r->n_out, NULL));
    err = weights_export(argv[5], "torchvision", r->graph, r->training ? r->grads : r->params, r->states);
out:
    arrays_close(&file);
    return err;
}

static void close_run(run_t *r)
{
    for (int i = 0; i < MAX_OUTPUTS; i++) mem_free(&r->data[i]);
    for (int i = 0; i < GRAPH_MAX_INPUTS; i++) mem_free(&r->input[i]);
    exec_free(&r->exec);
    algorithms_free(&r->algorithms);
    graph_free(&r->graph);
    mem_free(&r->params);
    mem_free(&r->grads);
    mem_free(&r->states);
}

int main(int argc, char **argv)
{
    run_t r = {.rule = argc == 7 && strcmp(argv[6], "rule") == 0};
    if (argc != 6 && !r.rule) {
        log_error("usage: detection_graph MODEL WEIGHTS.npz IN.npz OUT.npz EXPORT.npz [rule]");
        return ERR_USAGE;
    }
    err_t err = backend_open(&backend_cpu, N_THREADS);
    if (err == ERR_OK) err = run_all(&r, argv);
    if (err != ERR_OK) log_error("%s", err_message());
    close_run(&r);
    if (backend_cpu.close) backend_cpu.close();
    return (int)err;
}
