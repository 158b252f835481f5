/* Datasets: labelled pictures in two splits, read by index. One table of function pointers per kind
 * (src/data/idx.c, digits.c, synthetic.c), chosen from what --data names. Not collective: every rank opens
 * the same data by itself, and the training loop compares the hashes. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "tensor/shape.h"

typedef enum split { SPLIT_TRAIN, SPLIT_VAL, SPLIT_COUNT } split_t;

typedef struct dataset_info {
    const char *kind;         /* "idx", "digits", "synthetic" */
    char source[FS_PATH_MAX]; /* what people see: the folder, or a description */
    int64_t n_samples[SPLIT_COUNT];
    int64_t height, width, channels;
    int n_classes;
    double mean, std; /* of the training pixels scaled to [0, 1]; std > 0 */
    uint64_t hash;    /* XXH3 over sizes, pixels and labels of both splits */
} dataset_info_t;

typedef struct dataset dataset_t;

typedef struct dataset_ops {
    const char *kind;
    /* Fills in dataset->info and dataset->impl. `where` is the folder for kinds that have one. */
    err_t (*open)(dataset_t *dataset, const char *where);
    void (*close)(dataset_t *dataset);
} dataset_ops_t;

struct dataset {
    const dataset_ops_t *ops;
    dataset_info_t info;
    /* Kinds that hold pictures in memory (all so far): [n, h, w, c] and [n] per split. */
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

/* ERR_DATA naming the file for missing, truncated or foreign data, bad labels, no samples. */
err_t dataset_open(const char *where, dataset_t **out);
void dataset_close(dataset_t **dataset);

/* Pixels of samples index[0..n) as floats (value/255 − mean) / std, [n, h, w, c], and their labels. mean and
 * std are the caller's (those of training when a checkpoint is evaluated). Thread-safe. */
void dataset_read(const dataset_t *dataset, split_t split, const int64_t *index, int64_t n, double mean,
                  double std, float *pixels, int32_t *labels);

/* The same samples as they are stored, for backends that do the arithmetic themselves. */
void dataset_read_bytes(const dataset_t *dataset, split_t split, const int64_t *index, int64_t n,
                        uint8_t *bytes, int32_t *labels);

/* info->hash as checkpoints and records have it. */
typedef struct dataset_hash {
    char text[20];
} dataset_hash_t;
dataset_hash_t dataset_hash(const dataset_info_t *info);

/* Fills in mean, std and hash of an in-memory dataset from its pixels and labels. Pictures of one single grey
 * get std 1. */
void dataset_measure(dataset_t *dataset);

/* `close` of the kinds whose pixels and labels came from mem_new. */
void dataset_free_memory(dataset_t *dataset);

#endif
