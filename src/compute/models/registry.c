/* SPDX-License-Identifier: MIT */
/* The models by name, and building one with its options. To add a model: a builder and a row here. */
#include <stdio.h>
#include <string.h>

#include "compute/models/builders.h"
#include "compute/models/rcnn.h"
#include "text/opt.h"

const model_t models[] = {
    {.name = "lenet5",
     .summary = "LeNet-5 as Caffe has it: conv 20x5x5, pool, conv 50x5x5, pool, fc 500, fc 10",
     .build = build_lenet5},
    {.name = "mnist-cnn",
     .summary = "conv 32x3x3, conv 64x3x3, pool, fc 128, fc 10, with dropout",
     .build = build_mnist_cnn},
    {.name = "mnist-cnn-bn",
     .summary = "mnist-cnn with batch norm before each ReLU",
     .build = build_mnist_cnn_bn},
    {.name = "mlp", .summary = "two hidden layers: fc 256, fc 128", .build = build_mlp},
    {.name = "vgg16",
     .summary = "VGG-16, configuration D: 13 conv 3x3, 3 fc with dropout",
     .build = build_vgg16},
    {.name = "resnet18",
     .summary = "ResNet-18: 8 blocks of two conv 3x3; a small stem for images up to 64 pixels",
     .net = &resnet18},
    {.name = "resnet34",
     .summary = "ResNet-34: 16 blocks of two conv 3x3; stem as resnet18",
     .net = &resnet34},
    {.name = "resnet50",
     .summary = "ResNet-50 v1.5: 16 bottlenecks, stride in their conv 3x3; stem as resnet18",
     .net = &resnet50},
    {.name = "resnet101", .summary = "ResNet-101 v1.5: 33 bottlenecks", .net = &resnet101},
    {.name = "resnet152", .summary = "ResNet-152 v1.5: 50 bottlenecks", .net = &resnet152},
    {.name = "fasterrcnn_resnet18_fpn",
     .summary = "Faster R-CNN with a feature pyramid over ResNet-18",
     .net = &resnet18,
     .detects = true},
    {.name = "fasterrcnn_resnet50_fpn",
     .summary = "Faster R-CNN over ResNet-50, torchvision's first version",
     .net = &resnet50,
     .detects = true},
    {.name = "fasterrcnn_resnet101_fpn",
     .summary = "the same over ResNet-101",
     .net = &resnet101,
     .detects = true},
    {.name = "maskrcnn_resnet18_fpn",
     .summary = "Mask R-CNN with a feature pyramid over ResNet-18",
     .net = &resnet18,
     .detects = true,
     .masks = true},
    {.name = "maskrcnn_resnet50_fpn",
     .summary = "Mask R-CNN over ResNet-50, torchvision's first version",
     .net = &resnet50,
     .detects = true,
     .masks = true},
    {.name = "maskrcnn_resnet101_fpn",
     .summary = "the same over ResNet-101",
     .net = &resnet101,
     .detects = true,
     .masks = true},
    {.name = NULL},
};

err_t model_find(const char *name, const model_t **out)
{
    const char *names[sizeof models / sizeof models[0]] = {NULL};
    int n = 0;
    *out = NULL;
    for (; models[n].name; n++) {
        names[n] = models[n].name;
        if (strcmp(models[n].name, name) == 0) *out = &models[n];
    }
    if (*out) return ERR_OK;
    const char *nearest = opt_nearest(name, names, n);
    char list[512];
    opt_join(names, ", ", list, sizeof list);
    RAISE(ERR_USAGE, "unknown model '%s'; %s%s%s", name, nearest ? "did you mean " : "expected one of ",
          nearest ? nearest : list, nearest ? "? `dptrain info` lists them" : "");
}

bool model_detects(const char *name)
{
    for (const model_t *m = models; name && m->name; m++)
        if (strcmp(m->name, name) == 0) return m->detects;
    return false;
}

