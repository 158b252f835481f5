/* SPDX-License-Identifier: MIT */
/* Shapes and orders of a tensor's elements in the model and in another program's file. */
#ifndef TRAIN_WEIGHTS_TENSOR_LAYOUT_H
#define TRAIN_WEIGHTS_TENSOR_LAYOUT_H

#include "compute/graph/graph.h"
#include "train/weights/name_table.h"

/* The model's dimensions are `letters`, in C order. The file's are `there`, flattened to a matrix if the tensor is
 * the weight of a linear layer that reads images. */
typedef struct tensor_layout {
    int n_letters; /* 0: one dimension, the same on both sides */
    char letters[5], there[5];
    int64_t dim[4]; /* of letters */
    bool flat;
    bool reversed; /* the file's input channels are in reverse order */
    shape_t shape; /* in the file */
} tensor_layout_t;

/* The layout of a layer's parameter under a table, or of a state (node NULL). ERR_USAGE if the table's layout
 * cannot represent it. */
err_t tensor_layout(const graph_param_t *param, const graph_node_t *node, const name_table_t *table,
                    tensor_layout_t *out);

/* Copies from the file's order to the model's, or back.
 *
 *   fortran  the file's array is in Fortran's order */
void tensor_import(const tensor_layout_t *layout, bool fortran, const float *theirs, float *ours);
void tensor_export(const tensor_layout_t *layout, const float *ours, float *theirs);

#endif
