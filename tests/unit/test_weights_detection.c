/* SPDX-License-Identifier: MIT */
/* Weights of detectors: torchvision's names and older spellings, transposed convolutions, heads of other classes, a
 * trunk alone, TensorPack's and Detectron2's files. On a small graph whose layers have a detector's names. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "compute/graph/layers.h"
#include "store/checkpoint/arrays.h"
#include "tests/folder.h"
#include "tests/net.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "train/weights/weights.h"

enum { CLASSES = 3, SIDE = 4, WIDTH = 6, MOST = 64 };
#define TRUNK "backbone.body."

static int conv(graph_t *g, const char *name, int v, int64_t channels, int kernel, bool no_bias)
{
    return nn_conv2d(
        g, name, v,
        (conv2d_layer_t){.channels = channels, .kernel = kernel, .pad = kernel / 2, .no_bias = no_bias});
}

static int deconv(graph_t *g, const char *name, int v, int64_t channels)
{
    static const graph_param_spec_t params[] = {{"weight", "HWOI", INIT_DEFAULT}, {"bias", "O", INIT_ZERO}};
    op_desc_t desc = {.kind = OP_DECONV2D,
                      .dtype = DTYPE_F32,
                      .n_inputs = 1,
                      .attr.deconv2d = {.out_channels = channels, .kernel = 2, .has_bias = true}};
    return graph_add(g, name, desc, &v, params, NULL);
}

static net_t net_new(int n_classes)
{
    net_t net = {NULL, NULL, NULL};
    must(graph_new("small", &net.graph), "a graph");
    graph_t *g = net.graph;
    g->frozen = true; /* there are no losses */
    int v = conv(g, TRUNK "conv1", graph_input(g, "image", shape_3d(SIDE, SIDE, 3), DTYPE_F32), 4, 3, true);
    v = nn_frozen_norm(g, TRUNK "bn1", v);
    v = conv(g, TRUNK "layer2.0.downsample.0", v, 5, 1, true);
    v = nn_frozen_norm(g, TRUNK "layer2.0.downsample.1", v);
    v = conv(g, "backbone.fpn.inner_blocks.0.0", v, WIDTH, 1, false);
    v = conv(g, "backbone.fpn.layer_blocks.0.0", v, WIDTH, 3, false);
    graph_output(g, "rpn.0.logits", conv(g, "rpn.head.conv.0.0", v, 2, 3, false));
    int box = nn_linear(g, "roi_heads.box_head.fc6", v, 5);
    graph_output(g, "box.logits", nn_linear(g, "roi_heads.box_predictor.cls_score", box, n_classes));
    graph_output(g, "box.deltas",
                 nn_linear(g, "roi_heads.box_predictor.bbox_pred", box, 4 * (int64_t)n_classes));
    v = conv(g, "roi_heads.mask_head.0.0", v, 4, 3, false);
    v = deconv(g, "roi_heads.mask_predictor.conv5_mask", v, 7);
    graph_output(g, "mask.logits",
                 conv(g, "roi_heads.mask_predictor.mask_fcn_logits", v, n_classes, 1, false));
    net_finish(&net);
    return net;
}

/* An array of a file: its values are `base` + index. */
typedef struct array {
    const char *name, *older; /* older: the spelling of earlier versions, or NULL */
    int n_dims;
    int64_t dim[4];
    float base;
} array_t;

static const array_t trunk[] = {
    {"conv1.weight", NULL, 4, {4, 3, 3, 3}, 0},
    {"bn1.weight", NULL, 1, {4}, 200},
    {"bn1.bias", NULL, 1, {4}, 210},
    {"bn1.running_mean", NULL, 1, {4}, 220},
    {"bn1.running_var", NULL, 1, {4}, 230},
    {"layer2.0.downsample.0.weight", NULL, 4, {5, 4, 1, 1}, 300},
    {"layer2.0.downsample.1.weight", NULL, 1, {5}, 400},
    {"layer2.0.downsample.1.bias", NULL, 1, {5}, 410},
    {"layer2.0.downsample.1.running_mean", NULL, 1, {5}, 420},
    {"layer2.0.downsample.1.running_var", NULL, 1, {5}, 430},
};
enum { N_TRUNK = sizeof trunk / sizeof trunk[0] };

