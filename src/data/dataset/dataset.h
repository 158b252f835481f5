/* SPDX-License-Identifier: MIT */
/* Datasets: images with labels (or a target for each class) in two splits, read by index. One table of
 * function pointers per kind (data/dataset/NAME.c; data/load/images.c), chosen from what
 * --data names. Not collective: one rank opens images for all (dataset_save), every rank opens other kinds
 * by itself, and the training loop compares the hashes. */
#ifndef DATA_DATASET_DATASET_H
#define DATA_DATASET_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "compute/tensor/pixel_norm.h"
#include "compute/tensor/shape.h"
#include "data/annotation/split.h"
#include "data/dataset/sampler.h"
#include "data/transform/settings.h"

enum { DATASET_BLOCK_BYTES = 2 << 20 };

typedef struct dataset_info {
    const char *kind;         /* "idx", "digits", "synthetic", "images" */
    char source[FS_PATH_MAX]; /* what people see: the folder, or a description */
    int64_t n_samples[SPLIT_COUNT];
    int64_t height, width, channels;
    int n_classes;
    const char *const *class_names; /* [n_classes]; NULL: numbers say it all */
    bool multi_label;               /* samples have any number of classes: targets, no labels */
    char transform[160];            /* for people: how images are shown; "": as they are */
    /* Samples that are worth reading at once, as they take about DATASET_BLOCK_BYTES; 1: they are in memory.
     */
    int64_t block[SPLIT_COUNT];
    const char *notes; /* for people: what was left out or mended; NULL or "": nothing */
    pixel_norm_t norm; /* of training pixels scaled to [0, 1] */
    uint64_t
        hash; /* of what the samples are: XXH3 over sizes, pixels and labels of both splits, or source_t's */
} dataset_info_t;

/* Opening may take minutes: `alive` is called again and again meanwhile; an error of it ends the opening. */
typedef struct open_watch {
    err_t (*alive)(void *context);
    void *context;
} open_watch_t;

typedef struct dataset dataset_t;
typedef struct dataset_reader dataset_reader_t;
typedef struct dataset_request dataset_request_t;
typedef struct dataset_sample dataset_sample_t;

typedef struct dataset_ops {
    const char *kind;
    /* Fills in dataset->info and dataset->impl. `where` is the folder for kinds that have one. */
    err_t (*open)(dataset_t *dataset, const char *where, const transform_settings_t *settings);
    void (*close)(dataset_t *dataset);
    /* Of kinds whose images are read when they are wanted; NULL: they are in dataset->pixels. */
    err_t (*reader_open)(dataset_reader_t *reader);
    void (*reader_close)(dataset_reader_t *reader);
    err_t (*read)(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out);
    /* Of kinds whose opening looks at many files: as dataset_save and dataset_restore. NULL: every rank opens
     * the same by itself. */
    err_t (*save)(const dataset_t *dataset, void **bytes, int64_t *n_bytes);
    err_t (*restore)(dataset_t *dataset, const transform_settings_t *settings, void **bytes, int64_t n_bytes);
} dataset_ops_t;

struct dataset {
    const dataset_ops_t *ops;
    dataset_info_t info;
    const open_watch_t *watch; /* while it is being opened; NULL: nobody wants to know */
    /* Kinds that hold images in memory: [n, h, w, c] and [n] per split. */
    const uint8_t *pixels[SPLIT_COUNT];
    const uint8_t *labels[SPLIT_COUNT];
    void *impl;
};

/* What to open, decided from --data (NULL when not given): the option; else $DPTRAIN_DATA/mnist where that
 * folder exists; else data/mnist; else "digits". "digits" and "synthetic" name the built-in kinds; everything
 * else is a folder. Writes the choice to where[FS_PATH_MAX] and a sentence that says why ("from
 * $DPTRAIN_DATA") to why[128]. Rank 0 calls this and broadcasts. ERR_DATA when an option's folder does not
 * exist. */
err_t dataset_choose(const char *option, char *where, char *why);

/* A folder with any of MNIST's IDX files is that; other folders that data/source/source.h knows are images.
 * settings: how images are shown; NULL: the defaults. ERR_DATA naming the file for missing, truncated or
 * foreign data, bad labels, no samples. ERR_USAGE: settings that do not fit the images; kinds in memory do
 * not look at them. */
err_t dataset_open(const char *where, const transform_settings_t *settings, dataset_t **out);
err_t dataset_open_watched(const char *where, const transform_settings_t *settings, const open_watch_t *watch,
                           dataset_t **out);
void dataset_close(dataset_t **dataset);

/* Whether one process should open it for all: the others then restore what it has found. */
bool dataset_is_shared(const char *where);

/* A shared dataset as bytes (of mem_new), and the same dataset from bytes of a process of the same build,
 * with the same settings. *bytes are taken over, and NULL then. Errors as dataset_open, and of
 * source_restore. */
err_t dataset_save(const dataset_t *dataset, void **bytes, int64_t *n_bytes);
err_t dataset_restore(const transform_settings_t *settings, void **bytes, int64_t n_bytes, dataset_t **out);

/* Where a reader's time went, in seconds on the clock; cpu_wait: between decoding's and resizing's beginning
 * and end, without a CPU. The sum of all is what reading took. Kinds in memory leave them 0. */
typedef struct dataset_cost {
    double read, decode, resize, cpu_wait;
} dataset_cost_t;

/* What one thread reads samples with. */
struct dataset_reader {
    const dataset_t *dataset; /* borrowed */
    void *impl;
    dataset_cost_t cost; /* since it was opened */
    int64_t image;       /* what was read last, or could not be: its number among the split's images */
};

struct dataset_request {
    split_t split;
    int64_t index;
    bool random; /* as in training, where the kind transforms images: drawn by (seed, epoch, index) alone */
    uint64_t seed;
    int64_t epoch;
    sampler_near_t near; /* what else is going to be read soon; zeroed: not known */
    float *targets;      /* [n_classes], to be filled with 0 and 1; not looked at where samples have labels */
};

struct dataset_sample {
    const uint8_t *bytes; /* [h, w, c]; until the reader's next, or the dataset's own */
    int32_t label;        /* -1: targets say it */
};

err_t dataset_reader_open(const dataset_t *dataset, dataset_reader_t *out);
void dataset_reader_close(dataset_reader_t *reader);

/* ERR_DATA naming the file or record: an image that is missing or damaged; others may be read nevertheless.
 */
err_t dataset_read(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out);

/* info->hash as checkpoints and records have it. */
typedef struct dataset_hash {
    char text[20];
} dataset_hash_t;
dataset_hash_t dataset_hash(const dataset_info_t *info);

/* Fills in norm (the same for every channel) and hash of an in-memory dataset from its pixels and labels.
 * Images of one single grey get std 1. */
void dataset_measure(dataset_t *dataset);

/* `close` of the kinds whose pixels and labels came from mem_new. */
void dataset_free_memory(dataset_t *dataset);

#endif
