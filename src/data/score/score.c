/* SPDX-License-Identifier: MIT */
/* Goes through categories and their images, and accumulates precision and recall as pycocotools' accumulate and
 * summarize do. Matching is match.c's, tables and JSON are score_show.c's. */
#include "data/score/score.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/score/match.h"

enum { N_RECALLS = 101, N_MOSTS = 3 };
static const int32_t mosts[N_MOSTS] = {1, 10, MATCH_MOST};

/* What a number is the mean of. */
static const struct {
    int area, first, last; /* area range; thresholds */
    int most;              /* of mosts */
    bool recall;
} numbers[SCORE_NUMBERS] = {
    {0, 0, 9, 2, false}, {0, 0, 0, 2, false}, {0, 5, 5, 2, false}, {1, 0, 9, 2, false},
    {2, 0, 9, 2, false}, {3, 0, 9, 2, false}, {0, 0, 9, 0, true},  {0, 0, 9, 1, true},
    {0, 0, 9, 2, true},  {1, 0, 9, 2, true},  {2, 0, 9, 2, true},  {3, 0, 9, 2, true},
};

/* One of many, grouped by category, then by image, in the order of the file. */
typedef struct entry {
    int32_t image;
    int32_t at; /* annotation of the image */
} entry_t;

typedef struct scoring {
    const results_t *results;
    const truths_t *truths;
    score_t *score;
    entry_t *entries;         /* of truths */
    int64_t *detections;      /* indices */
    int64_t *first_entry;     /* [n_categories + 1] */
    int64_t *first_detection; /* [n_categories + 1] */
    matcher_t matcher;
    outcome_t *outcomes; /* of a category */
    int64_t n_outcomes;
    double sums[SCORE_NUMBERS];
    int64_t counts[SCORE_NUMBERS];
} scoring_t;

/* Turns counts at [c + 1] into starts at [c + 1]; a filling loop then increments them into ends, that is, the
 * starts of the next one. */
static void counts_to_starts(int64_t *first, int32_t n)
{
    int64_t sum = 0;
    for (int32_t c = 0; c < n; c++) {
        int64_t count = first[c + 1];
        first[c + 1] = sum;
        sum += count;
    }
}

static err_t group_truths(scoring_t *s)
{
    const truths_t *t = s->truths;
    TRY(mem_new_array(t->n_annotations, sizeof *s->entries, "ground truth", &s->entries));
    TRY(mem_new_array(t->n_categories + 1, sizeof *s->first_entry, "categories", &s->first_entry));
    for (int64_t i = 0; i < t->n_images; i++)
        for (int32_t k = 0; k < t->images[i].n_annotations; k++)
            s->first_entry[t->images[i].annotations[k].category + 1]++;
    counts_to_starts(s->first_entry, t->n_categories);
    for (int64_t i = 0; i < t->n_images; i++)
        for (int32_t k = 0; k < t->images[i].n_annotations; k++)
            s->entries[s->first_entry[t->images[i].annotations[k].category + 1]++] = (entry_t){(int32_t)i, k};
    return ERR_OK;
}

/* Sorts twice by counting: by image, then by category, both stable. */
static err_t group_detections(scoring_t *s)
{
    const results_t *r = s->results;
    int64_t *by_image = NULL, *first = NULL;
    err_t err;
    TRY_OUT(err, mem_new_array(r->n, sizeof *by_image, "order of results", &by_image));
    TRY_OUT(err, mem_new_array(r->n, sizeof *s->detections, "order of results", &s->detections));
    TRY_OUT(err, mem_new_array(s->truths->n_images + 1, sizeof *first, "order of results", &first));
    TRY_OUT(err, mem_new_array(s->truths->n_categories + 1, sizeof *s->first_detection, "categories",
                               &s->first_detection));
    for (int64_t i = 0; i < r->n; i++) {
        first[r->detections[i].image + 1]++;
        s->first_detection[r->detections[i].category + 1]++;
    }
    counts_to_starts(first, (int32_t)s->truths->n_images);
    counts_to_starts(s->first_detection, s->truths->n_categories);
    for (int64_t i = 0; i < r->n; i++) by_image[first[r->detections[i].image + 1]++] = i;
    for (int64_t i = 0; i < r->n; i++)
        s->detections[s->first_detection[r->detections[by_image[i]].category + 1]++] = by_image[i];
out:
    mem_free(&by_image);
    mem_free(&first);
    return err;
}

