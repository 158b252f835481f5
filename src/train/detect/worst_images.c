/* SPDX-License-Identifier: MIT */
/* Counts the mistakes of each image, by boxes. */
#include "train/detect/worst_images.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/annotation/rle.h"

static const double overlap = 0.5;

static double rightness(const worst_image_t *w)
{
    const double found = 2.0 * w->found, all = found + w->missed + w->wrong;
    return all > 0 ? found / all : 1;
}

static int by_rightness(const void *a, const void *b)
{
    const worst_image_t *x = a, *y = b;
    const double p = rightness(x), q = rightness(y);
    const int32_t m = x->missed + x->wrong, n = y->missed + y->wrong;
    if (p > q || p < q) return p < q ? -1 : 1;
    if (m != n) return m > n ? -1 : 1;
    return (x->image > y->image) - (x->image < y->image);
}

/* The best object that is free; -1: none; -2: it lies in a crowd. */
static int32_t find_truth(const truth_image_t *image, const detection_t *d, const bool *taken)
{
    double best = overlap;
    int32_t found = -1;
    bool in_crowd = false;
    for (int32_t i = 0; i < image->n_annotations; i++) {
        const annotation_t *a = &image->annotations[i];
        if (a->category != d->category || taken[i]) continue;
        const double iou = rle_box_iou(d->box, a->box, a->crowd);
        if (a->crowd)
            in_crowd = in_crowd || iou >= overlap;
        else if (iou >= best)
            best = iou, found = i;
    }
    return found < 0 && in_crowd ? -2 : found;
}

static void count_image(const truth_image_t *image, const detection_t *detections, double threshold,
                        bool *taken, worst_image_t *w)
{
    memset(taken, 0, (size_t)image->n_annotations * sizeof *taken);
    for (int64_t i = w->first; i < w->first + w->n; i++) {
        if (detections[i].score < threshold) continue;
        const int32_t truth = find_truth(image, &detections[i], taken);
        if (truth >= 0) taken[truth] = true;
        w->found += truth >= 0;
        w->wrong += truth == -1;
    }
    for (int32_t i = 0; i < image->n_annotations; i++) w->missed += !image->annotations[i].crowd && !taken[i];
}

err_t worst_images(const truths_t *truths, const results_t *results, double threshold, worst_image_t *out)
{
    bool *taken = NULL;
    int32_t most = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < truths->n_images; i++)
        if (truths->images[i].n_annotations > most) most = truths->images[i].n_annotations;
    TRY(mem_new_array(most, sizeof *taken, "objects that are found", &taken));
    for (int64_t i = 0; i < truths->n_images; i++) {
        worst_image_t *w = &out[i];
        *w = (worst_image_t){.image = (int32_t)i, .first = at};
        while (at < results->n && results->detections[at].image == i) at++;
        w->n = at - w->first;
        count_image(&truths->images[i], results->detections, threshold, taken, w);
    }
    qsort(out, (size_t)truths->n_images, sizeof *out, by_rightness);
    mem_free(&taken);
    return ERR_OK;
}