#define FPN  "backbone.fpn."
#define BOX  "roi_heads.box_predictor."
#define MASK "roi_heads.mask_head."
static const array_t rest[] = {
    {FPN "inner_blocks.0.0.weight", FPN "inner_blocks.0.weight", 4, {WIDTH, 5, 1, 1}, 1000},
    {FPN "inner_blocks.0.0.bias", FPN "inner_blocks.0.bias", 1, {WIDTH}, 1100},
    {FPN "layer_blocks.0.0.weight", FPN "layer_blocks.0.weight", 4, {WIDTH, WIDTH, 3, 3}, 2000},
    {FPN "layer_blocks.0.0.bias", FPN "layer_blocks.0.bias", 1, {WIDTH}, 2500},
    {"rpn.head.conv.0.0.weight", "rpn.head.conv.weight", 4, {2, WIDTH, 3, 3}, 3000},
    {"rpn.head.conv.0.0.bias", "rpn.head.conv.bias", 1, {2}, 3200},
    {"roi_heads.box_head.fc6.weight", NULL, 2, {5, WIDTH *SIDE *SIDE}, 4000},
    {"roi_heads.box_head.fc6.bias", NULL, 1, {5}, 4500},
    {BOX "cls_score.weight", NULL, 2, {CLASSES, 5}, 5000},
    {BOX "cls_score.bias", NULL, 1, {CLASSES}, 5100},
    {BOX "bbox_pred.weight", NULL, 2, {4 * CLASSES, 5}, 5200},
    {BOX "bbox_pred.bias", NULL, 1, {4 * CLASSES}, 5300},
    {MASK "0.0.weight", MASK "mask_fcn1.weight", 4, {4, WIDTH, 3, 3}, 6000},
    {MASK "0.0.bias", MASK "mask_fcn1.bias", 1, {4}, 6300},
    {"roi_heads.mask_predictor.conv5_mask.weight", NULL, 4, {4, 7, 2, 2}, 7000},
    {"roi_heads.mask_predictor.conv5_mask.bias", NULL, 1, {7}, 7200},
    {"roi_heads.mask_predictor.mask_fcn_logits.weight", NULL, 4, {CLASSES, 7, 1, 1}, 8000},
    {"roi_heads.mask_predictor.mask_fcn_logits.bias", NULL, 1, {CLASSES}, 8100},
};
enum { N_REST = sizeof rest / sizeof rest[0], N_ALL = N_TRUNK + N_REST };

/* A file to be written. */
typedef struct file {
    array_entry_t entries[MOST];
    char names[MOST][96];
    float data[MOST][512];
    int n;
} file_t;

static void add(file_t *f, const char *prefix, const char *name, const array_t *a)
{
    snprintf(f->names[f->n], sizeof f->names[0], "%s%s", prefix, name);
    array_entry_t *e = &f->entries[f->n];
    *e = (array_entry_t){f->names[f->n], {.n_dims = a->n_dims}, f->data[f->n]};
    memcpy(e->shape.dim, a->dim, sizeof a->dim);
    int64_t n = shape_count(e->shape);
    ASSERT(n <= 512 && f->n < MOST);
    for (int64_t k = 0; k < n; k++) f->data[f->n][k] = a->base + (float)k;
    f->n++;
}

/* torchvision's file of the whole detector, in the new or the older spelling. */
static void add_detector(file_t *f, bool older)
{
    f->n = 0;
    for (int i = 0; i < N_TRUNK; i++) add(f, TRUNK, trunk[i].name, &trunk[i]);
    for (int i = 0; i < N_REST; i++)
        add(f, "", older && rest[i].older ? rest[i].older : rest[i].name, &rest[i]);
}

static const char *write_file(const file_t *f)
{
    const char *path = folder_path("detector.npz");
    must(arrays_write(path, f->entries, f->n, NULL), path);
    return path;
}

static void rename_array(file_t *f, const char *name, const char *to)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->names[i], name) == 0) snprintf(f->names[i], sizeof f->names[0], "%s", to);
}

