#include "data/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "data/digits.h"
#include "data/idx.h"

enum { WHY_MAX = 128 };

static const dataset_ops_t *built_in(const char *where)
{
    static const dataset_ops_t *const kinds[] = {&dataset_digits, &dataset_synthetic};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(where, kinds[i]->kind) == 0) return kinds[i];
    return NULL;
}

err_t dataset_choose(const char *option, char *where, char *why)
{
    if (option) {
        if (!*option) RAISE(ERR_USAGE, "--data is empty; it takes a folder, digits, or synthetic");
        TRY(fs_join(where, "", option));
        snprintf(why, WHY_MAX, "from --data");
        if (built_in(option) || fs_is_folder(option)) return ERR_OK;
        RAISE(ERR_DATA,
              "--data %s: %s; --data takes a folder with IDX files (data/fetch_mnist.sh downloads MNIST), "
              "digits, or "
              "synthetic",
              option, fs_exists(option) ? "this is not a folder" : "there is no such folder");
    }
    const char *root = getenv("DPTRAIN_DATA");
    if (root && *root) {
        TRY(fs_join(where, root, "mnist"));
        snprintf(why, WHY_MAX, "from $DPTRAIN_DATA");
        if (fs_is_folder(where)) return ERR_OK;
    }
    snprintf(where, FS_PATH_MAX, "data/mnist");
    snprintf(why, WHY_MAX, "the default folder");
    if (fs_is_folder(where)) return ERR_OK;
    snprintf(where, FS_PATH_MAX, "digits");
    snprintf(why, WHY_MAX,
             "built in, as there is no folder %sdata/mnist; data/fetch_mnist.sh downloads MNIST",
             root && *root ? "$DPTRAIN_DATA/mnist or " : "");
    return ERR_OK;
}

err_t dataset_open(const char *where, dataset_t **out)
{
    dataset_t *dataset = NULL;
    TRY(mem_new(sizeof *dataset, "a dataset", &dataset));
    const dataset_ops_t *kind = built_in(where);
    dataset->ops = kind ? kind : &dataset_idx;
    dataset->info.kind = dataset->ops->kind;
    err_t err = dataset->ops->open(dataset, where);
    if (err != ERR_OK) {
        dataset_close(&dataset);
        return err;
    }
    dataset_measure(dataset);
    *out = dataset;
    return ERR_OK;
}

void dataset_close(dataset_t **dataset)
{
    if (!*dataset) return;
    (*dataset)->ops->close(*dataset);
    mem_free(dataset);
}

void dataset_free_memory(dataset_t *dataset)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        mem_free(&dataset->pixels[split]);
        mem_free(&dataset->labels[split]);
    }
}

void dataset_read(const dataset_t *dataset, split_t split, const int64_t *index, int64_t n, double mean,
                  double std, float *pixels, int32_t *labels)
{
    float scaled[256];
    for (int v = 0; v < 256; v++) scaled[v] = (float)((v / 255.0 - mean) / std);
    const dataset_info_t *info = &dataset->info;
    int64_t n_pixels = info->height * info->width * info->channels;
    for (int64_t i = 0; i < n; i++) {
        ASSERT(index[i] >= 0 && index[i] < info->n_samples[split]);
        const uint8_t *from = dataset->pixels[split] + index[i] * n_pixels;
        float *to = pixels + i * n_pixels;
        for (int64_t k = 0; k < n_pixels; k++) to[k] = scaled[from[k]];
        labels[i] = dataset->labels[split][index[i]];
    }
}

void dataset_read_bytes(const dataset_t *dataset, split_t split, const int64_t *index, int64_t n,
                        uint8_t *bytes, int32_t *labels)
{
    const dataset_info_t *info = &dataset->info;
    size_t n_pixels = (size_t)(info->height * info->width * info->channels);
    for (int64_t i = 0; i < n; i++) {
        ASSERT(index[i] >= 0 && index[i] < info->n_samples[split]);
        memcpy(bytes + (size_t)i * n_pixels, dataset->pixels[split] + (size_t)index[i] * n_pixels, n_pixels);
        labels[i] = dataset->labels[split][index[i]];
    }
}

/* Exact counts first, so that the result does not depend on an order of summation. */
static void measure_pixels(const uint8_t *pixels, int64_t n, double *mean, double *std)
{
    int64_t histogram[4][256] = {{0}}; /* four, as increments of one counter in a row wait for each other */
    for (int64_t i = 0; i < n; i++) histogram[i % 4][pixels[i]]++;
    int64_t sum = 0;
    for (int v = 0; v < 256; v++) {
        histogram[0][v] += histogram[1][v] + histogram[2][v] + histogram[3][v];
        sum += v * histogram[0][v];
    }
    double centre = (double)sum / (double)n, squares = 0;
    for (int v = 0; v < 256; v++) squares += (double)histogram[0][v] * (v - centre) * (v - centre);
    *mean = centre / 255.0;
    *std = squares > 0 ? sqrt(squares / (double)n) / 255.0 : 1.0;
}

dataset_hash_t dataset_hash(const dataset_info_t *info)
{
    dataset_hash_t hash;
    snprintf(hash.text, sizeof hash.text, "%016llx", (unsigned long long)info->hash);
    return hash;
}

void dataset_measure(dataset_t *dataset)
{
    dataset_info_t *info = &dataset->info;
    int64_t n_pixels = info->height * info->width * info->channels;
    measure_pixels(dataset->pixels[SPLIT_TRAIN], info->n_samples[SPLIT_TRAIN] * n_pixels, &info->mean,
                   &info->std);

    char sizes[160];
    int n_sizes =
        snprintf(sizes, sizeof sizes, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d",
                 info->n_samples[SPLIT_TRAIN], info->n_samples[SPLIT_VAL], info->height, info->width,
                 info->channels, info->n_classes);
    /* Each part is hashed with the hash of those before it as the seed. */
    uint64_t hash = XXH3_64bits(sizes, (size_t)n_sizes);
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        int64_t n = info->n_samples[split];
        hash = XXH3_64bits_withSeed(dataset->pixels[split], (size_t)(n * n_pixels), hash);
        hash = XXH3_64bits_withSeed(dataset->labels[split], (size_t)n, hash);
    }
    info->hash = hash;
}
