/* SPDX-License-Identifier: MIT */
/* Names of --precision, --norm, --stem and heads, and the loss layer that every builder ends with. The table of models
 * is in registry.c. */
#include "compute/models/model.h"

#include <string.h>

#include "compute/graph/layers.h"
#include "text/opt.h"

static const dtype_t computes[] = {DTYPE_F32, DTYPE_TF32, DTYPE_BF16};
const char *const model_precisions[] = {"fp32", "tf32", "bf16", NULL};

bool model_compute(const char *precision, dtype_t *out)
{
    const int i = opt_index(model_precisions, precision);
    if (i >= 0) *out = computes[i];
    return i >= 0;
}

const char *model_precision(dtype_t compute)
{
    int i = 0;
    while (model_precisions[i] && computes[i] != compute) i++;
    ASSERT(model_precisions[i]);
    return model_precisions[i];
}

const char *const model_norms[] = {"auto", "frozen", "batch", "group", NULL};

graph_norm_t model_norm(const char *name)
{
    const int i = opt_index(model_norms, name);
    ASSERT(i >= 0);
    return (graph_norm_t)i;
}

const char *const model_heads[] = {"torchvision", "tensorpack", "detectron2", NULL};

const char *const model_stems[] = {"auto", "imagenet", "small", NULL};

model_stem_t model_stem(const char *name)
{
    const int i = opt_index(model_stems, name);
    ASSERT(i >= 0);
    return (model_stem_t)i;
}

const char *model_stem_about(model_stem_t stem)
{
    return stem == MODEL_STEM_SMALL ? "3×3, stride 1, no pooling" : "7×7, stride 2, max pooling";
}

int64_t model_layer_parameters(const graph_t *g, int node)
{
    const graph_node_t *layer = &g->nodes[node];
    const op_desc_t *desc = &layer->desc;
    int64_t n = 0;
    bool constant = desc->kind == OP_BATCH_NORM && desc->attr.batch_norm.frozen;
    for (int i = 0; i < desc->n_params && !layer->shared && !constant; i++) n += shape_count(desc->param[i]);
    return n;
}

void model_add_loss(graph_t *g, const model_options_t *options, int logits)
{
    if (options->multi_label) {
        nn_sigmoid_bce(g, "loss", logits, graph_input(g, "target", shape_1d(options->n_classes), DTYPE_F32));
        graph_output(g, "logits", logits);
        return;
    }
    int loss = nn_softmax_xent(g, "loss", logits, graph_input(g, "label", (shape_t){0}, DTYPE_I32),
                               options->label_smoothing);
    graph_output(g, "logits", logits);
    graph_output(g, "prediction", loss + 1);
}

int model_classes(const graph_t *g)
{
    int output = graph_find_output(g, "logits");
    if (output < 0) output = graph_find_output(g, "box.logits"); /* of a detector */
    ASSERT(output >= 0);
    return narrow_int(graph_shape(g, g->outputs[output].value).dim[1]);
}

bool model_multi_label(const graph_t *g)
{
    return graph_find_input(g, "target") >= 0;
}
