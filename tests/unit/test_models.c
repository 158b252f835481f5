/* SPDX-License-Identifier: MIT */
/* The models' sizes, names and plans. test_init has initial values, test_models_train runs them.
 *
 * Parameter counts of models on 224 pixels and 1000 classes are those of torchvision's documentation;
 * multiply-adds are those of its convolutions and linear layers. */
#include <string.h>

#include "base/mem.h"
#include "compute/graph/exec.h"
#include "compute/graph/plan.h"
#include "compute/models/model.h"
#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

typedef struct size_case {
    const char *model;
    int64_t height, width, channels;
    int n_classes;
    int64_t n_parameters, n_macs; /* n_macs 0: not checked */
    int n_params, n_states;
} size_case_t;

static const size_case_t sizes[] = {
    {"resnet18", 224, 224, 3, 1000, 11689512, 1814073344, 62, 40},
    {"resnet34", 224, 224, 3, 1000, 21797672, 3663761408, 110, 72},
    {"resnet50", 224, 224, 3, 1000, 25557032, 4089184256, 161, 106},
    {"resnet101", 224, 224, 3, 1000, 44549160, 7801405440, 314, 208},
    {"resnet152", 224, 224, 3, 1000, 60192808, 11513626624, 467, 310},
    {"vgg16", 224, 224, 3, 1000, 138357544, 15470264320, 32, 0},
    /* The small stem has 9 · 3 weights per channel instead of 49 · 3. */
    {"resnet18", 32, 32, 3, 10, 11689512 - 64 * 40 * 3 - 990 * 513, 555422720, 62, 40},
    {"resnet50", 64, 80, 3, 10, 25557032 - 64 * 40 * 3 - 990 * 2049, 0, 161, 106},
    {"resnet50", 65, 600, 1, 91, 25557032 - 64 * 49 * 2 - 909 * 2049, 0, 161, 106},
    /* The classifier reads 1×1, 7×7 (of 14×14 and 9×12) and 3×7 (of 3×10) pixels. */
    {"vgg16", 32, 32, 3, 10, 138357544 - 48 * 512 * 4096 - 990 * 4097, 0, 32, 0},
    {"vgg16", 448, 448, 3, 1000, 138357544, 0, 32, 0},
    {"vgg16", 300, 400, 3, 1000, 138357544, 0, 32, 0},
    {"vgg16", 96, 330, 3, 1000, 138357544 - 28 * 512 * 4096, 0, 32, 0},
};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static graph_t *build(const char *model, int64_t height, int64_t width, int64_t channels, int n_classes)
{
    model_options_t options = {.sample = shape_3d(height, width, channels), .n_classes = n_classes};
    graph_t *g = NULL;
    must(model_build(model, &options, &g), model);
    return g;
}

static const graph_node_t *find_layer(const graph_t *g, const char *name)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (strcmp(g->nodes[i].name, name) == 0) return &g->nodes[i];
    return NULL;
}

static const graph_param_t *find_tensor(const graph_param_t *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0) return &list[i];
    return NULL;
}

static bool names_differ(const graph_t *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (find_layer(g, g->nodes[i].name) != &g->nodes[i]) return false;
    return true;
}

