/* SPDX-License-Identifier: MIT */
/* Inputs and outputs of a detector's graph (compute/models/rcnn.h) by index. Not collective. */
#ifndef TRAIN_DETECT_PORTS_H
#define TRAIN_DETECT_PORTS_H

#include "compute/graph/exec.h"
#include "data/transform/canvas.h"
#include "train/detect/proposals.h"

/* The graph's sections of rows. */
enum { SECTION_BOX = 1, SECTION_MASK };

typedef struct detector_ports {
    int image, box_regions, mask_regions; /* inputs; of a model without masks -1 */
    int logits[PROPOSALS_LEVELS], deltas[PROPOSALS_LEVELS];
    int box_logits, box_deltas, mask_logits; /* outputs; of a model without masks -1 */
} detector_ports_t;

detector_ports_t detector_ports(const graph_t *graph);

/* n rows of a section, rounded up to whole blocks. */
int64_t detector_rows(const graph_t *graph, int section, int64_t n);

/* The shapes of all inputs on each canvas, for exec_prepare_shapes.
 *
 *   out  [canvases->n][GRAPH_MAX_INPUTS]; free it with mem_free */
err_t detector_shapes(const graph_t *graph, const canvases_t *canvases, shape_t **out);

/* The outputs of the proposal head for an image of the batch, by its index. */
void detector_levels(const detector_ports_t *ports, const exec_results_t *results, map_size_t canvas,
                     int64_t image, proposals_level_t levels[PROPOSALS_LEVELS]);

#endif
