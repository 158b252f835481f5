/* SPDX-License-Identifier: MIT */
/* The models by name, and building one with its options. To add a model: a builder and a row here. */
#include <string.h>

#include "base/opt.h"
#include "compute/models/builders.h"

const model_t models[] = {
    {"lenet5", "LeNet-5 as Caffe has it: conv 20x5x5, pool, conv 50x5x5, pool, fc 500, fc 10", build_lenet5},
    {"mnist-cnn", "conv 32x3x3, conv 64x3x3, pool, fc 128, fc 10, with dropout", build_mnist_cnn},
    {"mnist-cnn-bn", "mnist-cnn with batch norm before each ReLU", build_mnist_cnn_bn},
    {"mlp", "two hidden layers: fc 256, fc 128", build_mlp},
    {"vgg16", "VGG-16, configuration D: 13 conv 3x3, 3 fc with dropout", build_vgg16},
    {"resnet18", "ResNet-18: 8 blocks of two conv 3x3; a small stem for images up to 64 pixels",
     build_resnet18},
    {"resnet50", "ResNet-50 v1.5: 16 bottlenecks, stride in their conv 3x3; stem as resnet18",
     build_resnet50},
    {NULL, NULL, NULL},
};

err_t model_build(const char *name, const model_options_t *options, graph_t **out)
{
    const char *names[sizeof models / sizeof models[0]] = {NULL};
    int n = 0;
    const model_t *model = NULL;
    for (; models[n].name; n++) {
        names[n] = models[n].name;
        if (strcmp(models[n].name, name) == 0) model = &models[n];
    }
    if (!model) {
        const char *nearest = opt_nearest(name, names, n);
        char list[256];
        opt_join(names, ", ", list, sizeof list);
        RAISE(ERR_USAGE, "unknown model '%s'; %s%s%s", name, nearest ? "did you mean " : "expected one of ",
              nearest ? nearest : list, nearest ? "? `dptrain info` lists them" : "");
    }
    if (options->multi_label && options->label_smoothing > 0)
        RAISE(ERR_USAGE, "label smoothing %g is for samples with one class each; with several, leave it out",
              options->label_smoothing);
    TRY(graph_new(name, out));
    graph_input(*out, "image", options->sample, DTYPE_F32);
    (*out)->norm_group = options->norm_group;
    (*out)->compute = options->compute;
    (*out)->freeze = options->freeze;
    model->build(*out, options);
    err_t err = graph_finish(*out);
    if (err != ERR_OK) graph_free(out);
    return err;
}
