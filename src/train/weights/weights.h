/* SPDX-License-Identifier: MIT */
/* Weights from other programs, and for them: numpy's .npz (store/checkpoint/npz.h), names and layouts by a
 * table (name_table.h). Not collective. */
#ifndef TRAIN_WEIGHTS_WEIGHTS_H
#define TRAIN_WEIGHTS_WEIGHTS_H

#include "compute/graph/graph.h"

/* What an import took. */
typedef struct weights_report {
    int n_taken;        /* arrays */
    int64_t n_unused;   /* arrays of the file that are none of the model's */
    char new_head[256]; /* "": all were taken; else what is as it was, and why */
} weights_report_t;

/* Reads every parameter and running value of the graph into the flat buffers. The last linear layer, which
 * knows the classes of its own data, is left as it is where the file has none of it, or one for another
 * number of classes. ERR_DATA naming file, array, both names and shapes, where anything else is missing or of
 * another shape, or holds NaN or infinity; ERR_USAGE for a table of names that is none. names:
 * name_table_read's. */
err_t weights_import(const char *path, const char *names, const graph_t *graph, float *params, float *states,
                     weights_report_t *out);

/* Writes them all: as .npz, or, where the path ends in .h5 or .hdf5, as a checkpoint without anything else
 * (store/checkpoint/file.h), which HDF5's tools and h5py read. ERR_USAGE for another ending, and names that
 * the table does not have. */
err_t weights_export(const char *path, const char *names, const graph_t *graph, const float *params,
                     const float *states);

#endif
