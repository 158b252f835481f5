/* SPDX-License-Identifier: MIT */
/* Exchanges weights with other programs: NumPy's .npz (store/checkpoint/npz.h), with names and layouts from a
 * table (name_table.h). Not collective. */
#ifndef TRAIN_WEIGHTS_WEIGHTS_H
#define TRAIN_WEIGHTS_WEIGHTS_H

#include "compute/graph/graph.h"

/* The result of an import. */
typedef struct weights_report {
    int n_taken;        /* imported arrays */
    int64_t n_unused;   /* arrays of the file that the model does not have */
    char new_head[256]; /* "" if all were imported; else which layer was not, and why */
} weights_report_t;

/* Reads all parameters and running statistics of the graph into the flat buffers. The classifier (last linear
 * layer) is left unchanged if the file lacks it or has it for another number of classes.
 *
 *   names   a name table, as in name_table_read
 *
 * ERR_DATA names file, array and shapes if any other array is missing, of another shape, or not finite;
 * ERR_USAGE for an invalid name table. */
err_t weights_import(const char *path, const char *names, const graph_t *graph, float *params, float *states,
                     weights_report_t *out);

/* The number of classes in the file: the outputs of the graph's classifier there, whatever the graph's own
 * number. ERR_DATA if the file has no such array. */
err_t weights_count_classes(const char *path, const char *names, const graph_t *graph, int *out);

/* Writes all parameters and running statistics.
 *
 *   path    ends in .npz, or in .h5 or .hdf5 for a checkpoint with weights only (store/checkpoint/file.h),
 *           which HDF5's tools and h5py read
 *   names   a name table, as in name_table_read
 *
 * ERR_USAGE for another ending, or a name that the table does not have. */
err_t weights_export(const char *path, const char *names, const graph_t *graph, const float *params,
                     const float *states);

#endif
