/* SPDX-License-Identifier: MIT */
/* The table of a detector's training options, and what follows from them. */
#include "train/detect/train_options.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define FIELD(name) offsetof(detect_train_options_t, name)
const opt_t detect_train_option_table[] = {
    {"trainable-layers", OPT_INT, FIELD(trainable_layers), NULL, 1, 5, NULL, "N",
     "train the last N of the trunk's stem and four stages [3 with --weights, otherwise 5, which is all]",
     OPT_MORE},
    {"norm", OPT_CHOICE, FIELD(norm), "auto", 0, 0, model_norms, NULL,
     "batch norm with constants, batch norm of each micro-batch, or group norm of each image; auto: with --weights frozen "
     "or the file's, otherwise group",
     OPT_MORE},
    {"norm-eps", OPT_REAL, FIELD(norm_epsilon), "1e-5", 0, 1, NULL, "X",
     "epsilon of norms; 0 for torchvision's COCO_V1 weights", OPT_MORE},
    {"keep-empty", OPT_FLAG, FIELD(keep_empty), "false", 0, 0, NULL, NULL,
     "also train on images without objects, as background", OPT_MORE},
    {"skip-unmasked", OPT_FLAG, FIELD(skip_unmasked), "false", 0, 0, NULL, NULL,
     "leave out objects without a segmentation: neither targets nor background, nor scored", OPT_MORE},
    {"rpn-batch", OPT_INT, FIELD(rpn_batch), "256", 2, 4096, NULL, "N",
     "anchors sampled per image, at most half of them objects", OPT_MORE},
    {"rpn-topk", OPT_INT, FIELD(rpn_topk), "2000", 1, 16384, NULL, "N",
     "proposals per level before suppression, and per image after it", OPT_MORE},
    {"box-batch", OPT_INT, FIELD(box_batch), "512", 4, 512, NULL, "N",
     "regions sampled per image, at most a quarter of them objects", OPT_MORE},
    {"mask-block", OPT_INT, FIELD(mask_block), "16", 4, RCNN_MASK_MAX, NULL, "N",
     "regions that the mask head computes at a time, a multiple of 4; more need more memory", OPT_MORE},
    {"micro-batch", OPT_INT, FIELD(micro_batch), NULL, 1, DETECT_MAX_MICRO_BATCH, NULL, "N",
     "images of one canvas that trunk and proposals are computed for at a time; more need more memory [1; on a GPU "
     "the rank's batch]",
     OPT_MORE},
};
const int n_detect_train_options = sizeof detect_train_option_table / sizeof detect_train_option_table[0];

err_t detect_train_transform(const detect_train_options_t *o, transform_settings_t *settings)
{
    settings->keep_empty = o->keep_empty;
    settings->skip_unmasked = o->skip_unmasked;
    return canvases_new(&o->canvas, &settings->canvases);
}

err_t detect_train_freeze(const detect_train_options_t *o, bool has_weights, const char *freeze, char **out)
{
    /* From the image on: torchvision's resnet_fpn_backbone counts the stem as a layer. */
    static const char *const layers[] = {"conv1,backbone.body.bn1", "layer1", "layer2", "layer3"};
    enum { N_LAYERS = sizeof layers / sizeof *layers, TEXT = 256 };
    const int64_t trained = o->trainable_layers ? o->trainable_layers : has_weights ? 3 : N_LAYERS + 1;
    char text[TEXT] = "";
    size_t n = 0;
    for (int64_t i = 0; i < N_LAYERS + 1 - trained; i++)
        n += (size_t)snprintf(text + n, TEXT - n, "%sbackbone.body.%s", i ? "," : "", layers[i]);
    *out = NULL;
    if (!freeze && !n) return ERR_OK;
    if (!freeze || !n) return mem_strdup(freeze ? freeze : text, out);
    const size_t n_bytes = n + strlen(freeze) + 2;
    TRY(mem_new(n_bytes, "frozen layers", out));
    snprintf(*out, n_bytes, "%s,%s", text, freeze);
    return ERR_OK;
}

int64_t detect_train_box_block(const detect_train_options_t *o)
{
    enum { STEP = 64 };
    return (o->box_batch + STEP - 1) / STEP * STEP;
}

targets_options_t detect_train_targets(const detect_train_options_t *o)
{
    targets_options_t targets = targets_training;
    targets.anchors = o->rpn_batch;
    targets.regions = o->box_batch;
    return targets;
}

proposals_options_t detect_train_proposals(const detect_train_options_t *o)
{
    proposals_options_t proposals = proposals_training;
    proposals.before = proposals.after = o->rpn_topk;
    return proposals;
}
