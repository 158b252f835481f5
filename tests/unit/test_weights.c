/* SPDX-License-Identifier: MIT */
/* Weights from and for other programs: names by tables, layouts, what is left out and what is refused. */
#include "train/weights/weights.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "compute/graph/layers.h"
#include "compute/models/model.h"
#include "store/checkpoint/arrays.h"
#include "store/checkpoint/file.h"
#include "tests/folder.h"
#include "tests/net.h"
#include "tests/npz_util.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "train/weights/model_file.h"
#include "train/weights/transfer.h"

static bool write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool written = file && fputs(text, file) >= 0;
    return file && fclose(file) == 0 && written;
}

typedef struct name_case {
    const char *table, *ours, *theirs;
} name_case_t;

static const name_case_t name_cases[] = {
    {"torchvision", "conv1/weight", "conv1.weight"},
    {"torchvision", "layer1.0.bn1/gamma", "layer1.0.bn1.weight"},
    {"torchvision", "layer3.5.downsample.1/beta", "layer3.5.downsample.1.bias"},
    {"torchvision", "layer4.2.bn3/running_var", "layer4.2.bn3.running_var"},
    {"torchvision", "fc/bias", "fc.bias"},
    {"detectron2", "conv1/weight", "stem.conv1.weight"},
    {"detectron2", "bn1/running_mean", "stem.conv1.norm.running_mean"},
    {"detectron2", "layer1.0.conv2/weight", "res2.0.conv2.weight"},
    {"detectron2", "layer4.2.bn3/gamma", "res5.2.conv3.norm.weight"},
    {"detectron2", "layer2.0.downsample.0/weight", "res3.0.shortcut.weight"},
    {"detectron2", "layer2.0.downsample.1/running_var", "res3.0.shortcut.norm.running_var"},
    {"detectron2", "fc/weight", "stem.fc.weight"},
    {"detectron2", "backbone.body.bn1/beta", "backbone.bottom_up.stem.conv1.norm.bias"},
    {"detectron2", "backbone.body.layer4.2.bn3/gamma", "backbone.bottom_up.res5.2.conv3.norm.weight"},
    {"tensorpack", "conv1/weight", "conv0/W"},
    {"tensorpack", "bn1/running_var", "conv0/bn/variance/EMA"},
    {"tensorpack", "layer1.0.conv2/weight", "group0/block0/conv2/W"},
    {"tensorpack", "layer4.2.bn3/gamma", "group3/block2/conv3/bn/gamma"},
    {"tensorpack", "layer2.0.downsample.0/weight", "group1/block0/convshortcut/W"},
    {"tensorpack", "layer2.0.downsample.1/running_mean", "group1/block0/convshortcut/bn/mean/EMA"},
    {"tensorpack", "fc/bias", "linear/b"},
    {"huggingface", "bn1/beta", "resnet.embedder.embedder.normalization.bias"},
    {"huggingface", "layer3.5.conv1/weight", "resnet.encoder.stages.2.layers.5.layer.0.convolution.weight"},
    {"huggingface", "layer1.0.downsample.1/gamma",
     "resnet.encoder.stages.0.layers.0.shortcut.normalization.weight"},
    {"huggingface", "fc/weight", "classifier.1.weight"},
    {"dptrain", "layer1.0.bn1/gamma", "layer1.0.bn1/gamma"},
};
enum { N_NAMES = sizeof name_cases / sizeof name_cases[0] };

static void check_names(name_table_t *table)
{
    char theirs[NAME_THEIRS_MAX] = "";
    for (int i = 0; i < N_NAMES; i++) {
        const name_case_t *c = &name_cases[i];
        must(name_table_read(c->table, table), c->table);
        OK(name_table_find(table, c->ours, 0, theirs) && strcmp(theirs, c->theirs) == 0, "%s: %s is %s",
           c->table, c->ours, theirs);
    }
    must(name_table_read("huggingface", table), "huggingface");
    OK(!name_table_find(table, "features.0/weight", 0, theirs) &&
           !name_table_find(table, "layer1.0.conv/weight", 0, theirs) &&
           !name_table_find(table, "layer1.0.conv01/weight", 0, theirs),
       "what no rule fits has no name");
}

