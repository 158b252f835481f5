/* SPDX-License-Identifier: MIT */
/* Permutes tensors between the model's order and the file's. */
#include "train/weights/tensor_layout.h"

#include <string.h>

static int64_t dim_of(const tensor_layout_t *t, char letter)
{
    return t->dim[strchr(t->letters, letter) - t->letters];
}

/* Derives the file's shape from the model's and the table's layout. */
static void set_file_shape(tensor_layout_t *t, const char *layout)
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

err_t tensor_layout(const graph_param_t *p, const graph_node_t *node, const name_table_t *table,
                    tensor_layout_t *t)
{
    *t = (tensor_layout_t){.shape = p->shape};
    if (!node || p->shape.n_dims < 2) return ERR_OK;
    const op_desc_t *desc = &node->desc;
    const int64_t *in = desc->x[0].dim;
    const char *layout = desc->kind == OP_DECONV2D ? table->deconv : table->layout;
    const char *letters = p->shape.n_dims == 2 ? "OI" : desc->kind == OP_DECONV2D ? "HWOI" : "OHWI";
    t->flat = desc->kind == OP_LINEAR && desc->x[0].n_dims == 4;
    t->reversed = table->bgr && desc->kind == OP_CONV2D && node->input[0] == 0 && in[3] == 3;
    shape_t shape = t->flat ? shape_4d(p->shape.dim[0], in[1], in[2], in[3]) : p->shape;
    memcpy(t->dim, shape.dim, sizeof t->dim);
    strcpy(t->letters, t->flat ? "OHWI" : letters);
    if (t->flat && layout[0] != 'O' && layout[3] != 'O')
        RAISE(ERR_USAGE, "the layout %s cannot represent %s as a matrix: O must be first or last", layout,
              p->name);
    set_file_shape(t, layout);
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

static void permute(const tensor_layout_t *t, bool fortran, const float *from, float *to, bool import)
{
    int64_t s[4] = {0}, d[4] = {1, 1, 1, 1}, k = 0;
    if (t->n_letters == 0) {
        memcpy(to, from, (size_t)shape_count(t->shape) * sizeof *to);
        return;
    }
    int64_t first = strides_of(t, fortran, s);
    for (int i = 0; i < t->n_letters; i++) d[i] = t->dim[i];
    for (int64_t a = 0; a < d[0]; a++)
        for (int64_t b = 0; b < d[1]; b++)
            for (int64_t c = 0; c < d[2]; c++)
                for (int64_t e = 0; e < d[3]; e++, k++) {
                    int64_t theirs = first + a * s[0] + b * s[1] + c * s[2] + e * s[3];
                    to[import ? k : theirs] = from[import ? theirs : k];
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
