/* SPDX-License-Identifier: MIT */
/* A file of JSON in pieces, so that it is never held in memory as a whole. Not collective. */
#ifndef DATA_COCO_STREAM_H
#define DATA_COCO_STREAM_H

#include "data/coco/coco.h"

typedef struct coco_stream {
    void *context;
    /* Called with each piece in order; the last one may be empty, all others have COCO_MAX_VALUE bytes or the
     * file's size. */
    err_t (*feed)(void *context, const void *bytes, size_t n_bytes);
    void *progress_context;
    coco_progress_t progress; /* NULL: not reported */
} coco_stream_t;

/* Reads a regular file. ERR_DATA without its name: it cannot be opened, is none, or is empty; or feed's error. */
err_t coco_stream(const char *path, const coco_stream_t *to);

#endif
