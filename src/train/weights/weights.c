/* SPDX-License-Identifier: MIT */
/* Imports and exports weights as .npz or .h5: matches names, checks shapes, and permutes layouts. Translating
 * names is left to name_table.c. */
#include "train/weights/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "store/checkpoint/file.h"
#include "store/checkpoint/npz.h"
#include "train/weights/name_table.h"

/* A tensor in the model and in the file. The model's dimensions are `letters`, in C order. The file's are
 * `there`, flattened to a matrix if the tensor is the weight of a linear layer that reads images. */
typedef struct named_tensor {
    const graph_param_t *param;
    char name[NAME_THEIRS_MAX]; /* in the file */
    int n_letters;              /* 0: one dimension, the same on both sides */
    char letters[5], there[5];
    int64_t dim[4]; /* of letters */
    bool flat;
    shape_t shape; /* in the file */
} named_tensor_t;

typedef struct transfer {
    const graph_t *graph;
    name_table_t table;
    named_tensor_t *tensors; /* parameters, then states */
    int n;
} transfer_t;

static const graph_node_t *layer_of(const graph_t *g, int param)
{
    const graph_node_t *node = g->nodes;
    while (param >= node->first_param + node->desc.n_params || node->desc.n_params == 0) node++;
    return node;
}

static int64_t dim_of(const named_tensor_t *t, char letter)
{
    return t->dim[strchr(t->letters, letter) - t->letters];
}

/* Derives the file's shape from the model's and the table's layout. */
static void set_file_shape(named_tensor_t *t, const char *layout)
{
    for (const char *letter = layout; *letter; letter++)
        if (strchr(t->letters, *letter)) t->there[strlen(t->there)] = *letter;
    t->n_letters = (int)strlen(t->letters);
    for (int i = 0; i < t->n_letters; i++) t->shape.dim[i] = dim_of(t, t->there[i]);
    t->shape.n_dims = t->n_letters;
    if (!t->flat) return;
    bool outputs_first = t->there[0] == 'O';
    int64_t n_in = shape_count(t->shape) / dim_of(t, 'O');
    t->shape = outputs_first ? shape_2d(dim_of(t, 'O'), n_in) : shape_2d(n_in, dim_of(t, 'O'));
}

static err_t describe_tensor(const transfer_t *x, const graph_param_t *p, const graph_node_t *node,
                             named_tensor_t *t)
{
    *t = (named_tensor_t){.param = p, .shape = p->shape};
    if (!name_table_find(&x->table, p->name, t->name))
        RAISE(ERR_USAGE, "the name table has no rule for %s of %s", p->name, x->graph->model);
    if (!node || p->shape.n_dims < 2) return ERR_OK;
    const int64_t *in = node->desc.x[0].dim;
    t->flat = node->desc.kind == OP_LINEAR && node->desc.x[0].n_dims == 4;
    shape_t shape = t->flat ? shape_4d(p->shape.dim[0], in[1], in[2], in[3]) : p->shape;
    memcpy(t->dim, shape.dim, sizeof t->dim);
    memcpy(t->letters, shape.n_dims == 4 ? "OHWI" : "OI", shape.n_dims == 4 ? 5 : 3);
    if (t->flat && x->table.layout[0] != 'O' && x->table.layout[3] != 'O')
        RAISE(ERR_USAGE, "the layout %s cannot represent %s as a matrix: O must be first or last",
              x->table.layout, p->name);
    set_file_shape(t, x->table.layout);
    return ERR_OK;
}

/* Refuses two tensors of the model under one name in the file. */
static err_t check_names_differ(const transfer_t *x)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(x->tensors[i].name, x->tensors[k].name) == 0)
                RAISE(ERR_USAGE, "the name table maps both %s and %s of %s to '%.100s'",
                      x->tensors[k].param->name, x->tensors[i].param->name, x->graph->model,
                      x->tensors[i].name);
    return ERR_OK;
}

static err_t transfer_open(const graph_t *g, const char *names, transfer_t *x)
{
    *x = (transfer_t){.graph = g};
    TRY(name_table_read(names, &x->table));
    TRY(mem_new_array(g->n_params + g->n_states, sizeof *x->tensors, "names of weights", &x->tensors));
    for (int i = 0; i < g->n_params; i++)
        TRY(describe_tensor(x, &g->params[i], layer_of(g, i), &x->tensors[x->n++]));
    for (int i = 0; i < g->n_states; i++) TRY(describe_tensor(x, &g->states[i], NULL, &x->tensors[x->n++]));
    return check_names_differ(x);
}

static void transfer_close(transfer_t *x)
{
    mem_free(&x->tensors);
}

