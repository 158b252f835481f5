/* SPDX-License-Identifier: MIT */
/* Choosing among many boxes: the best scores, non-maximum suppression, random samples. Ties go to the lower
 * index, so that a choice depends on its input alone. Not collective; working memory is the caller's. */
#ifndef COMPUTE_BOXES_SELECT_H
#define COMPUTE_BOXES_SELECT_H

#include "compute/boxes/box.h"

/* The k best scores, best first; fewer if n < k. NaN is worse than any number. Returns how many.
 *
 *   keys   [n] working memory
 *   index  [min(k, n)] receives their indices; n < 2^32 */
int64_t select_top(const float *scores, int64_t n, int64_t k, uint64_t *keys, int64_t *index);

/* Non-maximum suppression: takes boxes from the front, and drops each that overlaps one taken before by more
 * than `iou`. Returns how many were taken.
 *
 *   classes  [n] boxes of different classes do not overlap; NULL: one class
 *   most     ends after so many
 *   taken    [min(n, most)] receives their indices, ascending */
int64_t select_nms(const box_t *boxes, const int32_t *classes, int64_t n, double iou, int64_t most,
                   int64_t *taken);

/* Of the candidates with labels[i] == label, keeps k at random, each set of k with the same probability, and
 * sets the labels of the others to `dropped`. What is kept is a function of (key, stream_0, stream_1) alone.
 * Returns how many are kept.
 *
 *   key   rng_key(seed, RNG_SAMPLE)
 *   keys  [n] working memory; n < 2^32 */
int64_t select_sample(int32_t *labels, int64_t n, int32_t label, int64_t k, int32_t dropped, uint64_t key,
                      uint32_t stream_0, uint32_t stream_1, uint64_t *keys);

#endif
