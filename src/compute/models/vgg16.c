/* SPDX-License-Identifier: MIT */
/* VGG-16: Simonyan & Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015,
 * configuration D: without batch norm, with dropout. Names and initial values are torchvision's.
 *
 * The classifier was made for 7×7 pixels, which is what five poolings leave of 224. The features of larger
 * images are averaged to 7×7, so that the weights have the same shapes; smaller images are used as they are
 * and get a smaller classifier. */
#include <stdio.h>

#include "compute/graph/layers.h"
#include "compute/models/builders.h"

enum { N_STAGES = 5, CLASSIFIER_SIDE = 7, HIDDEN = 4096 };

typedef struct stage {
    int n_convs;
    int64_t channels;
} stage_t;

static const stage_t stages[N_STAGES] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};

/* Such as "features.0": torchvision numbers all layers of a part. */
static const char *numbered(char name[GRAPH_NAME_MAX], const char *part, int number)
{
    snprintf(name, GRAPH_NAME_MAX, "%s.%d", part, number);
    return name;
}

static int features(graph_t *g)
{
    char name[GRAPH_NAME_MAX];
    int v = 0, number = 0;
    for (int i = 0; i < N_STAGES; i++) {
        const conv2d_layer_t conv = {.channels = stages[i].channels,
                                     .kernel = 3,
                                     .pad = 1,
                                     .init = INIT_KAIMING_OUT,
                                     .bias_init = INIT_ZERO};
        for (int k = 0; k < stages[i].n_convs; k++) {
            v = nn_conv2d(g, numbered(name, "features", number++), v, conv);
            v = nn_relu(g, numbered(name, "features", number++), v);
        }
        v = nn_max_pool(g, numbered(name, "features", number++), v, (pool2d_layer_t){.kernel = 2});
    }
    return v;
}

void build_vgg16(graph_t *g, const model_options_t *options)
{
    char name[GRAPH_NAME_MAX];
    int v = nn_avg_pool_to(g, "avgpool", features(g), CLASSIFIER_SIDE);
    for (int number = 0; number < 6; number += 3) {
        v = nn_linear_init(g, numbered(name, "classifier", number), v, HIDDEN, INIT_SMALL);
        v = nn_relu(g, numbered(name, "classifier", number + 1), v);
        v = nn_dropout(g, numbered(name, "classifier", number + 2), v, 0.5);
    }
    v = nn_linear_init(g, "classifier.6", v, options->n_classes, INIT_SMALL);
    model_add_loss(g, options, v);
}
