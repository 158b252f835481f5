/* SPDX-License-Identifier: MIT */
/* Exchanges weights with other programs: .npz and .safetensors (store/checkpoint/arrays.h), with names and layouts from
 * a table (transfer.h). Not collective. */
#ifndef TRAIN_WEIGHTS_WEIGHTS_H
#define TRAIN_WEIGHTS_WEIGHTS_H

#include "base/fs.h"
#include "compute/models/model.h"
#include "compute/tensor/pixels.h"

enum { WEIGHTS_PREFIX_MAX = 64 };

/* The result of an import. */
typedef struct weights_report {
    int n_taken;                     /* imported arrays */
    int64_t n_unused;                /* arrays of the file that the model does not have */
    char prefix[WEIGHTS_PREFIX_MAX]; /* of all names in the file, left out: "module."; "": none */
    char reinitialized[512];         /* "" if all layers were imported; else which were not, and why */
} weights_report_t;

/* Reads all parameters and running statistics of the graph into the flat buffers. These are left unchanged:
 *
 *   heads     the classifier's last layer, a detector's layers with outputs per class, if the file lacks one of
 *             them or has it for another number of classes
 *   all but the trunk (layers "backbone.body.…"), if the file has the trunk only, of a detector or a classifier; or,
 *             by a table of Detectron2's or TensorPack's, a trunk with heads of another kind, such as a cascade's
 *
 *   names   a name table, as in name_table_read
 *
 * If no name of the file fits, a prefix that all names have up to a '.' or '/' is left out: DistributedDataParallel's
 * "module.", torch.compile's "_orig_mod.", Lightning's "model.". Names without either, such as "n_averaged", need not
 * have it.
 *
 * ERR_DATA names file, array and shapes if any other array is missing, of another shape, or not finite;
 * ERR_USAGE for an invalid name table. */
err_t weights_import(const char *path, const char *names, const graph_t *graph, float *params, float *states,
                     weights_report_t *out);

/* What weights_export wrote of a classifier's images beside the arrays. */
typedef struct weights_note {
    char model[64]; /* "": the file is another program's or a detector's, or cannot be read */
    int64_t height, width, channels;
} weights_note_t;
void weights_read_note(const char *path, weights_note_t *out);

/* The file beside weights that names their classes, a line for each output: "resnet18.classes.txt" of "resnet18.npz".
 * ERR_USAGE if the path is too long. */
err_t weights_classes_path(const char *path, char out[FS_PATH_MAX]);

/* The form of the network that the file's weights are of.
 *
 *   sample  model_options_t's */
err_t weights_find_form(const char *path, const char *names, const char *model, shape_t sample,
                        model_form_t *out);

/* As whose detectors the files of a name table compute. ERR_USAGE as name_table_read. */
err_t weights_find_heads(const char *names, model_heads_t *out);

/* ERR_DATA if the file holds weights, but in another program's format, with the Python that converts it: PyTorch's, a
 * pickle, ONNX, HDF5 that is not dptrain's. Anything else is left to its reader. */
err_t weights_check_file(const char *path);

/* The number of classes in the file: the outputs of the graph's classifier there, whatever the graph's own
 * number; of a detector with the background. ERR_DATA if the file has no such array. */
err_t weights_count_classes(const char *path, const char *names, const graph_t *graph, int *out);

/* Writes all parameters and running statistics.
 *
 *   path    ends in .npz or .safetensors, or in .h5 or .hdf5 for a checkpoint with weights only (store/checkpoint/file.h),
 *           which HDF5's tools and h5py read
 *   names   a name table, as in name_table_read
 *
 * ERR_USAGE for another ending, or a name that the table does not have. */
err_t weights_export(const char *path, const char *names, const graph_t *graph, const float *params,
                     const float *states);

/* Writes a classifier, its normalization of pixels included, as ONNX (onnx.h). ERR_USAGE for a detector.
 *
 *   class_names  as in class_names_join; NULL: none */
err_t weights_export_onnx(const char *path, const graph_t *graph, const pixel_norm_t *norm,
                          const char *class_names, const float *params, const float *states);

#endif
