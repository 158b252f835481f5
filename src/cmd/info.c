/* SPDX-License-Identifier: MIT */
/* `dptrain info`: build, libraries, devices and backends of this host, or the layers of a model and the parts of a detector, or
 * what a training step of it moves. Runs without MPI. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "base/version.h"
#include "cluster/hosts/topo.h"
#include "cmd/cmd.h"
#include "compute/graph/graph.h"
#include "compute/models/model.h"
#include "compute/models/rcnn.h"
#include "compute/ops/backend.h"
#include "data/transform/canvas.h"
#include "store/h5/file.h"
#include "text/table.h"
#include "train/start/train.h"

/* Of torchvision's inference: the most regions and detections of an image. */
enum { N_REGIONS = 1000, N_DETECTIONS = 100 };

typedef struct totals {
    int64_t n_params, n_macs, n_bytes;
} totals_t;

static void add_numbers(table_t *table, totals_t t)
{
    table_cell(table, "%lld", (long long)t.n_params);
    table_cell(table, "%lld", (long long)t.n_macs);
    table_cell(table, "%lld", (long long)t.n_bytes);
}

/* Layers with parameters, multiply-adds and activations.
 *
 *   n  samples of the batch whose activations are counted */
static err_t print_layers(const graph_t *g, int64_t n_samples)
{
    totals_t all = {0};
    table_t table = {
        .columns =
            {{"layer", true}, {"operator", true}, {"output", true}, {"parameters"}, {"MACs"}, {"bytes"}},
        .n_columns = 6};
    for (int n = 0; n < g->n_nodes; n++) {
        const graph_node_t *node = &g->nodes[n];
        const shape_t y = node->desc.y[0];
        const totals_t one = {model_layer_parameters(g, n), op_macs(&node->desc),
                              n_samples * shape_count(y) * (int64_t)dtype_size(node->desc.dtype)};
        /* Without the batch dimension; a loss has one number a sample. */
        shape_t sample = {y.n_dims - 1, {0}};
        for (int i = 1; i < y.n_dims; i++) sample.dim[i - 1] = y.dim[i];
        table_cell(&table, "%s", node->name);
        table_cell(&table, "%s", op_traits(node->desc.kind)->name);
        table_cell(&table, "%s", shape_format(sample).text);
        add_numbers(&table, one);
        all.n_params += one.n_params, all.n_macs += one.n_macs, all.n_bytes += one.n_bytes;
    }
    if (!rcnn_is(g)) {
        table_cell(&table, "total");
        table_cell(&table, "%s", "");
        table_cell(&table, "%s", "");
        add_numbers(&table, all);
    }
    err_t err = table_print(&table, stdout);
    table_free(&table);
    TRY(err);
    const char *rows = rcnn_is(g) ? ", in roi_heads of one region" : "";
    print_out("\nMACs: multiply-adds of one sample's forward pass%s; backward takes about twice as many.\n"
              "bytes: activations of %lld sample%s%s before layers share memory.\n",
              rows, (long long)n_samples, n_samples == 1 ? "" : "s", rows);
    return ERR_OK;
}

/* How often a part's layers run for an image. */
static int64_t times_of(int part)
{
    return part == RCNN_BOX ? N_REGIONS : part == RCNN_MASK ? N_DETECTIONS : 1;
}

static void add_part(table_t *table, const char *name, const char *per, totals_t t)
{
    table_cell(table, "%s", name);
    table_cell(table, "%s", per);
    table_cell(table, "%lld", (long long)t.n_params);
    table_cell(table, "%.3f", (double)t.n_macs * 1e-9);
}