/* Whatever the size of the images, and by their size. */
static void check_stems(void)
{
    static const struct {
        const char *model;
        int64_t side;
        model_stem_t asked, built;
    } cases[] = {
        {"resnet18", 64, MODEL_STEM_AUTO, MODEL_STEM_SMALL},
        {"resnet50", 65, MODEL_STEM_AUTO, MODEL_STEM_IMAGENET},
        {"resnet18", 64, MODEL_STEM_IMAGENET, MODEL_STEM_IMAGENET},
        {"resnet50", 8, MODEL_STEM_IMAGENET, MODEL_STEM_IMAGENET},
        {"resnet50", 96, MODEL_STEM_SMALL, MODEL_STEM_SMALL},
        {"vgg16", 64, MODEL_STEM_AUTO, MODEL_STEM_AUTO},
        {"maskrcnn_resnet18_fpn", 64, MODEL_STEM_AUTO, MODEL_STEM_AUTO},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t side = cases[i].side;
        const model_options_t options = {
            .sample = shape_3d(side, side, 3), .n_classes = 10, .stem = cases[i].asked};
        graph_t *g = NULL;
        must(model_build(cases[i].model, &options, &g), cases[i].model);
        const graph_node_t *pool = find_layer(g, "maxpool");
        OK(model_stem_of(g) == cases[i].built && (cases[i].built == MODEL_STEM_AUTO ||
                                                  (pool != NULL) == (cases[i].built == MODEL_STEM_IMAGENET)),
           "%s of %d pixels, --stem %s: %s", cases[i].model, (int)side, model_stems[cases[i].asked],
           model_stems[model_stem_of(g)]);
        graph_free(&g);
    }
}

/* The options of a graph build it again. */
static void check_options_of(void)
{
    static const double epsilon = 1e-3;
    static const model_options_t asked[] = {
        {.sample = {3, {64, 96, 3}}, .n_classes = 7, .stem = MODEL_STEM_IMAGENET, .compute = DTYPE_BF16},
        {.sample = {3, {64, 96, 3}},
         .n_classes = 7,
         .norm = GRAPH_NORM_BATCH,
         .norm_epsilon = &epsilon,
         .box_block = 8,
         .mask_block = 4},
        {.sample = {3, {64, 96, 3}}, .n_classes = 7},
        {.sample = {3, {64, 96, 3}}, .n_classes = 7, .norm = GRAPH_NORM_GROUP},
    };
    static const char *const names[] = {"resnet18", "maskrcnn_resnet18_fpn", "fasterrcnn_resnet18_fpn",
                                        "fasterrcnn_resnet18_fpn"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        graph_t *g = NULL, *again = NULL;
        must(model_build(names[i], &asked[i], &g), names[i]);
        const model_options_t of = model_options_of(g);
        must(model_build(names[i], &of, &again), names[i]);
        OK(shape_equal(of.sample, asked[i].sample) && of.n_classes == 7 && of.compute == asked[i].compute &&
               of.stem == asked[i].stem && again->n_flat_params == g->n_flat_params &&
               again->norm == g->norm && !(again->norm_epsilon > g->norm_epsilon) &&
               !(again->norm_epsilon < g->norm_epsilon) && again->sections[1].block == g->sections[1].block &&
               again->sections[2].block == g->sections[2].block,
           "%s is built again by its options", names[i]);
        graph_free(&g);
        graph_free(&again);
    }
}

static void check_size(const size_case_t *c)
{
    graph_t *g = build(c->model, c->height, c->width, c->channels, c->n_classes);
    int64_t n_macs = 0;
    for (int i = 0; i < g->n_nodes; i++) n_macs += op_macs(&g->nodes[i].desc);
    OK(g->n_parameters == c->n_parameters && (c->n_macs == 0 || n_macs == c->n_macs),
       "%s on %lldx%lld has %lld parameters, %lld multiply-adds", c->model, (long long)c->height,
       (long long)c->width, (long long)g->n_parameters, (long long)n_macs);
    OK(g->n_params == c->n_params && g->n_states == c->n_states && names_differ(g),
       "in %d tensors, and %d of running values; layer names are unique", g->n_params, g->n_states);
    graph_free(&g);
}

typedef struct tensor_case {
    const char *model, *name;
    shape_t shape;
    int stride; /* of a convolution */
} tensor_case_t;

