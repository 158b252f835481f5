/* SPDX-License-Identifier: MIT */
/* The layer of model builders that reads regions from a feature pyramid. */
#include <string.h>

#include "compute/graph/layers.h"

int nn_roi_align(graph_t *graph, const char *name, const int *levels, int regions, roi_align_attr_t attr)
{
    op_desc_t desc = {.kind = OP_ROI_ALIGN, .n_inputs = ROI_ALIGN_LEVELS + 1, .attr.roi_align = attr};
    int inputs[ROI_ALIGN_LEVELS + 1];
    memcpy(inputs, levels, ROI_ALIGN_LEVELS * sizeof *levels);
    inputs[ROI_ALIGN_LEVELS] = regions;
    return graph_add(graph, name, desc, inputs, NULL, NULL);
}