/* The trunk has the values of `trunk`. */
static bool has_trunk(const net_t *net)
{
    const float *conv1 = net_tensor(net, TRUNK "conv1/weight"), *b = net_tensor(net, TRUNK "bn1/beta");
    bool right = true;
    for (int o = 0, k = 0; o < 4; o++)
        for (int h = 0; h < 3; h++)
            for (int w = 0; w < 3; w++)
                for (int i = 0; i < 3; i++)
                    right = right && conv1[k++] == (float)(((o * 3 + i) * 3 + h) * 3 + w);
    return right && b[3] == 213 && net_tensor(net, TRUNK "bn1/gamma")[0] == 200 &&
           net_tensor(net, TRUNK "bn1/running_mean")[1] == 221 &&
           net_tensor(net, TRUNK "bn1/running_var")[2] == 232 &&
           net_tensor(net, TRUNK "layer2.0.downsample.0/weight")[7] == 307 &&
           net_tensor(net, TRUNK "layer2.0.downsample.1/running_var")[4] == 434;
}

/* fc6 reads [SIDE, SIDE, WIDTH] here and [WIDTH, SIDE, SIDE] there; conv5_mask is [2, 2, 7, 4] here and [4, 7, 2, 2]
 * there. */
static bool has_rest(const net_t *net)
{
    const float *fc6 = net_tensor(net, "roi_heads.box_head.fc6/weight");
    const float *mask = net_tensor(net, "roi_heads.mask_predictor.conv5_mask/weight");
    bool right = true;
    for (int o = 0, k = 0; o < 5; o++)
        for (int h = 0; h < SIDE; h++)
            for (int w = 0; w < SIDE; w++)
                for (int c = 0; c < WIDTH; c++)
                    right = right && fc6[k++] == (float)(4000 + ((o * WIDTH + c) * SIDE + h) * SIDE + w);
    for (int h = 0, k = 0; h < 2; h++)
        for (int w = 0; w < 2; w++)
            for (int o = 0; o < 7; o++)
                for (int i = 0; i < 4; i++)
                    right = right && mask[k++] == (float)(7000 + ((i * 7 + o) * 2 + h) * 2 + w);
    return right && net_tensor(net, FPN "inner_blocks.0.0/bias")[5] == 1105 &&
           net_tensor(net, FPN "layer_blocks.0.0/weight")[1] == 2009 &&
           net_tensor(net, "rpn.head.conv.0.0/bias")[1] == 3201 &&
           net_tensor(net, MASK "0.0/bias")[3] == 6303;
}

static bool has_heads(const net_t *net)
{
    return net_tensor(net, BOX "cls_score/weight")[14] == 5014 &&
           net_tensor(net, BOX "bbox_pred/bias")[11] == 5311 &&
           net_tensor(net, "roi_heads.mask_predictor.mask_fcn_logits/weight")[20] == 8020;
}

/* The parameters of layers with this prefix are as graph_init left them. */
static bool unchanged(const net_t *net, const char *prefix)
{
    const graph_t *g = net->graph;
    float *params = NULL, *states = NULL;
    must(mem_new_array(g->n_flat_params, sizeof(float), "weights", &params), "memory");
    must(mem_new_array(g->n_flat_states, sizeof(float), "running values", &states), "memory");
    graph_init(g, 5, params, states);
    bool same = true;
    for (int i = 0; i < g->n_params; i++) {
        const graph_param_t *p = &g->params[i];
        size_t n = (size_t)shape_count(p->shape) * sizeof(float);
        if (strncmp(p->name, prefix, strlen(prefix)) == 0)
            same = same && memcmp(net->params + p->offset, params + p->offset, n) == 0;
    }
    mem_free(&params);
    mem_free(&states);
    return same;
}

static err_t import(const char *path, const char *names, const net_t *net, weights_report_t *report)
{
    return weights_import(path, names, net->graph, net->params, net->states, report);
}

static void check_detector(file_t *f)
{
    for (int older = 0; older < 2; older++) {
        net_t net = net_new(CLASSES);
        weights_report_t report;
        add_detector(f, older);
        err_t err = import(write_file(f), "torchvision", &net, &report);
        OK(err == ERR_OK && report.n_taken == N_ALL && report.n_unused == 0 && !report.reinitialized[0] &&
               has_trunk(&net) && has_rest(&net) && has_heads(&net),
           "torchvision's detector, %s names%s%s", older ? "older" : "new", err ? ": " : "",
           err ? err_message() : "");
        net_free(&net);
    }
}

