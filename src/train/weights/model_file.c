/* SPDX-License-Identifier: MIT */
/* Maps a model's flat buffers to the named arrays and attributes of a checkpoint, and back. Reading and
 * writing the file is left to store/checkpoint. */
#include "train/weights/model_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/mem.h"
#include "compute/models/model.h"
#include "compute/models/rcnn.h"
#include "store/checkpoint/store.h"
#include "text/opt.h"
#include "train/weights/onnx.h"
#include "train/weights/python.h"
#include "train/weights/weights.h"

enum { FOLDER_MAX_BYTES = 48 };

/* A flat buffer and the folder of the file that holds its tensors. */
typedef struct section {
    char folder[FOLDER_MAX_BYTES];
    const graph_param_t *tensors;
    int n;
    float *flat;       /* NULL: shared out among the ranks */
    bool trained_only; /* it has no frozen tensors */
} section_t;

enum {
    MAX_SECTIONS = 3 + OPTIM_MAX_BUFFERS,
    NAME_MAX_BYTES = FOLDER_MAX_BYTES + GRAPH_PARAM_NAME_MAX,
    N_MODEL_ATTRS = 9,
    N_MORE_ATTRS = 8 /* that not all models have */
};

static const char *const norm_names[PIXEL_MAX_CHANNELS][2] = {
    {"mean", "std"}, {"mean_1", "std_1"}, {"mean_2", "std_2"}, {"mean_3", "std_3"}};

static int sections_of(const graph_t *g, float *params, float *states, const optim_t *optim,
                       section_t out[MAX_SECTIONS])
{
    int n = 0;
    out[n++] = (section_t){.folder = "/params", .tensors = g->params, .n = g->n_params, .flat = params};
    for (int i = 0; optim && i < optim->n_buffers; i++) {
        out[n] = (section_t){.tensors = g->params,
                             .n = g->n_params,
                             .flat = optim->slices.size ? NULL : optim->buffers[i].flat.host,
                             .trained_only = true};
        snprintf(out[n].folder, sizeof out[n].folder, "/optimizer/%s", optim->buffers[i].name);
        n++;
    }
    out[n++] = (section_t){.folder = "/states", .tensors = g->states, .n = g->n_states, .flat = states};
    return n;
}

typedef char array_name_t[NAME_MAX_BYTES];

static bool has_tensor(const section_t *section, int i)
{
    return !section->trained_only || !section->tensors[i].frozen;
}

static void list_arrays(const section_t *sections, int n_sections, ckpt_array_t *arrays, array_name_t *names)
{
    int n = 0;
    for (int s = 0; s < n_sections; s++)
        for (int i = 0; i < sections[s].n; i++) {
            const graph_param_t *p = &sections[s].tensors[i];
            if (!has_tensor(&sections[s], i)) continue;
            snprintf(names[n], sizeof names[n], "%.*s/%s", FOLDER_MAX_BYTES - 1, sections[s].folder, p->name);
            const float *data = sections[s].flat ? sections[s].flat + p->offset : NULL;
            arrays[n] = (ckpt_array_t){names[n], DTYPE_F32, p->shape, data, p->meaning};
            n++;
        }
}

/* But for norms that are constants of the model. NULL: none. */
static err_t list_frozen(const graph_t *g, void *out_text)
{
    char **text = out_text;
    size_t used = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const graph_node_t *node = &g->nodes[i];
        const bool is_norm = node->desc.kind == OP_BATCH_NORM;
        if (node->desc.n_params == 0 || node->shared || !g->params[node->first_param].frozen) continue;
        if (is_norm && g->norm == GRAPH_NORM_FROZEN) continue;
        const size_t n = strlen(node->name) + 2;
        TRY(mem_grow((int64_t)(used + n), 1, "a checkpoint", text));
        used += (size_t)snprintf(*text + used, n, "%s%s", used > 0 ? "," : "", node->name);
    }
    return ERR_OK;
}