/* Matches the next image of a category and advances both positions. */
static err_t match_image(scoring_t *s, int64_t *entry, int64_t last_entry, int64_t *detection,
                         int64_t last_detection)
{
    matcher_t *m = &s->matcher;
    const detection_t *all = s->results->detections;
    int32_t image = *entry < last_entry ? s->entries[*entry].image : INT32_MAX, n = 0;
    if (*detection < last_detection && all[s->detections[*detection]].image < image)
        image = all[s->detections[*detection]].image;
    m->image = &s->truths->images[image];
    m->n_truths = 0;
    m->n_detections = 0;
    for (; *entry < last_entry && s->entries[*entry].image == image; ++*entry) {
        TRY(mem_grow(m->n_truths + 1, sizeof(annotation_t *), "truths of an image", &m->truths));
        m->truths[m->n_truths++] = &m->image->annotations[s->entries[*entry].at];
    }
    for (; *detection < last_detection && all[s->detections[*detection]].image == image; ++*detection) {
        TRY(mem_grow(m->n_detections + 1, sizeof(detection_t *), "results of an image", &m->detections));
        m->detections[m->n_detections++] = &all[s->detections[*detection]];
    }
    TRY(mem_grow(s->n_outcomes + MATCH_MOST, sizeof *s->outcomes, "outcomes", &s->outcomes));
    TRY(match(m, s->outcomes + s->n_outcomes, &n));
    for (int32_t i = 0; i < n; i++) s->outcomes[s->n_outcomes + i].order = s->n_outcomes + i;
    s->n_outcomes += n;
    return ERR_OK;
}

