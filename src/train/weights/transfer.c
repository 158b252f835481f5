/* SPDX-License-Identifier: MIT */
/* Names a model's tensors by a table, finds their spelling in a file, and permutes them between the model's order and
 * the file's. */
#include "train/weights/transfer.h"

#include <string.h>

#include "base/mem.h"
#include "compute/models/rcnn.h"
#include "compute/tensor/pixels.h"

/* A dimension in the file. */
static int64_t dim_of(const tensor_layout_t *t, char letter)
{
    const int64_t n = t->dim[strchr(t->letters, letter) - t->letters];
    return letter == 'O' && t->background == BACKGROUND_NONE ? n - t->per_class : n;
}

/* Outputs of the graph that are counted by the classes; the classifier's first. */
static const char *const head_outputs[HEAD_OUTPUTS] = {"logits", "box.logits", "box.deltas", "mask.logits"};

static const graph_node_t *layer_of_output(const graph_t *g, const char *name)
{
    int output = graph_find_output(g, name);
    int node = output < 0 ? -1 : g->values[g->outputs[output].value].node;
    return node < 0 ? NULL : &g->nodes[node];
}

/* HEAD_OUTPUTS: its outputs are not counted by the classes. */
static head_output_t head_of(const graph_t *g, const graph_node_t *layer)
{
    head_output_t head = 0;
    while (head < HEAD_OUTPUTS && (!layer || layer_of_output(g, head_outputs[head]) != layer)) head++;
    return head;
}

/* The layout of a layer's parameter under the table, or of a state (node NULL). ERR_USAGE if the table's layout
 * cannot represent it. */
static err_t tensor_layout(const transfer_t *x, const graph_param_t *p, const graph_node_t *node,
                           head_output_t head, tensor_layout_t *t)
{
    const name_table_t *table = &x->table;
    *t = (tensor_layout_t){.shape = p->shape};
    if (head < HEAD_OUTPUTS) {
        t->background = table->background[head];
        t->per_class = head == HEAD_DELTAS ? 4 : 1;
    }
    if (!node || (p->shape.n_dims < 2 && t->background == BACKGROUND_FIRST)) return ERR_OK;
    const op_desc_t *desc = &node->desc;
    const int64_t *in = desc->x[0].dim;
    t->flat = desc->kind == OP_LINEAR && desc->x[0].n_dims == 4 && p->shape.n_dims == 2;
    const char *layout = desc->kind == OP_DECONV2D ? table->deconv : t->flat ? table->flat : table->layout;
    const char *letters = p->shape.n_dims == 1        ? "O"
                          : p->shape.n_dims == 2      ? "OI"
                          : desc->kind == OP_DECONV2D ? "HWOI"
                                                      : "OHWI";
    const bool first = desc->kind == OP_CONV2D && node->input[0] == 0 && in[3] == 3;
    t->scaled = first && rcnn_stride_1x1(x->graph);
    t->reversed = first && (table->bgr || t->scaled);
    shape_t shape = t->flat ? shape_4d(p->shape.dim[0], in[1], in[2], in[3]) : p->shape;
    memcpy(t->dim, shape.dim, sizeof t->dim);
    strcpy(t->letters, t->flat ? "OHWI" : letters);
    if (t->flat && layout[0] != 'O' && layout[3] != 'O')
        RAISE(ERR_USAGE, "the layout %s cannot represent %s as a matrix: O must be first or last", layout,
              p->name);
    /* The file's shape. */
    for (const char *letter = layout; *letter; letter++)
        if (strchr(t->letters, *letter)) t->there[strlen(t->there)] = *letter;
    t->n_letters = (int)strlen(t->letters);
    for (int i = 0; i < t->n_letters; i++) t->shape.dim[i] = dim_of(t, t->there[i]);
    t->shape.n_dims = t->n_letters;
    if (!t->flat) return ERR_OK;
    const bool outputs_first = t->there[0] == 'O';
    const int64_t n_in = shape_count(t->shape) / dim_of(t, 'O');
    t->shape = outputs_first ? shape_2d(dim_of(t, 'O'), n_in) : shape_2d(n_in, dim_of(t, 'O'));
    return ERR_OK;
}

/* The strides of the model's dimensions in the file's array, in elements. Returns the first element's index. */
static int64_t strides_of(const tensor_layout_t *t, bool fortran, int64_t strides[4])
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
    if (!t->reversed) return 0;
    int64_t *channel = &strides[strchr(t->letters, 'I') - t->letters];
    *channel = -*channel;
    return (1 - dim_of(t, 'I')) * *channel;
}

/* An index of the model's first dimension, in the file; -1: the file does not have it. */
static int64_t first_there(const tensor_layout_t *t, int64_t index)
{
    const int64_t background = t->per_class;
    if (t->background == BACKGROUND_FIRST) return index;
    if (index >= background) return index - background;
    return t->background == BACKGROUND_LAST ? t->dim[0] - background + index : -1;
}

