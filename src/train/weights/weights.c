/* SPDX-License-Identifier: MIT */
/* Imports weights from .npz and .safetensors: which arrays are taken, what may be missing, and what is refused, such as
 * the files of other programs; exports them, also as .h5. Names and layouts are left to transfer.c. */
#include "train/weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "base/mem.h"
#include "compute/models/rcnn.h"
#include "store/checkpoint/file.h"
#include "train/weights/onnx.h"
#include "train/weights/python.h"
#include "train/weights/transfer.h"

typedef struct import {
    transfer_t x;
    const char *path;
    arrays_t *file;
    array_info_t *arrays; /* [x.n] */
    bool *take;           /* [x.n] */
    bool trunk_only;
    weights_report_t *report;
} import_t;

static bool has(const import_t *m, const named_tensor_t *t)
{
    return t->name[0] && arrays_has(m->file, t->name);
}

/* What all names of the file begin with, up to its last '.' or '/'. */
static void shared_prefix(const arrays_t *file, char out[ARRAY_NAME_MAX])
{
    size_t n = 0;
    bool first = true;
    for (int64_t i = 0; i < arrays_count(file); i++) {
        const char *name = arrays_name(file, i);
        size_t same = 0;
        if (!strpbrk(name, "./")) continue;
        while (same < n && name[same] == out[same]) same++;
        n = first ? strlen(strcpy(out, name)) : same;
        first = false;
    }
    while (n > 0 && out[n - 1] != '.' && out[n - 1] != '/') n--;
    out[n] = '\0';
}

static int count_found(const import_t *m)
{
    int n = 0;
    for (int i = 0; i < m->x.n; i++) n += has(m, &m->x.tensors[i]);
    return n;
}

/* Matches names, without the part of the shared prefix with which most are found. Names that fit as they are keep it. */
static err_t match_names(import_t *m, char prefix[WEIGHTS_PREFIX_MAX])
{
    char shared[ARRAY_NAME_MAX];
    int most = 0;
    prefix[0] = '\0';
    TRY(transfer_match(&m->x, m->file));
    if (count_found(m) > 0) return ERR_OK;
    shared_prefix(m->file, shared);
    for (size_t n = 0; shared[n] && n + 1 < WEIGHTS_PREFIX_MAX; n++) {
        char part[WEIGHTS_PREFIX_MAX];
        if (shared[n] != '.' && shared[n] != '/') continue;
        snprintf(part, sizeof part, "%.*s", (int)n + 1, shared);
        arrays_set_prefix(m->file, part);
        TRY(transfer_match(&m->x, m->file));
        const int n_found = count_found(m);
        if (n_found <= most) continue;
        most = n_found;
        memcpy(prefix, part, sizeof part);
    }
    arrays_set_prefix(m->file, prefix);
    return transfer_match(&m->x, m->file);
}

typedef struct start {
    unsigned char first[FILE_KIND_BYTES];
    size_t n;
    file_kind_t kind;
} start_t;

static start_t read_start(const char *path)
{
    start_t s = {.kind = FILE_UNKNOWN};
    s.n = file_kind_peek(path, s.first);
    if (s.n > 0) s.kind = file_kind(s.first, s.n);
    return s;
}

static err_t refuse_foreign(const char *path, const start_t *start)
{
    python_t python;
    if (!python_convert(start->kind, path, &python)) return ERR_OK;
    RAISE(
        ERR_DATA,
        "%.200s: %s; weights are read from .npz and .safetensors; these two lines of Python write an .npz%s:\n%s",
        path, file_kind_explain(start->first, start->n, NULL).text, python.more, python.lines);
}

err_t weights_check_file(const char *path)
{
    const start_t start = read_start(path);
    return refuse_foreign(path, &start);
}

static err_t import_open(import_t *m, const graph_t *graph, const char *names)
{
    char prefix[WEIGHTS_PREFIX_MAX];
    TRY(transfer_open(graph, names, &m->x));
    const start_t start = read_start(m->path);
    if (fs_is_folder(m->path) || start.kind == FILE_DPTRAIN) { /* what else holds weights */
        char word[FS_PATH_MAX];
        fs_quote(m->path, word, sizeof word);
        RAISE(
            ERR_DATA,
            "%.200s is %s, not .npz or .safetensors; export its weights first: dptrain checkpoint export %.200s --out weights.npz",
            m->path, fs_is_folder(m->path) ? "a folder" : "a file of dptrain's own", word);
    }
    TRY(refuse_foreign(m->path, &start));
    TRY(arrays_open(m->path, &m->file));
    TRY(match_names(m, prefix));
    if (m->report) memcpy(m->report->prefix, prefix, sizeof prefix);
    return ERR_OK;
}

