/* SPDX-License-Identifier: MIT */
/* A model in a checkpoint: the arrays and attributes from which `dptrain eval` rebuilds it and a run resumes.
 *
 *   /params/<layer>/<name>              weights
 *   /optimizer/<buffer>/<layer>/<name>  optimizer state, named as in optim.h ("velocity", "ema", …)
 *   /states/<layer>/<name>              batch norm's running statistics
 *
 * Attributes:
 *
 *   model, height, width, channels, n_classes
 *   mean, std         pixel_norm_t of the first channel
 *   mean_1, std_1, …  of the others; missing: as the first
 *   precision         one of model_precisions
 *   multi_label       model_multi_label
 *   stem              of ResNets: one of model_stems, but auto; missing: auto
 *   frozen_layers     layers whose parameters are not trained, as in graph_t.freeze; missing: none
 *   norm              of detectors: what their norms are, one of model_norms
 *   norm_epsilon      of detectors: of every norm
 *   box_block         of detectors: model_options_t's
 *   mask_block        the same, of those with masks
 *   heads             of detectors: one of model_heads; missing: torchvision
 *   stride_1x1        of detectors: 1 if their bottlenecks have it; missing: 0
 *
 * Not collective: rank 0 calls these. */
#ifndef TRAIN_WEIGHTS_MODEL_FILE_H
#define TRAIN_WEIGHTS_MODEL_FILE_H

#include "base/err.h"
#include "compute/graph/graph.h"
#include "compute/tensor/pixels.h"
#include "store/checkpoint/file.h"
#include "train/learn/optim.h"
#include "train/weights/weights.h"

typedef struct model_file {
    const graph_t *graph;
    pixel_norm_t norm;
    float *params, *states; /* flat, laid out by the graph; read only */
    const optim_t *optim;
    const h5_attr_t *attrs; /* the run's, added to the model's */
    int n_attrs;
} model_file_t;

/* The contents of a checkpoint of this model; arrays point into the flat buffers. Where the optimizer's state is shared out
 * among the ranks, its arrays have no data. Free with model_file_release. */
typedef struct model_content {
    ckpt_content_t content;
    int n_steady; /* the first arrays that are here: weights and optimizer state, changed only by optimizer steps */
    void *arrays, *names, *attrs, *frozen;
} model_content_t;
err_t model_file_content(const model_file_t *file, model_content_t *out);
void model_file_release(model_content_t *content);

/* Reads arrays into flat buffers.
 *
 *   optim     receives the optimizer's state. NULL, for evaluation: params receives the moving average of the
 *             weights if the checkpoint has one
 *   averaged  whether params are that average; may be NULL
 *
 * ERR_DATA naming an array that is missing or of another shape. State that is shared out among the ranks is not read, but by
 * model_file_read_state. */
err_t model_file_read(checkpoint_t *checkpoint, const graph_t *graph, float *params, float *states,
                      optim_t *optim, bool *averaged);

/* Reads what the checkpoint has in a buffer of the optimizer for a trained parameter. ERR_DATA as above. */
err_t model_file_read_state(checkpoint_t *checkpoint, const optim_t *optim, int buffer,
                            const graph_param_t *param, float *out);

/* What a detector's network is, as weights_find_form; all zeros for other models. */
err_t model_file_form(const checkpoint_t *checkpoint, model_form_t *out);

/* Rebuilds the checkpoint's graph and pixel normalization. */
err_t model_file_graph(const checkpoint_t *checkpoint, graph_t **out, pixel_norm_t *norm);

/* Finds a checkpoint.
 *
 *   where    a checkpoint; a folder: its newest valid one, with a warning for each that is skipped; or FOLDER/best, where
 *            no such file exists: the one with the best validation, as the folder's newest valid one names it
 *   path     receives the file; FS_PATH_MAX bytes
 *   n_found  receives the number of checkpoints in the folder, as in checkpoint_store_latest; may be NULL */
err_t model_file_locate(const char *where, char *path, int *n_found);

/* The names of classes as the text of a checkpoint's attribute "class_names"; free with mem_free. */
err_t class_names_join(const char *const *names, int n, char **out);

/* Writes a checkpoint's weights, or their moving average if it has one, by weights_export. Logs what was
 * written and how pixels were normalized.
 *
 *   where   a checkpoint, or a folder: its newest valid checkpoint
 *   to      output file; ERR_USAGE if it is the checkpoint
 *   names   as in weights_export */
err_t model_file_export(const char *where, const char *to, const char *names);

#endif