err_t model_file_content(const model_file_t *file, model_content_t *out)
{
    const graph_t *g = file->graph;
    const shape_t image = graph_shape(g, 0);
    section_t sections[MAX_SECTIONS];
    int n_sections = sections_of(g, file->params, file->states, file->optim, sections);
    int n_arrays = 0, channels = (int)image.dim[3];
    for (int s = 0; s < n_sections; s++)
        for (int i = 0; i < sections[s].n; i++) n_arrays += has_tensor(&sections[s], i);
    int n_attrs = N_MODEL_ATTRS + 2 * (channels - 1) + N_MORE_ATTRS + file->n_attrs;
    ASSERT(channels <= PIXEL_MAX_CHANNELS);
    *out = (model_content_t){0};
    err_t err;
    TRY_OUT(err, mem_new_array(n_arrays, sizeof(ckpt_array_t), "a checkpoint", &out->arrays));
    TRY_OUT(err, mem_new_array(n_arrays, sizeof(array_name_t), "a checkpoint", &out->names));
    TRY_OUT(err, mem_new_array(n_attrs, sizeof(h5_attr_t), "a checkpoint", &out->attrs));
    TRY_OUT(err, list_frozen(g, &out->frozen));
    list_arrays(sections, n_sections, out->arrays, out->names);
    const h5_attr_t model[N_MODEL_ATTRS] = {
        h5_text("model", g->model),
        h5_int("height", image.dim[1]),
        h5_int("width", image.dim[2]),
        h5_int("channels", image.dim[3]),
        h5_int("n_classes", model_classes(g)),
        h5_real("mean", file->norm.mean[0]),
        h5_real("std", file->norm.std[0]),
        h5_text("precision", model_precision(g->compute)),
        h5_int("multi_label", model_multi_label(g)),
    };
    h5_attr_t *attrs = out->attrs, *next = attrs + N_MODEL_ATTRS;
    memcpy(attrs, model, sizeof model);
    for (int k = 1; k < channels; k++) {
        *next++ = h5_real(norm_names[k][0], file->norm.mean[k]);
        *next++ = h5_real(norm_names[k][1], file->norm.std[k]);
    }
    const model_stem_t stem = model_stem_of(g);
    if (stem != MODEL_STEM_AUTO) *next++ = h5_text("stem", model_stems[stem]);
    if (out->frozen) *next++ = h5_text("frozen_layers", out->frozen);
    if (rcnn_is(g)) {
        *next++ = h5_text("norm", model_norms[g->norm]);
        *next++ = h5_real("norm_epsilon", g->norm_epsilon);
        *next++ = h5_int("box_block", rcnn_box_block(g));
        *next++ = h5_text("heads", model_heads[rcnn_heads(g)]);
        if (rcnn_stride_1x1(g)) *next++ = h5_int("stride_1x1", 1);
    }
    if (rcnn_is(g) && rcnn_has_masks(g)) *next++ = h5_int("mask_block", rcnn_mask_block(g));
    memcpy(next, file->attrs, (size_t)file->n_attrs * sizeof *attrs);
    next += file->n_attrs;
    out->n_steady = file->optim && file->optim->slices.size ? g->n_params : n_arrays - g->n_states;
    out->content = (ckpt_content_t){out->arrays, n_arrays, attrs, (int)(next - attrs)};
    return ERR_OK;
out:
    model_file_release(out);
    return err;
}

void model_file_release(model_content_t *content)
{
    mem_free(&content->arrays);
    mem_free(&content->names);
    mem_free(&content->attrs);
    mem_free(&content->frozen);
}

err_t model_file_read(checkpoint_t *checkpoint, const graph_t *graph, float *params, float *states,
                      optim_t *optim, bool *averaged)
{
    section_t sections[MAX_SECTIONS];
    bool found = false;
    int n_sections = sections_of(graph, params, states, optim, sections);
    for (int s = 0; s < n_sections; s++) {
        for (int i = 0; i < sections[s].n; i++) {
            const graph_param_t *p = &sections[s].tensors[i];
            array_name_t name;
            if (!has_tensor(&sections[s], i) || !sections[s].flat) continue;
            snprintf(name, sizeof name, "%.*s/%s", FOLDER_MAX_BYTES - 1, sections[s].folder, p->name);
            TRY(checkpoint_read(checkpoint, name, DTYPE_F32, p->shape, sections[s].flat + p->offset));
        }
    }
    for (int i = 0; i < graph->n_params && !optim; i++) {
        const graph_param_t *p = &graph->params[i];
        array_name_t name;
        snprintf(name, sizeof name, "/optimizer/ema/%s", p->name);
        if (!checkpoint_find(checkpoint, name)) continue;
        TRY(checkpoint_read(checkpoint, name, DTYPE_F32, p->shape, params + p->offset));
        found = true;
    }
    if (averaged) *averaged = found;
    return ERR_OK;
}

err_t model_file_read_state(checkpoint_t *checkpoint, const optim_t *optim, int buffer,
                            const graph_param_t *param, float *out)
{
    array_name_t name;
    snprintf(name, sizeof name, "/optimizer/%s/%s", optim->buffers[buffer].name, param->name);
    return checkpoint_read(checkpoint, name, DTYPE_F32, param->shape, out);
}

