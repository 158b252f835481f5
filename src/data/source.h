/* Sources of pictures: an image folder, COCO, IDX files, or shards of any of them. Whoever trains, packs or shows reads samples
 * through this one table, so that the same samples give the same results wherever they lie. Not collective. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "base/fs.h"
#include "data/dataset.h"
#include "sample/sample.h"

/* What is known of a sample without reading its picture; arrays are ordered as the samples are numbered. */
typedef struct source_entry {
    int64_t n_bytes;
    int32_t width, height; /* 0: not known before it is read (image folders) */
    int32_t label;
} source_entry_t;

typedef struct source source_t;

/* One thread's; zeroed it is ready. What was read is valid until the next read into the same buffer. */
typedef struct source_buffer {
    void *block;
    size_t n_bytes;
    void *impl;
} source_buffer_t;

typedef struct source_ops {
    const char *kind; /* "folder", "coco", "idx", "shards" */
    const char *what; /* for people: what a folder of this kind holds */
    bool (*is)(const char *path);
    err_t (*open)(source_t *source, const char *path);
    void (*close)(source_t *source);
    /* Thread-safe. ERR_DATA naming the sample: its file is missing, truncated, changed since. */
    err_t (*read)(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer, sample_t *out);
    void (*free_buffer)(source_buffer_t *buffer); /* NULL: block is mem.h's and there is no impl */
} source_ops_t;

struct source {
    const source_ops_t *ops;
    char path[FS_PATH_MAX];
    int64_t n_samples[SPLIT_COUNT]; /* SPLIT_VAL may have none */
    const source_entry_t *entries[SPLIT_COUNT];
    int32_t n_categories;
    const category_t *categories;
    bool has_annotations; /* otherwise every sample has a label */
    uint64_t hash;        /* of names, sizes, labels and annotations, not of pictures; the same for a folder and its shards */
    void *impl;
};

/* The kind is the first of the table whose `is` says so; ERR_DATA says what each wants. folder: `train/` and `val/` (or no
 * such folders: all is SPLIT_TRAIN) with a folder per class, PNG and JPEG in it, classes and files by name (bytes). coco:
 * train2017/, val2017/, annotations/instances_*.json (either split may be absent). idx: MNIST's four files, read as PNG. */
err_t source_open(const char *path, source_t **out);
void source_close(source_t **source);

err_t source_read(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer, sample_t *out);
void source_free_buffer(const source_t *source, source_buffer_t *buffer);

extern const source_ops_t source_folder, source_coco, source_idx, source_shards;

#endif
