/* SPDX-License-Identifier: MIT */
/* Faster and Mask R-CNN with a feature pyramid: Ren et al., "Faster R-CNN", 2015; He et al., "Mask R-CNN", 2017. They
 * compute what torchvision 0.29's do, or with other weights TensorPack's (examples/FasterRCNN) or Detectron2's:
 *
 *                                  torchvision           TensorPack and Detectron2: "aligned"
 *   RoIAlign (roi_align_attr_t)    not aligned           aligned
 *     samples of a bin             2 × 2                 2 × 2; Detectron2 one for each cell
 *   corners of anchors             whole numbers         as computed
 *   cells are apart                canvas / cells,       4 to 64 pixels
 *                                  rounded down
 *   a region, an object has        0.001, 0.01 pixels    any width and height
 *   a mask is drawn                in whole pixels       from 0.5 on at the pixels' centres
 *   a resized image has            the pixels below      the nearest number of pixels
 *
 * Layers have the names of torchvision's state_dict. Proposals, detections and training targets are computed outside
 * of the graph.
 *
 * Section 0, of images in a canvas, whose height h and width w are multiples of RCNN_STRIDE; L = 0 … 4 for P2 to P6,
 * with rows × columns cells of three anchors each:
 *
 *   input   "image" [h, w, 3], normalized, 0 outside the image
 *   output  "rpn.L.logits" [rows, columns, 3]: objectness; "rpn.L.deltas" [rows, columns, 12]: four an anchor
 *
 *   input   "rpn.L.label" [rows, columns, 3] int32: 1: an object, 0: the background, -1: not sampled;
 *           "rpn.L.target" [rows, columns, 12]; "rpn.L.weight" [rows, columns, 3]
 *   losses  "rpn.L.objectness_loss": weight · binary cross-entropy of the labels; "rpn.L.box_loss": weight ·
 *           smooth L1 of objects' deltas
 *
 * Section "box", of regions:
 *
 *   input   "box.regions" [5]: index of the image, x1, y1, x2, y2 in pixels of the canvas
 *   output  "box.logits" [classes], 0 is the background; "box.deltas" [4 · classes], four for each class
 *
 *   input   "box.label" int32, -1: none; "box.target" [4]; "box.weight"
 *   losses  "box.class_loss": weight · softmax cross-entropy; "box.box_loss": weight · smooth L1 of the label's
 *           deltas, none of the background
 *
 * Section "mask" of models with masks:
 *
 *   input   "mask.regions" [5]
 *   output  "mask.logits" [28, 28, classes]
 *
 *   input   "mask.label" int32, -1: none; "mask.target" [28, 28]; "mask.weight"
 *   loss    "mask.loss": weight · Σ binary cross-entropy of the label's channel
 *
 * Weights make sums means: of an image's loss as torchvision computes it, they are 1 / sampled anchors, 1 / sampled
 * regions, and 1 / (28² · regions with a mask). Smooth L1 has β = 1/9. Without labels (NULL) an evaluation has no
 * losses. */
#ifndef COMPUTE_MODELS_RCNN_H
#define COMPUTE_MODELS_RCNN_H

#include "compute/graph/algorithms.h"
#include "compute/models/builders.h"
#include "compute/models/model.h"

enum {
    RCNN_STRIDE = 32,
    RCNN_LEVELS = 5,
    RCNN_ANCHORS = 3, /* of a cell */
    RCNN_BOX_MAX = 2048,
    RCNN_MASK_MAX = 128, /* rows of the sections */
    RCNN_MASK_SIDE = 28
};

/* The sizes of a model; registry.c's models differ in `net` and `masks` only. */
typedef struct rcnn_sizes {
    const resnet_t *net;
    bool masks;
    model_heads_t heads;
    bool stride_1x1;
    int n_classes;
    int64_t width;    /* resnet_trunk_t.width */
    int64_t channels; /* of the pyramid and the heads: 256 */
    int64_t hidden;   /* of the box head: 1024 */
    int64_t box_block, mask_block;
} rcnn_sizes_t;

/* Adds all layers to a graph that has the image. */
void rcnn_add(graph_t *graph, const rcnn_sizes_t *sizes);

/* Whether a graph is one of these models, and whether it has masks. */
bool rcnn_is(const graph_t *graph);
bool rcnn_has_masks(const graph_t *graph);

/* Whose heads, and whether they are aligned; torchvision's, of a model of another kind. */
model_heads_t rcnn_heads(const graph_t *graph);
bool rcnn_aligned(const graph_t *graph);
/* model_options_t's. */
bool rcnn_stride_1x1(const graph_t *graph);
/* For headers: what these mean. */
extern const char rcnn_about_aligned[], rcnn_about_stride_1x1[];

/* Rows of the box head and of the mask head that are computed at a time; of masks 0 without them. */
int64_t rcnn_box_block(const graph_t *graph);
int64_t rcnn_mask_block(const graph_t *graph);

/* Rows and columns of a level's cells on a canvas. */
void rcnn_cells(int64_t height, int64_t width, int level, int64_t *rows, int64_t *columns);

/* The parts of a model, by which figures are shown, and their names. */
typedef enum rcnn_part {
    RCNN_TRUNK,
    RCNN_PYRAMID,
    RCNN_PROPOSALS,
    RCNN_BOX,
    RCNN_MASK,
    RCNN_PARTS
} rcnn_part_t;
extern const char *const rcnn_part_names[RCNN_PARTS];
rcnn_part_t rcnn_part(const graph_node_t *layer);

/* The shapes of all inputs on another canvas, for exec_prepare_shapes and exec_batch_t.
 *
 *   shapes  [GRAPH_MAX_INPUTS] */
void rcnn_shapes(const graph_t *graph, int64_t height, int64_t width, shape_t *shapes);

/* Enters the algorithms with which these batches are fast, by a rule: the same for everyone, without measuring.
 *
 *   backend  open
 *   sizes    as for algorithms_measure */
err_t rcnn_algorithms(const graph_t *graph, const backend_t *backend, const batch_size_t *sizes, int n_sizes,
                      algorithms_t *out);

#endif