static void import_close(import_t *m)
{
    mem_free(&m->arrays);
    mem_free(&m->take);
    arrays_close(&m->file);
    transfer_close(&m->x);
}

/* Whether all that the file has of the model is a detector's trunk. By a table of heads that come in several kinds, also
 * if a layer of the pyramid, the proposals or the boxes is missing. */
static bool has_trunk_only(const import_t *m)
{
    const bool kinds = m->x.table.heads != MODEL_HEADS_TORCHVISION;
    int n_found[3] = {0};
    bool complete = true;
    for (int i = 0; i < m->x.n; i++) {
        const named_tensor_t *t = &m->x.tensors[i];
        n_found[t->part] += has(m, t);
        if (t->part == PART_REST && t->layer && rcnn_part(t->layer) != RCNN_MASK)
            complete = complete && has(m, t);
    }
    if (kinds && n_found[PART_TRUNK] > 0 && !complete) return true;
    return n_found[PART_TRUNK] > 0 && n_found[PART_REST] + n_found[PART_HEAD] == 0;
}

/* A prefix of half of the model's arrays that was not left out, as another array does not have it. */
static bool find_prefix(const import_t *m, const char *wanted, char prefix[WEIGHTS_PREFIX_MAX],
                        const char **out)
{
    const char *other;
    const size_t n_wanted = strlen(wanted);
    prefix[0] = '\0';
    for (int64_t i = 0; !prefix[0] && i < arrays_count(m->file); i++) {
        other = arrays_name(m->file, i);
        const size_t length = strlen(other), n = length > n_wanted ? length - n_wanted : 0;
        if (n > 0 && n < WEIGHTS_PREFIX_MAX && strcmp(other + n, wanted) == 0 && strchr("./", other[n - 1]))
            snprintf(prefix, WEIGHTS_PREFIX_MAX, "%.*s", (int)n, other);
    }
    arrays_set_prefix(m->file, prefix);
    const int n_found = prefix[0] ? count_found(m) : 0;
    arrays_set_prefix(m->file, "");
    for (int64_t i = 0; 2 * n_found >= m->x.n && i < arrays_count(m->file); i++) {
        *out = arrays_name(m->file, i);
        if (strncmp(prefix, *out, strlen(prefix)) != 0) return true;
    }
    return false;
}

/* The built-in table by which the file has more of the model's arrays than by the one given, at least a quarter; NULL:
 * none. */
static const char *fitting_table(const import_t *m)
{
    const char *best = NULL;
    const int own = count_found(m);
    int most = own > m->x.n / 4 ? own : m->x.n / 4;
    for (const name_table_text_t *table = name_tables; table->name; table++) {
        import_t other = {.file = m->file};
        const bool open = transfer_open(m->x.graph, table->name, &other.x) == ERR_OK;
        const int n = open && transfer_match(&other.x, m->file) == ERR_OK ? count_found(&other) : 0;
        if (n > most) most = n, best = table->name;
        transfer_close(&other.x);
    }
    return best;
}

static err_t refuse_missing(const import_t *m, const named_tensor_t *t)
{
    char list[ERR_MESSAGE_MAX / 4];
    if (t->part != PART_TRUNK && has_trunk_only(m))
        RAISE(ERR_DATA, "%s has only a trunk for %s, from which training can start: no array '%s'", m->path,
              m->x.graph->model, t->name);
    arrays_list(m->file, list, sizeof list);
    if (!t->name[0]) return transfer_no_rule(&m->x, t);
    char prefix[WEIGHTS_PREFIX_MAX];
    const char *other;
    if (find_prefix(m, t->name, prefix, &other))
        RAISE(
            ERR_DATA,
            "%s has no array '%s' for %s of %s, but '%s%s'; '%s' is not left out, because other arrays, such as "
            "'%.200s', do not begin with it: write a file of the model's arrays alone, all with this prefix or none",
            m->path, t->name, t->param->name, m->x.graph->model, prefix, t->name, prefix, other);
    const char *table = fitting_table(m);
    RAISE(ERR_DATA, "%s has no array '%s' for %s of %s; it has %s; %s%s", m->path, t->name, t->param->name,
          m->x.graph->model, list,
          table ? "most of its names are those of --weights-names " : "try another name table",
          table ? table : "");
}

