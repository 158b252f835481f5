/* SPDX-License-Identifier: MIT */
/* Matching in two passes, because the second needs each object's best overlap. It looks at few pairs again. */
#include "compute/boxes/match.h"

/* Overlaps of all pairs: each candidate's best object and its IoU, and each object's best IoU. */
static void find_best(const box_t *objects, int64_t n_objects, const box_t *candidates, int64_t n,
                      const match_memory_t *memory, int32_t *found)
{
    float *iou = memory->iou;
    for (int64_t i = 0; i < n; i++) iou[i] = 0, found[i] = 0;
    for (int64_t k = 0; k < n_objects; k++) {
        const box_t object = objects[k];
        float best = 0;
        for (int64_t i = 0; i < n; i++) {
            const float one = box_iou(object, candidates[i]);
            if (one > best) best = one;
            if (one > iou[i]) iou[i] = one, found[i] = (int32_t)k;
        }
        memory->best[k] = best;
    }
}

/* An object that overlaps no candidate has no best one. */
static bool is_best_of_any(const box_t *objects, int64_t n_objects, box_t candidate, const float *best)
{
    for (int64_t k = 0; k < n_objects; k++)
        if (best[k] > 0 && box_iou(objects[k], candidate) >= best[k]) return true;
    return false;
}

/* The smallest IoU with which a candidate may be the best one of an object. */
static float least_best(const float *best, int64_t n_objects)
{
    float least = 1;
    for (int64_t k = 0; k < n_objects; k++)
        if (best[k] > 0 && best[k] < least) least = best[k];
    return least;
}

void match_boxes(const match_rule_t *rule, const box_t *objects, int64_t n_objects, const box_t *candidates,
                 int64_t n, const match_memory_t *memory, int32_t *found)
{
    find_best(objects, n_objects, candidates, n, memory, found);
    const float least = least_best(memory->best, n_objects);
    for (int64_t i = 0; i < n; i++) {
        const float iou = memory->iou[i];
        const bool taken =
            n_objects > 0 &&
            (iou >= rule->high || (rule->best_of_each && iou >= least &&
                                   is_best_of_any(objects, n_objects, candidates[i], memory->best)));
        if (!taken) found[i] = n_objects == 0 || iou < rule->low ? MATCH_BACKGROUND : MATCH_IGNORED;
    }
}
