/* SPDX-License-Identifier: MIT */
/* What the kinds of sources share. For src/data/source alone. */
#ifndef DATA_SOURCE_PARTS_H
#define DATA_SOURCE_PARTS_H

#include "data/source/source.h"

/* The kind of that name; NULL: there is none. */
const source_ops_t *source_kind(const char *name);

/* To be called again and again by what takes long in opening. */
err_t source_alive(const source_t *source);

/* Sets source->hash, looking at every sample. */
err_t source_measure_hash(source_t *source);

/* What the bytes of `save` begin with; source_save fills it in. */
typedef struct source_frame {
    int64_t n_bytes; /* of all */
    char kind[16], path[FS_PATH_MAX];
} source_frame_t;

/* `save` and `restore` of sources that are lists of images: in files of the folders (of train and val), or
 * (folders NULL) in memory. */
err_t source_list_save(const source_t *source, const char *const folders[SPLIT_COUNT], void **bytes,
                       int64_t *n_bytes);
err_t source_list_restore(source_t *source, void **bytes, int64_t n_bytes);

/* ERR_DATA naming the file folder/name: this host has none of n_bytes. */
err_t source_check_file(const char *folder, const char *name, int64_t n_bytes);

/* Adds a line to the notes; what no longer fits is left away. */
void source_note(source_t *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Room of n_bytes in the buffer; what was in it is gone. */
err_t source_reserve(source_buffer_t *buffer, size_t n_bytes);

/* Names that people see and programs keep: valid UTF-8 without control characters. */
bool source_name_is_clean(const char *name);

/* Size of the image's file folder/name, by the folder's descriptor; false in *found where there is none.
 * ERR_DATA naming the file: it cannot be reached, is no regular file, is too large. */
err_t source_stat(int folder_fd, const char *folder, const char *name, bool *found, int64_t *n_bytes);

/* Reads the image folder/sample->name, of sample->n_bytes, into the buffer. Width and height are filled in,
 * or compared where they are not 0. */
err_t source_load(const char *folder, source_buffer_t *buffer, sample_t *sample);

#endif