/* Notes the first reason why the heads keep their initial values. */
static void report_head(const import_t *m, const named_tensor_t *t, const array_info_t *array)
{
    weights_report_t *report = m->report;
    char heads[200]; /* their layers: "a, b" */
    int n_heads = 0;
    size_t n_text = 0;
    const graph_node_t *last = NULL;
    if (report->reinitialized[0]) return;
    heads[0] = '\0';
    for (int i = 0; i < m->x.n; i++) {
        const named_tensor_t *head = &m->x.tensors[i];
        if (head->part != PART_HEAD || head->layer == last || n_text >= sizeof heads) continue;
        n_text += (size_t)snprintf(heads + n_text, sizeof heads - n_text, "%s%.64s", last ? ", " : "",
                                   head->layer->name);
        last = head->layer;
        n_heads++;
    }
    int used = snprintf(report->reinitialized, sizeof report->reinitialized, "%s %s reinitialized: ", heads,
                        n_heads > 1 ? "are" : "is");
    char *out = report->reinitialized + used;
    size_t room = sizeof report->reinitialized - (size_t)used;
    if (!array)
        snprintf(out, room, "the file has no '%.100s'", t->name);
    else
        snprintf(out, room, "'%.100s' is %.40s, not %.40s", t->name, shape_format(array->shape).text,
                 shape_format(t->layout.shape).text);
}

/* The stem whose first kernel has as many values. */
static model_stem_t stem_of_array(const transfer_t *x, int i, const array_info_t *array)
{
    const graph_t *g = x->graph;
    if (model_stem_of(g) == MODEL_STEM_AUTO || i != g->nodes[0].first_param) return MODEL_STEM_AUTO;
    const conv2d_attr_t *first = &g->nodes[0].desc.attr.conv2d;
    const int64_t n = shape_count(array->shape),
                  n_pixel = shape_count(x->tensors[i].layout.shape) / (first->kernel_h * first->kernel_w);
    return n == 49 * n_pixel ? MODEL_STEM_IMAGENET : n == 9 * n_pixel ? MODEL_STEM_SMALL : MODEL_STEM_AUTO;
}

/* Decides whether to take array i. */
static err_t find_array(import_t *m, int i)
{
    const named_tensor_t *t = &m->x.tensors[i];
    m->take[i] = has(m, t) && (!m->trunk_only || t->part == PART_TRUNK);
    if (m->trunk_only && t->part != PART_TRUNK) return ERR_OK;
    if (!m->take[i] && t->part != PART_HEAD) return refuse_missing(m, t);
    if (!m->take[i]) {
        report_head(m, t, NULL);
        return ERR_OK;
    }
    TRY(arrays_describe(m->file, t->name, &m->arrays[i]));
    if (shape_equal(m->arrays[i].shape, t->layout.shape)) return ERR_OK;
    const model_stem_t stem = stem_of_array(&m->x, i, &m->arrays[i]);
    if (t->part != PART_HEAD)
        RAISE(ERR_DATA, "%s: array '%s' is %s, but %s of %s requires %s%s%s", m->path, t->name,
              shape_format(m->arrays[i].shape).text, t->param->name, m->x.graph->model,
              shape_format(t->layout.shape).text, stem ? "; the file's network is built by --stem " : "",
              stem ? model_stems[stem] : "");
    m->take[i] = false;
    report_head(m, t, &m->arrays[i]);
    return ERR_OK;
}

/* The name of a tensor beside the trunk that the file lacks. */
static const char *first_missing(const import_t *m)
{
    int i = 0;
    while (i < m->x.n && (m->x.tensors[i].part == PART_TRUNK || has(m, &m->x.tensors[i]))) i++;
    ASSERT(i < m->x.n);
    return m->x.tensors[i].name;
}

