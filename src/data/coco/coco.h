/* SPDX-License-Identifier: MIT */
/* Reads COCO's instances_*.json as a stream (yajl); the text is never held in memory as a whole. Format:
 * https://cocodataset.org/#format-data. Not collective. */
#ifndef DATA_COCO_COCO_H
#define DATA_COCO_COCO_H

#include "base/err.h"
#include "data/annotation/sample.h"

/* Limits beyond which a file is rejected. The result takes about as much memory as COCO's own files, and at
 * most about four times the size of other files. */
enum {
    COCO_MAX_DEPTH = 32,           /* nesting */
    COCO_MAX_VALUE = 1 << 20,      /* bytes of one string or number, approximately */
    COCO_MAX_NAME = 1023,          /* bytes */
    COCO_MAX_PIXELS = 1 << 28,     /* width × height */
    COCO_MAX_COORDINATE = 1 << 20, /* magnitude of a segmentation's coordinates */
    COCO_MAX_POINTS = 1 << 20,     /* per annotation */
    COCO_MAX_RUNS = 1 << 22,       /* per annotation */
    COCO_MAX_CATEGORIES = 1 << 16,
};

/* How a file's text was encoded, other than as plain UTF-8. */
typedef struct coco_encoding {
    bool bom; /* a byte order mark of UTF-8 */
    bool utf16, gzip;
} coco_encoding_t;

typedef struct coco_image {
    int64_t id;
    const char *name; /* file_name: inside the folder, valid UTF-8, no control characters */
    int32_t width, height;
    int32_t n_annotations, n_truths;
    const annotation_t *annotations; /* in file order, without the ones that are left out */
    const annotation_t *truths;      /* as in the file (sample.h); NULL: the same */
} coco_image_t;

typedef struct coco_flaw {
    int64_t n, first; /* first: the first one's id */
} coco_flaw_t;

/* Counts of corrected or skipped annotations, for warnings. Truths keep all but the thin polygons, which change
 * no mask. */
typedef struct coco_flaws {
    coco_flaw_t cut;        /* the box exceeded the image by more than 0.01 (COCO's last digit): clipped */
    coco_flaw_t empty;      /* no area within the image, or only thin polygons: skipped */
    coco_flaw_t thin;       /* polygons of fewer than three points: these polygons are skipped */
    coco_flaw_t duplicates; /* an id seen before: skipped */
} coco_flaws_t;

typedef struct coco {
    int32_t n_categories;
    const category_t *categories; /* sorted by id */
    int64_t n_images, n_annotations;
    const coco_image_t *images; /* sorted by id */
    coco_encoding_t encoding;
    coco_flaws_t flaws;
    void *memory;
} coco_t;

/* Called with the bytes read so far and the file's size. */
typedef void (*coco_progress_t)(void *context, int64_t n_read, int64_t n_bytes);

/* Reads a file, also one that coco_stream (stream.h) has to decompress or convert. images, annotations and categories may come in any order. Required members:
 *
 *   images       id, file_name, width, height
 *   categories   id, name
 *   annotations  id, image_id, category_id, bbox, area
 *
 * iscrowd defaults to 0. A null member counts as absent, an empty segmentation as none. Other members
 * (captions, licenses, keypoints) are skipped.
 *
 *   progress  may be NULL
 *   out       free with coco_free
 *
 * ERR_DATA names the file, the position if known (byte, element, id), and the reason: invalid or truncated
 * JSON, another layout, missing or mistyped members, duplicate image or category ids, unknown image or
 * category ids, invalid or unpaired coordinates, RLE of another size than the image, exceeded limits, NaN, or
 * a file name outside the folder. */
err_t coco_read(const char *path, coco_progress_t progress, void *context, coco_t **out);
void coco_free(coco_t **coco);

/* Tells what was unusual about the file, a line for each kind: "2 boxes exceeded their image and were clipped
 * (first: annotation 12)". */
void coco_tell(const coco_t *coco, void *context, void (*tell)(void *context, const char *line));

#endif