/* Parameters and multiply-adds of a detector, by part. */
static err_t print_parts(const graph_t *g)
{
    totals_t part[RCNN_PARTS] = {{0}}, all = {0};
    table_t table = {.columns = {{"part", true}, {"of", true}, {"parameters"}, {"GMACs"}}, .n_columns = 4};
    for (int n = 0; n < g->n_nodes; n++) {
        totals_t *t = &part[rcnn_part(&g->nodes[n])];
        t->n_params += model_layer_parameters(g, n);
        t->n_macs += op_macs(&g->nodes[n].desc);
    }
    for (int i = 0; i < (rcnn_has_masks(g) ? RCNN_PARTS : RCNN_MASK); i++) {
        char per[32] = "the image";
        if (times_of(i) > 1)
            snprintf(per, sizeof per, "%d %s", (int)times_of(i), i == RCNN_BOX ? "regions" : "detections");
        part[i].n_macs *= times_of(i);
        add_part(&table, rcnn_part_names[i], per, part[i]);
        all.n_params += part[i].n_params, all.n_macs += part[i].n_macs;
    }
    add_part(&table, "total", "", all);
    print_out("\n");
    err_t err = table_print(&table, stdout);
    table_free(&table);
    TRY(err);
    print_out("\nparameters: without the constants of frozen norms.\n"
              "GMACs: billions of multiply-adds of the forward pass of one image.\n");
    return ERR_OK;
}

static const char usage[] =
    "usage: dptrain info [--model NAME [options]]\n"
    "\n"
    "Shows build, libraries, devices and models, or the layers of one model, or with\n"
    "--bytes what a training step of it moves on a GPU.\n";

enum { N_GROUPS = 2, DETECTOR_CLASSES = 91 };

static const map_size_t usual_image = {.height = 480, .width = 640};

typedef struct info_options {
    const char *model;
    const char *device, *precision, *algorithms, *norm, *stem;
    int64_t batch, workspace, input_size, height, width, channels, classes;
    bool multi_label, bytes;
    canvas_options_t canvas;
    const opt_group_t *groups;
} info_options_t;

#define FIELD(name) offsetof(info_options_t, name)
static const opt_t info_table[] = {
    {"model", OPT_STRING, FIELD(model), NULL, 0, 0, NULL, "NAME", "model whose layers to show", OPT_COMMON},
    {"batch", OPT_INT, FIELD(batch), "64", 1, 1 << 24, NULL, "N",
     "batch size, in samples, for which to show activation bytes", OPT_COMMON},
    {"input-size", OPT_INT, FIELD(input_size), "0", 0, 1 << 16, NULL, "N",
     "shorthand for --height N --width N --channels 3; 0: not used", OPT_COMMON},
    {"height", OPT_INT, FIELD(height), "28", 1, 1 << 16, NULL, "N", "image height, in pixels", OPT_COMMON},
    {"width", OPT_INT, FIELD(width), "28", 1, 1 << 16, NULL, "N", "image width, in pixels", OPT_COMMON},
    {"channels", OPT_INT, FIELD(channels), "1", 1, 1 << 16, NULL, "N", "image channels", OPT_COMMON},
    {"classes", OPT_INT, FIELD(classes), "10", 1, 1 << 24, NULL, "N",
     "number of classes; of a detector with the background, by default 91", OPT_COMMON},
    {"multi-label", OPT_FLAG, FIELD(multi_label), "false", 0, 0, NULL, NULL,
     "classifier for any number of classes per image", OPT_COMMON},
    {"stem", OPT_CHOICE, FIELD(stem), "auto", 0, 0, model_stems, NULL,
     "of ResNets: first layers, as in train", OPT_COMMON},
    {"bytes", OPT_FLAG, FIELD(bytes), "false", 0, 0, NULL, NULL,
     "instead of layers, show launches and bytes moved by the kernels of a training step; needs no GPU",
     OPT_COMMON},
    {"device", OPT_STRING, FIELD(device), "cuda", 0, 0, NULL, "NAME", "with --bytes: whose kernels; cuda",
     OPT_COMMON},
    {"precision", OPT_CHOICE, FIELD(precision), "fp32", 0, 0, model_precisions, NULL,
     "with --bytes: as in training", OPT_COMMON},
    {"algorithms", OPT_STRING, FIELD(algorithms), "fixed", 0, 0, NULL, "fixed|NAME",
     "with --bytes: by a rule on the shape, or NAME, such as cudnn, in each pass that has this algorithm",
     OPT_COMMON},
    {"workspace", OPT_SIZE, FIELD(workspace), "1G", 1 << 20, 1e12, NULL, "SIZE",
     "with --bytes: as in training", OPT_COMMON},
    {"norm", OPT_CHOICE, FIELD(norm), "auto", 0, 0, model_norms, NULL,
     "batch norm; auto: frozen in detectors, batch elsewhere", OPT_COMMON},
};