err_t weights_import(const char *path, const char *names, const graph_t *graph, float *params, float *states,
                     weights_report_t *out)
{
    import_t m = {.path = path, .report = out};
    const transfer_t *x = &m.x;
    float *theirs = NULL;
    int64_t most = 0; /* values of a tensor */
    bool heads = true;
    err_t err;
    *out = (weights_report_t){.n_taken = 0};
    TRY_OUT(err, import_open(&m, graph, names));
    /* Checks all arrays before importing any. Heads are imported all or none. */
    TRY_OUT(err, mem_new_array(x->n, sizeof *m.arrays, "shapes of weights", &m.arrays));
    TRY_OUT(err, mem_new_array(x->n, sizeof *m.take, "names of weights", &m.take));
    for (int i = 0; i < x->n; i++) {
        const int64_t n = shape_count(x->tensors[i].layout.shape);
        if (n > most) most = n;
    }
    TRY_OUT(err, mem_new_array(most, sizeof *theirs, "weights", &theirs));
    m.trunk_only = has_trunk_only(&m);
    for (int i = 0; i < x->n; i++) {
        TRY_OUT(err, find_array(&m, i));
        heads = heads && (m.take[i] || x->tensors[i].part != PART_HEAD);
    }
    for (int i = 0; i < x->n; i++) {
        const named_tensor_t *t = &x->tensors[i];
        if (!m.take[i] || (t->part == PART_HEAD && !heads)) continue;
        TRY_OUT(err, arrays_read(m.file, t->name, &m.arrays[i], theirs));
        const int64_t n = shape_count(t->layout.shape);
        for (int64_t k = 0; k < n; k++)
            if (!isfinite(theirs[k]))
                RAISE_OUT(err, ERR_DATA, "%s: array '%s' contains NaN or infinity", m.path, t->name);
        tensor_import(&t->layout, m.arrays[i].fortran, theirs,
                      (i < x->graph->n_params ? params : states) + t->param->offset);
        out->n_taken++;
    }
    if (m.trunk_only) {
        const bool others = count_found(&m) > out->n_taken; /* heads of another kind */
        snprintf(out->reinitialized, sizeof out->reinitialized,
                 "only the trunk is imported, all other layers are reinitialized%s%.100s%s",
                 others ? ": the file has no '" : "", others ? first_missing(&m) : "", others ? "'" : "");
    }
    out->n_unused = arrays_count(m.file) - out->n_taken;
out:
    mem_free(&theirs);
    import_close(&m);
    return err;
}

/* The classifier's bias, whose only dimension is the classes; NULL: it has none. */
static const named_tensor_t *classifier_bias(const import_t *m)
{
    const graph_node_t *classifier = transfer_classifier(m->x.graph);
    for (int i = 0; i < m->x.graph->n_params; i++) {
        const named_tensor_t *t = &m->x.tensors[i];
        if (t->layer == classifier && t->param->shape.n_dims == 1) return t;
    }
    return NULL;
}

static err_t count_outputs(const import_t *m, int *out)
{
    const named_tensor_t *t = classifier_bias(m);
    array_info_t array;
    if (!t)
        RAISE(ERR_USAGE, "the classifier of %s has no bias, so its number of classes is unknown; give --data",
              m->x.graph->model);
    if (!has(m, t)) return refuse_missing(m, t);
    TRY(arrays_describe(m->file, t->name, &array));
    int64_t n = shape_count(array.shape);
    if (array.shape.n_dims != 1 || n < 1 || n > 1 << 24)
        RAISE(ERR_DATA, "%s: array '%s' is %s, not one value per class", m->path, t->name,
              shape_format(array.shape).text);
    *out = (int)n;
    return ERR_OK;
}

void weights_read_note(const char *path, weights_note_t *out)
{
    char comment[TRANSFER_NOTE_MAX];
    long long size[3];
    arrays_t *file;
    *out = (weights_note_t){.height = 0};
    if (arrays_open(path, &file) != ERR_OK) return;
    arrays_note(file, comment, sizeof comment);
    arrays_close(&file);
    if (sscanf(comment, TRANSFER_NOTE_READ, out->model, &size[0], &size[1], &size[2]) == 4)
        out->height = size[0], out->width = size[1], out->channels = size[2];
    else
        out->model[0] = '\0';
}

