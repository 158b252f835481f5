/* SPDX-License-Identifier: MIT */
/* MNIST's IDX files as a source: each image is encoded as a PNG when the source is opened. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/dataset/idx.h"
#include "data/image/image.h"
#include "data/source/parts.h"

enum { NAME_MAX_BYTES = 32 };

typedef struct impl {
    arena_t arena; /* categories, named as the data set names them, or by numbers */
    source_entry_t *entries[SPLIT_COUNT];
    uint8_t **images[SPLIT_COUNT]; /* PNG */
} impl_t;

/* On all cores, because tens of thousands of images take seconds. */
static err_t encode_split(source_t *source, const dataset_t *from, split_t split)
{
    impl_t *impl = source->impl;
    int64_t n = from->info.n_samples[split];
    err_info_t failure = {.code = ERR_OK};
    TRY(mem_new_array(n, sizeof(source_entry_t), "a list of images", &impl->entries[split]));
    TRY(mem_new_array(n, sizeof(uint8_t *), "a list of images", &impl->images[split]));
    source->entries[split] = impl->entries[split];
    source->n_samples[split] = n;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const dataset_info_t *info = &from->info;
        size_t n_bytes = 0;
        err_t err = image_encode_png(from->pixels[split] + i * info->height * info->width, info->width,
                                     info->height, 1, &impl->images[split][i], &n_bytes);
        if (err == ERR_OK) {
            impl->entries[split][i] = (source_entry_t){(int64_t)n_bytes, (int32_t)info->width,
                                                       (int32_t)info->height, from->labels[split][i], 0};
            continue;
        }
#pragma omp critical
        err_take(err, &failure);
    }
    return failure.code == ERR_OK ? ERR_OK : err_put(&failure);
}

static err_t open_idx(source_t *source, const char *path)
{
    impl_t *impl = NULL;
    dataset_t dataset = {.read = NULL};
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *impl, "a source of images", &impl));
    source->impl = impl;
    TRY_OUT(err, idx_open(path, &dataset));
    for (split_t split = 0; split < SPLIT_COUNT; split++) TRY_OUT(err, encode_split(source, &dataset, split));
    const dataset_info_t *info = &dataset.info;
    category_t *categories;
    TRY_OUT(err, arena_new(&impl->arena, (size_t)info->n_classes * sizeof *categories, &categories));
    for (int i = 0; i < info->n_classes; i++) {
        const char *const name = info->class_names ? info->class_names[i] : NULL;
        categories[i] = (category_t){i, NULL, ""};
        TRY_OUT(err, name ? arena_text(&impl->arena, name, strlen(name), &categories[i].name)
                          : arena_format(&impl->arena, &categories[i].name, "%d", i));
    }
    source->n_categories = info->n_classes;
    source->categories = categories;
out:
    dataset_free_memory(&dataset);
    return err;
}

static void close_idx(source_t *source)
{
    impl_t *impl = source->impl;
    for (split_t split = 0; impl && split < SPLIT_COUNT; split++) {
        for (int64_t i = 0; i < source->n_samples[split]; i++) mem_free(&impl->images[split][i]);
        mem_free(&impl->images[split]);
        mem_free(&impl->entries[split]);
    }
    if (impl) arena_free(&impl->arena);
    mem_free(&source->impl);
}

static err_t describe_idx(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                          sample_t *out)
{
    const impl_t *impl = source->impl;
    const source_entry_t *entry = &impl->entries[split][index];
    TRY(source_reserve(buffer, NAME_MAX_BYTES));
    snprintf(buffer->block, NAME_MAX_BYTES, "%08" PRId64 ".png", index);
    *out = (sample_t){
        .id = index,
        .name = buffer->block,
        .width = entry->width,
        .height = entry->height,
        .label = entry->label,
        .n_bytes = (size_t)entry->n_bytes,
    };
    return ERR_OK;
}

static err_t read_idx(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                      sample_t *out)
{
    const impl_t *impl = source->impl;
    TRY(describe_idx(source, split, index, buffer, out));
    out->bytes = impl->images[split][index];
    return ERR_OK;
}

static err_t save_idx(const source_t *source, void **bytes, int64_t *n_bytes)
{
    return source_list_save(source, NULL, bytes, n_bytes);
}

const source_ops_t source_idx = {
    .raw = true,
    .kind = "idx",
    .what = "MNIST's IDX files (train-images-idx3-ubyte.gz and so on)",
    .is = idx_is,
    .open = open_idx,
    .close = close_idx,
    .read = read_idx,
    .describe = describe_idx,
    .save = save_idx,
    .restore = source_list_restore,
};
