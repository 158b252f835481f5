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
    const char *name; /* file_name: valid UTF-8, no control characters; it may lead anywhere */
    int32_t width, height;
    int32_t n_annotations, n_truths;
    const annotation_t *annotations; /* in file order, without the ones that are left out */
    const annotation_t *truths;      /* as in the file (sample.h); NULL: the same */
} coco_image_t;

typedef struct coco_flaw {
    int64_t n, first; /* first: the first one's id */
} coco_flaw_t;

/* Counts of what was unusual, for notes (coco_tell). Annotations, unless said otherwise. */
typedef struct coco_flaws {
    /* Left out of training. Truths keep them. */
    coco_flaw_t empty;      /* no area within the image */
    coco_flaw_t negative;   /* a negative width or height */
    coco_flaw_t duplicates; /* an earlier one is the same in everything, also the id */
    /* Kept. */
    coco_flaw_t cut;  /* the box exceeded the image by more than 0.01 (COCO's last digit): clipped */
    coco_flaw_t thin; /* some polygons of fewer than three points: these are skipped; they change no mask */
    coco_flaw_t no_mask; /* only such polygons: no segmentation */
    coco_flaw_t loose; /* one polygon that is not in a list, or points that are: [x, y, …], [[x, y], …] */
    coco_flaw_t same_ids;   /* another annotation has the id; scores need ids of their own */
    coco_flaw_t no_ids;     /* without an id; numbered (ANNOTATION_FIRST_ID) */
    coco_flaw_t no_areas;   /* without an area: from the polygons or the runs, else from the box */
    coco_flaw_t no_boxes;   /* without a box: from the polygons or the runs */
    coco_flaw_t ignored;    /* "ignore": 1, which training takes as a crowd, and truths do not */
    coco_flaw_t texts;      /* of any list: numbers as strings */
    coco_flaw_t no_names;   /* categories without a name: named by their id */
    coco_flaw_t same_names; /* categories that have the name of an earlier one */
    coco_flaw_t no_files;   /* images without file_name: the end of their path or coco_url */
    coco_flaw_t federated;  /* images with LVIS's neg_category_ids */
} coco_flaws_t;

/* The number of annotations that were left out of training. */
static inline int64_t coco_left_out(const coco_flaws_t *flaws)
{
    return flaws->empty.n + flaws->negative.n + flaws->duplicates.n;
}

typedef struct coco {
    int32_t n_categories;
    const category_t *categories; /* sorted by id */
    int64_t n_images, n_annotations;
    int64_t n_listed;           /* annotations in the file: n_annotations and the ones that were left out */
    const coco_image_t *images; /* sorted by id */
    coco_encoding_t encoding;
    coco_flaws_t flaws;
    void *memory;
} coco_t;

/* Called with the bytes read so far and the file's size. */
typedef void (*coco_progress_t)(void *context, int64_t n_read, int64_t n_bytes);

/* Reads a file, also one that coco_stream has to decompress or convert. images, annotations and categories
 * may come in any order. Members:
 *
 *   images       id, file_name (or path, coco_url), width, height
 *   categories   id; name
 *   annotations  image_id, category_id; bbox or segmentation; id, area, iscrowd, ignore
 *
 * A null member counts as absent, as do an empty bbox and an empty segmentation ({}, "", [[]]); iscrowd and ignore
 * default to 0. Numbers may be strings; integers may have a fraction of 0. Other members (captions, licenses,
 * keypoints) are skipped.
 *
 *   progress  may be NULL
 *   out       free with coco_free
 *
 * ERR_DATA names the file, the position if known (byte, element, id), and the reason: invalid or truncated
 * JSON, another layout, missing or mistyped members, duplicate image or category ids, unknown image or
 * category ids, invalid or unpaired coordinates, RLE of another size than the image, exceeded limits, NaN,
 * boxes that are corners or shares of their image, or a list of another task. */
err_t coco_read(const char *path, coco_progress_t progress, void *context, coco_t **out);
void coco_free(coco_t **coco);

/* What something unusual about a file changes. Truths are not clipped, and nothing is left out of them. */
typedef enum coco_effect {
    COCO_LEFT_OUT, /* training, by annotations that it does not have */
    COCO_TRAINING, /* training, otherwise */
    COCO_SCORES    /* scores against the annotations, too */
} coco_effect_t;

typedef void coco_listen_t(void *context, coco_effect_t effect, const char *line);

/* Tells what was unusual about the file, a line for each kind: "2 boxes exceeded their image and were clipped
 * (first: annotation 12)". */
void coco_tell(const coco_t *coco, void *context, coco_listen_t *listen);

/* A file of JSON in pieces of UTF-8. */
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