static bool same_files(const char *a, const char *b)
{
    char *one = NULL, *two = NULL;
    size_t n_one = 0, n_two = 0;
    must(fs_read_file(a, 1 << 20, &one, &n_one), a);
    must(fs_read_file(b, 1 << 20, &two, &n_two), b);
    bool same = n_one == n_two && memcmp(one, two, n_one) == 0;
    mem_free(&one);
    mem_free(&two);
    return same;
}

static void check_round_trip(const char *names)
{
    char first[FS_PATH_MAX], second[FS_PATH_MAX];
    snprintf(first, sizeof first, "%s", folder_path("first.npz"));
    snprintf(second, sizeof second, "%s", folder_path("second.npz"));
    net_t net = net_new(CLASSES), back = net_new(CLASSES);
    weights_report_t report;
    for (int64_t i = 0; i < net.graph->n_flat_states; i++) net.states[i] += (float)i / 8;
    memset(back.params, 0, (size_t)back.graph->n_flat_params * sizeof(float));
    must(weights_export(first, names, net.graph, net.params, net.states), first);
    must(import(first, names, &back, &report), first);
    must(weights_export(second, names, back.graph, back.params, back.states), second);
    OK(same_files(first, second), "%s: export, import, export gives the same bytes", names);
    arrays_t *file = NULL;
    must(arrays_open(first, &file), first);
    bool all = arrays_count(file) == N_ALL;
    for (int i = 0; i < N_ALL && strcmp(names, "torchvision") == 0; i++) {
        const array_t *a = i < N_TRUNK ? &trunk[i] : &rest[i - N_TRUNK];
        char name[96];
        array_info_t array;
        snprintf(name, sizeof name, "%s%s", i < N_TRUNK ? TRUNK : "", a->name);
        all = all && arrays_has(file, name) && arrays_describe(file, name, &array) == ERR_OK &&
              array.shape.n_dims == a->n_dims &&
              memcmp(array.shape.dim, a->dim, (size_t)a->n_dims * sizeof a->dim[0]) == 0;
    }
    OK(all, "%s: with all names and shapes", names);
    arrays_close(&file);
    unlink(first), unlink(second);
    net_free(&net), net_free(&back);
}

static void check_classes(file_t *f)
{
    net_t net = net_new(CLASSES + 2);
    weights_report_t report;
    int n = 0;
    add_detector(f, false);
    const char *path = write_file(f);
    OK_CALL(import(path, "torchvision", &net, &report), "a detector of other classes");
    OK(report.n_taken == N_ALL - 6 && has_rest(&net) && unchanged(&net, BOX) &&
           unchanged(&net, "roi_heads.mask_predictor.mask_fcn_logits") &&
           strstr(report.reinitialized, BOX "cls_score, " BOX "bbox_pred, ") &&
           strstr(report.reinitialized, "mask_fcn_logits are reinitialized") &&
           strstr(report.reinitialized, "3×5, not 5×5"),
       "keeps the initial values of its heads: %s", report.reinitialized);
    OK(weights_count_classes(path, "torchvision", net.graph, &n) == ERR_OK && n == CLASSES,
       "the file's classes are counted");
    rename_array(f, "roi_heads.mask_predictor.mask_fcn_logits.bias", "other");
    net_free(&net);
    net = net_new(CLASSES);
    OK(import(write_file(f), "torchvision", &net, &report) == ERR_OK && report.n_taken == N_ALL - 6 &&
           unchanged(&net, BOX) && strstr(report.reinitialized, "has no 'roi_heads.mask_predictor"),
       "heads are imported together: %s", report.reinitialized);
    net_free(&net);
}