static bool all_differ(const graph_t *g, const name_table_t *table)
{
    enum { MANY = 300 };
    static char names[MANY][NAME_THEIRS_MAX];
    int n = 0;
    for (int i = 0; i < g->n_params + g->n_states; i++) {
        const graph_param_t *p = i < g->n_params ? &g->params[i] : &g->states[i - g->n_params];
        if (!name_table_find(table, p->name, 0, names[n])) return false;
        for (int k = 0; k < n; k++)
            if (strcmp(names[k], names[n]) == 0) return false;
        n++;
    }
    return true;
}

static void check_tables(name_table_t *table)
{
    model_options_t options = {.sample = shape_3d(224, 224, 3), .n_classes = 1000};
    graph_t *g = NULL;
    must(model_build("resnet50", &options, &g), "resnet50");
    for (const name_table_text_t *t = name_tables; t->name; t++) {
        must(name_table_read(t->name, table), t->name);
        OK(all_differ(g, table), "%s: each of resnet50's tensors has its own name", t->name);
    }
    graph_free(&g);
}

static void check_bad_tables(name_table_t *table)
{
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"a b c\n", "line 1"},
        {"# only words\nconv1/weight\n", "line 2"},
        {"layout OIHH\na b\n", "invalid layout"},
        {"layout OIH\na b\n", "invalid layout"},
        {"deconv IOH\na b\n", "invalid layout"},
        {"input GBR\na b\n", "invalid input"},
        {"flat HW\na b\n", "invalid layout"},
        {"heads keras\na b\n", "invalid heads"},
        {"masks middle\na b\n", "place of the background"},
        {"logits none\na b\n", "place of the background"},
        {"ending :0123456789\na b\n", "ending is too long"},
        {"a{s b\n", "invalid number"},
        {"a{s+1} b\n", "only on the right"},
        {"a{s} b{t}\n", "missing on the left"},
        {"a b%\n", "missing on the left"},
        {"a%{s} b\n", "may follow"},
        {"a%b% c\n", "may follow"},
        {"# nothing\n", "no rules"},
    };
    enum { N = sizeof bad / sizeof bad[0] };
    const char *path = folder_path("names.txt");
    for (int i = 0; i < N; i++) {
        bool written = write_text(path, bad[i].text);
        OK(written && name_table_read(path, table) == ERR_USAGE && SAYS("names.txt", bad[i].word),
           "refused: %s", err_message());
    }
    OK(name_table_read("keras", table) == ERR_USAGE &&
           SAYS("'keras'", "torchvision", "huggingface", "a file"),
       "an unknown table: %s", err_message());
    char theirs[NAME_THEIRS_MAX];
    OK(write_text(path, "layout HWIO\na/x y\na/% z%\n") && name_table_read(path, table) == ERR_OK &&
           strcmp(table->deconv, "HWOI") == 0 && !table->bgr && name_table_find(table, "a/x", 1, theirs) &&
           strcmp(theirs, "zx") == 0 && !name_table_find(table, "a/x", 2, theirs),
       "another spelling, and the layout of a transposed convolution");
    OK(write_text(path, "# mine\r\n\tlayout  HWIO\r\nblock{b}.{b}/x%y  %-{b-1}-{b+9}") &&
           name_table_read(path, table) == ERR_OK && strcmp(table->layout, "HWIO") == 0 &&
           name_table_find(table, "block3.3/xabcy", 0, theirs) && strcmp(theirs, "abc-2-12") == 0 &&
           !name_table_find(table, "block3.4/xabcy", 0, theirs) &&
           !name_table_find(table, "block3.3/xy", 0, theirs) &&
           !name_table_find(table, "block0.0/xay", 0, theirs),
       "a file of one's own");
    unlink(path);
}

/* 3×5 images of 2 channels; conv to 4, a linear layer that reads its images, one that reads a row, the
 * classes. */
