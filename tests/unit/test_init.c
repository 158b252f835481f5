/* SPDX-License-Identifier: MIT */
/* Initial values of every tensor of every model are those of torchvision 0.29, or of PyTorch's layers: distribution, mean,
 * variance, fourth moment and bounds. scripts/bench/init.sh compares them with the programs themselves.
 */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "compute/models/model.h"
#include "tests/op_util.h"
#include "tests/tap.h"

/* Distributions, by PyTorch's names, with the fans of the layer's weight. */
typedef enum law {
    ZERO,
    ONE,
    UNIFORM,     /* kaiming_uniform_(a=√5) of weights, uniform_ of biases: ±1/√fan_in */
    UNIFORM_3,   /* kaiming_uniform_(a=1): ±√(3/fan_in) */
    NORMAL_OUT,  /* kaiming_normal_(mode="fan_out", nonlinearity="relu"): variance 2/fan_out */
    NORMAL_SMALL /* normal_(std=0.01) */
} law_t;

/* The first that matches counts. */
static const struct {
    const char *model, *tensor;
    law_t law;
} rules[] = {
    /* torch/nn/modules/batchnorm.py, _BatchNorm; torchvision/models/resnet.py, ResNet */
    {"*", "*/gamma", ONE},
    {"*", "*/beta", ZERO},
    /* torchvision/models/resnet.py: convolutions; fc is left as it is */
    {"resnet*", "fc/*", UNIFORM},
    {"resnet*", "*/weight", NORMAL_OUT},
    /* torchvision/models/vgg.py, VGG */
    {"vgg16", "features.*/weight", NORMAL_OUT},
    {"vgg16", "classifier.*/weight", NORMAL_SMALL},
    {"vgg16", "*/bias", ZERO},
    {"*rcnn*", "backbone.body.*", NORMAL_OUT},
    /* torchvision/ops/feature_pyramid_network.py, FeaturePyramidNetwork */
    {"*rcnn*", "backbone.fpn.*/weight", UNIFORM_3},
    {"*rcnn*", "backbone.fpn.*/bias", ZERO},
    /* torchvision/models/detection/rpn.py, RPNHead */
    {"*rcnn*", "rpn.head.*/weight", NORMAL_SMALL},
    {"*rcnn*", "rpn.head.*/bias", ZERO},
    /* torchvision/models/detection/mask_rcnn.py, MaskRCNNHeads; MaskRCNNPredictor, which leaves biases */
    {"*rcnn*", "roi_heads.mask_head.*/weight", NORMAL_OUT},
    {"*rcnn*", "roi_heads.mask_head.*/bias", ZERO},
    {"*rcnn*", "roi_heads.mask_predictor.*/weight", NORMAL_OUT},
    /* torch/nn/modules/linear.py, Linear; conv.py, _ConvNd: LeNet-5, MLP, the CNNs; torchvision/models/detection/
     * faster_rcnn.py, TwoMLPHead and FastRCNNPredictor */
    {"*", "*", UNIFORM},
};

static law_t law_of(const char *model, const char *tensor)
{
    size_t i = 0;
    while (fnmatch(rules[i].model, model, 0) != 0 || fnmatch(rules[i].tensor, tensor, 0) != 0) i++;
    return rules[i].law;
}

/* torch/nn/init.py, _calculate_fan_in_and_fan_out: of a weight [a, b, …], b·… and a·…. */
static void fans(const graph_param_t *weight, double *in, double *out)
{
    const int64_t *d = weight->shape.dim;
    *in = *out = 1;
    if (strcmp(weight->meaning, "OI") == 0)
        *in = (double)d[1], *out = (double)d[0];
    else if (strcmp(weight->meaning, "OHWI") == 0)
        *in = (double)(d[1] * d[2] * d[3]), *out = (double)(d[0] * d[1] * d[2]);
    else if (strcmp(weight->meaning, "HWOI") == 0) /* ConvTranspose2d has [I, O, H, W] */
        *in = (double)(d[0] * d[1] * d[2]), *out = (double)(d[0] * d[1] * d[3]);
    else
        abort();
}

static bool all_are(const float *value, int64_t n, float wanted)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&value[i], &wanted, sizeof wanted) != 0) return false;
    return true;
}