static void check_trunk(file_t *f)
{
    net_t net = net_new(CLASSES);
    weights_report_t report;
    f->n = 0;
    for (int i = 0; i < N_TRUNK; i++) add(f, "", trunk[i].name, &trunk[i]);
    add(f, "", "fc.weight", &(array_t){.n_dims = 2, .dim = {10, 5}});
    add(f, "", "bn1.num_batches_tracked", &(array_t){.n_dims = 0});
    const char *path = write_file(f);
    OK_CALL(import(path, "torchvision", &net, &report), "a classifier's file");
    OK(report.n_taken == N_TRUNK && report.n_unused == 2 && has_trunk(&net) && unchanged(&net, "roi_heads") &&
           unchanged(&net, "rpn") && unchanged(&net, "backbone.fpn") &&
           strstr(report.reinitialized, "only the trunk"),
       "fills the trunk: %s", report.reinitialized);
    int n;
    OK(weights_count_classes(path, "torchvision", net.graph, &n) == ERR_DATA &&
           SAYS("only a trunk for small", "training can start"),
       "but has no classes of detections: %s", err_message());
    rename_array(f, "bn1.bias", "bn1.other");
    OK(import(write_file(f), "torchvision", &net, &report) == ERR_DATA &&
           SAYS("no array 'backbone.body.bn1.bias'", "'bn1.other'"),
       "half a trunk is refused: %s", err_message());
    f->n = 0;
    for (int i = 0; i < N_TRUNK; i++) add(f, "", trunk[i].name, &trunk[i]);
    f->entries[5].shape = shape_4d(5, 2, 1, 1);
    OK(import(write_file(f), "torchvision", &net, &report) == ERR_DATA &&
           SAYS("'layer2.0.downsample.0.weight' is 5×2×1×1", "requires 5×4×1×1"),
       "as is another network's: %s", err_message());
    net_free(&net);
}

/* An array of four dimensions, OIHW or a transposed convolution's IOHW, as HWIO or HWOI. */
static void to_tensorflow(file_t *f, int i, const array_t *a, bool reversed)
{
    const int64_t *d = a->dim;
    int k = 0;
    f->entries[i].shape = shape_4d(d[2], d[3], d[1], d[0]);
    for (int64_t h = 0; h < d[2]; h++)
        for (int64_t w = 0; w < d[3]; w++)
            for (int64_t c = 0; c < d[1]; c++)
                for (int64_t o = 0; o < d[0]; o++) {
                    const int64_t from = reversed ? d[1] - 1 - c : c;
                    f->data[i][k++] = a->base + (float)(((o * d[1] + from) * d[2] + h) * d[3] + w);
                }
}

/* A matrix [outputs, inputs] as [inputs, outputs]. */
static void to_transposed(file_t *f, int i, const array_t *a)
{
    int k = 0;
    f->entries[i].shape = shape_2d(a->dim[1], a->dim[0]);
    for (int64_t c = 0; c < a->dim[1]; c++)
        for (int64_t o = 0; o < a->dim[0]; o++) f->data[i][k++] = a->base + (float)(o * a->dim[1] + c);
}

/* `trunk` as TensorPack writes it: HWIO, and conv1's input channels in reverse; and `rest`, whose masks have no
 * background. */
static void add_tensorpack(file_t *f, const char *end, bool whole)
{
    static const char *const names[N_ALL] = {
        "conv0/W",
        "conv0/bn/gamma",
        "conv0/bn/beta",
        "conv0/bn/mean/EMA",
        "conv0/bn/variance/EMA",
        "group1/block0/convshortcut/W",
        "group1/block0/convshortcut/bn/gamma",
        "group1/block0/convshortcut/bn/beta",
        "group1/block0/convshortcut/bn/mean/EMA",
        "group1/block0/convshortcut/bn/variance/EMA",
        "fpn/lateral_1x1_c2/W",
        "fpn/lateral_1x1_c2/b",
        "fpn/posthoc_3x3_p2/W",
        "fpn/posthoc_3x3_p2/b",
        "rpn/conv0/W",
        "rpn/conv0/b",
        "fastrcnn/fc6/W",
        "fastrcnn/fc6/b",
        "fastrcnn/outputs/class/W",
        "fastrcnn/outputs/class/b",
        "fastrcnn/outputs/box/W",
        "fastrcnn/outputs/box/b",
        "maskrcnn/fcn0/W",
        "maskrcnn/fcn0/b",
        "maskrcnn/deconv/W",
        "maskrcnn/deconv/b",
        "maskrcnn/conv/W",
        "maskrcnn/conv/b",
    };
    f->n = 0;
    for (int i = 0; i < (whole ? N_ALL : N_TRUNK); i++) {
        array_t a = i < N_TRUNK ? trunk[i] : rest[i - N_TRUNK];
        char name[96];
        snprintf(name, sizeof name, "%s%s", names[i], end);
        if (i >= N_ALL - 2) { /* object 1 begins where the background would */
            a.base += (float)(a.n_dims == 1 ? 1 : 7);
            a.dim[0]--;
        }
        add(f, "", name, &a);
        if (a.n_dims == 4) to_tensorflow(f, i, &a, i == 0);
        if (a.n_dims == 2) to_transposed(f, i, &a);
    }
}