static err_t print_build(void)
{
    struct utsname os;
    char hdf5[32];
    h5_version(hdf5, sizeof hdf5);
    const backend_t *backend;
    char why[BACKEND_WHY_MAX];
    table_t build = {.columns = {{NULL, true}, {NULL, true}}, .n_columns = 2}, parts = build;
    err_t err;
    uname(&os);
    table_cell(&build, "dptrain");
    table_cell(&build, "%s (%s)", version_number, version_git_hash);
    table_cell(&build, "built by");
    table_cell(&build, "%s, %s", version_compiler, version_flags);
    table_cell(&build, "HDF5");
    table_cell(&build, "%s", hdf5);
    table_cell(&build, "system");
    table_cell(&build, "%s %s, %s, %d CPUs usable here", os.sysname, os.release, os.machine, topo_cpus());
    TRY_OUT(err, table_print(&build, stdout));
    print_out("\n");
    parts.indent = 2;
    table_section(&parts, "devices");
    for (int i = 1; backend_names[i]; i++) {
        char text[128] = "";
        bool found = backend_find(backend_names[i], &backend, why) == ERR_OK;
        if (found) backend->describe(text, sizeof text);
        table_cell(&parts, "%s", backend_names[i]);
        table_cell(&parts, "%s", found ? text : why);
    }
    TRY_OUT(err, backend_find("auto", &backend, why));
    table_cell(&parts, "auto");
    table_cell(&parts, "selects %s", backend->name);
    TRY_OUT(err, table_print(&parts, stdout));
    print_out("\n");
    table_section(&parts, "models (--model NAME shows the layers)");
    for (const model_t *model = models; model->name; model++) {
        table_cell(&parts, "%s", model->name);
        table_cell(&parts, "%s", model->summary);
    }
    err = table_print(&parts, stdout);
out:
    table_free(&build);
    table_free(&parts);
    return err;
}

static err_t build(const info_options_t *o, graph_t **out)
{
    model_options_t options = {.sample = shape_3d(o->height, o->width, o->channels),
                               .n_classes = (int)o->classes,
                               .norm = model_norm(o->norm),
                               .stem = model_stem(o->stem),
                               .multi_label = o->multi_label};
    bool known = model_compute(o->precision, &options.compute);
    ASSERT(known); /* the option's table lists model_precisions */
    return model_build(o->model, &options, out);
}

static void add_kernel(table_t *table, const kernel_bytes_t *k, const kernel_bytes_t *all)
{
    table_cell(table, "%s", k->name);
    table_cell(table, "%lld", (long long)k->n_launches);
    table_cell(table, "%.3f", (double)k->n_bytes / 1e9);
    table_cell(table, "%.1f", 100 * (double)k->n_bytes / (double)all->n_bytes);
}

static err_t print_bytes(const info_options_t *o)
{
    const char *algorithm = strcmp(o->algorithms, "fixed") ? o->algorithms : NULL;
    step_bytes_options_t options = {o->device, o->batch, o->workspace, algorithm};
    step_bytes_t bytes;
    kernel_bytes_t all = {"total", 0, 0};
    table_t table = {.columns = {{"kernel", true}, {"launches"}, {"GB"}, {"%"}}, .n_columns = 4};
    graph_t *g;
    TRY(build(o, &g));
    if (rcnn_is(g)) {
        graph_free(&g);
        RAISE(ERR_USAGE, "--bytes: %s has operators that no GPU computes yet", o->model);
    }
    err_t err = step_bytes_count(g, &options, &bytes);
    graph_free(&g);
    TRY(err);
    for (int i = 0; i < bytes.n; i++) {
        all.n_launches += bytes.kernels[i].n_launches;
        all.n_bytes += bytes.kernels[i].n_bytes;
    }
    for (int i = 0; i < bytes.n; i++) add_kernel(&table, &bytes.kernels[i], &all);
    add_kernel(&table, &all, &all);
    print_out("%s on %lld images of %s, %s on %s, algorithms %s, one training step\n\n", o->model,
              (long long)o->batch, shape_format(shape_3d(o->height, o->width, o->channels)).text,
              o->precision, o->device, o->algorithms);
    err = table_print(&table, stdout);
    table_free(&table);
    TRY(err);
    print_out(
        "\nGB: every array that a kernel reads or writes, once per launch; caches may save some of it.\n"
        "product: matrix products by the GPU's library.\n"
        "least: %.3f GB, %.1f %%, if each pass of a layer read and wrote each of its tensors once.\n",
        bytes.n_least_bytes / 1e9, 100 * bytes.n_least_bytes / (double)all.n_bytes);
    return ERR_OK;
}

