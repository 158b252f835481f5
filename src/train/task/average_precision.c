/* SPDX-License-Identifier: MIT */
/* Average precision (area under the precision-recall curve) and top-k, from scores in memory. Gathering
 * scores over ranks is left to evaluate.c. */
#include "train/task/average_precision.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

typedef struct ranked {
    float score;
    bool positive;
} ranked_t;

/* Descending, NaN last. */
static int by_score(const void *pa, const void *pb)
{
    const ranked_t *a = pa, *b = pb;
    if (isnan(a->score) || isnan(b->score)) return !!isnan(a->score) - !!isnan(b->score);
    return (a->score < b->score) - (a->score > b->score);
}

static double precision_area(const ranked_t *ranked, int64_t n, int64_t n_positive)
{
    int64_t n_found = 0;
    double sum = 0;
    for (int64_t i = 0; i < n;) {
        int64_t n_new = 0, first = i;
        for (; i < n && by_score(&ranked[first], &ranked[i]) == 0; i++) n_new += ranked[i].positive;
        n_found += n_new;
        sum += (double)n_new * (double)n_found / (double)i;
    }
    return sum / (double)n_positive;
}

/* ranked: scratch space for n. */
static double column_precision(const float *scores, const float *targets, int64_t n, int64_t stride,
                               ranked_t *ranked)
{
    int64_t n_positive = 0;
    for (int64_t i = 0; i < n; i++) {
        ranked[i] = (ranked_t){scores[i * stride], targets[i * stride] > 0.5f};
        n_positive += ranked[i].positive;
    }
    if (n_positive == 0) return NAN;
    qsort(ranked, (size_t)n, sizeof *ranked, by_score);
    return precision_area(ranked, n, n_positive);
}

err_t average_precision(const float *scores, const float *targets, int64_t n, int64_t stride, double *out)
{
    ranked_t *ranked;
    TRY(mem_new_array(n, sizeof *ranked, "average precision", &ranked));
    *out = column_precision(scores, targets, n, stride, ranked);
    mem_free(&ranked);
    return ERR_OK;
}

err_t average_precision_of_classes(const float *scores, const float *targets, int64_t n, int n_classes,
                                   double *precisions, double *mean)
{
    ranked_t *ranked;
    int n_seen = 0;
    double sum = 0;
    TRY(mem_new_array(n, sizeof *ranked, "average precision", &ranked));
    for (int k = 0; k < n_classes; k++) {
        precisions[k] = column_precision(scores + k, targets + k, n, n_classes, ranked);
        if (isnan(precisions[k])) continue;
        sum += precisions[k];
        n_seen++;
    }
    mem_free(&ranked);
    *mean = n_seen > 0 ? sum / n_seen : NAN;
    return ERR_OK;
}

bool top_k_holds(const float *scores, int n_classes, int label, int k)
{
    int n_before = 0;
    if (isnan(scores[label])) return false;
    for (int i = 0; i < n_classes; i++)
        n_before += scores[i] > scores[label] || (i < label && scores[i] >= scores[label]);
    return n_before < k;
}