/* The strides of the model's dimensions in the file's array, in elements. */
static void strides_of(const named_tensor_t *t, bool fortran, int64_t strides[4])
{
    int64_t own[SHAPE_MAX_DIMS], step = 1;
    for (int k = 0, n = t->shape.n_dims; k < n; k++) {
        int at = fortran ? k : n - 1 - k;
        own[at] = step;
        step *= t->shape.dim[at];
    }
    int outputs = t->there[0] == 'O' ? 0 : 1;
    int64_t inner = own[1 - outputs];
    for (int k = t->n_letters - 1; k >= 0; k--) {
        char letter = t->there[k];
        int64_t *stride = &strides[strchr(t->letters, letter) - t->letters];
        if (!t->flat) {
            *stride = own[k];
        } else if (letter == 'O') {
            *stride = own[outputs];
        } else {
            *stride = inner;
            inner *= dim_of(t, letter);
        }
    }
}

/* Copies from the file's layout to the model's (import) or back. */
static void permute_tensor(const named_tensor_t *t, bool fortran, const float *from, float *to, bool import)
{
    int64_t s[4] = {0}, d[4] = {1, 1, 1, 1}, k = 0;
    if (t->n_letters == 0) {
        memcpy(to, from, (size_t)shape_count(t->shape) * sizeof *to);
        return;
    }
    strides_of(t, fortran, s);
    for (int i = 0; i < t->n_letters; i++) d[i] = t->dim[i];
    for (int64_t a = 0; a < d[0]; a++)
        for (int64_t b = 0; b < d[1]; b++)
            for (int64_t c = 0; c < d[2]; c++)
                for (int64_t e = 0; e < d[3]; e++, k++) {
                    int64_t theirs = a * s[0] + b * s[1] + c * s[2] + e * s[3];
                    to[import ? k : theirs] = from[import ? theirs : k];
                }
}

/* Whether tensor i belongs to the classifier, whose outputs are the classes. */
static bool is_head(const transfer_t *x, int i)
{
    const graph_t *g = x->graph;
    int logits = graph_find_output(g, "logits");
    return i < g->n_params && logits >= 0 && layer_of(g, i)->output[0] == g->outputs[logits].value;
}

/* *take: false if the classifier is left unchanged. */
static err_t find_array(const transfer_t *x, const npz_t *file, const char *path, int i, npy_t *array,
                        bool *take, weights_report_t *report)
{
    const named_tensor_t *t = &x->tensors[i];
    const char *ours = t->param->name;
    *take = npz_has(file, t->name);
    if (!*take && !is_head(x, i)) {
        char list[ERR_MESSAGE_MAX / 4];
        npz_list(file, list, sizeof list);
        RAISE(ERR_DATA, "%s has no array '%s' for %s of %s; it has %s; try another name table", path, t->name,
              ours, x->graph->model, list);
    }
    size_t room = report->new_head[0] ? 0 : sizeof report->new_head; /* the first reason is kept */
    if (!*take) {
        snprintf(report->new_head, room, "%.40s is reinitialized: the file has no '%.100s'", ours, t->name);
        return ERR_OK;
    }
    TRY(npz_describe(file, t->name, array));
    if (shape_equal(array->shape, t->shape)) return ERR_OK;
    if (!is_head(x, i))
        RAISE(ERR_DATA, "%s: array '%s' is %s, but %s of %s requires %s", path, t->name,
              shape_format(array->shape).text, ours, x->graph->model, shape_format(t->shape).text);
    *take = false;
    snprintf(report->new_head, room, "%.40s is reinitialized: '%.100s' is %.40s, not %.40s", ours, t->name,
             shape_format(array->shape).text, shape_format(t->shape).text);
    return ERR_OK;
}

static err_t import_one(const npz_t *file, const char *path, const named_tensor_t *t, const npy_t *array,
                        float *theirs, float *ours)
{
    TRY(npz_read(file, t->name, array, theirs));
    int64_t n = shape_count(t->shape);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(theirs[i])) RAISE(ERR_DATA, "%s: array '%s' contains NaN or infinity", path, t->name);
    permute_tensor(t, array->fortran, theirs, ours, true);
    return ERR_OK;
}

static int64_t largest_count(const transfer_t *x)
{
    int64_t most = 0;
    for (int i = 0; i < x->n; i++) {
        int64_t n = shape_count(x->tensors[i].shape);
        if (n > most) most = n;
    }
    return most;
}

/* Checks all arrays before importing any. The classifier is imported completely or not at all. */
static err_t import_all(const transfer_t *x, const npz_t *file, const char *path, float *params,
                        float *states, weights_report_t *report)
{
    err_t err = ERR_OK;
    npy_t *arrays = NULL;
    float *theirs = NULL;
    bool head = true;
    TRY_OUT(err, mem_new_array(x->n, sizeof *arrays, "shapes of weights", &arrays));
    TRY_OUT(err, mem_new_array(largest_count(x), sizeof *theirs, "weights", &theirs));
    for (int i = 0; i < x->n; i++) {
        bool take;
        TRY_OUT(err, find_array(x, file, path, i, &arrays[i], &take, report));
        head = head && take;
    }
    for (int i = 0; i < x->n; i++) {
        if (!head && is_head(x, i)) continue;
        const named_tensor_t *t = &x->tensors[i];
        float *flat = i < x->graph->n_params ? params : states;
        TRY_OUT(err, import_one(file, path, t, &arrays[i], theirs, flat + t->param->offset));
        report->n_taken++;
    }
    report->n_unused = npz_count(file) - report->n_taken;
out:
    mem_free(&theirs);
    mem_free(&arrays);
    return err;
}