static int by_score(const void *a, const void *b)
{
    const outcome_t *x = a, *y = b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static double recall_at(int i)
{
    return i == N_RECALLS - 1 ? 1 : i * (1.0 / (N_RECALLS - 1));
}

/* The sum of precision over all recalls: from the last detection to the first, so that the largest precision
 * from each one on is known. */
static double sum_precision(const scoring_t *s, int area, int threshold, int64_t n_found)
{
    const uint16_t bit = (uint16_t)(1u << threshold);
    const double tiny = 0x1p-52;
    int64_t hits = 0, misses = 0;
    double most = 0, sum = 0;
    int next = N_RECALLS - 1; /* the highest recall without precision */
    for (int64_t i = 0; i < s->n_outcomes; i++) {
        hits += (s->outcomes[i].hit[area] & bit) != 0;
        misses += (s->outcomes[i].miss[area] & bit) != 0;
    }
    while (next >= 0 && recall_at(next) > (double)hits / (double)n_found) next--;
    for (int64_t i = s->n_outcomes - 1; i >= 0; i--) {
        const bool hit = s->outcomes[i].hit[area] & bit, miss = s->outcomes[i].miss[area] & bit;
        if (!hit && !miss) continue;
        double precision = (double)hits / ((double)(misses + hits) + tiny);
        if (precision > most) most = precision;
        hits -= hit;
        misses -= miss;
        /* Recalls above the one before this detection are first reached here. */
        if (hit || hits + misses == 0)
            for (; next >= 0 && (recall_at(next) > (double)hits / (double)n_found || hits + misses == 0);
                 next--)
                sum += most;
    }
    return sum;
}

static double recall(const scoring_t *s, int area, int threshold, int32_t most, int64_t n_found)
{
    const uint16_t bit = (uint16_t)(1u << threshold);
    int64_t hits = 0;
    for (int64_t i = 0; i < s->n_outcomes; i++)
        hits += s->outcomes[i].rank < most && s->outcomes[i].hit[area] & bit;
    return (double)hits / (double)n_found;
}

/* The numbers of a category, and its share of the whole's. */
static void accumulate(scoring_t *s, score_category_t *category)
{
    for (int i = 0; i < SCORE_NUMBERS; i++) {
        const int area = numbers[i].area;
        const int64_t n_found = s->matcher.n_found[area];
        int64_t count = numbers[i].last - numbers[i].first + 1;
        double sum = 0;
        category->numbers[i] = -1;
        if (n_found == 0) continue;
        for (int t = numbers[i].first; t <= numbers[i].last; t++)
            sum += numbers[i].recall ? recall(s, area, t, mosts[numbers[i].most], n_found)
                                     : sum_precision(s, area, t, n_found);
        if (!numbers[i].recall) count *= N_RECALLS;
        category->numbers[i] = sum / (double)count;
        s->sums[i] += sum;
        s->counts[i] += count;
    }
}

static err_t score_category(scoring_t *s, int32_t c)
{
    score_category_t *category = &s->score->categories[c];
    int64_t entry = s->first_entry[c], detection = s->first_detection[c];
    const int64_t last_entry = s->first_entry[c + 1], last_detection = s->first_detection[c + 1];
    category->n_detections = last_detection - detection;
    for (int64_t i = entry; i < last_entry; i++) {
        bool crowd = s->truths->images[s->entries[i].image].annotations[s->entries[i].at].crowd;
        category->n_crowds += crowd;
        category->n_truths += !crowd;
    }
    s->n_outcomes = 0;
    memset(s->matcher.n_found, 0, sizeof s->matcher.n_found);
    while (entry < last_entry || detection < last_detection)
        TRY(match_image(s, &entry, last_entry, &detection, last_detection));
    if (s->n_outcomes > 1) qsort(s->outcomes, (size_t)s->n_outcomes, sizeof *s->outcomes, by_score);
    accumulate(s, category);
    s->score->n_truths += category->n_truths;
    s->score->n_crowds += category->n_crowds;
    s->score->n_detections += category->n_detections;
    return ERR_OK;
}

static void free_scoring(scoring_t *s)
{
    matcher_free(&s->matcher);
    mem_free(&s->entries);
    mem_free(&s->detections);
    mem_free(&s->first_entry);
    mem_free(&s->first_detection);
    mem_free(&s->outcomes);
}

err_t score_results(const results_t *results, const truths_t *truths, score_type_t type,
                    const open_watch_t *watch, score_t **out)
{
    scoring_t s = {
        .results = results, .truths = truths, .matcher = {.type = type, .box_areas = results->box_areas}};
    err_t err;
    ASSERT(results->has[type]);
    TRY_OUT(err, mem_new(sizeof *s.score, "a score", &s.score));
    TRY_OUT(err, mem_new_array(truths->n_categories, sizeof *s.score->categories, "scores of categories",
                               &s.score->categories));
    s.score->type = type;
    s.score->n_categories = truths->n_categories;
    TRY_OUT(err, group_truths(&s));
    TRY_OUT(err, group_detections(&s));
    for (int32_t c = 0; c < truths->n_categories; c++) {
        if (watch) TRY_OUT(err, watch->alive(watch->context));
        TRY_OUT(err, score_category(&s, c));
    }
    for (int i = 0; i < SCORE_NUMBERS; i++)
        s.score->numbers[i] = s.counts[i] > 0 ? s.sums[i] / (double)s.counts[i] : -1;
    *out = s.score;
    s.score = NULL;
out:
    free_scoring(&s);
    score_free(&s.score);
    return err;
}

void score_free(score_t **score)
{
    if (!*score) return;
    mem_free(&(*score)->categories);
    mem_free(score);
}