static err_t print_model(const info_options_t *o)
{
    graph_t *g;
    TRY(build(o, &g));
    print_out("%s on images of %s\n\n", g->model,
              shape_format(shape_3d(o->height, o->width, o->channels)).text);
    err_t err = print_layers(g, o->batch);
    if (err == ERR_OK && rcnn_is(g)) err = print_parts(g);
    graph_free(&g);
    return err;
}

static bool given(const info_options_t *o, const char *key)
{
    return opt_given(o->groups, N_GROUPS, key);
}

/* A detector's input is the canvas of the commonest images, 4:3. */
static err_t settle_canvas(info_options_t *o)
{
    canvases_t canvases;
    canvas_place_t place;
    if (given(o, "input-size") || given(o, "channels") || given(o, "multi-label"))
        RAISE(ERR_USAGE, "%s is a detector: set --min-size and --max-size, or --height and --width",
              o->model);
    o->channels = 3;
    if (!given(o, "classes")) o->classes = DETECTOR_CLASSES;
    if (!given(o, "batch")) o->batch = 1;
    if (given(o, "height") || given(o, "width")) return ERR_OK;
    TRY(canvases_new(&o->canvas, &canvases));
    TRY(canvases_add(&canvases, usual_image, "an image of 640x480 pixels"));
    TRY(canvas_place(&canvases, usual_image, "an image of 640x480 pixels", &place));
    o->height = place.canvas.height, o->width = place.canvas.width;
    return ERR_OK;
}

/* Checks the options together; --input-size replaces --height, --width and the default of --channels. */
static err_t settle_options(info_options_t *o)
{
    const model_t *model = NULL;
    if (o->bytes && !o->model) RAISE(ERR_USAGE, "--bytes requires --model NAME");
    if (!o->bytes && given(o, "algorithms")) RAISE(ERR_USAGE, "--algorithms requires --bytes");
    if (o->model) TRY(model_find(o->model, &model));
    if (o->model && model_stem(o->stem) != MODEL_STEM_AUTO) TRY(model_check_residual(o->model, "stem"));
    if (model && model->detects) return settle_canvas(o);
    if (given(o, "min-size") || given(o, "max-size") || given(o, "canvas"))
        RAISE(ERR_USAGE, "--min-size, --max-size and --canvas are for detectors");
    if (!o->input_size) return ERR_OK;
    if (given(o, "height") || given(o, "width"))
        RAISE(ERR_USAGE, "--input-size sets height and width: omit --height and --width");
    o->height = o->width = o->input_size;
    if (!given(o, "channels")) o->channels = 3;
    return ERR_OK;
}

err_t cmd_info(const cmd_context_t *context)
{
    info_options_t options = {0};
    opt_group_t groups[N_GROUPS] = {
        {"Options", info_table, sizeof info_table / sizeof info_table[0], &options, 0},
        {"Canvas of a detector", canvas_option_table, n_canvas_options, &options.canvas, 0}};
    options.groups = groups;
    err_t err = opt_defaults(groups, N_GROUPS);
    for (const model_t *model = models; model->name; model++)
        cmd_tell_word(context, "model", model->name, model->summary);
    if (cmd_wants_help(context, usage, groups, N_GROUPS, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, N_GROUPS, context->argc, context->argv, NULL, 0, NULL);
    if (err == ERR_OK) err = settle_options(&options);
    if (err == ERR_OK && log_speaks() && !cmd_only_checks())
        err = !options.model ? print_build() : options.bytes ? print_bytes(&options) : print_model(&options);
    return cmd_fail(err);
}
