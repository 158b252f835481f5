/* SPDX-License-Identifier: MIT */
/* A model in a checkpoint: what `dptrain eval` needs to rebuild it, and what a resumed run adds.
 *   /params/<layer>/<name>              weights
 *   /optimizer/<buffer>/<layer>/<name>  the optimizer's, named as optim.h says ("velocity", "ema", …)
 *   /states/<layer>/<name>              batch norm's running statistics
 * with the attributes model, height, width, channels, n_classes, mean and std (pixel_norm_t's of the first
 * channel; of the others mean_1, std_1 and so on, in older files absent: as the first), precision
 * (model_precisions; absent in older files: fp32) and multi_label (graph_multi_label; absent: 0). Not
 * collective: rank 0 calls these. */
#ifndef TRAIN_WEIGHTS_MODEL_FILE_H
#define TRAIN_WEIGHTS_MODEL_FILE_H

#include "compute/graph/graph.h"
#include "compute/tensor/pixel_norm.h"
#include "store/checkpoint/file.h"
#include "train/learn/optim.h"

typedef struct model_file {
    const graph_t *graph;
    pixel_norm_t norm;
    float *params, *states; /* flat, laid out by the graph; only read */
    const optim_t *optim;
    const ckpt_attr_t *attrs; /* the run's own, beside the model's */
    int n_attrs;
} model_file_t;

/* What a checkpoint of this model holds; arrays point into the flat buffers. Free with model_file_release. */
typedef struct model_content {
    ckpt_content_t content;
    int n_steady; /* the first arrays: weights and optimizer, which only an optimizer step changes */
    void *arrays, *names, *attrs;
} model_content_t;
err_t model_file_content(const model_file_t *file, model_content_t *out);
void model_file_release(model_content_t *content);

/* Reads arrays into flat buffers. optim NULL: what evaluation wants, which is the moving average of the
 * weights where the checkpoint has one (*averaged, may be NULL, says so). ERR_DATA naming what is missing or
 * of another shape. */
err_t model_file_read(checkpoint_t *checkpoint, const graph_t *graph, float *params, float *states,
                      optim_t *optim, bool *averaged);

/* Rebuilds the graph that the checkpoint was made with. */
err_t model_file_graph(const checkpoint_t *checkpoint, graph_t **out, pixel_norm_t *norm);

/* `where` is a checkpoint, or a folder whose newest valid one is taken (saying which were passed over and
 * why). path: FS_PATH_MAX bytes. *n_found (may be NULL): checkpoints in the folder, as
 * checkpoint_store_latest says. */
err_t model_file_locate(const char *where, char *path, int *n_found);

#endif