err_t weights_classes_path(const char *path, char out[FS_PATH_MAX])
{
    if (snprintf(out, FS_PATH_MAX, "%.*s.classes.txt", fs_stem(path), path) >= FS_PATH_MAX)
        RAISE(ERR_USAGE, "the path of the weights is longer than %d bytes", FS_PATH_MAX);
    return ERR_OK;
}

/* A layer that has γ without running statistics. */
static bool has_group_norm(const import_t *m)
{
    const graph_t *g = m->x.graph;
    for (int i = 0; i < g->n_nodes; i++) {
        const graph_node_t *node = &g->nodes[i];
        if (node->desc.kind == OP_BATCH_NORM && has(m, &m->x.tensors[node->first_param]))
            return !has(m, &m->x.tensors[g->n_params + node->first_state]);
    }
    return false;
}

/* Whether all values of a state are `value` to within 5e-6; false: the file does not have it. */
static err_t is_constant(const import_t *m, int state, float value, bool *out)
{
    const named_tensor_t *t = &m->x.tensors[m->x.graph->n_params + state];
    const int64_t n = shape_count(t->layout.shape);
    float *values = NULL;
    array_info_t array;
    err_t err = ERR_OK;
    *out = false;
    if (!has(m, t)) return ERR_OK;
    TRY(arrays_describe(m->file, t->name, &array));
    if (!shape_equal(array.shape, t->layout.shape)) return ERR_OK;
    TRY(mem_new_array(n, sizeof *values, "weights", &values));
    TRY_OUT(err, arrays_read(m->file, t->name, &array, values));
    *out = true;
    for (int64_t i = 0; i < n; i++) *out = *out && fabsf(values[i] - value) < 5e-6f;
out:
    mem_free(&values);
    return err;
}

static err_t find_detector_form(const import_t *m, model_form_t *out)
{
    const graph_t *g = m->x.graph;
    int norm = 0; /* the first */
    bool no_means, no_scales;
    if (has_group_norm(m)) out->norm = GRAPH_NORM_GROUP;
    out->heads = m->x.table.heads;
    while (g->nodes[norm].desc.kind != OP_BATCH_NORM) norm++;
    if (out->heads != MODEL_HEADS_TORCHVISION) {
        TRY(is_constant(m, g->nodes[norm].first_state, 0, &no_means));
        TRY(is_constant(m, g->nodes[norm].first_state + 1, 1 - 1e-5f, &no_scales));
        out->stride_1x1 = no_means && no_scales;
    }
    return has(m, classifier_bias(m)) ? count_outputs(m, &out->n_outputs) : ERR_OK;
}

err_t weights_find_form(const char *path, const char *names, const char *model, shape_t sample,
                        model_form_t *out)
{
    const model_options_t plain = {.sample = sample, .n_classes = 1, .compute = DTYPE_F32};
    import_t m = {.path = path};
    graph_t *graph;
    array_info_t array;
    *out = (model_form_t){.n_outputs = 0};
    TRY(model_build(model, &plain, &graph));
    const int i = graph->nodes[0].first_param;
    err_t err = import_open(&m, graph, names);
    if (err == ERR_OK && model_stem_of(graph) != MODEL_STEM_AUTO && has(&m, &m.x.tensors[i])) {
        err = arrays_describe(m.file, m.x.tensors[i].name, &array);
        if (err == ERR_OK) out->stem = stem_of_array(&m.x, i, &array);
    }
    if (err == ERR_OK && model_detects(model)) err = find_detector_form(&m, out);
    import_close(&m);
    graph_free(&graph);
    return err;
}

err_t weights_find_heads(const char *names, model_heads_t *out)
{
    name_table_t *table;
    TRY(mem_new(sizeof *table, "a name table", &table));
    const err_t err = name_table_read(names, table);
    *out = table->heads;
    mem_free(&table);
    return err;
}

err_t weights_count_classes(const char *path, const char *names, const graph_t *graph, int *out)
{
    import_t m = {.path = path};
    err_t err = import_open(&m, graph, names);
    if (err == ERR_OK) err = count_outputs(&m, out);
    import_close(&m);
    return err;
}

