/* SPDX-License-Identifier: MIT */
/* Images in memory: reading them, their hash, mean and standard deviation; room for those that are drawn. Random pixels
 * and labels for speed measurements: 28×28 grey, or colour images of side --input-size from a small pool that is repeated to
 * save memory. */
#include "data/dataset/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset/synth.h"

void dataset_free_memory(dataset_t *dataset)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        mem_free(&dataset->pixels[split]);
        mem_free(&dataset->labels[split]);
    }
    arena_free(&dataset->arena);
}

err_t dataset_read(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out)
{
    const dataset_t *dataset = reader->dataset;
    const dataset_info_t *info = &dataset->info;
    ASSERT(request->index >= 0 && request->index < info->n_samples[request->split]);
    reader->image = request->index;
    *out = (dataset_sample_t){0};
    if (dataset->read) return dataset->read(reader, request, out);
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

err_t dataset_new_grey(dataset_t *dataset, int64_t n_train, int64_t n_val, int64_t side, int n_classes)
{
    dataset_info_t *info = &dataset->info;
    info->n_samples[SPLIT_TRAIN] = n_train;
    info->n_samples[SPLIT_VAL] = n_val;
    info->height = info->width = side;
    info->channels = 1;
    info->n_classes = n_classes;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const int64_t n = info->n_samples[split];
        TRY(mem_new_array(n, (size_t)(side * side), "pixels", &dataset->pixels[split]));
        TRY(mem_new_array(n, 1, "labels", &dataset->labels[split]));
    }
    return ERR_OK;
}

enum { SEED = 1, N_TRAIN = 60000, N_VAL = 10000, N_CLASSES = 10 };
enum { POOL = 64, N_POOL_VAL = 32, POOL_CHANNELS = 3 };

/* A sample is 49 blocks of 16 random bytes, plus one for the label. */
static void draw_sample(uint64_t key, split_t split, int64_t i, uint8_t *pixels, uint8_t *label)
{
    enum { N_BLOCKS = DIGITS_SIDE * DIGITS_SIDE / 16 };
    for (uint32_t b = 0; b <= N_BLOCKS; b++) {
        rng_block_t block = rng_philox(key, b, (uint32_t)i, (uint32_t)(i >> 32), split);
        if (b == N_BLOCKS) {
            *label = (uint8_t)(block.word[0] % N_CLASSES);
            break;
        }
        for (int k = 0; k < 16; k++)
            pixels[16 * b + (uint32_t)k] = (uint8_t)(block.word[k / 4] >> 8 * (k % 4));
    }
}

static err_t read_pool(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out)
{
    const dataset_t *dataset = reader->dataset;
    const dataset_info_t *info = &dataset->info;
    int64_t i = request->index % POOL;
    out->bytes = dataset->pixels[SPLIT_TRAIN] + i * info->height * info->width * info->channels;
    field_put_label(request->fields, dataset->labels[SPLIT_TRAIN][i]);
    return ERR_OK;
}

static err_t open_pool(dataset_t *dataset, int64_t side)
{
    dataset_info_t *info = &dataset->info;
    int64_t n_pixels = side * side * POOL_CHANNELS;
    dataset->read = read_pool;
    snprintf(info->source, sizeof info->source, "random colour pixels (seed %d)", SEED);
    info->n_samples[SPLIT_TRAIN] = N_TRAIN;
    info->n_samples[SPLIT_VAL] = N_POOL_VAL;
    info->height = info->width = side;
    info->channels = POOL_CHANNELS;
    info->n_classes = N_CLASSES;
    info->norm = pixel_norm_all(0.5, 0.2887); /* of numbers uniform in [0, 1] */
    TRY(mem_new_array(POOL, (size_t)n_pixels, "synthetic pixels", &dataset->pixels[SPLIT_TRAIN]));
    TRY(mem_new_array(POOL, 1, "synthetic labels", &dataset->labels[SPLIT_TRAIN]));
    uint8_t *pixels = dataset->pixels[SPLIT_TRAIN], *labels = dataset->labels[SPLIT_TRAIN];
    rng_t rng = rng_new(SEED, RNG_SYNTH, (uint64_t)side);
    for (int64_t i = 0; i < POOL * n_pixels; i++) pixels[i] = (uint8_t)(rng_u32(&rng) >> 24);
    for (int64_t i = 0; i < POOL; i++) labels[i] = (uint8_t)rng_below(&rng, N_CLASSES);
    info->hash = XXH3_64bits(pixels, (size_t)(POOL * n_pixels));
    return ERR_OK;
}

err_t synthetic_open(dataset_t *dataset, int64_t side)
{
    dataset->info.kind = "synthetic";
    if (side > 0) return open_pool(dataset, side);
    const uint64_t key = rng_key(SEED, RNG_SYNTH);
    TRY(dataset_new_grey(dataset, N_TRAIN, N_VAL, DIGITS_SIDE, N_CLASSES));
    snprintf(dataset->info.source, FS_PATH_MAX, "random pixels (seed %d)", SEED);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < dataset->info.n_samples[split]; i++)
            draw_sample(key, split, i, dataset->pixels[split] + i * DIGITS_SIDE * DIGITS_SIDE,
                        dataset->labels[split] + i);
    return ERR_OK;
}
