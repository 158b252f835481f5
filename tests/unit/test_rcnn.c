/* SPDX-License-Identifier: MIT */
/* RUN np=0 san=slow : Faster and Mask R-CNN: sizes and names; canvases that share an arena; a small one on ref and the
 * CPU.
 *
 * The number of parameters is torchvision's, which counts γ and β of frozen norms as buffers. */
#include <string.h>

#include "compute/models/model.h"
#include "compute/models/rcnn.h"
#include "compute/ops/backend.h"
#include "tests/graph_util.h"
#include "tests/small_rcnn.h"
#include "tests/tap.h"

enum { N_CLASSES = 3, BOX_ROWS = 11, MASK_ROWS = 5, HEIGHT = 64, WIDTH = 96 };

static graph_t *build(const char *model, int64_t height, int64_t width)
{
    model_options_t options = {.sample = shape_3d(height, width, 3), .n_classes = 91};
    graph_t *g = NULL;
    must(model_build(model, &options, &g), model);
    return g;
}

static int64_t count_parameters(const graph_t *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_nodes; i++) n += model_layer_parameters(g, i);
    return n;
}

static bool has(const graph_t *g, const char *param, shape_t shape)
{
    for (int i = 0; i < g->n_params; i++)
        if (strcmp(g->params[i].name, param) == 0) return shape_equal(g->params[i].shape, shape);
    return false;
}

static void check_sizes(const char *model, int64_t n_parameters)
{
    graph_t *g = build(model, 64, 64);
    OK(count_parameters(g) == n_parameters && rcnn_is(g) && model_classes(g) == 91, "%s has %lld parameters",
       model, (long long)count_parameters(g));
    OK(has(g, "backbone.body.conv1/weight", shape_4d(64, 7, 7, 3)) &&
           has(g, "backbone.fpn.inner_blocks.3.0/bias", shape_1d(256)) &&
           has(g, "rpn.head.bbox_pred/weight", shape_4d(12, 1, 1, 256)) &&
           has(g, "roi_heads.box_head.fc6/weight", shape_2d(1024, 256 * 49)) &&
           has(g, "roi_heads.mask_predictor.conv5_mask/weight", shape_4d(2, 2, 256, 256)) ==
               rcnn_has_masks(g),
       "and torchvision's layers");
    graph_free(&g);
}

static shape_t shape_of_output(const graph_t *g, const op_desc_t *descs, const char *name)
{
    int node = g->values[g->outputs[graph_find_output(g, name)].value].node;
    return descs[node].y[0];
}

/* The shapes of a graph made for another canvas. */
static void check_canvas(const graph_t *g, int64_t height, int64_t width, int64_t last_rows,
                         int64_t last_columns)
{
    shape_t shapes[GRAPH_MAX_INPUTS];
    op_desc_t descs[512];
    bool right = true;
    rcnn_shapes(g, height, width, shapes);
    must(graph_infer(g, 2, shapes, descs), "another canvas");
    for (int level = 0; level < RCNN_LEVELS; level++) {
        char name[32];
        int64_t rows, columns;
        rcnn_cells(height, width, level, &rows, &columns);
        if (level == RCNN_LEVELS - 1) right = right && rows == last_rows && columns == last_columns;
        snprintf(name, sizeof name, "rpn.%d.logits", level);
        right = right && shape_equal(shape_of_output(g, descs, name), shape_4d(2, rows, columns, 3));
        snprintf(name, sizeof name, "rpn.%d.deltas", level);
        right = right && shape_equal(shape_of_output(g, descs, name), shape_4d(2, rows, columns, 12));
    }
    OK(right && shape_equal(shape_of_output(g, descs, "box.deltas"), shape_2d(512, 364)) &&
           shape_equal(shape_of_output(g, descs, "mask.logits"), shape_4d(16, 28, 28, 91)),
       "outputs on %lldx%lld; P6 has %lldx%lld cells", (long long)height, (long long)width,
       (long long)last_rows, (long long)last_columns);
}