static net_t net_new(int n_classes)
{
    net_t net = {NULL, NULL, NULL};
    must(graph_new("small", &net.graph), "a graph");
    graph_t *g = net.graph;
    graph_input(g, "image", shape_3d(3, 5, 2), DTYPE_F32);
    int v = nn_conv2d(g, "conv", 0, (conv2d_layer_t){.channels = 4, .kernel = 3, .pad = 1});
    v = nn_norm(g, "norm", v);
    v = nn_linear(g, "wide", v, 6);
    v = nn_linear(g, "fc", v, n_classes);
    model_add_loss(g, &(model_options_t){.n_classes = n_classes}, v);
    net_finish(&net);
    return net;
}

/* A value that says where it belongs. */
static float at(int o, int h, int w, int i)
{
    return (float)(1000 * o + 100 * h + 10 * w + i);
}

/* Conv, [4, 3, 3, 2], and wide, [6, 3, 5, 4], hold `at` in our order. */
static bool in_place(const net_t *net)
{
    const float *conv = net_tensor(net, "conv/weight"), *wide = net_tensor(net, "wide/weight"),
                *fc = net_tensor(net, "fc/weight");
    bool right = true;
    for (int o = 0, k = 0; o < 4; o++)
        for (int h = 0; h < 3; h++)
            for (int w = 0; w < 3; w++)
                for (int i = 0; i < 2; i++) right = right && conv[k++] == at(o, h, w, i);
    for (int o = 0, k = 0; o < 6; o++)
        for (int h = 0; h < 3; h++)
            for (int w = 0; w < 5; w++)
                for (int i = 0; i < 4; i++) right = right && wide[k++] == at(o, h, w, i);
    for (int o = 0, k = 0; o < 7; o++)
        for (int i = 0; i < 6; i++) right = right && fc[k++] == at(o, 0, 0, i);
    return right && net_tensor(net, "conv/bias")[3] == 3 && net_tensor(net, "norm/running_var")[2] == 2.5f;
}

/* `at` in the order of `layout`, in C order or Fortran's of the array's own dimensions; returns how many. */
static int fill(const char *layout, const int dim[4], bool flat, bool fortran, float *out)
{
    int n = dim[0] * dim[1] * dim[2] * dim[3], index[4], size[4], n_out = dim[0], n_in = n / n_out;
    for (int k = 0; k < 4; k++) size[k] = dim[strchr("OHWI", layout[k]) - "OHWI"];
    for (int k = 0; k < n; k++) {
        int rest = k;
        for (int d = 3; d >= 0; rest /= size[d], d--) index[d] = rest % size[d];
        int value[4] = {0};
        for (int d = 0; d < 4; d++) value[strchr("OHWI", layout[d]) - "OHWI"] = index[d];
        int where = k;
        if (fortran && !flat)
            where = index[0] + size[0] * (index[1] + size[1] * (index[2] + size[2] * index[3]));
        if (fortran && flat)
            where = layout[0] == 'O' ? k / n_in + n_out * (k % n_in) : k / n_out + n_in * (k % n_out);
        out[where] = at(value[0], value[1], value[2], value[3]);
    }
    return n;
}

static const char *prefix = ""; /* of the names that `add` writes */

static bool add(const char *path, const char *name, const char *shape, bool fortran, const float *data, int n)
{
    char dictionary[128], member[64];
    snprintf(dictionary, sizeof dictionary, "{'descr': '<f4', 'fortran_order': %s, 'shape': (%s), }",
             fortran ? "True" : "False", shape);
    snprintf(member, sizeof member, "%s%s.npy", prefix, name);
    return npz_add_array(path, member, dictionary, data, (size_t)n * sizeof *data, fortran);
}

static const int conv_dim[] = {4, 3, 3, 2}, wide_dim[] = {6, 3, 5, 4};

