/* SPDX-License-Identifier: MIT */
/* Dispatches calls to the kind of dataset, and computes hash, mean and standard deviation.
 * data/load/registry.c chooses the kind. */
#include "data/dataset/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <xxhash.h>

#include "base/mem.h"

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

err_t dataset_reader_open(const dataset_t *dataset, dataset_reader_t *out)
{
    *out = (dataset_reader_t){.dataset = dataset};
    return dataset->ops && dataset->ops->reader_open ? dataset->ops->reader_open(out) : ERR_OK;
}

void dataset_reader_close(dataset_reader_t *reader)
{
    if (reader->dataset && reader->dataset->ops && reader->dataset->ops->reader_close)
        reader->dataset->ops->reader_close(reader);
    *reader = (dataset_reader_t){0};
}

err_t dataset_read(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out)
{
    const dataset_t *dataset = reader->dataset;
    const dataset_info_t *info = &dataset->info;
    ASSERT(request->index >= 0 && request->index < info->n_samples[request->split]);
    reader->image = request->index;
    *out = (dataset_sample_t){0};
    if (dataset->ops && dataset->ops->read) return dataset->ops->read(reader, request, out);
    int64_t n_bytes = info->height * info->width * info->channels;
    out->bytes = dataset->pixels[request->split] + request->index * n_bytes;
    field_put_label(request->fields, dataset->labels[request->split][request->index]);
    return ERR_OK;
}

/* Counts values exactly, so that the result does not depend on the order of summation. */
static void measure_pixels(const uint8_t *pixels, int64_t n, double *mean, double *std)
{
    int64_t histogram[4][256] = {{0}}; /* four, because consecutive increments of one counter stall */
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
    double mean, std;
    measure_pixels(dataset->pixels[SPLIT_TRAIN], info->n_samples[SPLIT_TRAIN] * n_pixels, &mean, &std);
    info->norm = pixel_norm_all(mean, std);

    char sizes[160];
    int n_sizes =
        snprintf(sizes, sizeof sizes, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d",
                 info->n_samples[SPLIT_TRAIN], info->n_samples[SPLIT_VAL], info->height, info->width,
                 info->channels, info->n_classes);
    /* Seeds each part's hash with that of the preceding parts. */
    uint64_t hash = XXH3_64bits(sizes, (size_t)n_sizes);
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        int64_t n = info->n_samples[split];
        hash = XXH3_64bits_withSeed(dataset->pixels[split], (size_t)(n * n_pixels), hash);
        hash = XXH3_64bits_withSeed(dataset->labels[split], (size_t)n, hash);
    }
    info->hash = hash;
}

void dataset_weigh(const void *weigher, int64_t epoch, int64_t index, sampler_weight_t *out)
{
    const dataset_weigher_t *w = weigher;
    w->dataset->ops->weigh(w->dataset, w->split, w->seed, epoch, index, out);
}
