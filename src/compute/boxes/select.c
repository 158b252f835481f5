/* SPDX-License-Identifier: MIT */
/* Choices by 64-bit keys that are all different: the value in the high half, the index in the low half. */
#include "compute/boxes/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"

static void swap(uint64_t *a, uint64_t *b)
{
    uint64_t t = *a;
    *a = *b;
    *b = t;
}

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Moves the k smallest keys to the front, in any order: Hoare's selection, with the median of three. */
static void smallest_first(uint64_t *key, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;
    while (low < high && k > low) {
        uint64_t a = key[low], b = key[low + (high - low) / 2], c = key[high];
        uint64_t pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            do i++;
            while (key[i] < pivot);
            do j--;
            while (key[j] > pivot);
            if (i >= j) break;
            swap(&key[i], &key[j]);
        }
        if (k <= j + 1)
            high = j;
        else
            low = j + 1;
    }
}

/* Bits that ascend as the score descends, NaN last. */
static uint32_t descending(float score)
{
    uint32_t bits;
    if (isnan(score)) return UINT32_MAX;
    score += 0.0f; /* -0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & INT32_MAX;
}

int64_t select_top(const float *scores, int64_t n, int64_t k, uint64_t *keys, int64_t *index)
{
    ASSERT(n <= UINT32_MAX);
    if (k > n) k = n;
    for (int64_t i = 0; i < n; i++) keys[i] = (uint64_t)descending(scores[i]) << 32 | (uint64_t)i;
    smallest_first(keys, n, k);
    qsort(keys, (size_t)k, sizeof *keys, by_key);
    for (int64_t i = 0; i < k; i++) index[i] = (int64_t)(keys[i] & UINT32_MAX);
    return k;
}

int64_t select_nms(const box_t *boxes, const int32_t *classes, int64_t n, double iou, int64_t most,
                   int64_t *taken)
{
    int64_t n_taken = 0;
    for (int64_t i = 0; i < n && n_taken < most; i++) {
        bool free = true;
        for (int64_t k = 0; k < n_taken && free; k++) {
            int64_t other = taken[k];
            if (classes && classes[other] != classes[i]) continue;
            free = !(box_iou(boxes[other], boxes[i]) > iou);
        }
        if (free) taken[n_taken++] = i;
    }
    return n_taken;
}

int64_t select_sample(int32_t *labels, int64_t n, int32_t label, int64_t k, int32_t dropped, uint64_t key,
                      uint32_t stream_0, uint32_t stream_1, uint64_t *keys)
{
    int64_t n_found = 0;
    ASSERT(n <= UINT32_MAX && k >= 0);
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] != label) continue;
        uint32_t word = rng_philox(key, (uint32_t)i, stream_0, stream_1, (uint32_t)label).word[0];
        keys[n_found++] = (uint64_t)word << 32 | (uint64_t)i;
    }
    if (n_found <= k) return n_found;
    smallest_first(keys, n_found, k);
    for (int64_t i = k; i < n_found; i++) labels[keys[i] & UINT32_MAX] = dropped;
    return k;
}