/* All that the small net wants, by torchvision's names, in this layout. */
static bool write_small(const char *path, const char *layout, bool fortran)
{
    static float data[512], row[16] = {0, 1, 2, 3, 4, 5, 6}, variance[] = {0.5f, 1.5f, 2.5f, 3.5f};
    char shape[64];
    int size[4];
    bool outputs_first = strchr(layout, 'O') < strchr(layout, 'I');
    unlink(path);
    for (int k = 0; k < 4; k++) size[k] = conv_dim[strchr("OHWI", layout[k]) - "OHWI"];
    snprintf(shape, sizeof shape, "%d, %d, %d, %d", size[0], size[1], size[2], size[3]);
    bool done = add(path, "conv.weight", shape, fortran, data, fill(layout, conv_dim, false, fortran, data));
    done = done && add(path, "wide.weight", outputs_first ? "6, 60" : "60, 6", fortran, data,
                       fill(layout, wide_dim, true, fortran, data));
    int n = fill(outputs_first ? "OHWI" : "HWIO", (const int[]){7, 1, 1, 6}, true, fortran, data);
    done = done && add(path, "fc.weight", outputs_first ? "7, 6" : "6, 7", fortran, data, n);
    static const char *const rows[] = {"conv.bias", "norm.weight", "norm.bias", "norm.running_mean"};
    for (int i = 0; i < 4; i++) done = done && add(path, rows[i], "4,", fortran, row, 4);
    done = done && add(path, "norm.running_var", "4,", fortran, variance, 4);
    return done && add(path, "wide.bias", "6,", fortran, row, 6) &&
           add(path, "fc.bias", "7,", fortran, row, 7) &&
           add(path, "norm.num_batches_tracked", "", fortran, row, 1);
}

static void check_layouts(void)
{
    static const char *const layouts[] = {"OIHW", "HWIO", "OHWI"};
    const char *path = folder_path("small.npz"), *names = folder_path("names.txt");
    for (int k = 0; k < 6; k++) {
        const char *layout = layouts[k / 2];
        bool fortran = k % 2;
        char text[256];
        weights_report_t report;
        net_t net = net_new(7);
        snprintf(text, sizeof text,
                 "layout %s\n%%/gamma %%.weight\n%%/beta %%.bias\n%%/weight %%.weight\n%%/bias %%.bias\n"
                 "%%/running_mean %%.running_mean\n%%/running_var %%.running_var\n",
                 layout);
        bool written = write_text(names, text) && write_small(path, layout, fortran);
        err_t err = weights_import(path, names, net.graph, net.params, net.states, &report);
        OK(written && err == ERR_OK && in_place(&net) && report.n_taken == 10 && report.n_unused == 1 &&
               !report.reinitialized[0],
           "%s in %s order%s%s", layout, fortran ? "Fortran's" : "C", err == ERR_OK ? "" : ": ",
           err == ERR_OK ? "" : err_message());
        net_free(&net);
    }
    net_t net = net_new(7);
    weights_report_t report;
    OK(write_text(names, "layout HOWI\n% %\n") &&
           weights_import(path, names, net.graph, net.params, net.states, &report) == ERR_USAGE &&
           SAYS("HOWI", "wide/weight", "first or last"),
       "a layout that makes no matrix: %s", err_message());
    net_free(&net);
    unlink(names);
    unlink(path);
}

/* The model's weights are as before. */
static bool unchanged(const net_t *net)
{
    net_t fresh = net_new(model_classes(net->graph));
    bool same = memcmp(net->params, fresh.params, (size_t)fresh.graph->n_flat_params * sizeof(float)) == 0 &&
                memcmp(net->states, fresh.states, (size_t)fresh.graph->n_flat_states * sizeof(float)) == 0;
    net_free(&fresh);
    return same;
}