/* Each moment is within 5 standard deviations of its own. */
static bool follows(const float *value, int64_t n, bool uniform, double variance)
{
    const double count = (double)n, bound = sqrt(3 * variance), fourth = uniform ? 1.8 : 3;
    double sum = 0, squares = 0, fourths = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = value[i], square = x * x / variance;
        sum += x, squares += square, fourths += square * square;
        most = fmax(most, fabs(x));
    }
    bool right = fabs(sum / count) <= 5 * sqrt(variance / count) &&
                 fabs(squares / count - 1) <= 5 * sqrt((fourth - 1) / count) &&
                 fabs(fourths / count - fourth) <= 5 * sqrt((uniform ? 5.76 : 96) / count);
    if (uniform)
        right = right && most <= bound * (1 + 1e-6) && most >= bound * (1 - 20 / count);
    else /* P < 1e-9 */
        right = right && (n < 1000 || most >= 2.5 * sqrt(variance));
    if (!right)
        printf("# of %lld values: mean %g, variance %g of the wanted %g, fourth moment %g, largest %g\n",
               (long long)n, sum / count, squares / count * variance, variance, fourths / count, most);
    return right;
}

static bool tensor_is_right(const graph_param_t *p, const graph_param_t *weight, int64_t n,
                            const float *value, law_t law)
{
    double in, out;
    if (law == ZERO || law == ONE) return all_are(value, n, law == ONE ? 1 : 0);
    fans(strstr(p->name, "/bias") ? weight : p, &in, &out);
    switch (law) {
    case UNIFORM:
        return follows(value, n, true, 1 / (3 * in));
    case UNIFORM_3:
        return follows(value, n, true, 1 / in);
    case NORMAL_OUT:
        return follows(value, n, false, 2 / out);
    default:
        return follows(value, n, false, 1e-4);
    }
}

static graph_t *build(const char *model, bool zero_init_residual, const char *freeze)
{
    const model_options_t options = {.sample = shape_3d(64, 64, 3),
                                     .n_classes = 91,
                                     .norm = GRAPH_NORM_BATCH,
                                     .zero_init_residual = zero_init_residual,
                                     .freeze = freeze};
    graph_t *g = NULL;
    must(model_build(model, &options, &g), model);
    return g;
}

/* Draws the first values of each tensor only. */
static void check_model(const char *model)
{
    enum { MOST = 50000 };
    graph_t *g = build(model, false, NULL);
    float *flat = NULL, *states = NULL;
    graph_param_t *params = NULL;
    bool right = true;
    must(mem_new_array(g->n_flat_params, sizeof *flat, "weights", &flat), "memory");
    must(mem_new_array(g->n_flat_states + 1, sizeof *states, "running values", &states), "memory");
    must(mem_new_array(g->n_params, sizeof *params, "tensors", &params), "memory");
    memcpy(params, g->params, (size_t)g->n_params * sizeof *params);
    for (int i = 0; i < g->n_params; i++)
        if (shape_count(params[i].shape) > MOST) g->params[i].shape = shape_1d(MOST);
    graph_init(g, 3, flat, states);
    for (int i = 0; i < g->n_params; i++) {
        const graph_param_t *p = &params[i];
        const int64_t n = shape_count(g->params[i].shape);
        if (tensor_is_right(p, i ? p - 1 : p, n, flat + p->offset, law_of(model, p->name))) continue;
        printf("# %s\n", p->name);
        right = false;
    }
    OK(right, "%s: %d tensors", model, g->n_params);
    mem_free(&flat), mem_free(&states), mem_free(&params);
    graph_free(&g);
}

/* torchvision/models/resnet.py: zero_init_residual. */
static void check_zero_init(const char *model, const char *last, int n_blocks)
{
    graph_t *g = build(model, false, NULL), *zero = build(model, true, NULL);
    int n_zero = 0;
    bool right = g->n_params == zero->n_params;
    for (int i = 0; right && i < g->n_params; i++) {
        const graph_param_t *p = &zero->params[i];
        if (fnmatch(last, p->name, 0) == 0)
            n_zero += p->init == INIT_ZERO;
        else
            right = p->init == g->params[i].init;
    }
    OK(right && n_zero == n_blocks, "%s with zero_init_residual: %d blocks begin as the identity", model,
       n_zero);
    graph_free(&g), graph_free(&zero);
}

/* A frozen γ of 0 would take its branch out for good. */
static void check_frozen(void)
{
    graph_t *g = build("resnet18", true, "layer1");
    int n_zero = 0, n_frozen = 0;
    for (int i = 0; i < g->n_params; i++) {
        if (g->params[i].init != INIT_ZERO || !strstr(g->params[i].name, "/gamma")) continue;
        n_zero++;
        n_frozen += g->params[i].frozen;
    }
    OK(n_zero == 6 && n_frozen == 0, "frozen blocks keep their branch: %d of 8 begin as the identity",
       n_zero);
    graph_free(&g);
}

int main(void)
{
    int n_models = 0;
    while (models[n_models].name) n_models++;
    tap_plan(n_models + 2 + 1 + 1);
    for (int i = 0; i < n_models; i++) check_model(models[i].name);
    check_zero_init("resnet18", "layer*.bn2/gamma", 8);
    check_zero_init("resnet50", "layer*.bn3/gamma", 16);
    check_frozen();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
