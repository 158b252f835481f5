/* SPDX-License-Identifier: MIT */
/* `dptrain info`: build, libraries, devices and backends of this host, or the layers of a model, or what its
 * training step moves. Runs without MPI. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "base/table.h"
#include "base/version.h"
#include "cluster/comm/topo.h"
#include "cmd/cmd.h"
#include "compute/models/model.h"
#include "compute/ops/backend.h"
#include "store/h5/h5.h"
#include "train/run/step_bytes.h"

static const char usage[] =
    "usage: dptrain info [--model NAME [options]]\n"
    "\n"
    "Shows build, libraries, devices and models, or the layers of one model, or with\n"
    "--bytes what a training step of it moves on a GPU.\n";

typedef struct info_options {
    const char *model;
    const char *device, *precision;
    int64_t batch, workspace, input_size, height, width, channels, classes;
    bool multi_label, bytes;
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
    {"classes", OPT_INT, FIELD(classes), "10", 1, 1 << 24, NULL, "N", "number of classes", OPT_COMMON},
    {"multi-label", OPT_FLAG, FIELD(multi_label), "false", 0, 0, NULL, NULL,
     "classifier for any number of classes per image", OPT_COMMON},
    {"bytes", OPT_FLAG, FIELD(bytes), "false", 0, 0, NULL, NULL,
     "instead of layers, show launches and bytes moved by the kernels of a training step; needs no GPU",
     OPT_COMMON},
    {"device", OPT_STRING, FIELD(device), "cuda", 0, 0, NULL, "NAME", "with --bytes: whose kernels; cuda",
     OPT_COMMON},
    {"precision", OPT_CHOICE, FIELD(precision), "fp32", 0, 0, model_precisions, NULL,
     "with --bytes: as in training", OPT_COMMON},
    {"workspace", OPT_SIZE, FIELD(workspace), "1G", 1 << 20, 1e12, NULL, "SIZE",
     "with --bytes: as in training", OPT_COMMON},
};

static void add_devices(table_t *table)
{
    const backend_t *backend;
    char why[BACKEND_WHY_MAX];
    table_section(table, "devices");
    for (int i = 1; backend_names[i]; i++) {
        char text[128] = "";
        bool found = backend_find(backend_names[i], &backend, why) == ERR_OK;
        if (found) backend->describe(text, sizeof text);
        table_cell(table, "%s", backend_names[i]);
        table_cell(table, "%s", found ? text : why);
    }
}

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
    printf("\n");
    parts.indent = 2;
    add_devices(&parts);
    TRY_OUT(err, backend_find("auto", &backend, why));
    table_cell(&parts, "auto");
    table_cell(&parts, "selects %s", backend->name);
    TRY_OUT(err, table_print(&parts, stdout));
    printf("\n");
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

static void add_layer(table_t *table, const graph_node_t *node, int64_t n_bytes)
{
    int64_t n_params = 0;
    for (int i = 0; i < node->desc.n_params && !node->shared; i++)
        n_params += shape_count(node->desc.param[i]);
    shape_t y = node->desc.y[0];
    /* Without the batch dimension; the loss has one number a sample. */
    shape_t sample = {y.n_dims - 1, {0}};
    for (int i = 1; i < y.n_dims; i++) sample.dim[i - 1] = y.dim[i];
    table_cell(table, "%s", node->name);
    table_cell(table, "%s", op_traits(node->desc.kind)->name);
    table_cell(table, "%s", shape_format(sample).text);
    table_cell(table, "%lld", (long long)n_params);
    table_cell(table, "%lld", (long long)op_macs(&node->desc));
    table_cell(table, "%lld", (long long)n_bytes);
}

static err_t build(const info_options_t *o, graph_t **out)
{
    model_options_t options = {.sample = shape_3d(o->height, o->width, o->channels),
                               .n_classes = (int)o->classes,
                               .multi_label = o->multi_label};
    bool known = model_compute(o->precision, &options.compute);
    ASSERT(known); /* the option's table lists model_precisions */
    return model_build(o->model, &options, out);
}

static void add_kernel(table_t *table, const kernel_bytes_t *k)
{
    table_cell(table, "%s", k->name);
    table_cell(table, "%lld", (long long)k->n_launches);
    table_cell(table, "%.3f", (double)k->n_bytes / 1e9);
}