static void check_head(void)
{
    const char *path = folder_path("small.npz");
    weights_report_t report;
    net_t net = net_new(3), fresh = net_new(3);
    must(write_small(path, "OIHW", false) ? ERR_OK : ERR_SYSTEM, "an archive");
    OK_CALL(weights_import(path, "torchvision", net.graph, net.params, net.states, &report),
            "for other classes");
    OK(report.n_taken == 8 && strstr(report.reinitialized, "reinitialized") &&
           strstr(report.reinitialized, "7×6") &&
           memcmp(net_tensor(&net, "fc/weight"), net_tensor(&fresh, "fc/weight"), 18 * sizeof(float)) == 0 &&
           net_tensor(&net, "conv/weight")[1] == at(0, 0, 0, 1) && net_tensor(&net, "wide/bias")[5] == 5,
       "the classifier is reinitialized, and all else is imported: %s", report.reinitialized);
    net_free(&net), net_free(&fresh);

    static float data[64];
    net = net_new(7), fresh = net_new(7);
    unlink(path);
    must(write_small(path, "OIHW", false) ? ERR_OK : ERR_SYSTEM, "an archive");
    zip_t *archive = zip_open(path, 0, NULL);
    zip_delete(archive, (zip_uint64_t)zip_name_locate(archive, "fc.bias.npy", 0));
    must(zip_close(archive) == 0 ? ERR_OK : ERR_SYSTEM, "an archive");
    OK(weights_import(path, "torchvision", net.graph, net.params, net.states, &report) == ERR_OK &&
           report.n_taken == 8 && strstr(report.reinitialized, "fc.bias") &&
           memcmp(net_tensor(&net, "fc/weight"), net_tensor(&fresh, "fc/weight"), 42 * sizeof(float)) == 0,
       "half a classifier is none: %s", report.reinitialized);
    net_free(&net), net_free(&fresh);

    net = net_new(7);
    unlink(path);
    must(add(path, "conv.weight", "4, 3, 3, 2", false, data, 0) ? ERR_OK : ERR_SYSTEM, "an archive");
    OK(weights_import(path, "torchvision", net.graph, net.params, net.states, &report) == ERR_DATA &&
           SAYS("small.npz", "'conv.weight'", "4×3×3×2", "conv/weight", "4×2×3×3") && unchanged(&net),
       "another shape elsewhere: %s", err_message());
    OK(weights_import(path, "dptrain", net.graph, net.params, net.states, &report) == ERR_DATA &&
           SAYS("small.npz", "'conv/weight'", "it has 'conv.weight'", "another name table") &&
           unchanged(&net),
       "another name table: %s", err_message());
    OK(weights_import(path, "huggingface", net.graph, net.params, net.states, &report) == ERR_USAGE &&
           SAYS("no rule", "conv/weight"),
       "a table that does not know the model: %s", err_message());
    unlink(path);
    must(write_small(path, "OIHW", false) ? ERR_OK : ERR_SYSTEM, "an archive");
    archive = zip_open(path, 0, NULL);
    zip_delete(archive, (zip_uint64_t)zip_name_locate(archive, "wide.bias.npy", 0));
    data[4] = NAN;
    must(zip_close(archive) == 0 && add(path, "wide.bias", "6,", false, data, 6) ? ERR_OK : ERR_SYSTEM,
         "an archive");
    OK(weights_import(path, "torchvision", net.graph, net.params, net.states, &report) == ERR_DATA &&
           SAYS("small.npz", "'wide.bias'", "NaN"),
       "a NaN: %s", err_message());
    net_free(&net);
    unlink(path);
}

static void check_prefix(void)
{
    static const char *const prefixes[] = {"module.", "_orig_mod.module.", "model/", "conv.", ""};
    static const float one[] = {1};
    const char *path = folder_path("small.npz");
    weights_report_t report;
    int n_classes = 0;
    for (int i = 0; i < 5; i++) {
        net_t net = net_new(7);
        prefix = prefixes[i];
        bool written = write_small(path, "OIHW", false);
        prefix = "";
        written = written && add(path, i < 4 ? "n_averaged" : "module.conv.weight", "", false, one, 1);
        const err_t err = weights_import(path, "torchvision", net.graph, net.params, net.states, &report);
        OK(written && err == ERR_OK && in_place(&net) && report.n_taken == 10 &&
               strcmp(report.prefix, prefixes[i]) == 0 &&
               weights_count_classes(path, "torchvision", net.graph, &n_classes) == ERR_OK && n_classes == 7,
           "the prefix '%s'%s%s", prefixes[i], err == ERR_OK ? "" : ": ", err == ERR_OK ? "" : err_message());
        net_free(&net);
    }
    net_t net = net_new(7);
    prefix = "student.";
    bool written = write_small(path, "OIHW", false);
    prefix = "teacher.";
    written = written && add(path, "fc.bias", "7,", false, (const float[7]){0}, 7);
    prefix = "";
    OK(written &&
           weights_import(path, "torchvision", net.graph, net.params, net.states, &report) == ERR_DATA &&
           SAYS("'student.'", "'teacher.fc.bias'") && unchanged(&net),
       "two prefixes: %s", err_message());
    net_free(&net);
    unlink(path);
}