/* Of Detectron2's boxes and of both programs' masks, the background is 0. */
static bool lacks_background(const net_t *net, bool boxes)
{
    const float *mask = net_tensor(net, "roi_heads.mask_predictor.mask_fcn_logits/weight"),
                *box = net_tensor(net, BOX "bbox_pred/weight");
    bool zero = net_tensor(net, "roi_heads.mask_predictor.mask_fcn_logits/bias")[0] == 0;
    for (int i = 0; i < 7; i++) zero = zero && mask[i] == 0 && mask[7 + i] == (float)(8007 + i);
    for (int i = 0; i < 4 * 5 && boxes; i++) zero = zero && box[i] == 0 && box[20 + i] == (float)(5220 + i);
    return zero;
}

static void check_tensorpack(file_t *f)
{
    static const char *const ends[] = {"", ":0"};
    for (int i = 0; i < 2; i++) {
        net_t net = net_new(CLASSES);
        weights_report_t report;
        add_tensorpack(f, ends[i], false);
        if (i > 0) add(f, "", "rpn/conv0/W:0", &(array_t){.n_dims = 1, .dim = {1}}); /* of another kind */
        err_t err = import(write_file(f), "tensorpack", &net, &report);
        OK(err == ERR_OK && report.n_taken == N_TRUNK && has_trunk(&net) && unchanged(&net, "rpn") &&
               strstr(report.reinitialized, "only the trunk") &&
               (strstr(report.reinitialized, "no 'fpn/lateral_1x1_c2/W'") != NULL) == (i > 0),
           "TensorPack's trunk, names with '%s': %s", ends[i], err ? err_message() : report.reinitialized);
        add_tensorpack(f, ends[i], true);
        err = import(write_file(f), "tensorpack", &net, &report);
        OK(err == ERR_OK && report.n_taken == N_ALL && !report.reinitialized[0] && has_trunk(&net) &&
               has_rest(&net) && has_heads(&net) && lacks_background(&net, false),
           "its detector: %s", err ? err_message() : report.reinitialized);
        net_free(&net);
    }
    net_t net = net_new(CLASSES + 2);
    weights_report_t report;
    const err_t err = import(folder_path("detector.npz"), "tensorpack", &net, &report);
    OK(err == ERR_OK && report.n_taken == N_ALL - 6 && has_rest(&net) &&
           strstr(report.reinitialized, "'fastrcnn/outputs/class/W:0' is 5×3, not 5×5"),
       "and of other classes: %s", err ? err_message() : report.reinitialized);
    net_free(&net);
}

static void add_detectron2(file_t *f, const char *prefix, bool whole)
{
    static const char *const names[N_ALL] = {
        "stem.conv1.weight",
        "stem.conv1.norm.weight",
        "stem.conv1.norm.bias",
        "stem.conv1.norm.running_mean",
        "stem.conv1.norm.running_var",
        "res3.0.shortcut.weight",
        "res3.0.shortcut.norm.weight",
        "res3.0.shortcut.norm.bias",
        "res3.0.shortcut.norm.running_mean",
        "res3.0.shortcut.norm.running_var",
        "backbone.fpn_lateral2.weight",
        "backbone.fpn_lateral2.bias",
        "backbone.fpn_output2.weight",
        "backbone.fpn_output2.bias",
        "proposal_generator.rpn_head.conv.weight",
        "proposal_generator.rpn_head.conv.bias",
        "roi_heads.box_head.fc1.weight",
        "roi_heads.box_head.fc1.bias",
        BOX "cls_score.weight",
        BOX "cls_score.bias",
        BOX "bbox_pred.weight",
        BOX "bbox_pred.bias",
        MASK "mask_fcn1.weight",
        MASK "mask_fcn1.bias",
        MASK "deconv.weight",
        MASK "deconv.bias",
        MASK "predictor.weight",
        MASK "predictor.bias",
    };
    f->n = 0;
    for (int i = 0; i < (whole ? N_ALL : N_TRUNK); i++) {
        array_t a = i < N_TRUNK ? trunk[i] : rest[i - N_TRUNK];
        const int64_t n_row = a.n_dims == 1 ? 1 : a.dim[1];
        const bool box = i == N_TRUNK + 10 || i == N_TRUNK + 11, mask = i >= N_ALL - 2;
        if (box || mask) { /* without the background */
            a.base += (float)((box ? 4 : 1) * n_row);
            a.dim[0] -= box ? 4 : 1;
        }
        add(f, i < N_TRUNK ? prefix : "", names[i], &a);
        if (i != N_TRUNK + 8 && i != N_TRUNK + 9) continue;
        for (int k = 0; k < CLASSES * n_row; k++) /* the background is the last */
            f->data[i][k] = a.base + (float)((k + n_row) % (CLASSES * n_row));
    }
}

