/* SPDX-License-Identifier: MIT */
/* Random pixels and labels for speed measurements: 28×28 grey, or colour images of side --input-size from a
 * small pool that is repeated to save memory. */
#include <stdio.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset/synth.h"

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

static const dataset_ops_t pool_ops = {.kind = "synthetic", .close = dataset_free_memory, .read = read_pool};

static err_t open_pool(dataset_t *dataset, int64_t side)
{
    dataset_info_t *info = &dataset->info;
    int64_t n_pixels = side * side * POOL_CHANNELS;
    uint8_t *pixels, *labels;
    dataset->ops = &pool_ops;
    snprintf(info->source, sizeof info->source, "random colour pixels (seed %d)", SEED);
    info->n_samples[SPLIT_TRAIN] = N_TRAIN;
    info->n_samples[SPLIT_VAL] = N_POOL_VAL;
    info->height = info->width = side;
    info->channels = POOL_CHANNELS;
    info->n_classes = N_CLASSES;
    info->norm = pixel_norm_all(0.5, 0.2887); /* of numbers uniform in [0, 1] */
    TRY(mem_new_array(POOL, (size_t)n_pixels, "synthetic pixels", &pixels));
    dataset->pixels[SPLIT_TRAIN] = pixels;
    TRY(mem_new_array(POOL, 1, "synthetic labels", &labels));
    dataset->labels[SPLIT_TRAIN] = labels;
    rng_t rng = rng_new(SEED, RNG_SYNTH, (uint64_t)side);
    for (int64_t i = 0; i < POOL * n_pixels; i++) pixels[i] = (uint8_t)(rng_u32(&rng) >> 24);
    for (int64_t i = 0; i < POOL; i++) labels[i] = (uint8_t)rng_below(&rng, N_CLASSES);
    info->hash = XXH3_64bits(pixels, (size_t)(POOL * n_pixels));
    return ERR_OK;
}

static err_t open_synthetic(dataset_t *dataset, const char *where, const transform_settings_t *settings)
{
    (void)where;
    if (settings->input_size > 0) return open_pool(dataset, settings->input_size);
    dataset_info_t *info = &dataset->info;
    snprintf(info->source, sizeof info->source, "random pixels (seed %d)", SEED);
    info->n_samples[SPLIT_TRAIN] = N_TRAIN;
    info->n_samples[SPLIT_VAL] = N_VAL;
    info->height = info->width = DIGITS_SIDE;
    info->channels = 1;
    info->n_classes = N_CLASSES;
    uint64_t key = rng_key(SEED, RNG_SYNTH);
    int64_t n_pixels = DIGITS_SIDE * DIGITS_SIDE;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        uint8_t *pixels, *labels;
        TRY(mem_new_array(info->n_samples[split], (size_t)n_pixels, "synthetic pixels", &pixels));
        dataset->pixels[split] = pixels;
        TRY(mem_new_array(info->n_samples[split], 1, "synthetic labels", &labels));
        dataset->labels[split] = labels;
        for (int64_t i = 0; i < info->n_samples[split]; i++)
            draw_sample(key, split, i, pixels + i * n_pixels, labels + i);
    }
    return ERR_OK;
}

const dataset_ops_t dataset_synthetic = {
    .kind = "synthetic", .open = open_synthetic, .close = dataset_free_memory};