err_t weights_import(const char *path, const char *names, const graph_t *graph, float *params, float *states,
                     weights_report_t *out)
{
    transfer_t x = {.n = 0};
    npz_t *file = NULL;
    *out = (weights_report_t){.n_taken = 0};
    err_t err = transfer_open(graph, names, &x);
    if (err == ERR_OK) err = npz_open(path, &file);
    if (err == ERR_OK) err = import_all(&x, file, path, params, states, out);
    npz_close(&file);
    transfer_close(&x);
    return err;
}

/* From the classifier's bias, whose only dimension is the classes. */
static err_t count_outputs(const transfer_t *x, const npz_t *file, const char *path, int *out)
{
    for (int i = 0; i < x->graph->n_params; i++) {
        const named_tensor_t *t = &x->tensors[i];
        npy_t array;
        if (!is_head(x, i) || t->n_letters > 0) continue;
        if (!npz_has(file, t->name))
            RAISE(ERR_DATA, "%s has no array '%s' for %s of %s; try another name table", path, t->name,
                  t->param->name, x->graph->model);
        TRY(npz_describe(file, t->name, &array));
        int64_t n = shape_count(array.shape);
        if (array.shape.n_dims != 1 || n < 1 || n > 1 << 24)
            RAISE(ERR_DATA, "%s: array '%s' is %s, not one value per class", path, t->name,
                  shape_format(array.shape).text);
        *out = (int)n;
        return ERR_OK;
    }
    RAISE(ERR_USAGE, "the classifier of %s has no bias, so its number of classes is unknown; give --data",
          x->graph->model);
}

err_t weights_count_classes(const char *path, const char *names, const graph_t *graph, int *out)
{
    transfer_t x = {.n = 0};
    npz_t *file = NULL;
    err_t err = transfer_open(graph, names, &x);
    if (err == ERR_OK) err = npz_open(path, &file);
    if (err == ERR_OK) err = count_outputs(&x, file, path, out);
    npz_close(&file);
    transfer_close(&x);
    return err;
}

static err_t write_h5(const char *path, const transfer_t *x, const npz_entry_t *entries)
{
    ckpt_array_t *arrays = NULL;
    char(*names)[CKPT_NAME_MAX] = NULL;
    err_t err = ERR_OK;
    const ckpt_attr_t attrs[] = {ckpt_text("weights_of", x->graph->model)};
    TRY_OUT(err, mem_new_array(x->n, sizeof *arrays, "weights", &arrays));
    TRY_OUT(err, mem_new_array(x->n, sizeof *names, "names of weights", &names));
    for (int i = 0; i < x->n; i++) {
        const named_tensor_t *t = &x->tensors[i];
        snprintf(names[i], sizeof names[i], "/%s", t->name);
        arrays[i] = (ckpt_array_t){.name = names[i],
                                   .dtype = DTYPE_F32,
                                   .shape = t->shape,
                                   .data = entries[i].data,
                                   .meaning = t->flat        ? NULL
                                              : t->n_letters ? t->there
                                                             : t->param->meaning};
    }
    ckpt_content_t content = {arrays, x->n, attrs, 1};
    err = checkpoint_write(path, &content);
out:
    mem_free(&names);
    mem_free(&arrays);
    return err;
}

err_t weights_export(const char *path, const char *names, const graph_t *graph, const float *params,
                     const float *states)
{
    transfer_t x = {.n = 0};
    npz_entry_t *entries = NULL;
    float *theirs = NULL;
    int64_t n_floats = 0;
    err_t err = ERR_OK;
    bool npz = fs_has_suffix(path, ".npz");
    if (!npz && !fs_has_suffix(path, ".h5") && !fs_has_suffix(path, ".hdf5"))
        RAISE(ERR_USAGE, "invalid output file '%s': expected a name that ends in .npz, .h5 or .hdf5", path);
    TRY_OUT(err, transfer_open(graph, names, &x));
    for (int i = 0; i < x.n; i++) n_floats += shape_count(x.tensors[i].shape);
    TRY_OUT(err, mem_new_array(n_floats, sizeof *theirs, "weights", &theirs));
    TRY_OUT(err, mem_new_array(x.n, sizeof *entries, "weights", &entries));
    float *next = theirs;
    for (int i = 0; i < x.n; i++) {
        const named_tensor_t *t = &x.tensors[i];
        entries[i] = (npz_entry_t){t->name, t->shape, next};
        permute_tensor(t, false, (i < graph->n_params ? params : states) + t->param->offset, next, false);
        next += shape_count(t->shape);
    }
    err = npz ? npz_write(path, entries, x.n) : write_h5(path, &x, entries);
out:
    mem_free(&entries);
    mem_free(&theirs);
    transfer_close(&x);
    return err;
}
