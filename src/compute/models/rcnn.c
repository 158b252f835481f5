/* SPDX-License-Identifier: MIT */
/* Builds Faster and Mask R-CNN: the trunk (resnet.c), the feature pyramid, the head of the region proposals, shared by
 * all levels, and the heads of boxes and masks, with torchvision's initial values. Says what such a graph has, and with
 * which algorithms it is fast. */
#include "compute/models/rcnn.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "compute/graph/layers.h"
#include "compute/graph/plan.h"

enum { BOX_SIDE = 7, MASK_CONVS = 4, SAMPLES = 2 };

#define SMOOTH_L1_BETA (1.0 / 9)

static const char body_prefix[] = "backbone.body.", fpn_prefix[] = "backbone.fpn.";

typedef char rcnn_name_t[GRAPH_NAME_MAX];

static const char *pyramid_name(rcnn_name_t name, const char *part, int level, const char *end)
{
    int n = snprintf(name, GRAPH_NAME_MAX, "%s%s.%d%s", fpn_prefix, part, level, end);
    ASSERT(n < GRAPH_NAME_MAX);
    return name;
}

/* A feature pyramid over a trunk's stages, finest first: Lin et al., "Feature pyramid networks for object detection",
 * 2017. Lateral 1×1 convolutions, the top-down path, 3×3 convolutions, and above them every second cell of the coarsest
 * level.
 *
 *   channels  of every level
 *   out       [RCNN_LEVELS] P2 to P6 */
static void add_pyramid(graph_t *g, const int *stages, int64_t channels, int *out)
{
    rcnn_name_t name;
    const conv2d_layer_t lateral = {
        .channels = channels, .kernel = 1, .init = INIT_KAIMING_IN, .bias_init = INIT_ZERO};
    conv2d_layer_t smooth = lateral;
    smooth.kernel = 3, smooth.pad = 1;
    int inner = 0;
    for (int i = RESNET_STAGES - 1; i >= 0; i--) {
        int v = nn_conv2d(g, pyramid_name(name, "inner_blocks", i, ".0"), stages[i], lateral);
        if (i < RESNET_STAGES - 1) v = nn_upsample_add(g, pyramid_name(name, "top_down", i, ""), v, inner);
        inner = v;
        out[i] = nn_conv2d(g, pyramid_name(name, "layer_blocks", i, ".0"), inner, smooth);
    }
    pool2d_layer_t every_second = {.kernel = 1, .stride = 2};
    out[RESNET_STAGES] =
        nn_max_pool(g, pyramid_name(name, "pool", RESNET_STAGES, ""), out[RESNET_STAGES - 1], every_second);
}

/* "rpn.L.WHAT" */
static const char *level_name(rcnn_name_t name, int level, const char *what)
{
    int n = snprintf(name, GRAPH_NAME_MAX, "rpn.%d.%s", level, what);
    ASSERT(n < GRAPH_NAME_MAX);
    return name;
}

/* A convolution of the proposal head: level 0 has its parameters, the others share them. */
static int rpn_conv(graph_t *g, int level, const char *layer, int v, conv2d_layer_t conv)
{
    rcnn_name_t name, first;
    conv.init = INIT_SMALL, conv.bias_init = INIT_ZERO;
    snprintf(first, sizeof first, "rpn.head.%s", layer);
    if (level == 0) return nn_conv2d(g, first, v, conv);
    return graph_repeat(g, level_name(name, level, layer), first, &v);
}

static void rpn_losses(graph_t *g, int level, int logits, int deltas)
{
    rcnn_name_t name;
    const int64_t *cells = graph_shape(g, logits).dim;
    const shape_t anchors = shape_3d(cells[1], cells[2], RCNN_ANCHORS);
    const shape_t boxes = shape_3d(cells[1], cells[2], 4 * RCNN_ANCHORS);
    int labels = graph_input(g, level_name(name, level, "label"), anchors, DTYPE_I32);
    int targets = graph_input(g, level_name(name, level, "target"), boxes, DTYPE_F32);
    int weights = graph_input(g, level_name(name, level, "weight"), anchors, DTYPE_F32);
    nn_sigmoid_bce_at(g, level_name(name, level, "objectness_loss"),
                      (selected_layer_t){logits, labels, weights, -1});
    nn_smooth_l1(g, level_name(name, level, "box_loss"), (selected_layer_t){deltas, labels, weights, targets},
                 (smooth_l1_attr_t){SMOOTH_L1_BETA, 1});
}

