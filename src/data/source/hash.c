/* SPDX-License-Identifier: MIT */
/* Hashes the names, sizes, labels and annotations of a source without a stored hash. Does not read images. */
#include <string.h>

#include "base/hash.h"
#include "data/source/parts.h"

/* Seeds each part's hash with that of the preceding parts. */
static uint64_t hash_part(const void *part, size_t n_bytes, uint64_t before)
{
    return XXH3_64bits_withSeed(part, n_bytes, before);
}

static uint64_t hash_text(const char *text, uint64_t before)
{
    return hash_part(text, strlen(text) + 1, before);
}

static uint64_t hash_annotation(const annotation_t *a, uint64_t hash)
{
    int64_t n_points = 0;
    const int64_t counts[] = {a->id, a->category, a->crowd, a->segmentation, a->n_polygons, a->n_runs};
    const double reals[] = {a->area, a->box[0], a->box[1], a->box[2], a->box[3]};
    hash = hash_part(counts, sizeof counts, hash);
    hash = hash_part(reals, sizeof reals, hash);
    for (int32_t i = 0; i < a->n_polygons; i++) n_points += a->n_points[i];
    if (a->n_polygons) hash = hash_part(a->n_points, (size_t)a->n_polygons * sizeof *a->n_points, hash);
    if (n_points) hash = hash_part(a->points, (size_t)n_points * 2 * sizeof *a->points, hash);
    if (a->n_runs) hash = hash_part(a->runs, (size_t)a->n_runs * sizeof *a->runs, hash);
    return hash;
}

static uint64_t hash_sample(const sample_t *sample, uint64_t hash)
{
    const int64_t numbers[] = {sample->id, (int64_t)sample->n_bytes, sample->label, sample->n_annotations};
    hash = hash_part(numbers, sizeof numbers, hash_text(sample->name, hash));
    for (int32_t i = 0; i < sample->n_annotations; i++) hash = hash_annotation(&sample->annotations[i], hash);
    return hash;
}

err_t source_measure_hash(source_t *source)
{
    err_t err = ERR_OK;
    source_buffer_t buffer = {0};
    const int64_t sizes[] = {source->n_samples[SPLIT_TRAIN], source->n_samples[SPLIT_VAL],
                             source->n_categories, source->has_annotations};
    uint64_t hash = hash_part(sizes, sizeof sizes, 0);
    for (int32_t i = 0; i < source->n_categories; i++) {
        const category_t *category = &source->categories[i];
        hash = hash_part(&category->id, sizeof category->id, hash);
        hash = hash_text(category->supergroup, hash_text(category->name, hash));
    }
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < source->n_samples[split]; i++) {
            sample_t sample;
            TRY_OUT(err, source_alive(source));
            TRY_OUT(err, source_describe(source, split, i, &buffer, &sample));
            hash = hash_sample(&sample, hash);
        }
    const int64_t boxes[] = {source->boxes.shown, source->boxes.n_shown};
    if (boxes[0] || boxes[1]) hash = hash_part(boxes, sizeof boxes, hash);
    source->hash = hash;
out:
    source_free_buffer(source, &buffer);
    return err;
}