/* Refused with these words. */
static bool is_foreign(const char *path, const char *bytes, size_t n, const char *a, const char *b)
{
    FILE *file = fopen(path, "w");
    const bool written = file && fwrite(bytes, 1, n, file) == n;
    return file && fclose(file) == 0 && written && weights_check_file(path) == ERR_DATA && SAYS(a, b);
}

static void check_foreign(void)
{
    static const char torch[] =
        "PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\16\0\0\0model/data.pkl\200\2}q";
    static const char safe[] = "\20\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\"}}",
                      h5[] = "\211HDF\r\n\32\n\0\0\0\0";
    static const char odd[] = "r\303\251seau \"1\".pth";
    const char *path = folder_path("net.pth");
    OK(is_foreign(path, torch, sizeof torch, "PyTorch", "torch.load(") && SAYS("net.pth\"", "net.npz\""),
       "PyTorch's zip");
    OK(is_foreign(path, "\200\2\212\nl\374\234F\371 j\250P\031.", 15, "PyTorch", "torch.load("),
       "its older format");
    OK(!is_foreign(path, safe, sizeof safe, "", ""), "safetensors are left to the reader");
    OK(is_foreign(path, "\200\4\225\0\0\0\0\0", 8, "pickle", "pickle.load("), "a pickle");
    OK(is_foreign(path, h5, sizeof h5, "HDF5", "h5py.File("), "HDF5");
    OK(is_foreign(path, "\10\7\22\7dptrain", 11, "ONNX", "onnx.load("), "ONNX");
    OK(write_text(path, "<html>") && weights_check_file(path) == ERR_OK, "a page is left to the reader");
    unlink(path);
    path = folder_path("net.npz");
    OK(is_foreign(path, torch, sizeof torch, "torch.load(", "net.npz.npz\""),
       "one that is called .npz is kept");
    unlink(path);
    path = folder_path(odd);
    OK(is_foreign(path, torch, sizeof torch, odd, "/r\303\251seau \\\"1\\\".pth\""), "a name with quotes");
    unlink(path);
    path = folder_path("\1.pth");
    OK(is_foreign(path, torch, sizeof torch, "torch.load(\"FILE\"", "FILE.npz"),
       "one that cannot be printed");
    unlink(path);
}

static void check_round_trip(const char *names)
{
    const char *path = folder_path("round.npz");
    net_t net = net_new(7), back = net_new(7);
    weights_report_t report;
    const graph_t *g = net.graph;
    for (int64_t i = 0; i < g->n_flat_states; i++) net.states[i] += (float)i / 8;
    memset(back.params, 0, (size_t)g->n_flat_params * sizeof(float));
    err_t err = weights_export(path, names, g, net.params, net.states);
    if (err == ERR_OK) err = weights_import(path, names, g, back.params, back.states, &report);
    bool same = err == ERR_OK && report.n_unused == 0;
    for (int i = 0; i < g->n_params && same; i++) {
        const graph_param_t *p = &g->params[i];
        same = memcmp(net.params + p->offset, back.params + p->offset,
                      (size_t)shape_count(p->shape) * sizeof(float)) == 0;
    }
    for (int i = 0; i < g->n_states && same; i++) {
        const graph_param_t *p = &g->states[i];
        same = memcmp(net.states + p->offset, back.states + p->offset,
                      (size_t)shape_count(p->shape) * sizeof(float)) == 0;
    }
    OK(same, "to a file and back, by %s's names%s%s", names, err == ERR_OK ? "" : ": ",
       err == ERR_OK ? "" : err_message());
    net_free(&net), net_free(&back);
    unlink(path);
}