static void check_detectron2(file_t *f)
{
    for (int detector = 0; detector < 2; detector++) {
        net_t net = net_new(CLASSES);
        weights_report_t report;
        add_detectron2(f, detector ? "backbone.bottom_up." : "", false);
        /* A layer with torchvision's name, among heads of another kind. */
        if (detector) add(f, "", BOX "cls_score.weight", &rest[8]);
        const char *path = write_file(f);
        err_t err = import(path, "detectron2", &net, &report);
        OK(err == ERR_OK && report.n_taken == N_TRUNK && has_trunk(&net) && unchanged(&net, "roi_heads") &&
               strstr(report.reinitialized, "only the trunk"),
           "Detectron2's %s: %s", detector ? "detector with other heads" : "trunk",
           err ? err_message() : report.reinitialized);
        if (detector)
            OK(import(path, "torchvision", &net, &report) == ERR_DATA &&
                   SAYS("has no array 'backbone.body.conv1.weight'", "--weights-names detectron2"),
               "refused by torchvision's names: %s", err_message());
        net_free(&net);
    }
    net_t net = net_new(CLASSES);
    weights_report_t report;
    add_detectron2(f, "backbone.bottom_up.", true);
    const err_t err = import(write_file(f), "detectron2", &net, &report);
    OK(err == ERR_OK && report.n_taken == N_ALL && !report.reinitialized[0] && has_trunk(&net) &&
           has_rest(&net) && has_heads(&net) && lacks_background(&net, true),
       "its detector: %s", err ? err_message() : report.reinitialized);
    net_free(&net);
}

static void check_refused(file_t *f)
{
    net_t net = net_new(CLASSES);
    weights_report_t report;
    add_detector(f, false);
    rename_array(f, MASK "0.0.weight", "other");
    OK(import(write_file(f), "torchvision", &net, &report) == ERR_DATA &&
           SAYS("detector.npz", "no array '" MASK "0.0.weight'", "another name table") && unchanged(&net, ""),
       "a missing array: %s", err_message());
    add_detector(f, false);
    f->data[N_TRUNK + 14][3] = NAN;
    OK(import(write_file(f), "torchvision", &net, &report) == ERR_DATA &&
           SAYS("'roi_heads.mask_predictor.conv5_mask.weight' contains NaN"),
       "NaN: %s", err_message());
    add_detector(f, false);
    f->entries[N_TRUNK + 14].shape = shape_4d(7, 4, 2, 2);
    OK(import(write_file(f), "torchvision", &net, &report) == ERR_DATA &&
           SAYS("is 7×4×2×2", "conv5_mask/weight of small requires 4×7×2×2"),
       "another shape: %s", err_message());
    net_free(&net);
}

int main(void)
{
    file_t *f;
    if (!folder_begin()) return 1;
    must(mem_new(sizeof *f, "a file", &f), "memory");
    tap_plan(2 + 8 + 4 + 5 + 5 + 4 + 3 + 1);
    check_detector(f);
    check_round_trip("torchvision");
    check_round_trip("dptrain");
    check_round_trip("tensorpack");
    check_round_trip("detectron2");
    check_classes(f);
    check_trunk(f);
    check_tensorpack(f);
    check_detectron2(f);
    check_refused(f);
    mem_free(&f);
    unlink(folder_path("detector.npz"));
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