static err_t read_compute(const checkpoint_t *checkpoint, dtype_t *out)
{
    const char *precision;
    TRY(checkpoint_get_text(checkpoint, "precision", &precision));
    if (!model_compute(precision, out))
        RAISE(ERR_DATA, "%s: unknown precision '%s'", checkpoint_path(checkpoint), precision);
    return ERR_OK;
}

static err_t read_block(const checkpoint_t *checkpoint, const char *name, int64_t most, int64_t *out)
{
    *out = 0;
    if (!checkpoint_find_attr(checkpoint, name)) return ERR_OK;
    TRY(checkpoint_get_int(checkpoint, name, out));
    if (*out < 1 || *out > most)
        RAISE(ERR_DATA, "%s: invalid %s %lld", checkpoint_path(checkpoint), name, (long long)*out);
    return ERR_OK;
}

/* ResNets alone have one. */
static err_t read_stem(const checkpoint_t *checkpoint, const char *model, model_stem_t *out)
{
    const char *name;
    if (!checkpoint_find_attr(checkpoint, "stem")) return ERR_OK;
    TRY(checkpoint_get_text(checkpoint, "stem", &name));
    if (!opt_listed(model_stems, name) || model_check_residual(model, "stem") != ERR_OK)
        RAISE(ERR_DATA, "%s: invalid stem '%s' of %s", checkpoint_path(checkpoint), name, model);
    *out = model_stem(name);
    return ERR_OK;
}

/* One of a list of names; left alone if the checkpoint does not have it. */
static err_t read_name(const checkpoint_t *checkpoint, const char *attr, const char *const *names, int *out)
{
    const char *name;
    if (!checkpoint_find_attr(checkpoint, attr)) return ERR_OK;
    TRY(checkpoint_get_text(checkpoint, attr, &name));
    *out = opt_index(names, name);
    if (*out < 0) RAISE(ERR_DATA, "%s: unknown %s '%s'", checkpoint_path(checkpoint), attr, name);
    return ERR_OK;
}

err_t model_file_form(const checkpoint_t *checkpoint, model_form_t *out)
{
    int norm = GRAPH_NORM_DEFAULT, heads = MODEL_HEADS_TORCHVISION;
    const char *model;
    int64_t stride = 0, n_classes;
    *out = (model_form_t){.n_outputs = 0};
    TRY(checkpoint_get_text(checkpoint, "model", &model));
    if (!model_detects(model)) return ERR_OK;
    TRY(read_name(checkpoint, "norm", model_norms, &norm));
    TRY(read_name(checkpoint, "heads", model_heads, &heads));
    if (checkpoint_find_attr(checkpoint, "stride_1x1"))
        TRY(checkpoint_get_int(checkpoint, "stride_1x1", &stride));
    TRY(checkpoint_get_int(checkpoint, "n_classes", &n_classes));
    *out = (model_form_t){.norm = (graph_norm_t)norm,
                          .heads = (model_heads_t)heads,
                          .stride_1x1 = stride != 0,
                          .n_outputs = (int)n_classes};
    return ERR_OK;
}