err_t model_check_residual(const char *name, const char *option)
{
    const model_t *model;
    char names[128] = "";
    size_t used = 0;
    TRY(model_find(name, &model));
    if (model_is_residual(model)) return ERR_OK;
    for (const model_t *m = models; m->name; m++)
        if (model_is_residual(m) && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", m->name);
    RAISE(ERR_USAGE, "--%s applies to residual classifiers (%s); %s is %s", option, names, name,
          model->detects ? "a detector" : "not residual");
}

model_stem_t model_stem_of(const graph_t *g)
{
    const model_t *model = models;
    while (model->name && strcmp(model->name, g->model) != 0) model++;
    if (!model->name || !model_is_residual(model)) return MODEL_STEM_AUTO;
    const op_desc_t *first = &g->nodes[0].desc;
    ASSERT(first->kind == OP_CONV2D);
    return first->attr.conv2d.kernel_h == 3 ? MODEL_STEM_SMALL : MODEL_STEM_IMAGENET;
}

static err_t check_options(const model_t *model, const model_options_t *options)
{
    const int64_t *canvas = options->sample.dim;
    ASSERT(model_is_residual(model) || (!options->zero_init_residual && options->stem == MODEL_STEM_AUTO));
    ASSERT(model->detects || (options->heads == MODEL_HEADS_TORCHVISION && !options->stride_1x1));
    if (options->multi_label && options->label_smoothing > 0)
        RAISE(ERR_USAGE, "label smoothing %g is for samples with one class each; with several, leave it out",
              options->label_smoothing);
    if (!model->detects) return ERR_OK;
    if (options->multi_label || options->label_smoothing > 0)
        RAISE(ERR_USAGE, "%s is a detector: label smoothing and several labels per image are for classifiers",
              model->name);
    if (canvas[0] < 1 || canvas[1] < 1 || canvas[0] % RCNN_STRIDE != 0 || canvas[1] % RCNN_STRIDE != 0)
        RAISE(ERR_USAGE, "%s: height and width of its input must be multiples of %d, got %s", model->name,
              RCNN_STRIDE, shape_format(options->sample).text);
    return ERR_OK;
}

void model_add_layers(const model_t *model, graph_t *graph, const model_options_t *options)
{
    if (model->detects)
        build_rcnn(graph, options, model->net, model->masks);
    else if (model->net)
        build_resnet(graph, options, model->net);
    else
        model->build(graph, options);
}

err_t model_build(const char *name, const model_options_t *options, graph_t **out)
{
    const model_t *model;
    TRY(model_find(name, &model));
    TRY(check_options(model, options));
    TRY(graph_new(name, out));
    graph_input(*out, "image", options->sample, DTYPE_F32);
    (*out)->norm_group = options->norm_group;
    const graph_norm_t usual = model->detects ? GRAPH_NORM_FROZEN : GRAPH_NORM_BATCH;
    (*out)->norm = options->norm == GRAPH_NORM_DEFAULT ? usual : options->norm;
    if (options->norm_epsilon) (*out)->norm_epsilon = *options->norm_epsilon;
    (*out)->compute = options->compute;
    (*out)->freeze = options->freeze;
    model_add_layers(model, *out, options);
    err_t err = graph_finish(*out);
    if (err != ERR_OK) graph_free(out);
    return err;
}

model_options_t model_options_of(const graph_t *g)
{
    const shape_t image = graph_shape(g, 0);
    return (model_options_t){.sample = shape_3d(image.dim[1], image.dim[2], image.dim[3]),
                             .n_classes = model_classes(g),
                             .norm = g->norm,
                             .norm_epsilon = &g->norm_epsilon,
                             .compute = g->compute,
                             .box_block = rcnn_box_block(g),
                             .mask_block = rcnn_mask_block(g),
                             .stem = model_stem_of(g),
                             .heads = rcnn_heads(g),
                             .stride_1x1 = rcnn_stride_1x1(g),
                             .multi_label = model_multi_label(g)};
}