/* torchvision's names and shapes, except for the order of dimensions: OHWI instead of OIHW. */
static const tensor_case_t tensors[] = {
    {"resnet50", "conv1/weight", {4, {64, 7, 7, 3}}, 2},
    {"resnet50", "bn1/gamma", {1, {64}}, 0},
    {"resnet50", "layer1.0.conv1/weight", {4, {64, 1, 1, 64}}, 1},
    {"resnet50", "layer1.0.bn3/gamma", {1, {256}}, 0},
    {"resnet50", "layer1.0.downsample.0/weight", {4, {256, 1, 1, 64}}, 1},
    {"resnet50", "layer1.0.downsample.1/gamma", {1, {256}}, 0},
    {"resnet50", "layer2.0.conv1/weight", {4, {128, 1, 1, 256}}, 1},
    {"resnet50", "layer2.0.conv2/weight", {4, {128, 3, 3, 128}}, 2},
    {"resnet50", "layer2.0.downsample.0/weight", {4, {512, 1, 1, 256}}, 2},
    {"resnet50", "layer3.5.conv3/weight", {4, {1024, 1, 1, 256}}, 1},
    {"resnet50", "layer4.2.bn3/beta", {1, {2048}}, 0},
    {"resnet50", "fc/weight", {2, {1000, 2048}}, 0},
    {"resnet18", "layer1.0.conv1/weight", {4, {64, 3, 3, 64}}, 1},
    {"resnet18", "layer1.1.bn2/gamma", {1, {64}}, 0},
    {"resnet18", "layer1.1.bn1/gamma", {1, {64}}, 0},
    {"resnet18", "layer2.0.conv1/weight", {4, {128, 3, 3, 64}}, 2},
    {"resnet18", "layer2.0.conv2/weight", {4, {128, 3, 3, 128}}, 1},
    {"resnet18", "layer4.0.downsample.0/weight", {4, {512, 1, 1, 256}}, 2},
    {"resnet18", "fc/bias", {1, {1000}}, 0},
    {"vgg16", "features.0/weight", {4, {64, 3, 3, 3}}, 1},
    {"vgg16", "features.28/weight", {4, {512, 3, 3, 512}}, 1},
    {"vgg16", "features.28/bias", {1, {512}}, 0},
    {"vgg16", "classifier.0/weight", {2, {4096, 25088}}, 0},
    {"vgg16", "classifier.6/weight", {2, {1000, 4096}}, 0},
};
enum { N_TENSORS = sizeof tensors / sizeof tensors[0] };

static void check_tensor(const tensor_case_t *c)
{
    graph_t *g = build(c->model, 224, 224, 3, 1000);
    const graph_param_t *p = find_tensor(g->params, g->n_params, c->name);
    char layer[GRAPH_PARAM_NAME_MAX];
    snprintf(layer, sizeof layer, "%.*s", (int)strcspn(c->name, "/"), c->name);
    const graph_node_t *node = find_layer(g, layer);
    bool stride = !c->stride || (node && node->desc.attr.conv2d.stride_h == c->stride &&
                                 node->desc.attr.conv2d.stride_w == c->stride);
    OK(p && shape_equal(p->shape, c->shape) && stride, "%s has %s of %s", c->model, c->name,
       shape_format(c->shape).text);
    graph_free(&g);
}

static void check_blocks(const char *model, int n_blocks)
{
    graph_t *g = build(model, 224, 224, 3, 1000);
    int n_add = 0;
    for (int i = 0; i < g->n_nodes; i++) n_add += g->nodes[i].desc.kind == OP_ADD;
    const graph_param_t *mean = find_tensor(g->states, g->n_states, "layer1.0.bn1/running_mean");
    OK(n_add == n_blocks && mean, "%s has %d blocks", model, n_add);
    graph_free(&g);
}

static void check_stem(int64_t height, int64_t width, int64_t kernel)
{
    graph_t *g = build("resnet18", height, width, 3, 2);
    const graph_param_t *p = find_tensor(g->params, g->n_params, "conv1/weight");
    bool pooled = find_layer(g, "maxpool");
    OK(p->shape.dim[1] == kernel && pooled == (kernel == 7), "images of %lldx%lld begin with %lldx%lld",
       (long long)height, (long long)width, (long long)kernel, (long long)kernel);
    graph_free(&g);
}