err_t model_file_graph(const checkpoint_t *checkpoint, graph_t **out, pixel_norm_t *norm)
{
    const char *model;
    int64_t height, width, channels, n_classes, multi_label;
    dtype_t compute;
    TRY(checkpoint_get_text(checkpoint, "model", &model));
    TRY(checkpoint_get_int(checkpoint, "height", &height));
    TRY(checkpoint_get_int(checkpoint, "width", &width));
    TRY(checkpoint_get_int(checkpoint, "channels", &channels));
    TRY(checkpoint_get_int(checkpoint, "n_classes", &n_classes));
    double mean, std;
    TRY(checkpoint_get_real(checkpoint, norm_names[0][0], &mean));
    TRY(checkpoint_get_real(checkpoint, norm_names[0][1], &std));
    *norm = pixel_norm_all(mean, std);
    for (int k = 1; k < PIXEL_MAX_CHANNELS && checkpoint_find_attr(checkpoint, norm_names[k][0]); k++) {
        TRY(checkpoint_get_real(checkpoint, norm_names[k][0], &norm->mean[k]));
        TRY(checkpoint_get_real(checkpoint, norm_names[k][1], &norm->std[k]));
    }
    for (int k = 0; k < PIXEL_MAX_CHANNELS; k++)
        if (!isfinite(norm->mean[k]) || !(norm->std[k] > 0))
            RAISE(ERR_DATA, "%s: invalid pixel mean %g or standard deviation %g", checkpoint_path(checkpoint),
                  norm->mean[k], norm->std[k]);
    TRY(read_compute(checkpoint, &compute));
    TRY(checkpoint_get_int(checkpoint, "multi_label", &multi_label));
    bool fits = height > 0 && width > 0 && channels > 0 && channels <= PIXEL_MAX_CHANNELS;
    if (!fits || n_classes < 1 || n_classes > 1 << 24)
        RAISE(ERR_DATA, "%s: invalid model input: images of %lldx%lldx%lld in %lld classes",
              checkpoint_path(checkpoint), (long long)height, (long long)width, (long long)channels,
              (long long)n_classes);
    model_options_t options = {.sample = shape_3d(height, width, channels),
                               .n_classes = (int)n_classes,
                               .compute = compute,
                               .multi_label = multi_label != 0};
    double epsilon;
    model_form_t form;
    TRY(model_file_form(checkpoint, &form));
    options.norm = form.norm;
    options.heads = form.heads;
    options.stride_1x1 = form.stride_1x1;
    TRY(read_stem(checkpoint, model, &options.stem));
    if (checkpoint_find_attr(checkpoint, "frozen_layers"))
        TRY(checkpoint_get_text(checkpoint, "frozen_layers", &options.freeze));
    if (checkpoint_find_attr(checkpoint, "norm")) {
        TRY(checkpoint_get_real(checkpoint, "norm_epsilon", &epsilon));
        if (!(epsilon >= 0 && epsilon <= 1))
            RAISE(ERR_DATA, "%s: invalid epsilon %g of norms", checkpoint_path(checkpoint), epsilon);
        options.norm_epsilon = &epsilon;
    }
    TRY(read_block(checkpoint, "box_block", RCNN_BOX_MAX, &options.box_block));
    TRY(read_block(checkpoint, "mask_block", RCNN_MASK_MAX, &options.mask_block));
    err_t err = model_build(model, &options, out);
    if (err != ERR_OK) return err_context(ERR_DATA, "%s", checkpoint_path(checkpoint));
    return ERR_OK;
}

static void warn_skipped(void *context, const char *path, const char *reason)
{
    (void)context;
    (void)path; /* the reason names it */
    log_warn("skipped: %s", reason);
}

/* The checkpoint with the best validation. */
static err_t locate_best(const char *folder, char path[FS_PATH_MAX])
{
    checkpoint_t *newest = NULL;
    int64_t step = -1;
    int n;
    TRY(checkpoint_store_latest(folder, warn_skipped, NULL, path, &n));
    TRY(checkpoint_open(path, &newest));
    err_t err = ERR_OK;
    if (checkpoint_find_attr(newest, "best_step")) err = checkpoint_get_int(newest, "best_step", &step);
    checkpoint_close(&newest);
    TRY(err);
    if (step < 0) RAISE(ERR_DATA, "%s has no best checkpoint: its run has not been evaluated", folder);
    TRY(checkpoint_store_path(folder, step, path));
    if (fs_exists(path)) return ERR_OK;
    RAISE(
        ERR_DATA,
        "%s lacks the checkpoint of step %lld, the best evaluation; --keep-best keeps it, and a run that was resumed into "
        "another folder may have left it in the first",
        folder, (long long)step);
}

/* Whether it is a folder's best checkpoint by its name. */
static bool names_best(const char *where, char folder[FS_PATH_MAX])
{
    static const char name[] = "/best";
    size_t n = strlen(where);
    while (n > 1 && where[n - 1] == '/') n--;
    const size_t n_folder = n - (sizeof name - 1);
    if (n < sizeof name || strncmp(where + n_folder, name, sizeof name - 1) != 0 || fs_exists(where))
        return false;
    snprintf(folder, FS_PATH_MAX, "%.*s", (int)n_folder, where);
    return fs_is_folder(folder);
}

err_t model_file_locate(const char *where, char *path, int *n_found)
{
    char folder[FS_PATH_MAX];
    int n = 0;
    if (snprintf(path, FS_PATH_MAX, "%s", where) >= FS_PATH_MAX)
        RAISE(ERR_USAGE, "the path of the checkpoint is longer than %d bytes", FS_PATH_MAX);
    err_t err = ERR_OK;
    if (names_best(where, folder)) return locate_best(folder, path);
    TRY(weights_check_file(where));
    if (fs_is_folder(where) || n_found) err = checkpoint_store_latest(where, warn_skipped, NULL, path, &n);
    if (n_found) *n_found = n;
    return err;
}

