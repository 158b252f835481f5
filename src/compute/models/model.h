/* SPDX-License-Identifier: MIT */
/* Models by name. One file per architecture; the table is in registry.c. */
#ifndef COMPUTE_MODELS_MODEL_H
#define COMPUTE_MODELS_MODEL_H

#include "compute/graph/graph.h"

/* For --norm: "auto", "frozen", "batch", "group"; NULL-terminated. model_norm finds the value of one of them. */
extern const char *const model_norms[];
graph_norm_t model_norm(const char *name);

/* The first layers of a ResNet:
 *
 *   MODEL_STEM_IMAGENET  a 7×7 convolution and max pooling, with strides of 2, as published
 *   MODEL_STEM_SMALL     one 3×3 convolution at full resolution, usual for CIFAR; more would leave too few pixels
 *   MODEL_STEM_AUTO      small for images of up to MODEL_SMALL_SIDE pixels (shorter side) */
typedef enum model_stem { MODEL_STEM_AUTO, MODEL_STEM_IMAGENET, MODEL_STEM_SMALL } model_stem_t;
enum { MODEL_SMALL_SIDE = 64 };

/* For --stem: "auto", "imagenet", "small"; NULL-terminated. model_stem finds the value of one of them. */
extern const char *const model_stems[];
model_stem_t model_stem(const char *name);

/* Whose detector computes the same, where they differ (rcnn.h). */
typedef enum model_heads {
    MODEL_HEADS_TORCHVISION,
    MODEL_HEADS_TENSORPACK,
    MODEL_HEADS_DETECTRON2
} model_heads_t;

/* For checkpoints and tables of names: "torchvision", "tensorpack", "detectron2"; NULL-terminated. */
extern const char *const model_heads[];

typedef struct model_options {
    shape_t sample; /* [height, width, channels]; of a detector, its canvas */
    int n_classes;  /* of a detector, the background included */
    double label_smoothing;
    int64_t norm_group; /* batch_norm_attr_t.group of every batch norm */
    graph_norm_t norm;
    const double *norm_epsilon; /* of every norm; NULL: 1e-5 */
    dtype_t compute;            /* op_desc_t.compute of every convolution and linear layer */
    const char *freeze;         /* graph_t.freeze */
    int64_t box_block;          /* rows of the box head computed at a time; 0: 512 */
    int64_t mask_block;         /* the same of the mask head; 0: 16 */
    model_stem_t stem;          /* of residual models */
    model_heads_t heads;        /* of detectors */
    bool stride_1x1; /* of detectors: bottlenecks have their stride in the first convolution, as MSRA's */
    bool zero_init_residual; /* γ of each block's last norm begins at 0, instead of 1: of residual models */
    bool multi_label; /* samples have any number of classes: OP_SIGMOID_BCE instead of OP_SOFTMAX_XENT */
} model_options_t;

typedef struct resnet resnet_t; /* builders.h */

typedef struct model {
    const char *name;
    const char *summary; /* one line for help texts */
    /* As model_add_layers. NULL: the network is `net`. */
    void (*build)(graph_t *graph, const model_options_t *options);
    const resnet_t *net; /* of a ResNet, or a detector's trunk */
    bool detects;        /* a detector (rcnn.h); all others are classifiers */
    bool masks;          /* of a detector */
} model_t;

/* Whether a model is a residual classifier, which has model_options_t.stem and zero_init_residual. */
static inline bool model_is_residual(const model_t *model)
{
    return model->net && !model->detects;
}

/* All models; the last entry has a NULL name. */
extern const model_t models[];

/* A model by name. ERR_USAGE for an unknown name (the nearest is suggested). */
err_t model_find(const char *name, const model_t **out);
/* Whether a name is a detector's; false for unknown ones, and NULL. */
bool model_detects(const char *name);

/* ERR_USAGE unless the model is residual, for an option that such models alone have: "stem". */
err_t model_check_residual(const char *name, const char *option);
/* The stem that was built; MODEL_STEM_AUTO: the model has no choice of one. */
model_stem_t model_stem_of(const graph_t *graph);
/* "3×3, stride 1, no pooling" */
const char *model_stem_about(model_stem_t stem);

/* Types of products by name, for --precision and checkpoints: "fp32", "tf32", "bf16"; the list is
 * NULL-terminated. model_compute returns false for an unknown name. */
extern const char *const model_precisions[];
bool model_compute(const char *precision, dtype_t *out);
const char *model_precision(dtype_t compute);

/* A network as its weights show it, as far as model_options_t leaves it open.
 *
 *   stem  of a ResNet; MODEL_STEM_AUTO: not known
 *
 * Of a detector:
 *
 *   norm        GRAPH_NORM_GROUP, where norms have no running statistics; a checkpoint's own; or GRAPH_NORM_DEFAULT
 *   heads       of a file, the name table's
 *   stride_1x1  of a file with MSRA's norms, which Detectron2 folds into γ and β: the first has means of 0 and variances of
 *               1 - 1e-5
 *   n_outputs   of the classifier, with the background; 0: not known */
typedef struct model_form {
    model_stem_t stem;
    graph_norm_t norm;
    model_heads_t heads;
    bool stride_1x1;
    int n_outputs;
} model_form_t;

/* Adds all layers and the loss to a graph that has the image. */
void model_add_layers(const model_t *model, graph_t *graph, const model_options_t *options);

/* Builds a model. ERR_USAGE for an unknown name, an input that does not fit, label smoothing with multi_label, or
 * either with a detector. */
err_t model_build(const char *name, const model_options_t *options, graph_t **out);

/* Options that build the same layers again, for inference: without what is frozen, groups of batch norm, smoothing of labels
 * and zeroed residuals. norm_epsilon is borrowed from the graph. */
model_options_t model_options_of(const graph_t *graph);

/* For builders: adds the loss and the names that all models have.
 *
 *   inputs   "image", value 0; "label", an int32 per sample, or with multi_label "target", a float32 in [0, 1]
 *            per class
 *   outputs  "loss": softmax cross-entropy, or sigmoid binary cross-entropy; "logits"; without multi_label
 *            "prediction" */
void model_add_loss(graph_t *graph, const model_options_t *options, int logits);

/* Parameters of a layer, without those that it shares with an earlier one, and without γ and β of frozen norms,
 * which are constants: torchvision counts in the same way. */
int64_t model_layer_parameters(const graph_t *graph, int node);

/* Number of classes (of a detector with the background), and whether samples may have several, of a model or any graph with these names. */
int model_classes(const graph_t *graph);
bool model_multi_label(const graph_t *graph);

#endif