static void check_h5(void)
{
    const char *path = folder_path("weights.h5");
    net_t net = net_new(7);
    checkpoint_t *c = NULL;
    float conv[72] = {0}, mean[4];
    OK_CALL(weights_export(path, "torchvision", net.graph, net.params, net.states), "written as HDF5");
    OK_CALL(checkpoint_open(path, &c), "whose bytes match their checksum");
    err_t err = checkpoint_read(c, "/conv.weight", DTYPE_F32, shape_4d(4, 2, 3, 3), conv);
    if (err == ERR_OK) err = checkpoint_read(c, "/norm.running_mean", DTYPE_F32, shape_1d(4), mean);
    const float *ours = net_tensor(&net, "conv/weight");
    OK(err == ERR_OK && conv[1] == ours[2] && conv[9] == ours[1] && conv[18] == ours[18] &&
           strcmp(checkpoint_find(c, "/conv.weight")->meaning, "OIHW") == 0,
       "with the names and the layout of torchvision");
    checkpoint_close(&c);
    OK(weights_export(folder_path("weights.pt"), "torchvision", net.graph, net.params, net.states) ==
               ERR_USAGE &&
           SAYS("weights.pt", ".npz"),
       "another ending: %s", err_message());
    net_free(&net);
    unlink(path);
}

/* The network of a checkpoint: without the attribute, the one that --stem auto builds. */
static void check_stems(void)
{
    static const struct {
        const char *model, *stem;
        model_stem_t built;
    } cases[] = {{"resnet18", NULL, MODEL_STEM_SMALL},
                 {"resnet18", "small", MODEL_STEM_SMALL},
                 {"resnet18", "imagenet", MODEL_STEM_IMAGENET},
                 {"resnet18", "large", MODEL_STEM_AUTO},
                 {"mlp", "small", MODEL_STEM_AUTO}};
    const char *path = folder_path("stem.h5");
    const float one = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ckpt_array_t array = {.name = "/x", .dtype = DTYPE_F32, .shape = shape_1d(1), .data = &one};
        const h5_attr_t attrs[] = {h5_text("model", cases[i].model),
                                   h5_int("height", 32),
                                   h5_int("width", 32),
                                   h5_int("channels", 1),
                                   h5_int("n_classes", 10),
                                   h5_real("mean", 0),
                                   h5_real("std", 1),
                                   h5_text("precision", "fp32"),
                                   h5_int("multi_label", 0),
                                   h5_text("stem", cases[i].stem)};
        const ckpt_content_t content = {&array, 1, attrs, cases[i].stem ? 10 : 9};
        checkpoint_t *checkpoint = NULL;
        graph_t *g = NULL;
        pixel_norm_t norm;
        must(checkpoint_write(path, &content), path);
        must(checkpoint_open(path, &checkpoint), path);
        err_t err = model_file_graph(checkpoint, &g, &norm);
        OK(cases[i].built == MODEL_STEM_AUTO ? err == ERR_DATA && strstr(err_message(), "stem")
                                             : err == ERR_OK && model_stem_of(g) == cases[i].built,
           "%s, stem %s", cases[i].model, cases[i].stem ? cases[i].stem : "of an earlier version");
        graph_free(&g);
        checkpoint_close(&checkpoint);
    }
    unlink(path);
}

int main(void)
{
    name_table_t *table;
    if (!folder_begin()) return 1;
    must(mem_new(sizeof *table, "a table", &table), "memory");
    tap_plan(N_NAMES + 1 + 5 + 21 + 7 + 7 + 6 + 2 + 7 + 2 + 4 + 6 + 1);
    check_names(table);
    check_tables(table);
    check_bad_tables(table);
    check_layouts();
    check_head();
    check_prefix();
    check_foreign();
    check_round_trip("torchvision");
    check_round_trip("dptrain");
    check_h5();
    check_stems();
    mem_free(&table);
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
