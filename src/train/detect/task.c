/* SPDX-License-Identifier: MIT */
/* The task detect: objects with boxes, classes and masks. Its steps are left to train_images.c, its evaluation to
 * evaluate.c. */
#include "train/task/task.h"
#include "compute/models/rcnn.h"

/* The losses have torchvision's names. */
#define LOSS(field, shown, sum) .name = field, .label = shown, .training = sum, .training_only = true
#define AP(field, shown)                                                                                     \
    .name = field, .label = shown, .unit = METRIC_FRACTION, .higher_is_better = true,                        \
    .training = TASK_SUM_NONE
#define JUDGES .is_main = true, .steers_plateau = true

static const task_metric_t metrics[] = {
    {LOSS("loss", "loss", TASK_SUM_LOSS)},
    {.name = "recall",
     .label = "proposal recall",
     .brief = "recall",
     .unit = METRIC_FRACTION,
     .higher_is_better = true,
     .training = TASK_SUM_FOUND,
     .per_object = true,
     .training_only = true},
    {LOSS("loss_objectness", "objectness", TASK_SUM_OBJECTNESS)},
    {LOSS("loss_rpn_box_reg", "proposal box", TASK_SUM_PROPOSAL_BOX)},
    {LOSS("loss_classifier", "class", TASK_SUM_CLASS)},
    {LOSS("loss_box_reg", "box", TASK_SUM_BOX)},
    {LOSS("loss_mask", "mask", TASK_SUM_MASK), .of_masks = true},
    {LOSS("positives", "positives", TASK_SUM_POSITIVES), .is_neutral = true, .is_detail = true},
    {AP("ap_box", "box AP"), JUDGES},
    {AP("ap50_box", "box AP50")},
    {AP("ap75_box", "box AP75"), .is_detail = true},
    {AP("ap_small_box", "box AP small"), .is_detail = true},
    {AP("ap_medium_box", "box AP medium"), .is_detail = true},
    {AP("ap_large_box", "box AP large"), .is_detail = true},
    {AP("ap_mask", "mask AP"), JUDGES, .of_masks = true},
    {AP("ap50_mask", "mask AP50"), .of_masks = true},
    {AP("ap75_mask", "mask AP75"), .of_masks = true, .is_detail = true},
    {AP("ap_small_mask", "mask AP small"), .of_masks = true, .is_detail = true},
    {AP("ap_medium_mask", "mask AP medium"), .of_masks = true, .is_detail = true},
    {AP("ap_large_mask", "mask AP large"), .of_masks = true, .is_detail = true},
    {.name = NULL},
};

static void set_model(model_options_t *options)
{
    options->multi_label = false;
}

const task_t task_detect = {.name = "detect",
                            .id = TASK_DETECT,
                            .about = "objects with boxes and masks",
                            .metrics = metrics,
                            .defaults = {16, 0.02, 1000, 0.001}, /* torchvision's references */
                            .set_model = set_model,
                            .fits = rcnn_is};