static void check_refused(void)
{
    model_options_t options = {.sample = shape_3d(100, 64, 3), .n_classes = 91};
    graph_t *g = NULL;
    OK(model_build("maskrcnn_resnet50_fpn", &options, &g) == ERR_USAGE && SAYS("multiples of 32", "100×64×3"),
       "a canvas that the strides do not divide: %s", err_message());
    options = (model_options_t){.sample = shape_3d(64, 64, 3), .n_classes = 91, .label_smoothing = 0.1};
    OK(model_build("fasterrcnn_resnet18_fpn", &options, &g) == ERR_USAGE && SAYS("is a detector"),
       "label smoothing: %s", err_message());
    OK(!g, "and nothing stays allocated");
}

static void check_norms(void)
{
    const double none = 0;
    model_options_t options = {.sample = shape_3d(64, 64, 3), .n_classes = 2, .norm_epsilon = &none};
    graph_t *g = NULL;
    must(model_build("fasterrcnn_resnet18_fpn", &options, &g), "epsilon 0");
    bool right = true;
    for (int i = 0; i < g->n_nodes; i++) {
        const op_desc_t *d = &g->nodes[i].desc;
        if (d->kind != OP_BATCH_NORM) continue;
        right = right && d->attr.batch_norm.frozen && d->attr.batch_norm.epsilon <= 0 &&
                g->params[g->nodes[i].first_param].init == INIT_ONE;
    }
    graph_free(&g);
    OK(right, "norms are frozen, with the given epsilon and γ initially 1");
    options = (model_options_t){.sample = shape_3d(64, 64, 3), .n_classes = 2, .norm = GRAPH_NORM_BATCH};
    must(model_build("fasterrcnn_resnet18_fpn", &options, &g), "batch norm");
    OK(g->n_frozen == 0, "--norm batch trains them");
    graph_free(&g);
    options.norm = GRAPH_NORM_GROUP;
    must(model_build("fasterrcnn_resnet18_fpn", &options, &g), "group norm");
    int n_norms = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const op_desc_t *d = &g->nodes[i].desc;
        n_norms += d->kind == OP_GROUP_NORM && d->attr.group_norm.groups == 32;
        right = right && d->kind != OP_BATCH_NORM;
    }
    OK(right && n_norms == 20 && g->n_frozen == 0 && g->n_flat_states == 0 && !graph_has_batch_norm(g),
       "--norm group: 20 norms of 32 groups, without running statistics");
    graph_free(&g);
    options.norm = GRAPH_NORM_FROZEN;
    must(model_build("resnet18", &options, &g), "a classifier");
    OK(g->n_frozen == 2 * 4800, "a classifier's norms can be frozen: %lld parameters",
       (long long)g->n_frozen);
    graph_free(&g);
}

static void fill_regions(float *regions, int n, int n_images, float height, float width)
{
    rng_t rng = rng_new(7, RNG_TEST, 0);
    for (int i = 0; i < n; i++, regions += ROI_ALIGN_VALUES) {
        float x = (float)rng_uniform(&rng) * width, y = (float)rng_uniform(&rng) * height;
        regions[0] = (float)(i % n_images);
        regions[1] = x / 2, regions[2] = y / 2, regions[3] = x / 2 + width / 2,
        regions[4] = y / 2 + height / 3;
    }
}

/* Labels from -1 to n_classes - 1 (1 of anchors), small weights. */
static void fill_targets(graph_run_t *r)
{
    rng_t rng = rng_new(8, RNG_TEST, 0);
    for (int i = 0; i < r->graph->n_inputs; i++) {
        const char *name = r->graph->inputs[i].name;
        int64_t count = graph_util_count(r, i);
        int32_t *labels = r->input[i];
        float *values = r->input[i];
        uint32_t n = strncmp(name, "rpn", 3) == 0 ? 3 : N_CLASSES + 1;
        for (int64_t k = 0; strstr(name, ".label") && k < count; k++)
            labels[k] = (int32_t)rng_below(&rng, n) - 1;
        for (int64_t k = 0; strstr(name, ".weight") && k < count; k++)
            values[k] = (float)(1 + rng_below(&rng, 4)) / 64;
        for (int64_t k = 0; strcmp(name, "mask.target") == 0 && k < count; k++)
            values[k] = (float)rng_uniform(&rng) / 16;
    }
}

