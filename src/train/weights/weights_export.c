/* SPDX-License-Identifier: MIT */
/* Writes weights as .npz or .h5 with the names and layouts of another program. */
#include <stdio.h>

#include "base/fs.h"
#include "base/mem.h"
#include "compute/models/rcnn.h"
#include "store/checkpoint/file.h"
#include "train/weights/transfer.h"
#include "train/weights/weights.h"

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

/* Number of values of all tensors. ERR_USAGE if the table does not name one of them. */
static err_t count_values(const transfer_t *x, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < x->n; i++) {
        if (!x->tensors[i].name[0]) return transfer_no_rule(x, &x->tensors[i]);
        *out += shape_count(x->tensors[i].layout.shape);
    }
    return ERR_OK;
}

err_t weights_export(const char *path, const char *names, const graph_t *graph, const float *params,
                     const float *states)
{
    transfer_t x = {.n = 0};
    npz_entry_t *entries = NULL;
    float *theirs = NULL;
    int64_t n_values = 0;
    err_t err = ERR_OK;
    bool npz = fs_has_suffix(path, ".npz");
    if (!npz && !fs_has_suffix(path, ".h5") && !fs_has_suffix(path, ".hdf5"))
        RAISE(ERR_USAGE, "invalid output file '%s': expected a name that ends in .npz, .h5 or .hdf5", path);
    TRY_OUT(err, transfer_open(graph, names, &x));
    TRY_OUT(err, count_values(&x, &n_values));
    TRY_OUT(err, mem_new_array(n_values, sizeof *theirs, "weights", &theirs));
    TRY_OUT(err, mem_new_array(x.n, sizeof *entries, "weights", &entries));
    float *next = theirs;
    for (int i = 0; i < x.n; i++) {
        const named_tensor_t *t = &x.tensors[i];
        entries[i] = (npz_entry_t){t->name, t->layout.shape, next};
        tensor_export(&t->layout, (i < graph->n_params ? params : states) + t->param->offset, next);
        next += shape_count(t->layout.shape);
    }
    char note[TRANSFER_NOTE_MAX];
    const shape_t image = graph_shape(graph, 0);
    snprintf(note, sizeof note, TRANSFER_NOTE, graph->model, (long long)image.dim[1], (long long)image.dim[2],
             (long long)image.dim[3]);
    err = npz ? npz_write(path, entries, x.n, rcnn_is(graph) ? NULL : note) : write_h5(path, &x, entries);
out:
    mem_free(&entries);
    mem_free(&theirs);
    transfer_close(&x);
    return err;
}