err_t class_names_join(const char *const *names, int n, char **out)
{
    size_t n_bytes = 1, used = 0;
    for (int k = 0; k < n; k++) n_bytes += strlen(names[k]) + 1;
    TRY(mem_new(n_bytes, "names of classes", out));
    for (int k = 0; k < n; k++)
        used += (size_t)snprintf(*out + used, n_bytes - used, "%s%s", k > 0 ? "\n" : "", names[k]);
    return ERR_OK;
}

/* Writes the names of the model's outputs beside its weights. */
static err_t export_classes(const char *names, const char *to, int n_classes)
{
    char path[FS_PATH_MAX], *text = NULL;
    TRY(weights_classes_path(to, path));
    const size_t n = strlen(names) + 2;
    TRY(mem_new(n, "names of classes", &text));
    snprintf(text, n, "%s\n", names);
    const err_t err = fs_write_text(path, text);
    mem_free(&text);
    TRY(err);
    log_info("classes   %s, the names of the %d outputs", path, n_classes);
    return ERR_OK;
}

err_t model_file_export(const char *where, const char *to, const char *names)
{
    char path[FS_PATH_MAX];
    checkpoint_t *c = NULL;
    graph_t *g = NULL;
    float *params = NULL, *states = NULL;
    pixel_norm_t norm;
    bool averaged = false;
    python_t python;
    const char *class_names = NULL;
    const bool onnx = fs_has_suffix(to, ".onnx"), plain = strcmp(names, "torchvision") == 0;
    err_t err = ERR_OK;
    if (onnx && !plain) RAISE(ERR_USAGE, "--names %s: layers of ONNX have torchvision's names", names);
    TRY(model_file_locate(where, path, NULL));
    /* Refuses to replace the checkpoint by its weights. */
    struct stat a, b;
    if (stat(path, &a) == 0 && stat(to, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        RAISE(ERR_USAGE, "--out %s is the checkpoint itself; choose another file", to);
    TRY_OUT(err, checkpoint_open(path, &c));
    TRY_OUT(err, model_file_graph(c, &g, &norm));
    TRY_OUT(err, mem_new_array(g->n_flat_params, sizeof *params, "weights", &params));
    TRY_OUT(err, mem_new_array(g->n_flat_states, sizeof *states, "running statistics", &states));
    TRY_OUT(err, model_file_read(c, g, params, states, NULL, &averaged));
    if (checkpoint_find_attr(c, "class_names"))
        TRY_OUT(err, checkpoint_get_text(c, "class_names", &class_names));
    const char *average = averaged ? " (moving average of the weights)" : "";
    if (onnx) {
        const int64_t *d = graph_shape(g, 0).dim;
        TRY_OUT(err, weights_export_onnx(to, g, &norm, class_names, params, states));
        log_info("network   %s, %s as ONNX, opset %d%s", to, g->model, ONNX_OPSET, average);
        log_info("input     image, float32 [batch, %lld, %lld, %lld]: %s values of 0 to 255", (long long)d[3],
                 (long long)d[1], (long long)d[2], d[3] == 3 ? "RGB" : "gray");
        log_info("outputs   logits and probabilities, float32 [batch, %d]", model_classes(g));
    } else {
        TRY_OUT(err, weights_export(to, names, g, params, states));
        log_info("weights   %s, %d arrays of %s, name table %s%s", to, g->n_params + g->n_states, g->model,
                 names, average);
    }
    char mean[64] = "", std[64] = "";
    for (int64_t k = 0, n = 0, m = 0; k < graph_shape(g, 0).dim[3]; k++) {
        n += snprintf(mean + n, sizeof mean - (size_t)n, "%s%.6g", k ? ", " : "", norm.mean[k]);
        m += snprintf(std + m, sizeof std - (size_t)m, "%s%.6g", k ? ", " : "", norm.std[k]);
    }
    log_info("pixels    %s(value / 255 - mean) / std, with mean %s and std %s",
             onnx ? "normalized by the network: " : "", mean, std);
    if (class_names) TRY_OUT(err, export_classes(class_names, to, model_classes(g)));
    if (!plain) goto out;
    python_load(g, to, &python);
    log_info("%s by these two lines:\n\n%s\n", onnx ? "Python    runs it" : "PyTorch   loads them",
             python.lines);
out:
    mem_free(&params);
    mem_free(&states);
    graph_free(&g);
    checkpoint_close(&c);
    return err;
}
