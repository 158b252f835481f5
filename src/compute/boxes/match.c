/* SPDX-License-Identifier: MIT */
/* Matching in two passes over all pairs: the second needs each object's best overlap. */
#include "compute/boxes/match.h"

/* The candidate's best object and its IoU. */
static int32_t best_object(const box_t *objects, int64_t n_objects, box_t candidate, float *iou)
{
    int32_t at = 0;
    *iou = -1;
    for (int64_t k = 0; k < n_objects; k++) {
        float one = box_iou(objects[k], candidate);
        if (one > *iou) *iou = one, at = (int32_t)k;
    }
    return at;
}

/* An object that overlaps no candidate has no best one. */
static bool is_best_of_any(const box_t *objects, int64_t n_objects, box_t candidate, const float *best)
{
    for (int64_t k = 0; k < n_objects; k++)
        if (best[k] > 0 && box_iou(objects[k], candidate) >= best[k]) return true;
    return false;
}

void match_boxes(const match_rule_t *rule, const box_t *objects, int64_t n_objects, const box_t *candidates,
                 int64_t n, float *best, int32_t *found)
{
    for (int64_t k = 0; k < n_objects; k++) {
        best[k] = 0;
        for (int64_t i = 0; rule->best_of_each && i < n; i++) {
            float one = box_iou(objects[k], candidates[i]);
            if (one > best[k]) best[k] = one;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        float iou;
        int32_t at = best_object(objects, n_objects, candidates[i], &iou);
        bool taken = iou >= rule->high ||
                     (rule->best_of_each && is_best_of_any(objects, n_objects, candidates[i], best));
        found[i] = taken ? at : iou < rule->low ? MATCH_BACKGROUND : MATCH_IGNORED;
    }
}