static void open_small(graph_run_t *r, const backend_t *backend, int64_t n)
{
    graph_run_open(r, backend, small_rcnn(HEIGHT, WIDTH, N_CLASSES, 4, 4, 2), n);
    rng_t rng = rng_new(9, RNG_TEST, 0);
    /* Running values, and parameters that begin small, in general position. */
    for (int i = 0; i < r->graph->n_states; i++) {
        const graph_param_t *p = &r->graph->states[i];
        bool mean = strstr(p->name, "/running_mean");
        for (int64_t k = 0; k < shape_count(p->shape); k++)
            r->states[p->offset + k] = (float)rng_uniform(&rng) * (mean ? 0.2f : 1) + (mean ? -0.1f : 0.5f);
    }
    for (int64_t i = 0; i < r->graph->n_flat_params; i++) r->params[i] += 0.1f * (float)rng_normal(&rng);
    fill_regions(r->input[graph_find_input(r->graph, "box.regions")], BOX_ROWS, (int)n, HEIGHT, WIDTH);
    fill_regions(r->input[graph_find_input(r->graph, "mask.regions")], MASK_ROWS, (int)n, HEIGHT, WIDTH);
    fill_targets(r);
}

/* Forward of n images, with the sections' rows, which in training run backward too. */
static void forward(graph_run_t *r, int64_t n, const shape_t *shapes, bool training)
{
    exec_batch_t batch = graph_run_batch(r, n);
    for (int i = 0; !training && i < r->graph->n_inputs; i++) {
        const char *name = r->graph->inputs[i].name;
        if (i > 0 && !strstr(name, ".regions")) batch.input[i] = NULL;
    }
    exec_batch_t boxes = batch, masks = batch;
    batch.shapes = shapes;
    boxes.n = BOX_ROWS, masks.n = MASK_ROWS;
    must(exec_forward(r->exec, &batch, training), "forward");
    must(exec_rows(r->exec, 1, &boxes), "boxes");
    must(exec_rows(r->exec, 2, &masks), "masks");
}

static void evaluate(graph_run_t *r, int64_t n, const shape_t *shapes)
{
    forward(r, n, shapes, false);
}

static int64_t output_count(const graph_run_t *r, const char *name, int64_t n)
{
    int value = r->graph->outputs[graph_find_output(r->graph, name)].value;
    int64_t rows[] = {n, BOX_ROWS, MASK_ROWS};
    return rows[r->graph->values[value].section] * shape_count(graph_shape(r->graph, value));
}

static void compare(graph_run_t *a, graph_run_t *b, const char *name, int64_t n)
{
    const float *x = graph_run_output(a, name), *y = graph_run_output(b, name);
    double worst = 0, most = 0;
    for (int64_t i = 0; i < output_count(a, name, n); i++) {
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        most = fmax(most, fabs((double)x[i]));
    }
    OK(most > 0 && worst <= 1e-5 * most, "%s: ref and cpu differ by %.1g of %.2g", name, worst, most);
}

static void check_backends(void)
{
    graph_run_t ref, cpu;
    open_small(&ref, &backend_ref, 2);
    open_small(&cpu, &backend_cpu, 2);
    for (int i = 0; i < 2; i++) {
        graph_run_t *r = i == 0 ? &ref : &cpu;
        must(exec_prepare(r->exec, 2, false), "planning");
        must(exec_ready(r->exec), "memory");
        evaluate(r, 2, NULL);
    }
    static const char *const names[] = {"rpn.0.logits", "rpn.4.deltas", "box.logits", "box.deltas",
                                        "mask.logits"};
    for (int i = 0; i < 5; i++) compare(&ref, &cpu, names[i], 2);
    OK(!graph_run_output(&cpu, "rpn.0.box_loss") && !graph_run_output(&cpu, "mask.loss"),
       "without targets there are no losses");
    graph_run_close(&ref);
    graph_run_close(&cpu);
}

