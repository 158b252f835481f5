/* SPDX-License-Identifier: MIT */
/* A model's tensors beside those of a file, for import and export: names, layouts, and the part of the model that
 * each belongs to. Private to this room. Not collective. */
#ifndef TRAIN_WEIGHTS_TRANSFER_H
#define TRAIN_WEIGHTS_TRANSFER_H

#include <stdbool.h>

#include "base/err.h"
#include "compute/models/model.h"
#include "store/checkpoint/arrays.h"

/* Names of the model's tensors in other programs, as a small text:
 *
 *     # comment
 *     layout OIHW
 *     layer{s}.{b}.conv{c}/weight   res{s+1}.{b}.conv{c}.weight
 *     %/running_mean                %.running_mean
 *
 * A rule maps a name of dptrain to one of the other program; the first rule whose left side matches applies.
 * Later ones that match are other spellings, which an import accepts. {s}, with any lowercase letter, matches a
 * number; on the right, {s+1} or {s-1} (up to 9) shifts it. One % per side matches any text.
 *
 *   layout OIHW    the other program's order of a convolution's dimensions. A linear layer uses O and I of it
 *   flat OIHW      the same of a linear layer whose input is an image; by default the layout
 *   deconv IOHW    the same of a transposed convolution; by default the layout with O and I swapped
 *   input BGR      its images are BGR: the channels of convolutions that read the image are reversed
 *   ending :0      the file's names may end in this
 *   heads NAME     one of model_heads: as whose its detectors compute; by default torchvision
 *   logits last    where a detector's head has the background among the classes: first (the default), last, or none
 *   deltas none    the same of the boxes' deltas
 *   masks none     the same of the masks
 *
 * Whatever the table says, images of a trunk with model_options_t.stride_1x1, MSRA's, are BGR, of 0 … 255 less the mean. */
enum { NAME_TABLE_RULES = 128, NAME_PATTERN_MAX = 96, NAME_THEIRS_MAX = 160 };

typedef struct name_rule {
    char ours[NAME_PATTERN_MAX], theirs[NAME_PATTERN_MAX];
} name_rule_t;

/* Where the background's outputs are among those of the classes. */
typedef enum background { BACKGROUND_FIRST, BACKGROUND_LAST, BACKGROUND_NONE } background_t;

/* Outputs of the graph that are counted by the classes: a classifier's, and a detector's. */
typedef enum head_output {
    HEAD_CLASSIFIER,
    HEAD_LOGITS,
    HEAD_DELTAS,
    HEAD_MASKS,
    HEAD_OUTPUTS
} head_output_t;

typedef struct name_table {
    char layout[5], flat[5], deconv[5]; /* "OIHW", "OIHW", "IOHW" */
    bool bgr;
    char ending[8]; /* "": none */
    model_heads_t heads;
    background_t background[HEAD_OUTPUTS];
    name_rule_t rules[NAME_TABLE_RULES];
    int n;
} name_table_t;

/* The built-in tables, ended by a NULL name: "torchvision" (also timm's), "detectron2", "tensorpack",
 * "huggingface", "dptrain" (names and layout unchanged). */
typedef struct name_table_text {
    const char *name, *text;
} name_table_text_t;
extern const name_table_text_t name_tables[];

/* Reads a table.
 *
 *   which   a built-in table's name, or the path of a text file
 *
 * ERR_USAGE names file and line of an invalid rule, and lists the built-in tables if the file is
 * missing. */
err_t name_table_read(const char *which, name_table_t *out);

/* Translates a name into out[NAME_THEIRS_MAX] by the nth rule that matches, from 0. False if there are not as
 * many. */
bool name_table_find(const name_table_t *table, const char *ours, int nth, char *out);

/* Shapes and orders of a tensor's elements in the model and in another program's file. The model's dimensions are
 * `letters`, in C order. The file's are `there`, flattened to a matrix if the tensor is the weight of a linear layer
 * that reads images. Outputs that are counted by the classes may be in another order. */
typedef struct tensor_layout {
    int n_letters; /* 0: one dimension, the same on both sides */
    char letters[5], there[5];
    int64_t dim[4]; /* of letters */
    bool flat;
    bool reversed; /* the file's input channels are in reverse order */
    bool scaled;   /* the file's images are not divided by 255 · pixel_norm_imagenet().std */
    background_t background;
    int64_t per_class; /* outputs, which come together */
    shape_t shape;     /* in the file */
} tensor_layout_t;

/* Copies from the file's order to the model's, or back.
 *
 *   fortran  the file's array is in Fortran's order */
void tensor_import(const tensor_layout_t *layout, bool fortran, const float *theirs, float *ours);
void tensor_export(const tensor_layout_t *layout, const float *ours, float *theirs);

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
err_t transfer_match(transfer_t *transfer, const arrays_t *file);

/* ERR_USAGE for a detector whose heads are not those of the table's program. */
err_t transfer_check_heads(const transfer_t *transfer);

/* ERR_USAGE that the table has no rule for a tensor. */
err_t transfer_no_rule(const transfer_t *transfer, const named_tensor_t *tensor);

/* The classifier's layer, the first of the heads; NULL if the model has none. */
const graph_node_t *transfer_classifier(const graph_t *graph);

#endif
