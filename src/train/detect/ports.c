/* SPDX-License-Identifier: MIT */
/* Finds inputs and outputs by name, once. */
#include "train/detect/ports.h"

#include <stdio.h>

#include "base/mem.h"
#include "compute/models/rcnn.h"

detector_ports_t detector_ports(const graph_t *g)
{
    detector_ports_t p = {.image = graph_find_input(g, "image"),
                          .box_regions = graph_find_input(g, "box.regions"),
                          .mask_regions = graph_find_input(g, "mask.regions"),
                          .box_logits = graph_find_output(g, "box.logits"),
                          .box_deltas = graph_find_output(g, "box.deltas"),
                          .mask_logits = graph_find_output(g, "mask.logits")};
    for (int level = 0; level < PROPOSALS_LEVELS; level++) {
        char name[GRAPH_NAME_MAX];
        snprintf(name, sizeof name, "rpn.%d.logits", level);
        p.logits[level] = graph_find_output(g, name);
        snprintf(name, sizeof name, "rpn.%d.deltas", level);
        p.deltas[level] = graph_find_output(g, name);
    }
    return p;
}

int64_t detector_rows(const graph_t *g, int section, int64_t n)
{
    const int64_t block = g->sections[section].block;
    return (n + block - 1) / block * block;
}

void detector_levels(const detector_ports_t *ports, const exec_results_t *results, map_size_t canvas,
                     int64_t image, proposals_level_t levels[PROPOSALS_LEVELS])
{
    for (int i = 0; i < PROPOSALS_LEVELS; i++) {
        proposals_level_t *l = &levels[i];
        rcnn_cells(canvas.height, canvas.width, i, &l->height, &l->width);
        const int64_t first = image * l->height * l->width * PROPOSALS_PER_CELL;
        l->logits = (const float *)results->output[ports->logits[i]] + first;
        l->deltas = (const float *)results->output[ports->deltas[i]] + 4 * first;
    }
}

err_t detector_shapes(const graph_t *graph, const canvases_t *canvases, shape_t **out)
{
    TRY(mem_new_array(canvases->n * GRAPH_MAX_INPUTS, sizeof **out, "canvases", out));
    for (int i = 0; i < canvases->n; i++)
        rcnn_shapes(graph, canvases->size[i].height, canvases->size[i].width, *out + i * GRAPH_MAX_INPUTS);
    return ERR_OK;
}