/* A training step of two images without its update. Returns the objective. */
static double step(graph_run_t *r)
{
    static const char *const level_losses[] = {"objectness_loss", "box_loss"};
    static const char *const row_losses[] = {"box.class_loss", "box.box_loss", "mask.loss"};
    double sum = 0;
    forward(r, 2, NULL, true);
    for (int l = 0; l < 2 * RCNN_LEVELS; l++) {
        char name[32];
        snprintf(name, sizeof name, "rpn.%d.%s", l / 2, level_losses[l % 2]);
        const float *losses = graph_run_output(r, name);
        sum += losses[0] + (double)losses[1];
    }
    for (int l = 0; l < 3; l++) {
        const float *losses = graph_run_output(r, row_losses[l]);
        for (int i = 0; i < (l < 2 ? BOX_ROWS : MASK_ROWS); i++) sum += (double)losses[i];
    }
    const exec_batch_t batch = graph_run_batch(r, 2);
    must(exec_backward(r->exec, &batch, NULL, NULL), "backward");
    return sum;
}

static void check_differences(graph_run_t *r)
{
    const float h = 2e-3f;
    int n_checked = 0, n_close = 0;
    for (int p = 0; p < r->graph->n_params; p++) {
        const graph_param_t *param = &r->graph->params[p];
        int64_t count = shape_count(param->shape), stride = count / 3 + 1;
        for (int64_t i = 0; !param->frozen && i < count; i += stride) {
            float *w = &r->params[param->offset + i], old = *w;
            step(r);
            double have = r->grads[param->offset + i];
            *w = old + h;
            double up = step(r);
            *w = old - h;
            double down = step(r);
            *w = old;
            double want = (up - down) / (2.0 * (double)h);
            bool close = fabs(want - have) <= 0.02 * fabs(want) + 0.003;
            if (!close) printf("# %s[%lld]: %g, by differences %g\n", param->name, (long long)i, have, want);
            n_checked++;
            n_close += close;
        }
    }
    OK(n_checked > 100 && n_close >= n_checked * 9 / 10, "%d of %d derivatives agree", n_close, n_checked);
}

/* Largest difference of a parameter's gradients, relative to their norm. */
static double differ(const graph_run_t *a, const graph_run_t *b, const graph_param_t *p)
{
    const float *x = a->grads + p->offset, *y = b->grads + p->offset;
    double squares = 0, worst = 0;
    for (int64_t i = 0; i < shape_count(p->shape); i++) {
        squares += (double)x[i] * x[i];
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    }
    return squares > 0 ? worst / sqrt(squares) : INFINITY;
}

static void check_training(void)
{
    graph_run_t ref, cpu;
    open_small(&ref, &backend_ref, 2);
    open_small(&cpu, &backend_cpu, 2);
    must(exec_prepare(ref.exec, 2, true), "planning"), must(exec_ready(ref.exec), "memory");
    must(exec_prepare(cpu.exec, 2, true), "planning"), must(exec_ready(cpu.exec), "memory");
    double want = step(&ref), have = step(&cpu), worst = 0;
    OK(fabs(have - want) <= 1e-5 * want, "the losses of cpu sum up to %g, of ref to %g", have, want);
    for (int i = 0; i < ref.graph->n_params; i++)
        if (!ref.graph->params[i].frozen) worst = fmax(worst, differ(&ref, &cpu, &ref.graph->params[i]));
    OK(worst <= 1e-4, "gradients of ref and cpu differ by at most %.1g of a parameter's norm", worst);
    check_differences(&cpu);
    graph_run_close(&ref);
    graph_run_close(&cpu);
}