static void check_multi_label(void)
{
    bool right = true;
    model_options_t options = {.sample = shape_3d(32, 32, 3), .n_classes = 80, .multi_label = true};
    graph_t *g = NULL;
    for (const model_t *m = models; m->name; m++) {
        if (m->detects) continue;
        must(model_build(m->name, &options, &g), m->name);
        right = right && model_multi_label(g) && model_classes(g) == 80;
        graph_free(&g);
    }
    OK(right, "every classifier supports any number of labels");
    options.label_smoothing = 0.1;
    OK(model_build("resnet18", &options, &g) == ERR_USAGE && SAYS("label smoothing 0.1", "one class each"),
       "but not with label smoothing: %s", err_message());
    options = (model_options_t){.sample = shape_3d(31, 64, 3), .n_classes = 10};
    OK(model_build("vgg16", &options, &g) == ERR_USAGE && SAYS("vgg16", "layer features.30", "1×1×4×512"),
       "images too small for vgg16: %s", err_message());
    OK(!g, "and nothing stays allocated");
}

/* Plans are arithmetic, so the largest models are not allocated, except for what ref keeps. */
static void check_plan(const char *model, int64_t side, int64_t n, bool training)
{
    graph_t *g = build(model, side, side, 3, 10);
    exec_options_t options = {.graph = g, .backend = &backend_ref};
    exec_t *exec = NULL;
    must(exec_new(&options, &exec), "exec_new");
    OK_CALL(exec_prepare(exec, n, training), "%s is planned for %lld images of %lld, %s", model, (long long)n,
            (long long)side, training ? "training" : "evaluation");
    size_t arena = exec_arena_bytes(exec), least = exec_floor_bytes(exec);
    OK(arena <= least + least / 8, "its arena is %zu bytes, at least %zu are alive at once", arena, least);
    exec_free(&exec);
    graph_free(&g);
}

static void check_fused(const char *model, int n_layers, const char *layer)
{
    graph_t *g = build(model, 224, 224, 3, 1000), *fused = NULL;
    must(graph_fuse(g, &backend_cpu, &fused), "graph_fuse");
    OK(fused->n_nodes == n_layers && find_layer(fused, layer), "%s on the CPU has %s (%d layers)", model,
       layer, fused->n_nodes);
    graph_free(&fused);
    graph_free(&g);
}

int main(void)
{
    tap_plan(7 + 4 + 2 * N_SIZES + N_TENSORS + 2 + 4 + 4 + 2 * 6 + 5 + 1);
    check_stems();
    check_options_of();
    for (int i = 0; i < N_SIZES; i++) check_size(&sizes[i]);
    for (int i = 0; i < N_TENSORS; i++) check_tensor(&tensors[i]);
    check_blocks("resnet18", 8);
    check_blocks("resnet50", 16);
    check_stem(64, 64, 3);
    check_stem(65, 65, 7);
    check_stem(64, 300, 3);
    check_stem(1, 1, 3);
    check_multi_label();
    for (int training = 0; training < 2; training++) {
        check_plan("resnet50", 224, 256, training);
        check_plan("resnet18", 32, 128, training);
        check_plan("vgg16", 224, 256, training);
    }
    check_fused("vgg16", 13 + 2 * 2 + 2, "features.2+3+4");
    /* Convolutions and their norms, two pooling layers, a linear layer and the loss. */
    check_fused("resnet50", 2 * 53 + 4, "layer1.0.bn1+relu1");
    check_fused("resnet50", 2 * 53 + 4, "layer1.0.downsample.1+add+relu3");
    check_fused("resnet50", 2 * 53 + 4, "layer1.1.bn3+add+relu3");
    check_fused("resnet18", 2 * 20 + 4, "layer4.1.bn2+add+relu2");
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
