/* SPDX-License-Identifier: MIT */
/* The tables of `dptrain info --model`: layers, and the parts of a detector. */
#include <stdio.h>

#include "base/log.h"
#include "base/table.h"
#include "cmd/info.h"
#include "compute/models/model.h"
#include "compute/models/rcnn.h"

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

static totals_t add_layer(table_t *table, const graph_t *g, int n, int64_t n_samples)
{
    const graph_node_t *node = &g->nodes[n];
    const shape_t y = node->desc.y[0];
    const totals_t t = {model_layer_parameters(g, n), op_macs(&node->desc),
                        n_samples * shape_count(y) * (int64_t)dtype_size(node->desc.dtype)};
    /* Without the batch dimension; a loss has one number a sample. */
    shape_t sample = {y.n_dims - 1, {0}};
    for (int i = 1; i < y.n_dims; i++) sample.dim[i - 1] = y.dim[i];
    table_cell(table, "%s", node->name);
    table_cell(table, "%s", op_traits(node->desc.kind)->name);
    table_cell(table, "%s", shape_format(sample).text);
    add_numbers(table, t);
    return t;
}

err_t info_print_layers(const graph_t *g, int64_t n_samples)
{
    totals_t all = {0};
    table_t table = {
        .columns =
            {{"layer", true}, {"operator", true}, {"output", true}, {"parameters"}, {"MACs"}, {"bytes"}},
        .n_columns = 6};
    for (int n = 0; n < g->n_nodes; n++) {
        const totals_t one = add_layer(&table, g, n, n_samples);
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

err_t info_print_parts(const graph_t *g)
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