static void check_arena(void)
{
    static const int64_t canvases[][2] = {{HEIGHT, WIDTH}, {WIDTH, HEIGHT}, {96, 96}, {32, 32}};
    shape_t shapes[4][GRAPH_MAX_INPUTS];
    graph_run_t r;
    open_small(&r, &backend_cpu, 2);
    for (int i = 0; i < 4; i++) {
        rcnn_shapes(r.graph, canvases[i][0], canvases[i][1], shapes[i]);
        OK_CALL(exec_prepare_shapes(r.exec, 1, shapes[i], false), "canvas %lldx%lld",
                (long long)canvases[i][0], (long long)canvases[i][1]);
    }
    must(exec_ready(r.exec), "memory");
    float *first = NULL;
    const int64_t n_mask = output_count(&r, "mask.logits", 1);
    must(mem_new_array(n_mask, sizeof *first, "masks", &first), "memory");
    fill_regions(r.input[graph_find_input(r.graph, "box.regions")], BOX_ROWS, 1, 32, 32);
    fill_regions(r.input[graph_find_input(r.graph, "mask.regions")], MASK_ROWS, 1, 32, 32);
    evaluate(&r, 1, shapes[0]);
    memcpy(first, graph_run_output(&r, "mask.logits"), (size_t)n_mask * sizeof *first);
    int64_t count = mem_count();
    for (int i = 1; i < 4; i++) evaluate(&r, 1, shapes[i]);
    evaluate(&r, 1, shapes[0]);
    OK(mem_count() == count, "other canvases allocate nothing");
    OK(memcmp(first, graph_run_output(&r, "mask.logits"), (size_t)n_mask * sizeof *first) == 0,
       "and leave no trace");
    mem_free(&first);
    graph_run_close(&r);
}

/* Choices that the rule makes; *others: those other than Winograd's of 3×3 with stride 1, which are products and of
 * gradients; -1: some are not. */
static int count_choices(const backend_t *backend, const batch_size_t *size, int *others)
{
    graph_t *g = build("maskrcnn_resnet18_fpn", 800, 1088);
    algorithms_t table = {.n = 0};
    must(rcnn_algorithms(g, backend, size, 1, &table), "algorithms");
    int n = table.n;
    *others = 0;
    for (int i = 0; i < n && *others >= 0; i++) {
        const algorithm_t *e = &table.entries[i];
        if (strstr(e->key, "3x3 stride=1x1") && strcmp(e->name, "winograd/nhwc") == 0) continue;
        *others = strcmp(e->name, "gemm") == 0 && e->pass != OP_FORWARD ? *others + 1 : -1;
    }
    algorithms_free(&table);
    graph_free(&g);
    return n;
}

static void check_algorithms(void)
{
    const batch_size_t evaluation = {1, false, NULL}, training = {1, true, NULL};
    int others;
    /* Four sizes in the trunk, three more in the pyramid, its four with ReLU in the proposal head, the mask head. */
    int n = count_choices(&backend_cpu, &evaluation, &others);
    OK(n == 4 + 3 + 4 + 1 && others == 0, "%d convolutions are Winograd's", n);
    n = count_choices(&backend_cpu, &training, &others);
    OK(others > 0 && n == 3 * (4 + 3 + 4 + 1) + others, "in training %d passes, other gradients are products",
       n);
    OK(count_choices(&backend_ref, &evaluation, &others) == 0, "and none of ref");
}

int main(void)
{
    must(backend_open(&backend_cpu, 1), "opening the CPU");
    tap_plan(2 * 4 + 3 + 3 + 3 + 2 + 6 + 4 + 4 + 3 + 1);
    check_sizes("maskrcnn_resnet50_fpn", 44401393);
    check_sizes("fasterrcnn_resnet50_fpn", 41755286);
    check_sizes("maskrcnn_resnet18_fpn", 31376113);
    check_sizes("fasterrcnn_resnet18_fpn", 28730006);
    graph_t *g = build("maskrcnn_resnet50_fpn", 800, 1088);
    check_canvas(g, 800, 1088, 13, 17);
    check_canvas(g, 480, 640, 8, 10);
    check_canvas(g, 1088, 800, 17, 13);
    graph_free(&g);
    check_refused();
    check_norms();
    check_algorithms();
    check_backends();
    check_training();
    check_arena();
    if (backend_cpu.close) backend_cpu.close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