static void rpn_head(graph_t *g, int level, int v, const rcnn_sizes_t *sizes)
{
    rcnn_name_t name;
    v = rpn_conv(g, level, "conv.0.0", v,
                 (conv2d_layer_t){.channels = sizes->channels, .kernel = 3, .pad = 1});
    v = nn_relu(g, level_name(name, level, "relu"), v);
    int logits = rpn_conv(g, level, "cls_logits", v, (conv2d_layer_t){.channels = RCNN_ANCHORS, .kernel = 1});
    int deltas =
        rpn_conv(g, level, "bbox_pred", v, (conv2d_layer_t){.channels = 4 * RCNN_ANCHORS, .kernel = 1});
    graph_output(g, level_name(name, level, "logits"), logits);
    graph_output(g, level_name(name, level, "deltas"), deltas);
    rpn_losses(g, level, logits, deltas);
}

static roi_align_attr_t pool_of(model_heads_t heads, int side)
{
    return (roi_align_attr_t){.height = side,
                              .width = side,
                              .samples = heads == MODEL_HEADS_DETECTRON2 ? 0 : SAMPLES,
                              .aligned = heads != MODEL_HEADS_TORCHVISION};
}

static void box_head(graph_t *g, const int *levels, const rcnn_sizes_t *sizes)
{
    graph_begin_rows(g, "box", sizes->box_block, RCNN_BOX_MAX);
    int regions = graph_input(g, "box.regions", shape_1d(ROI_ALIGN_VALUES), DTYPE_F32);
    int v = nn_roi_align(g, "roi_heads.box_roi_pool", levels, regions, pool_of(sizes->heads, BOX_SIDE));
    v = nn_linear(g, "roi_heads.box_head.fc6", v, sizes->hidden);
    v = nn_relu(g, "roi_heads.box_head.relu6", v);
    v = nn_linear(g, "roi_heads.box_head.fc7", v, sizes->hidden);
    v = nn_relu(g, "roi_heads.box_head.relu7", v);
    const int64_t n_classes = sizes->n_classes;
    int logits = nn_linear(g, "roi_heads.box_predictor.cls_score", v, n_classes);
    int deltas = nn_linear(g, "roi_heads.box_predictor.bbox_pred", v, 4 * n_classes);
    graph_output(g, "box.logits", logits);
    graph_output(g, "box.deltas", deltas);
    int labels = graph_input(g, "box.label", (shape_t){0}, DTYPE_I32);
    int targets = graph_input(g, "box.target", shape_1d(4), DTYPE_F32);
    int weights = graph_input(g, "box.weight", (shape_t){0}, DTYPE_F32);
    nn_softmax_xent_rows(g, "box.class_loss", logits, labels, weights);
    nn_smooth_l1(g, "box.box_loss", (selected_layer_t){deltas, labels, weights, targets},
                 (smooth_l1_attr_t){SMOOTH_L1_BETA, 1});
}

