/* SPDX-License-Identifier: MIT */
/* Chooses objects. Boxes and suppression are compute/boxes'. */
#include "train/detect/detections.h"

#include <math.h>

#include "base/mem.h"
#include "compute/boxes/select.h"

#define FIELD(name) offsetof(detections_options_t, name)
const opt_t detections_option_table[] = {
    {"score-threshold", OPT_REAL, FIELD(score_threshold), "0.05", 0, 1, NULL, "X",
     "keep objects with a larger probability", OPT_MORE},
    {"nms", OPT_REAL, FIELD(nms), "0.5", 0, 1, NULL, "X",
     "drop boxes that overlap a better one of their class by a larger IoU", OPT_MORE},
    {"detections", OPT_INT, FIELD(detections), "100", 1, DETECTIONS_MOST, NULL, "N",
     "most objects of an image", OPT_MORE},
};
const int n_detections_options = sizeof detections_option_table / sizeof detections_option_table[0];

static const box_weights_t weights = {10, 10, 5, 5};
static const float least_side = 1e-2f;

err_t detections_new(const detections_options_t *options, int n_classes, int64_t most_regions,
                     detections_t *d)
{
    const int64_t most = most_regions * (n_classes - 1);
    static const char what[] = "detections";
    *d = (detections_t){.options = *options, .n_classes = n_classes};
    TRY(mem_new_array(n_classes, sizeof *d->probabilities, what, &d->probabilities));
    TRY(mem_new_array(most, sizeof *d->scores, what, &d->scores));
    TRY(mem_new_array(most, sizeof *d->candidates, what, &d->candidates));
    TRY(mem_new_array(most, sizeof *d->keys, what, &d->keys));
    TRY(mem_new_array(most, sizeof *d->order, what, &d->order));
    TRY(mem_new_array(options->detections, sizeof *d->taken, what, &d->taken));
    TRY(mem_new_array(most, sizeof *d->boxes, what, &d->boxes));
    return mem_new_array(most, sizeof *d->classes, what, &d->classes);
}

void detections_free(detections_t *d)
{
    mem_free(&d->probabilities);
    mem_free(&d->scores);
    mem_free(&d->candidates);
    mem_free(&d->keys);
    mem_free(&d->order);
    mem_free(&d->taken);
    mem_free(&d->boxes);
    mem_free(&d->classes);
}

static void softmax(const float *logits, int n, float *out)
{
    float largest = -INFINITY, sum = 0;
    for (int k = 0; k < n; k++) largest = fmaxf(largest, logits[k]);
    for (int k = 0; k < n; k++) sum += out[k] = expf(logits[k] - largest);
    for (int k = 0; k < n; k++) out[k] /= sum;
}

/* Region by region, class by class. */
static int64_t find_candidates(detections_t *d, const detections_input_t *in)
{
    int64_t n = 0;
    for (int64_t r = 0; r < in->n; r++) {
        softmax(in->logits + r * d->n_classes, d->n_classes, d->probabilities);
        for (int k = 1; k < d->n_classes; k++) {
            const float score = d->probabilities[k], *v = in->deltas + 4 * (r * d->n_classes + k);
            if (!(score > (float)d->options.score_threshold)) continue;
            const box_delta_t delta = {v[0], v[1], v[2], v[3]};
            const box_t box = box_clip(box_decode(delta, in->regions[r], weights), (float)in->image.height,
                                       (float)in->image.width);
            if (!box_is_at_least(box, least_side)) continue;
            d->candidates[n] = (found_t){box, score, k};
            d->scores[n++] = score;
        }
    }
    return n;
}

int64_t detections_find(detections_t *d, const detections_input_t *in, found_t *out)
{
    int64_t n = find_candidates(d, in);
    select_top(d->scores, n, n, d->keys, d->order);
    for (int64_t i = 0; i < n; i++) {
        d->boxes[i] = d->candidates[d->order[i]].box;
        d->classes[i] = d->candidates[d->order[i]].class;
    }
    n = select_nms(d->boxes, d->classes, n, d->options.nms, d->options.detections, d->taken);
    for (int64_t i = 0; i < n; i++) out[i] = d->candidates[d->order[d->taken[i]]];
    return n;
}