/* The background's deltas and masks count for nothing, and are 0 if the file has none. */
static void permute(const tensor_layout_t *t, bool fortran, const float *from, float *to, bool import)
{
    int64_t s[4] = {0}, d[4] = {1, 1, 1, 1}, k = 0;
    if (t->n_letters == 0) {
        memcpy(to, from, (size_t)shape_count(t->shape) * sizeof *to);
        return;
    }
    const pixel_norm_t norm = pixel_norm_imagenet();
    int64_t first = strides_of(t, fortran, s);
    for (int i = 0; i < t->n_letters; i++) d[i] = t->dim[i];
    for (int64_t i = 0; i < d[0]; i++) {
        const int64_t a = first_there(t, i), n_inner = d[1] * d[2] * d[3];
        if (a < 0) {
            if (import) memset(to + k, 0, (size_t)n_inner * sizeof *to);
            k += n_inner;
            continue;
        }
        for (int64_t b = 0; b < d[1]; b++)
            for (int64_t c = 0; c < d[2]; c++)
                for (int64_t e = 0; e < d[3]; e++, k++) {
                    const int64_t theirs = first + a * s[0] + b * s[1] + c * s[2] + e * s[3];
                    float *value = &to[import ? k : theirs];
                    *value = from[import ? theirs : k];
                    if (!t->scaled) continue;
                    const float scale = (float)(255 * norm.std[e]);
                    *value = import ? *value * scale : *value / scale;
                }
    }
}

void tensor_import(const tensor_layout_t *layout, bool fortran, const float *theirs, float *ours)
{
    permute(layout, fortran, theirs, ours, true);
}

void tensor_export(const tensor_layout_t *layout, const float *ours, float *theirs)
{
    permute(layout, false, ours, theirs, false);
}

const graph_node_t *transfer_classifier(const graph_t *g)
{
    const graph_node_t *layer = layer_of_output(g, head_outputs[HEAD_CLASSIFIER]);
    return layer ? layer : layer_of_output(g, head_outputs[HEAD_LOGITS]);
}

/* The name of a trunk's tensor without the detector's prefix; NULL: it is not part of a trunk. */
static const char *alone(const char *name)
{
    size_t n = strlen(TRANSFER_TRUNK);
    return strncmp(name, TRANSFER_TRUNK, n) == 0 ? name + n : NULL;
}

/* Refuses two tensors of the model under one name in the file. */
static err_t check_names_differ(const transfer_t *x)
{
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < i && x->tensors[i].name[0]; k++)
            if (strcmp(x->tensors[i].name, x->tensors[k].name) == 0)
                RAISE(ERR_USAGE, "the name table maps both %s and %s of %s to '%.100s'",
                      x->tensors[k].param->name, x->tensors[i].param->name, x->graph->model,
                      x->tensors[i].name);
    return ERR_OK;
}

static err_t add_tensor(transfer_t *x, const graph_param_t *p, const graph_node_t *layer)
{
    named_tensor_t *t = &x->tensors[x->n++];
    const head_output_t head = head_of(x->graph, layer);
    *t = (named_tensor_t){.param = p, .layer = layer};
    t->part = alone(p->name) ? PART_TRUNK : head < HEAD_OUTPUTS ? PART_HEAD : PART_REST;
    if (!name_table_find(&x->table, p->name, 0, t->name)) t->name[0] = '\0';
    return tensor_layout(x, p, layer, head, &t->layout);
}

err_t transfer_open(const graph_t *g, const char *names, transfer_t *x)
{
    *x = (transfer_t){.graph = g};
    TRY(name_table_read(names, &x->table));
    TRY(mem_new_array(g->n_params + g->n_states, sizeof *x->tensors, "names of weights", &x->tensors));
    const graph_node_t *layer = g->nodes;
    for (int i = 0; i < g->n_params; i++) {
        while (i >= layer->first_param + layer->desc.n_params || layer->desc.n_params == 0) layer++;
        TRY(add_tensor(x, &g->params[i], layer));
    }
    for (int i = 0; i < g->n_states; i++) TRY(add_tensor(x, &g->states[i], NULL));
    return check_names_differ(x);
}

void transfer_close(transfer_t *x)
{
    mem_free(&x->tensors);
}

/* Tries the spellings of a name; found[NAME_THEIRS_MAX] is the one in the file. */
static bool find_spelling(const name_table_t *table, const char *name, const arrays_t *file, char *found)
{
    for (int nth = 0; nth < table->n; nth++) {
        if (!name_table_find(table, name, nth, found)) continue;
        const size_t n = strlen(found);
        if (arrays_has(file, found)) return true;
        if (n + strlen(table->ending) >= NAME_THEIRS_MAX) continue;
        strcpy(found + n, table->ending);
        if (arrays_has(file, found)) return true;
    }
    return false;
}

err_t transfer_match(transfer_t *x, const arrays_t *file)
{
    for (int i = 0; i < x->n; i++) {
        named_tensor_t *t = &x->tensors[i];
        char found[NAME_THEIRS_MAX];
        const char *short_name = alone(t->param->name);
        if (t->name[0] && arrays_has(file, t->name)) continue;
        if (find_spelling(&x->table, t->param->name, file, found) ||
            (short_name && find_spelling(&x->table, short_name, file, found)))
            memcpy(t->name, found, sizeof found);
    }
    return check_names_differ(x);
}

err_t transfer_check_heads(const transfer_t *x)
{
    const char *const own = model_heads[rcnn_heads(x->graph)], *const theirs = model_heads[x->table.heads];
    if (!rcnn_is(x->graph) || own == theirs) return ERR_OK;
    RAISE(ERR_USAGE,
          "this %s has the heads of %s, which compute something else than those of %s: choose --names %s",
          x->graph->model, own, theirs, own);
}

err_t transfer_no_rule(const transfer_t *x, const named_tensor_t *t)
{
    bool detector = false;
    for (int i = 0; i < x->n; i++) detector = detector || x->tensors[i].part == PART_TRUNK;
    RAISE(ERR_USAGE, "the name table has no rule for %s of %s%s", t->param->name, x->graph->model,
          detector
              ? "; of the built-in ones, torchvision, tensorpack, detectron2 and dptrain name all layers of "
                "detectors"
              : "");
}