static void mask_head(graph_t *g, const int *levels, const rcnn_sizes_t *sizes)
{
    rcnn_name_t name;
    graph_begin_rows(g, "mask", sizes->mask_block, RCNN_MASK_MAX);
    int regions = graph_input(g, "mask.regions", shape_1d(ROI_ALIGN_VALUES), DTYPE_F32);
    int v = nn_roi_align(g, "roi_heads.mask_roi_pool", levels, regions,
                         pool_of(sizes->heads, RCNN_MASK_SIDE / 2));
    const conv2d_layer_t conv = {
        .channels = sizes->channels, .kernel = 3, .pad = 1, .init = INIT_KAIMING_OUT, .bias_init = INIT_ZERO};
    for (int i = 0; i < MASK_CONVS; i++) {
        snprintf(name, sizeof name, "roi_heads.mask_head.%d.0", i);
        v = nn_conv2d(g, name, v, conv);
        snprintf(name, sizeof name, "roi_heads.mask_head.%d.1", i);
        v = nn_relu(g, name, v);
    }
    v = nn_deconv2d(g, "roi_heads.mask_predictor.conv5_mask", v, sizes->channels, 2);
    v = nn_relu(g, "roi_heads.mask_predictor.relu", v);
    conv2d_layer_t logits = {.channels = sizes->n_classes, .kernel = 1, .init = INIT_KAIMING_OUT};
    v = nn_conv2d(g, "roi_heads.mask_predictor.mask_fcn_logits", v, logits);
    graph_output(g, "mask.logits", v);
    int labels = graph_input(g, "mask.label", (shape_t){0}, DTYPE_I32);
    int targets = graph_input(g, "mask.target", shape_2d(RCNN_MASK_SIDE, RCNN_MASK_SIDE), DTYPE_F32);
    int weights = graph_input(g, "mask.weight", (shape_t){0}, DTYPE_F32);
    nn_sigmoid_bce_at(g, "mask.loss", (selected_layer_t){v, labels, weights, targets});
}

void rcnn_add(graph_t *g, const rcnn_sizes_t *sizes)
{
    const resnet_trunk_t trunk = {
        .net = sizes->net, .width = sizes->width, .prefix = body_prefix, .stride_1x1 = sizes->stride_1x1};
    int stages[RESNET_STAGES], levels[RCNN_LEVELS];
    resnet_add_trunk(g, &trunk, stages);
    add_pyramid(g, stages, sizes->channels, levels);
    for (int level = 0; level < RCNN_LEVELS; level++) rpn_head(g, level, levels[level], sizes);
    box_head(g, levels, sizes);
    if (sizes->masks) mask_head(g, levels, sizes);
}

void build_rcnn(graph_t *g, const model_options_t *options, const resnet_t *net, bool masks)
{
    rcnn_add(g, &(rcnn_sizes_t){.net = net,
                                .masks = masks,
                                .heads = options->heads,
                                .stride_1x1 = options->stride_1x1,
                                .n_classes = options->n_classes,
                                .width = RESNET_WIDTH,
                                .channels = 256,
                                .hidden = 1024,
                                .box_block = options->box_block ? options->box_block : 512,
                                .mask_block = options->mask_block ? options->mask_block : 16});
}

bool rcnn_is(const graph_t *g)
{
    return graph_find_input(g, "box.regions") >= 0;
}

bool rcnn_has_masks(const graph_t *g)
{
    return graph_find_input(g, "mask.regions") >= 0;
}

model_heads_t rcnn_heads(const graph_t *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const roi_align_attr_t *pool = &g->nodes[i].desc.attr.roi_align;
        if (g->nodes[i].desc.kind != OP_ROI_ALIGN || !pool->aligned) continue;
        return pool->samples ? MODEL_HEADS_TENSORPACK : MODEL_HEADS_DETECTRON2;
    }
    return MODEL_HEADS_TORCHVISION;
}

bool rcnn_aligned(const graph_t *g)
{
    return rcnn_heads(g) != MODEL_HEADS_TORCHVISION;
}

const char rcnn_about_aligned[] = "RoIAlign is aligned, anchors are not rounded",
           rcnn_about_stride_1x1[] = "MSRA's: strides are in the 1×1 convolutions";

bool rcnn_stride_1x1(const graph_t *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const conv2d_attr_t *conv = &g->nodes[i].desc.attr.conv2d;
        if (strcmp(g->nodes[i].name, "backbone.body.layer2.0.conv1") == 0)
            return conv->kernel_h == 1 && conv->stride_h == 2;
    }
    return false;
}

int64_t rcnn_box_block(const graph_t *g)
{
    return g->sections[1].block;
}

int64_t rcnn_mask_block(const graph_t *g)
{
    return rcnn_has_masks(g) ? g->sections[2].block : 0;
}

void rcnn_cells(int64_t height, int64_t width, int level, int64_t *rows, int64_t *columns)
{
    const int64_t stride = (int64_t)4 << level;
    *rows = (height + stride - 1) / stride;
    *columns = (width + stride - 1) / stride;
}

