/* SPDX-License-Identifier: MIT */
/* MNIST's IDX files as a source: each image is encoded as a PNG when the source is opened. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "data/dataset/idx.h"
#include "data/image/image.h"
#include "data/source/parts.h"

/* On all cores, because tens of thousands of images take seconds. */
static err_t encode_split(source_t *source, const dataset_t *from, split_t split)
{
    const dataset_info_t *info = &from->info;
    const int64_t n = info->n_samples[split];
    err_info_t failure = {.code = ERR_OK};
    TRY(source_list_new(source, split, n));
    for (int64_t i = 0; i < n; i++) {
        sample_t *sample = &source->samples[split][i];
        *sample = (sample_t){.id = i, .label = from->labels[split][i]};
        sample->width = (int32_t)info->width;
        sample->height = (int32_t)info->height;
        TRY(arena_format(&source->arena, &sample->name, "%08" PRId64 ".png", i));
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        sample_t *sample = &source->samples[split][i];
        uint8_t *png = NULL;
        err_t err = image_encode_png(from->pixels[split] + i * info->height * info->width, info->width,
                                     info->height, 1, &png, &sample->n_bytes);
        sample->bytes = png;
        source->entries[split][i] =
            (source_entry_t){(int64_t)sample->n_bytes, sample->width, sample->height, sample->label, 0};
        if (err == ERR_OK) continue;
#pragma omp critical
        err_take(err, &failure);
    }
    return failure.code == ERR_OK ? ERR_OK : err_put(&failure);
}

static err_t open_idx(source_t *source, const char *path)
{
    dataset_t dataset = {.read = NULL};
    err_t err;
    TRY_OUT(err, idx_open(path, &dataset));
    for (split_t split = 0; split < SPLIT_COUNT; split++) TRY_OUT(err, encode_split(source, &dataset, split));
    const dataset_info_t *info = &dataset.info;
    category_t *categories;
    TRY_OUT(err, arena_new(&source->arena, (size_t)info->n_classes * sizeof *categories, &categories));
    for (int i = 0; i < info->n_classes; i++) {
        const char *const name = info->class_names ? info->class_names[i] : NULL;
        categories[i] = (category_t){i, NULL, ""};
        TRY_OUT(err, name ? arena_text(&source->arena, name, strlen(name), &categories[i].name)
                          : arena_format(&source->arena, &categories[i].name, "%d", i));
    }
    source->n_categories = info->n_classes;
    source->categories = categories;
out:
    dataset_free_memory(&dataset);
    return err;
}

static void close_idx(source_t *source)
{
    for (split_t split = 0; split < SPLIT_COUNT && !source->block; split++)
        for (int64_t i = 0; source->samples[split] && i < source->n_samples[split]; i++)
            mem_free(&source->samples[split][i].bytes);
}

const source_ops_t source_idx = {
    .raw = true,
    .kind = "idx",
    .what = "MNIST's IDX files (train-images-idx3-ubyte.gz and so on)",
    .is = idx_is,
    .open = open_idx,
    .close = close_idx,
};
