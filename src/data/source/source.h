/* SPDX-License-Identifier: MIT */
/* Sources of images: an image folder, COCO, IDX files, or shards of any of them. Whoever trains, packs or
 * shows reads samples through this one table, so that the same samples give the same results wherever they
 * lie. Not collective. */
#ifndef DATA_SOURCE_SOURCE_H
#define DATA_SOURCE_SOURCE_H

#include "base/fs.h"
#include "data/annotation/sample.h"
#include "data/dataset/dataset.h"

enum {
    SOURCE_MAX_IMAGE = 1 << 28, /* bytes of a compressed image */
    SOURCE_NOTES_MAX = 2048,
};

/* What is known of a sample without reading its image; arrays are ordered as the samples are numbered. */
typedef struct source_entry {
    int64_t n_bytes;
    int32_t width, height; /* 0: not known before it is read (image folders) */
    int32_t label;
} source_entry_t;

typedef struct source source_t;

/* Images that are going to be read at about the time of one of them. */
typedef struct source_near {
    int64_t first, n; /* n 0: not known */
    int64_t n_uses;   /* reads of all of them */
    int64_t n_runs;   /* such runs at the same time */
} source_near_t;

/* One thread's; zeroed it is ready. What was read is valid until the next read into the same buffer. */
typedef struct source_buffer {
    void *block;
    size_t n_bytes;
    void *impl;
    source_near_t near; /* a request, which who reads may set: a source may read all of them at once */
} source_buffer_t;

typedef struct source_ops {
    const char *kind; /* "folder", "coco", "idx", "shards" */
    const char *what; /* for people: what a folder of this kind holds */
    bool (*is)(const char *path);
    /* See source_classes. NULL: this kind knows by name what it reads. */
    err_t (*classes)(const char *path, split_t split, char out[FS_PATH_MAX]);
    /* Fills in all of the source; hash only where it is known without looking at every sample. */
    err_t (*open)(source_t *source, const char *path);
    void (*close)(source_t *source);
    /* Thread-safe. ERR_DATA naming the sample: its file is missing, truncated, changed since. */
    err_t (*read)(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                  sample_t *out);
    void (*free_buffer)(source_buffer_t *buffer); /* impl; NULL: there is none. block is mem.h's */
    /* As `read`, but for the image: bytes is NULL, width and height are 0 where they are not known. NULL:
     * `read` has to do. */
    err_t (*describe)(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                      sample_t *out);
    /* What `open` has found as bytes, and that taken over from them; see data/source/share.h. */
    err_t (*save)(const source_t *source, void **bytes, int64_t *n_bytes);
    err_t (*restore)(source_t *source, void **bytes, int64_t n_bytes);
} source_ops_t;

struct source {
    const source_ops_t *ops;
    char path[FS_PATH_MAX];
    int64_t n_samples[SPLIT_COUNT]; /* either may have none */
    const source_entry_t *entries[SPLIT_COUNT];
    int32_t n_categories;
    const category_t *categories;
    bool has_annotations; /* otherwise every sample has a label */
    /* Of names, sizes, labels and annotations, not of images; the same for a folder and its shards. */
    uint64_t hash;
    char notes[SOURCE_NOTES_MAX]; /* for people: what was mended or left out, lines; "" */
    const open_watch_t *watch;    /* while it is being opened; NULL: nobody wants to know */
    void *impl;
};

/* The kind is the first of the table whose `is` says so; ERR_DATA says what each wants.
 *
 * folder: `train/` and `val/` (or no such folders: all is SPLIT_TRAIN) with a folder per class, PNG and JPEG
 * (.png, .jpg, .jpeg) in it, classes and files by name (bytes). Names that begin with a dot are passed over;
 * what else is no image is counted in the notes. Links are followed. The classes of val must be train's, a
 * class of train must have images. coco: train2017/, val2017/ (either may be absent), and
 * annotations/instances_train2017.json and …val2017.json of those that are there. Every image that is
 * listed must be there. shards: what `dptrain data pack` makes. idx: MNIST's four files, read as PNG; opening
 * encodes all of them (60 us of a core each). */
err_t source_open(const char *path, source_t **out);
err_t source_open_watched(const char *path, const open_watch_t *watch, source_t **out);
void source_close(source_t **source);
/* The folder, there or not, in which every folder is a class of what is at `path`; "": there is none. */
err_t source_classes(const char *path, split_t split, char out[FS_PATH_MAX]);

/* The image's header is looked at: other sizes than the entry has, and what is no image, are ERR_DATA. */
err_t source_read(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                  sample_t *out);
/* All that is known without the image: bytes is NULL unless the kind has only `read`. */
err_t source_describe(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                      sample_t *out);
void source_free_buffer(const source_t *source, source_buffer_t *buffer);

/* The notes, each line as a warning of rank 0. */
void source_warn_notes(const source_t *source);

extern const source_ops_t source_folder, source_coco, source_idx, source_shards;

#endif
