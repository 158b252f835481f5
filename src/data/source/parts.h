/* SPDX-License-Identifier: MIT */
/* Helpers that the kinds of sources share. Private to data/source. */
#ifndef DATA_SOURCE_PARTS_H
#define DATA_SOURCE_PARTS_H

#include "data/source/source.h"

/* The kind of this name, or NULL. */
const source_ops_t *source_kind(const char *name);

/* Called repeatedly while opening, to tell the watchdog that work goes on. */
err_t source_alive(const source_t *source);

/* Sets source->hash from every sample. */
err_t source_measure_hash(source_t *source);

/* The start of a saved source; source_save fills it in. */
typedef struct source_frame {
    int64_t n_bytes; /* including the frame */
    char kind[16], path[FS_PATH_MAX];
} source_frame_t;

/* `save` and `restore` of a source that is a list of images: files in folders[split] or, if folders is NULL,
 * images in memory. */
err_t source_list_save(const source_t *source, const char *const folders[SPLIT_COUNT], void **bytes,
                       int64_t *n_bytes);
err_t source_list_restore(source_t *source, void **bytes, int64_t n_bytes);

/* Verifies that this host has the file folder/name with n_bytes; ERR_DATA names it. */
err_t source_check_file(const char *folder, const char *name, int64_t n_bytes);

/* Appends a line to the notes, or drops it if they are full. */
void source_note(source_t *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes room for n_bytes and discards the buffer's content. */
err_t source_reserve(source_buffer_t *buffer, size_t n_bytes);

/* True for valid UTF-8 without control characters. */
bool source_name_is_clean(const char *name);

/* The size and time of an image file.
 *
 *   folder_fd  the folder's descriptor; `folder` is its path, for messages
 *   found      set to false if the file does not exist
 *   time_ns    when it was modified
 *
 * ERR_DATA names a file that is inaccessible, not regular, or too large. */
err_t source_stat(int folder_fd, const char *folder, const char *name, bool *found, int64_t *n_bytes,
                  int64_t *time_ns);

/* Reads the file folder/sample->name of sample->n_bytes into the buffer. Sets the sample's width and height,
 * or compares them if they are not 0. */
err_t source_load(const char *folder, source_buffer_t *buffer, sample_t *sample);

#endif