static err_t print_bytes(const info_options_t *o)
{
    step_bytes_options_t options = {o->device, o->batch, o->workspace};
    step_bytes_t bytes;
    kernel_bytes_t all = {"total", 0, 0};
    table_t table = {.columns = {{"kernel", true}, {"launches"}, {"GB"}}, .n_columns = 3};
    graph_t *g;
    TRY(build(o, &g));
    err_t err = step_bytes_count(g, &options, &bytes);
    graph_free(&g);
    TRY(err);
    for (int i = 0; i < bytes.n; i++) {
        add_kernel(&table, &bytes.kernels[i]);
        all.n_launches += bytes.kernels[i].n_launches;
        all.n_bytes += bytes.kernels[i].n_bytes;
    }
    add_kernel(&table, &all);
    printf("%s on %lld images of %s, %s on %s, one training step\n\n", o->model, (long long)o->batch,
           shape_format(shape_3d(o->height, o->width, o->channels)).text, o->precision, o->device);
    err = table_print(&table, stdout);
    table_free(&table);
    TRY(err);
    printf("\nGB: every array that a kernel reads or writes, once per launch; caches may save some of it.\n"
           "product: matrix products by the GPU's library.\n");
    return ERR_OK;
}

static err_t print_model(const info_options_t *o)
{
    graph_t *g;
    TRY(build(o, &g));
    int64_t n_macs = 0, n_bytes = 0;
    table_t table = {
        .columns =
            {{"layer", true}, {"operator", true}, {"output", true}, {"parameters"}, {"MACs"}, {"bytes"}},
        .n_columns = 6};
    printf("%s on images of %s\n\n", g->model, shape_format(shape_3d(o->height, o->width, o->channels)).text);
    for (int n = 0; n < g->n_nodes; n++) {
        const op_desc_t *desc = &g->nodes[n].desc;
        int64_t bytes = o->batch * shape_count(desc->y[0]) * (int64_t)dtype_size(desc->dtype);
        add_layer(&table, &g->nodes[n], bytes);
        n_macs += op_macs(desc);
        n_bytes += bytes;
    }
    table_cell(&table, "total");
    table_cell(&table, "%s", "");
    table_cell(&table, "%s", "");
    table_cell(&table, "%lld", (long long)g->n_parameters);
    table_cell(&table, "%lld", (long long)n_macs);
    table_cell(&table, "%lld", (long long)n_bytes);
    graph_free(&g);
    err_t err = table_print(&table, stdout);
    table_free(&table);
    TRY(err);
    printf("\nMACs: multiply-adds of one sample's forward pass; backward takes about twice as many.\n"
           "bytes: activations of %lld samples before layers share memory.\n",
           (long long)o->batch);
    return ERR_OK;
}

/* --input-size replaces --height, --width and the default of --channels. */
static err_t settle_size(const opt_group_t *group, info_options_t *o)
{
    if (!o->input_size) return ERR_OK;
    if (opt_given(group, 1, "height") || opt_given(group, 1, "width"))
        RAISE(ERR_USAGE, "--input-size sets height and width: omit --height and --width");
    o->height = o->width = o->input_size;
    if (!opt_given(group, 1, "channels")) o->channels = 3;
    return ERR_OK;
}

static err_t missing_model(void)
{
    RAISE(ERR_USAGE, "--bytes requires --model NAME");
}

err_t cmd_info(const cmd_context_t *context)
{
    info_options_t options = {0};
    opt_group_t group = {"Options", info_table, sizeof info_table / sizeof info_table[0], &options, 0};
    err_t err = opt_defaults(&group, 1);
    for (const model_t *model = models; model->name; model++)
        cmd_tell_word(context, "model", model->name, model->summary);
    if (cmd_wants_help(context, usage, &group, 1)) return ERR_OK;
    if (err == ERR_OK) err = opt_parse(&group, 1, context->argc, context->argv, NULL, 0, NULL);
    if (err == ERR_OK) err = settle_size(&group, &options);
    if (err == ERR_OK && options.bytes && !options.model) err = missing_model();
    if (err == ERR_OK && log_speaks())
        err = !options.model ? print_build() : options.bytes ? print_bytes(&options) : print_model(&options);
    return cmd_fail(err);
}