static err_t write_h5(const char *path, const transfer_t *x, const array_entry_t *entries)
{
    ckpt_array_t *arrays = NULL;
    char(*names)[CKPT_NAME_MAX] = NULL;
    err_t err = ERR_OK;
    const h5_attr_t attrs[] = {h5_text("weights_of", x->graph->model)};
    TRY_OUT(err, mem_new_array(x->n, sizeof *arrays, "weights", &arrays));
    TRY_OUT(err, mem_new_array(x->n, sizeof *names, "names of weights", &names));
    for (int i = 0; i < x->n; i++) {
        const named_tensor_t *t = &x->tensors[i];
        const tensor_layout_t *layout = &t->layout;
        snprintf(names[i], sizeof names[i], "/%s", t->name);
        arrays[i] = (ckpt_array_t){.name = names[i],
                                   .dtype = DTYPE_F32,
                                   .shape = layout->shape,
                                   .data = entries[i].data,
                                   .meaning = layout->flat        ? NULL
                                              : layout->n_letters ? layout->there
                                                                  : t->param->meaning};
    }
    ckpt_content_t content = {arrays, x->n, attrs, 1};
    err = checkpoint_write(path, &content);
out:
    mem_free(&names);
    mem_free(&arrays);
    return err;
}

/* A model's weights as a file of a table's program has them. */
typedef struct export
{
    transfer_t x;
    array_entry_t *entries; /* [x.n] */
    float *values;
}
export_t;

static err_t export_open(export_t *e, const graph_t *graph, const char *names, const float *params,
                         const float *states)
{
    transfer_t *x = &e->x;
    int64_t n_values = 0;
    TRY(transfer_open(graph, names, x));
    TRY(transfer_check_heads(x));
    for (int i = 0; i < x->n; i++) {
        if (!x->tensors[i].name[0]) TRY(transfer_no_rule(x, &x->tensors[i]));
        n_values += shape_count(x->tensors[i].layout.shape);
    }
    TRY(mem_new_array(n_values, sizeof *e->values, "weights", &e->values));
    TRY(mem_new_array(x->n, sizeof *e->entries, "weights", &e->entries));
    float *next = e->values;
    for (int i = 0; i < x->n; i++) {
        const named_tensor_t *t = &x->tensors[i];
        e->entries[i] = (array_entry_t){t->name, t->layout.shape, next};
        tensor_export(&t->layout, (i < graph->n_params ? params : states) + t->param->offset, next);
        next += shape_count(t->layout.shape);
    }
    return ERR_OK;
}

static void export_close(export_t *e)
{
    mem_free(&e->entries);
    mem_free(&e->values);
    transfer_close(&e->x);
}

err_t weights_export(const char *path, const char *names, const graph_t *graph, const float *params,
                     const float *states)
{
    export_t e = {.entries = NULL};
    char note[TRANSFER_NOTE_MAX];
    const shape_t image = graph_shape(graph, 0);
    const bool arrays = arrays_named(path);
    if (!arrays && !fs_has_suffix(path, ".h5") && !fs_has_suffix(path, ".hdf5"))
        RAISE(
            ERR_USAGE,
            "invalid output file '%s': expected a name that ends in .npz, .safetensors, .h5, .hdf5 or .onnx",
            path);
    err_t err = export_open(&e, graph, names, params, states);
    snprintf(note, sizeof note, TRANSFER_NOTE, graph->model, (long long)image.dim[1], (long long)image.dim[2],
             (long long)image.dim[3]);
    if (err == ERR_OK)
        err = arrays ? arrays_write(path, e.entries, e.x.n, rcnn_is(graph) ? NULL : note)
                     : write_h5(path, &e.x, e.entries);
    export_close(&e);
    return err;
}

err_t weights_export_onnx(const char *path, const graph_t *graph, const pixel_norm_t *norm,
                          const char *class_names, const float *params, const float *states)
{
    export_t e = {.entries = NULL};
    if (rcnn_is(graph))
        RAISE(ERR_USAGE,
              "%s: classifiers are written as ONNX, but %s is a detector; choose .npz, .safetensors or .h5",
              path, graph->model);
    err_t err = export_open(&e, graph, "torchvision", params, states);
    const onnx_network_t network = {graph, e.entries, norm, class_names};
    if (err == ERR_OK) err = onnx_write(path, &network);
    export_close(&e);
    return err;
}
