/* SPDX-License-Identifier: MIT */
/* A file of JSON in pieces of UTF-8, so that it is never held in memory as a whole. Not collective. */
#ifndef DATA_COCO_STREAM_H
#define DATA_COCO_STREAM_H

#include "data/coco/coco.h"

typedef struct coco_stream {
    void *context;
    /* Called with each piece in order; the last one may be empty, all others have COCO_MAX_VALUE bytes or the
     * file's size. */
    err_t (*feed)(void *context, const void *bytes, size_t n_bytes);
    void *progress_context;
    coco_progress_t progress;  /* NULL: not reported */
    coco_encoding_t *encoding; /* what was converted; NULL: not told */
} coco_stream_t;

/* Reads a regular file. A byte order mark is skipped, UTF-16 with one is converted, and what gzip compressed is
 * decompressed, up to 64 MiB and 100 times the file's size. ERR_DATA without the file's name: it cannot be opened,
 * is none, is empty, truncated or damaged; a surrogate of UTF-16 that stands alone; or feed's error. */
err_t coco_stream(const char *path, const coco_stream_t *to);

#endif
