/* SPDX-License-Identifier: MIT */
/* A model's tensors beside those of a file, for import and export: names, layouts, and the part of the model that
 * each belongs to. Private to this room. */
#ifndef TRAIN_WEIGHTS_TRANSFER_H
#define TRAIN_WEIGHTS_TRANSFER_H

#include "store/checkpoint/npz.h"
#include "train/weights/tensor_layout.h"

/* Trunk: the feature extractor of a detector, whose layers are those of a classifier behind TRANSFER_TRUNK. Head:
 * a layer whose outputs are counted by the classes. */
typedef enum model_part { PART_REST, PART_TRUNK, PART_HEAD } model_part_t;
#define TRANSFER_TRUNK "backbone.body."

/* The comment of an exported archive: the model, and height, width and channels of its images. */
#define TRANSFER_NOTE      "dptrain weights 1\nmodel %s\nheight %lld\nwidth %lld\nchannels %lld\n"
#define TRANSFER_NOTE_READ "dptrain weights 1 model %63s height %7lld width %7lld channels %7lld"
enum { TRANSFER_NOTE_MAX = 256 };

typedef struct named_tensor {
    const graph_param_t *param;
    const graph_node_t *layer; /* NULL: a state */
    model_part_t part;
    char name[NAME_THEIRS_MAX]; /* in the file; "": the table has none */
    tensor_layout_t layout;
} named_tensor_t;

typedef struct transfer {
    const graph_t *graph;
    name_table_t table;
    named_tensor_t *tensors; /* parameters, then states */
    int n;
} transfer_t;

/* Names all tensors as an export does. ERR_USAGE for an invalid table, or one that gives two tensors one name. */
err_t transfer_open(const graph_t *graph, const char *names, transfer_t *out);
void transfer_close(transfer_t *transfer);

/* Renames tensors that the file has under another spelling, or as a trunk alone. ERR_USAGE as above. */
err_t transfer_match(transfer_t *transfer, const npz_t *file);

/* ERR_USAGE that the table has no rule for a tensor. */
err_t transfer_no_rule(const transfer_t *transfer, const named_tensor_t *tensor);

/* The classifier's layer, the first of the heads; NULL if the model has none. */
const graph_node_t *transfer_classifier(const graph_t *graph);

#endif
