/* SPDX-License-Identifier: MIT */
/* The parts of packing and verifying: work in slices, findings, the scan of all images, resizing, the file that an
 * interrupt removes. Private to src/tools/pack. */
#ifndef TOOLS_PACK_PARTS_H
#define TOOLS_PACK_PARTS_H

#include "data/shard/reader.h"
#include "tools/pack/pack.h"

/* Long work on all ranks in time slices. Between slices the ranks agree on errors and sum up progress, so that no rank
 * waits for another longer than a slice. */
typedef struct pack_work {
    const char *label; /* "packing" */
    int64_t n_total;   /* bytes of all ranks */
    void *context;
    /* Does one unit of this rank's work (a record or a shard) and sets *n_done to its bytes, or sets
     * *finished if none is left. */
    err_t (*step)(void *context, int64_t *n_done, bool *finished);
} pack_work_t;

/* Steps until all ranks have finished or one fails; all return the same error. Collective. */
err_t pack_work_run(comm_t *comm, const pack_work_t *work);

/* Findings of the ranks: sentences for rank 0, and the samples that they are about. */
enum { FINDINGS_MAX = 100000 }; /* sentences of a rank; more are only counted */

/* Starts zeroed. */
typedef struct findings {
    char *text; /* sentences, each with its NUL */
    size_t n_bytes;
    int64_t n;
    int64_t *samples; /* [n]; -1: about something else */
    err_t status;     /* of adding findings */
} findings_t;

/* Not collective.
 *
 *   sample  its number over both splits, or -1 */
void findings_add(findings_t *findings, const char *what, int64_t sample);
void findings_free(findings_t *findings);

/* Calls `tell` on rank 0 with each sentence, in order of ranks. Sets *n to the number of findings of all
 * ranks. Collective. */
err_t findings_tell(comm_t *comm, const findings_t *findings, void (*tell)(void *context, const char *what),
                    void *context, int64_t *n);

/* Sets *out to the samples of all ranks, in ascending order; free it with mem_free. Collective. */
err_t findings_samples(comm_t *comm, const findings_t *findings, int64_t **out, int64_t *n);

/* Reads and decodes the images of a source with several threads and names the unusable ones. */
typedef struct scan_options {
    const char *label;        /* "decoding" */
    const source_t *source;   /* NULL: shards */
    shard_reader_t *shards;   /* NULL: source. Records that cannot be read are not named: shard_verify did */
    const char *path;         /* for messages */
    const int64_t *n_samples; /* [SPLIT_COUNT] */
    int64_t n_bytes;          /* of all images */
    bool decode;              /* otherwise only headers are read */
    int n_threads;            /* of this rank; 0: scan_threads */
} scan_options_t;

/* Checks every image of a source or of shards, divided over ranks and threads. Adds this rank's findings, each
 * with its sample. Errors concern something else than an image. Collective. */
err_t scan_run(comm_t *comm, const scan_options_t *options, findings_t *findings);

/* False for IDX files: they hold pixels, which the source encodes on its own. */
bool scan_can_decode(const source_t *source);

/* Turns a number counted over both splits into one within its split. */
split_t scan_split(const int64_t counts[SPLIT_COUNT], int64_t *number);

/* Registers the file to remove, in place of the previous one; NULL: none. Call it before the file is created, always on
 * the same thread. `path` is copied. */
void interrupt_removes(const char *path);

/* Shrinks images together with their annotations. Not collective; one thread per resizer. */
typedef struct pack_resizer pack_resizer_t;

/* shorter_side: the maximum length, in pixels; quality: of JPEG, 1 to 100. */
err_t pack_resizer_new(int64_t shorter_side, int64_t quality, pack_resizer_t **out);
void pack_resizer_free(pack_resizer_t **resizer);

/* Shrinks the image so that its shorter side has shorter_side pixels and its longer one at most RESIZE_MAX.
 * The file format stays, and EXIF's orientation is applied to the image and the annotations. Boxes, areas and
 * polygons are scaled; RLE masks are sampled at the new pixels' centres. An image that is small enough passes
 * through unchanged, byte for byte.
 *
 *   out  valid until the next call, and while `in` is
 *
 * ERR_DATA: the image cannot be decoded. */
err_t pack_resize(pack_resizer_t *resizer, const sample_t *in, sample_t *out);

#endif
