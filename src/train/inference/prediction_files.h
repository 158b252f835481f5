/* SPDX-License-Identifier: MIT */
/* The files that `dptrain predict` writes: a folder of pictures, and a JSON object per line and image. */
#ifndef TRAIN_INFERENCE_PREDICTION_FILES_H
#define TRAIN_INFERENCE_PREDICTION_FILES_H

#include "base/fs_temp.h"
#include "base/json.h"

typedef struct prediction_files {
    const char *folder; /* NULL: no pictures */
    json_t json;        /* the next line; the caller writes it */
    fs_temp_t file;
    FILE *stream; /* NULL: no lines */
} prediction_files_t;

/* Creates the folder and the file; either may be NULL. Close them, also after an error. */
err_t prediction_files_open(const char *folder, const char *json, prediction_files_t *out);

/* Writes the line, if there is a file, and empties it. */
err_t prediction_files_line(prediction_files_t *files);

/* The path of an image's picture, FOLDER/000001-NAME.png; the number keeps names apart and in order. */
err_t prediction_files_picture(const prediction_files_t *files, int64_t index, const char *image,
                               char out[FS_PATH_MAX]);

/* Makes the file of lines appear. */
err_t prediction_files_commit(prediction_files_t *files);
void prediction_files_close(prediction_files_t *files);

#endif
