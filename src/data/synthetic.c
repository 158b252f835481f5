/* Random pixels and labels: nothing to learn, nothing to read, for speed measurements. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/digits.h"

enum { SEED = 1, N_TRAIN = 60000, N_VAL = 10000, N_CLASSES = 10 };

/* Sample i is 49 blocks of 16 bytes plus one for the label. */
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

static err_t open_synthetic(dataset_t *dataset, const char *where, const view_settings_t *settings)
{
    (void)where, (void)settings;
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

const dataset_ops_t dataset_synthetic = {.kind = "synthetic", .open = open_synthetic, .close = dataset_free_memory};
