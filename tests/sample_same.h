/* SPDX-License-Identifier: MIT */
/* Whether two samples are the same to the last byte, with all that is annotated. */
#ifndef TESTS_SAMPLE_SAME_H
#define TESTS_SAMPLE_SAME_H

#include <string.h>

#include "data/annotation/sample.h"

static inline bool same_bytes(const void *a, const void *b, size_t n_bytes)
{
    return n_bytes == 0 || (a && b && memcmp(a, b, n_bytes) == 0);
}

static inline bool same_annotation(const annotation_t *a, const annotation_t *b)
{
    size_t n_points = 0;
    if (a->id != b->id || a->category != b->category || a->crowd != b->crowd ||
        a->segmentation != b->segmentation || memcmp(&a->area, &b->area, sizeof a->area) != 0 ||
        memcmp(a->box, b->box, sizeof a->box) != 0 || a->n_polygons != b->n_polygons ||
        a->n_runs != b->n_runs || !a->exact != !b->exact ||
        !same_bytes(a->n_points, b->n_points, (size_t)a->n_polygons * sizeof *a->n_points))
        return false;
    for (int32_t i = 0; i < a->n_polygons; i++) n_points += (size_t)a->n_points[i];
    return same_bytes(a->points, b->points, n_points * 2 * sizeof *a->points) &&
           (!a->exact || same_bytes(a->exact, b->exact, n_points * 2 * sizeof *a->exact)) &&
           same_bytes(a->runs, b->runs, (size_t)a->n_runs * sizeof *a->runs);
}

/* Both have their images, or neither has. */
static inline bool same_sample(const sample_t *a, const sample_t *b)
{
    bool same = a->id == b->id && strcmp(a->name, b->name) == 0 && a->width == b->width &&
                a->height == b->height && a->label == b->label && a->n_bytes == b->n_bytes &&
                a->n_annotations == b->n_annotations && a->n_truths == b->n_truths &&
                !a->bytes == !b->bytes && (!a->bytes || same_bytes(a->bytes, b->bytes, a->n_bytes));
    for (int32_t i = 0; same && i < a->n_annotations; i++)
        same = same_annotation(&a->annotations[i], &b->annotations[i]);
    for (int32_t i = 0; same && i < a->n_truths; i++) same = same_annotation(&a->truths[i], &b->truths[i]);
    return same;
}

#endif
