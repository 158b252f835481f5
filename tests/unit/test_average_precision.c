/* SPDX-License-Identifier: MIT */
/* Average precision and top-k against values worked by hand. */
#include "train/task/metric.h"

#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tests/tap.h"

typedef struct ranking {
    const char *what;
    int n;
    float scores[8], targets[8];
    double precision;
} ranking_t;

static const ranking_t rankings[] = {
    /* scikit-learn's own example: positives at ranks 1 and 3. */
    {"positives first and third of four", 4, {0.1f, 0.4f, 0.35f, 0.8f}, {0, 0, 1, 1}, (1.0 + 2.0 / 3) / 2},
    {"every positive before every negative", 4, {4, 3, 2, 1}, {1, 1, 0, 0}, 1},
    {"the one positive last of four", 4, {4, 3, 2, 1}, {0, 0, 0, 1}, 0.25},
    {"positives at 2, 3 and 5", 5, {9, 8, 7, 6, 5}, {0, 1, 1, 0, 1}, (1.0 / 2 + 2.0 / 3 + 3.0 / 5) / 3},
    {"all positive", 3, {1, 2, 3}, {1, 1, 1}, 1},
    {"one sample", 1, {-7}, {1}, 1},
    /* Equal scores are one step of the curve: the share of positives among them. */
    {"all scores equal, one of four positive", 4, {0, 0, 0, 0}, {0, 1, 0, 0}, 0.25},
    {"a tie of a positive and a negative after a positive", 3, {2, 1, 1}, {1, 1, 0}, (1 + 2.0 / 3) / 2},
    {"the same, in another order", 3, {1, 2, 1}, {0, 1, 1}, (1 + 2.0 / 3) / 2},
    {"a tie before a positive", 4, {5, 5, 5, 1}, {0, 1, 0, 1}, (1.0 / 3 + 2.0 / 4) / 2},
    {"-0 and 0 are equal", 2, {0.0f, -0.0f}, {0, 1}, 0.5},
    {"infinities have their places", 3, {-INFINITY, 0, INFINITY}, {1, 0, 1}, (1 + 2.0 / 3) / 2},
    {"a NaN is last, and does not disturb others", 4, {1, NAN, 3, 2}, {0, 1, 1, 0}, (1 + 2.0 / 4) / 2},
    {"targets are positive above a half", 3, {3, 2, 1}, {0.5f, 0.6f, 0.1f}, 0.5},
};
enum { N_RANKINGS = sizeof rankings / sizeof rankings[0] };

static void check_rankings(void)
{
    for (int i = 0; i < N_RANKINGS; i++) {
        const ranking_t *r = &rankings[i];
        double got = -1;
        err_t err = average_precision(r->scores, r->targets, r->n, 1, &got);
        OK(err == ERR_OK && fabs(got - r->precision) < 1e-12, "%s: %.6g", r->what, got);
    }
}

static void check_none(void)
{
    const float scores[] = {1, 2}, targets[] = {0, 0};
    double got = 0;
    OK(average_precision(scores, targets, 2, 1, &got) == ERR_OK && isnan(got),
       "without a positive there is none");
    got = 0;
    OK(average_precision(scores, targets, 0, 1, &got) == ERR_OK && isnan(got), "nor without samples");
}

static void check_classes(void)
{
    /* Columns: 1; none positive; positives at 2 and 3 of 3. */
    const float scores[] = {3, 1, 9, 2, 1, 8, 1, 1, 7}, targets[] = {1, 0, 0, 1, 0, 1, 0, 0, 1};
    double each[3], mean;
    OK_CALL(average_precision_of_classes(scores, targets, 3, 3, each, &mean), "three classes");
    double third = (1.0 / 2 + 2.0 / 3) / 2;
    OK(fabs(each[0] - 1) < 1e-12 && isnan(each[1]) && fabs(each[2] - third) < 1e-12,
       "each has its own: %g, %g, %g", each[0], each[1], each[2]);
    OK(fabs(mean - (1 + third) / 2) < 1e-12, "the mean is over those with positives: %g", mean);
    const float none[9] = {0};
    OK(average_precision_of_classes(scores, none, 3, 3, each, &mean) == ERR_OK && isnan(mean),
       "without such a class the mean is NaN");
}

/* As the definition is written, threshold by threshold; scores with many ties. */
static double by_definition(const float *scores, const float *targets, int n)
{
    int n_positive = 0;
    double sum = 0;
    for (int i = 0; i < n; i++) n_positive += targets[i] > 0.5f;
    for (int i = 0; i < n; i++) {
        int above = 0, found = 0;
        for (int k = 0; k < n; k++)
            above += scores[k] >= scores[i], found += scores[k] >= scores[i] && targets[k] > 0.5f;
        /* Each positive of a tie stands for its own share of the recall. */
        if (targets[i] > 0.5f) sum += (double)found / above / n_positive;
    }
    return sum;
}

static void check_random(void)
{
    enum { N = 300, ROUNDS = 50 };
    float scores[N], targets[N];
    rng_t rng = rng_new(3, RNG_TEST, 0);
    bool same = true, ordered = true;
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n_values = 1 + rng_below(&rng, 2 * N);
        double got, reversed;
        for (int i = 0; i < N; i++)
            scores[i] = (float)rng_below(&rng, n_values), targets[i] = (float)rng_below(&rng, 2);
        targets[0] = 1;
        same = same && average_precision(scores, targets, N, 1, &got) == ERR_OK &&
               fabs(got - by_definition(scores, targets, N)) < 1e-12;
        for (int i = 0; i < N / 2; i++) {
            float s = scores[i], t = targets[i];
            scores[i] = scores[N - 1 - i], targets[i] = targets[N - 1 - i];
            scores[N - 1 - i] = s, targets[N - 1 - i] = t;
        }
        ordered = ordered && average_precision(scores, targets, N, 1, &reversed) == ERR_OK &&
                  !(reversed < got) && !(reversed > got);
    }
    OK(same, "random scores with ties: as the definition, threshold by threshold");
    OK(ordered, "the order of the samples does not matter");
}

static void check_top_k(void)
{
    const float scores[] = {1, 5, 3, 5, 2, NAN, 4};
    /* By score, of equals the lower first: 1, 3, 6, 2, 4, 0. */
    static const struct {
        int label, rank;
    } order[] = {{1, 1}, {3, 2}, {6, 3}, {2, 4}, {4, 5}, {0, 6}};
    bool right = true;
    for (int i = 0; i < 6; i++)
        for (int k = 1; k <= 7; k++)
            right = right && top_k_holds(scores, 7, order[i].label, k) == (order[i].rank <= k);
    OK(right, "a label is in the top k from its rank on");
    OK(!top_k_holds(scores, 7, 5, 7), "a NaN is in no top");
    const float one[] = {-3};
    OK(top_k_holds(one, 1, 0, 1), "of one class it is the top");
}

int main(void)
{
    tap_plan(N_RANKINGS + 2 + 4 + 2 + 3 + 1);
    check_rankings();
    check_none();
    check_classes();
    check_random();
    check_top_k();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