const char *const rcnn_part_names[RCNN_PARTS] = {"trunk", "pyramid", "proposals", "boxes", "masks"};

rcnn_part_t rcnn_part(const graph_node_t *layer)
{
    if (layer->section > 0) return layer->section == 1 ? RCNN_BOX : RCNN_MASK;
    if (strncmp(layer->name, body_prefix, strlen(body_prefix)) == 0) return RCNN_TRUNK;
    return strncmp(layer->name, fpn_prefix, strlen(fpn_prefix)) == 0 ? RCNN_PYRAMID : RCNN_PROPOSALS;
}

void rcnn_shapes(const graph_t *g, int64_t height, int64_t width, shape_t *shapes)
{
    for (int i = 0; i < g->n_inputs; i++) {
        const char *name = g->inputs[i].name; /* such as "rpn.0.label", of level 0 */
        const int level = strncmp(name, "rpn.", 4) == 0 ? name[4] - '0' : -1;
        shape_t *shape = &shapes[i];
        *shape = graph_shape(g, g->inputs[i].value);
        if (level >= 0)
            rcnn_cells(height, width, level, &shape->dim[1], &shape->dim[2]);
        else if (i == 0)
            shape->dim[1] = height, shape->dim[2] = width;
    }
}

/* Convolution algorithms are chosen by a rule: measuring them for every canvas would take minutes, and results would
 * depend on what was measured. The fastest for these layers on AVX-512: of Winograd's algorithms the first, where the map
 * fills its tiles; of the others the second for gradients, most of all for those of weights with a stride. Winograd's
 * gradients are as exact as the others' (results/detection_parity.md). A GPU's own rule is left as it is. */
static const char winograd[] = "winograd/nhwc", product[] = "gemm";
enum { LEAST_CELLS = 256 };

/* Of one image, so that the algorithms do not depend on the micro-batch; of regions of a block. */
static bool is_large(const op_desc_t *desc, int64_t n_images)
{
    const shape_t y = desc->y[0];
    return y.dim[0] / n_images * y.dim[1] * y.dim[2] >= LEAST_CELLS;
}

static bool lists(const char *const *names, int n, const char *name)
{
    bool found = false;
    for (int i = 0; i < n; i++) found = found || strcmp(names[i], name) == 0;
    return found;
}

static err_t choose(const backend_t *backend, const op_desc_t *desc, int64_t n_images, bool training,
                    algorithms_t *out)
{
    const char *names[OP_MAX_ALGORITHMS];
    const bool convolves = desc->kind == OP_CONV2D && desc->compute == DTYPE_F32 && !backend->device;
    for (int pass = 0; pass < (training ? OP_PASS_COUNT : 1) && convolves; pass++) {
        int n = op_list_algorithms(backend, desc, (op_pass_t)pass, training, names, OP_MAX_ALGORITHMS);
        if (is_large(desc, n_images) && lists(names, n, winograd))
            TRY(algorithms_set(out, desc, (op_pass_t)pass, winograd));
        else if (pass != OP_FORWARD && lists(names, n, product))
            TRY(algorithms_set(out, desc, (op_pass_t)pass, product));
    }
    return ERR_OK;
}

err_t rcnn_algorithms(const graph_t *graph, const backend_t *backend, const batch_size_t *sizes, int n_sizes,
                      algorithms_t *out)
{
    graph_t *fused = NULL;
    op_desc_t *descs = NULL;
    err_t err;
    TRY_OUT(err, graph_fuse(graph, backend, &fused));
    TRY_OUT(err, mem_new_array(fused->n_nodes, sizeof *descs, "algorithms", &descs));
    for (int i = 0; i < n_sizes; i++) {
        TRY_OUT(err, graph_infer(fused, sizes[i].n, sizes[i].shapes, descs));
        for (int n = 0; n < fused->n_nodes; n++)
            TRY_OUT(err, choose(backend, &descs[n], fused->nodes[n].section == 0 ? sizes[i].n : 1,
                                sizes[i].training, out));
    }
out:
    mem_free(&descs);
    graph_free(&fused);
    return err;
}
