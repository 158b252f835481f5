/* SPDX-License-Identifier: MIT */
/* Average precision and recall with pycocotools' rules: matching as its evaluateImg and computeIoU, for all thresholds and
 * area ranges; sums as its accumulate and summarize; scores as tables and as JSON. */
#include "data/score/score.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/annotation/mask.h"
#include "text/figure.h"
#include "text/table.h"

const score_number_t score_numbers[SCORE_NUMBERS] = {
    {"AP", "0.50:0.95", "all", "100"},     {"AP50", "0.50", "all", "100"},
    {"AP75", "0.75", "all", "100"},        {"APs", "0.50:0.95", "small", "100"},
    {"APm", "0.50:0.95", "medium", "100"}, {"APl", "0.50:0.95", "large", "100"},
    {"AR1", "0.50:0.95", "all", "1"},      {"AR10", "0.50:0.95", "all", "10"},
    {"AR100", "0.50:0.95", "all", "100"},  {"ARs", "0.50:0.95", "small", "100"},
    {"ARm", "0.50:0.95", "medium", "100"}, {"ARl", "0.50:0.95", "large", "100"},
};

enum { MATCH_THRESHOLDS = 10, MATCH_AREAS = 4, MATCH_MOST = 100 };

/* A detection's outcome, a bit per IoU threshold. Neither hit nor miss: it is ignored. */
typedef struct outcome {
    double score;
    int64_t order; /* among those of its category */
    int32_t rank;  /* by score, in its image and category */
    uint16_t hit[MATCH_AREAS], miss[MATCH_AREAS];
} outcome_t;

/* Scratch; starts zeroed. */
typedef struct matcher {
    const truth_image_t *image;
    score_type_t type;
    bool box_areas;
    const detection_t **detections; /* [n_detections] of this image and category; the caller fills these in */
    const annotation_t **truths;    /* [n_truths] */
    int64_t n_detections;
    int32_t n_truths;

    double *iou;                           /* [detections, truths] */
    rle_t *truth_masks, masks[MATCH_MOST]; /* SCORE_SEGM */
    int32_t n_truth_masks;                 /* allocated */
    mask_scratch_t scratch;
    int32_t *order;               /* of the truths: the ones that count first */
    uint16_t *taken;              /* [truths]: bits of thresholds */
    bool *ignored;                /* [truths] */
    double areas[MATCH_MOST];     /* of detections */
    int64_t n_found[MATCH_AREAS]; /* sum over calls: truths that count */
} matcher_t;

static const double area_ranges[MATCH_AREAS][2] = {
    {0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};

/* Whether a score is above another: 1, 0 or -1. By their bits, as this process takes denormal numbers for 0
 * (denormals_flush). */
static int compare_scores(double a, double b)
{
    int64_t x, y;
    memcpy(&x, &a, sizeof x), memcpy(&y, &b, sizeof y);
    if (x < 0) x = INT64_MIN - x;
    if (y < 0) y = INT64_MIN - y;
    return (x > y) - (x < y);
}

static int detections_by_score(const void *a, const void *b)
{
    const detection_t *x = *(const detection_t *const *)a, *y = *(const detection_t *const *)b;
    const int better = compare_scores(x->score, y->score);
    if (better) return -better;
    return (x > y) - (x < y); /* they are in the order of the file in memory */
}

/* Masks of an image and category; IoU only where their boxes meet. */
static err_t measure_masks(matcher_t *m, int32_t n)
{
    double boxes[MATCH_MOST][4], box[4];
    for (int32_t i = 0; i < n; i++) {
        const char *text = m->detections[i]->mask;
        const size_t n_text = strlen(text);
        TRY(mem_grow((int64_t)n_text, sizeof *m->masks[i].runs, "runs of a mask", &m->masks[i].runs));
        TRY(rle_parse(text, n_text, m->masks[i].runs, &m->masks[i].n));
        m->areas[i] = rle_area(&m->masks[i]);
    }
    for (int32_t k = 0; k < m->n_truths; k++) {
        const annotation_t *a = m->truths[k];
        if (a->segmentation == SEGMENTATION_NONE)
            RAISE(
                ERR_DATA,
                "annotation %lld (image %lld) has no segmentation, so that masks cannot be scored; score boxes, "
                "complete the annotations, or leave such objects out by --skip-unmasked",
                (long long)a->id, (long long)m->image->id);
        err_t err = mask_encode(a, m->image->width, m->image->height, &m->scratch, &m->truth_masks[k]);
        if (err != ERR_OK)
            return err_context(err, "annotation %lld (image %lld)", (long long)a->id,
                               (long long)m->image->id);
    }
    for (int32_t i = 0; i < n; i++) rle_box(&m->masks[i], m->image->width, m->image->height, boxes[i]);
    for (int32_t k = 0; k < m->n_truths; k++) {
        bool crowd = m->truths[k]->crowd;
        rle_box(&m->truth_masks[k], m->image->width, m->image->height, box);
        for (int32_t i = 0; i < n; i++)
            m->iou[i * m->n_truths + k] =
                rle_box_iou(boxes[i], box, crowd) > 0 ? rle_iou(&m->masks[i], &m->truth_masks[k], crowd) : 0;
    }
    return ERR_OK;
}

/* Truths that count come first, both kinds in the order of the file. */
static int32_t order_truths(matcher_t *m, const double range[2])
{
    int32_t n = 0, n_counted;
    for (int32_t k = 0; k < m->n_truths; k++) {
        const annotation_t *a = m->truths[k];
        m->ignored[k] = a->crowd || a->area < range[0] || a->area > range[1];
        if (!m->ignored[k]) m->order[n++] = k;
    }
    n_counted = n;
    for (int32_t k = 0; k < m->n_truths; k++)
        if (m->ignored[k]) m->order[n++] = k;
    return n_counted;
}

/* The truth that a detection takes at a threshold; -1: none. */
static int32_t find_truth(const matcher_t *m, const double *iou, double threshold, uint16_t bit)
{
    int32_t found = -1;
    double best = threshold < 1 - 1e-10 ? threshold : 1 - 1e-10;
    for (int32_t i = 0; i < m->n_truths; i++) {
        int32_t k = m->order[i];
        if (m->taken[k] & bit && !m->truths[k]->crowd) continue;
        if (found >= 0 && !m->ignored[found] && m->ignored[k]) break;
        if (iou[k] < best) continue;
        best = iou[k];
        found = k;
    }
    return found;
}

static void match_area(matcher_t *m, int area, int32_t n, outcome_t *out)
{
    const double *range = area_ranges[area], step = (.95 - .5) / (MATCH_THRESHOLDS - 1);
    m->n_found[area] += order_truths(m, range);
    if (m->n_truths > 0) memset(m->taken, 0, (size_t)m->n_truths * sizeof *m->taken);
    for (int32_t i = 0; i < n; i++) {
        const double *iou = m->iou + (int64_t)i * m->n_truths;
        const bool outside = m->areas[i] < range[0] || m->areas[i] > range[1];
        for (int t = 0; t < MATCH_THRESHOLDS; t++) {
            const uint16_t bit = (uint16_t)(1u << t);
            int32_t k = find_truth(m, iou, t == MATCH_THRESHOLDS - 1 ? .95 : t * step + .5, bit);
            bool found = false, ignored = outside;
            if (k >= 0) {
                m->taken[k] |= bit;
                found = m->truths[k]->id != 0;
                ignored = m->ignored[k] || (!found && outside);
            }
            if (ignored) continue;
            if (found)
                out[i].hit[area] |= bit;
            else
                out[i].miss[area] |= bit;
        }
    }
}

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
    int32_t image = *entry < last_entry ? s->entries[*entry].image : INT32_MAX;
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
    /* The outcomes of the first MATCH_MOST by score. */
    outcome_t *out = s->outcomes + s->n_outcomes;
    const int32_t n = m->n_detections < MATCH_MOST ? (int32_t)m->n_detections : MATCH_MOST;
    if (m->n_detections > 1)
        qsort(m->detections, (size_t)m->n_detections, sizeof(detection_t *), detections_by_score);
    const int64_t n_truths = m->n_truths;
    TRY(mem_grow(n_truths * n, sizeof *m->iou, "IoU of detections", &m->iou));
    TRY(mem_grow(n_truths, sizeof *m->order, "order of truths", &m->order));
    TRY(mem_grow(n_truths, sizeof *m->taken, "matched truths", &m->taken));
    TRY(mem_grow(n_truths, sizeof *m->ignored, "ignored truths", &m->ignored));
    if (m->type == SCORE_SEGM && m->n_truths > m->n_truth_masks) {
        TRY(mem_grow(n_truths, sizeof *m->truth_masks, "masks of truths", &m->truth_masks));
        m->n_truth_masks = m->n_truths;
    }
    if (m->type == SCORE_SEGM) TRY(measure_masks(m, n));
    for (int32_t i = 0; i < n; i++) {
        const double *box = m->detections[i]->box;
        if (m->type == SCORE_BBOX || m->box_areas) m->areas[i] = box[2] * box[3];
        for (int32_t k = 0; m->type == SCORE_BBOX && k < m->n_truths; k++)
            m->iou[i * m->n_truths + k] = rle_box_iou(box, m->truths[k]->box, m->truths[k]->crowd);
    }
    for (int32_t i = 0; i < n; i++)
        out[i] = (outcome_t){.score = m->detections[i]->score, .order = s->n_outcomes + i, .rank = i};
    for (int area = 0; area < MATCH_AREAS; area++) match_area(m, area, n, out);
    s->n_outcomes += n;
    return ERR_OK;
}

static int outcomes_by_score(const void *a, const void *b)
{
    const outcome_t *x = a, *y = b;
    const int better = compare_scores(x->score, y->score);
    if (better) return -better;
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
    if (s->n_outcomes > 1) qsort(s->outcomes, (size_t)s->n_outcomes, sizeof *s->outcomes, outcomes_by_score);
    accumulate(s, category);
    s->score->n_truths += category->n_truths;
    s->score->n_crowds += category->n_crowds;
    s->score->n_detections += category->n_detections;
    return ERR_OK;
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
    for (int i = 0; i < MATCH_MOST; i++) rle_free(&s.matcher.masks[i]);
    for (int32_t i = 0; i < s.matcher.n_truth_masks; i++) rle_free(&s.matcher.truth_masks[i]);
    mem_free(&s.matcher.truth_masks);
    mask_scratch_free(&s.matcher.scratch);
    mem_free(&s.matcher.iou);
    mem_free(&s.matcher.order);
    mem_free(&s.matcher.taken);
    mem_free(&s.matcher.ignored);
    mem_free(&s.matcher.detections);
    mem_free(&s.matcher.truths);
    mem_free(&s.entries);
    mem_free(&s.detections);
    mem_free(&s.first_entry);
    mem_free(&s.first_detection);
    mem_free(&s.outcomes);
    score_free(&s.score);
    return err;
}

void score_free(score_t **score)
{
    if (!*score) return;
    mem_free(&(*score)->categories);
    mem_free(score);
}

static void number_cell(table_t *t, double value)
{
    if (value < 0)
        table_cell(t, "-");
    else
        table_cell(t, "%.4f", value);
}

void score_print(const score_t *const *scores, int n_scores, const truths_t *truths)
{
    table_t t = {.columns = {{"", true}, {"IoU", true}, {"area", true}, {"detections"}},
                 .n_columns = 4 + n_scores};
    for (int s = 0; s < n_scores; s++)
        t.columns[4 + s] = (table_column_t){.heading = score_type_names[scores[s]->type]};
    for (int i = 0; i < SCORE_NUMBERS; i++) {
        const score_number_t *number = &score_numbers[i];
        table_cell(&t, "%s", number->name);
        table_cell(&t, "%s", number->iou);
        table_cell(&t, "%s", number->area);
        table_cell(&t, "%s", number->most);
        for (int s = 0; s < n_scores; s++) number_cell(&t, scores[s]->numbers[i]);
    }
    table_log(&t);
    table_free(&t);
    for (int s = 0; s < n_scores && truths; s++) {
        table_t all = {.columns = {{"category", true}, {"objects"}, {"detections"}}, .n_columns = 6};
        /* AP, AP50 and AP75. */
        for (int i = 0; i < 3; i++) all.columns[3 + i] = (table_column_t){.heading = score_numbers[i].name};
        for (int32_t c = 0; c < scores[s]->n_categories; c++) {
            const score_category_t *category = &scores[s]->categories[c];
            table_cell(&all, "%s", truths->categories[c].name);
            table_cell(&all, "%s", figure_count(category->n_truths).text);
            table_cell(&all, "%s", figure_count(category->n_detections).text);
            for (int i = 0; i < 3; i++) number_cell(&all, category->numbers[i]);
        }
        log_info("\n%s of each category", score_type_names[scores[s]->type]);
        table_log(&all);
        table_free(&all);
    }
}

static void json_numbers(json_t *j, const double values[SCORE_NUMBERS])
{
    for (int i = 0; i < SCORE_NUMBERS; i++) json_real(j, score_numbers[i].name, values[i]);
}

void score_json(const score_t *const *scores, int n_scores, const truths_t *truths, json_t *j)
{
    for (int s = 0; s < n_scores; s++) {
        json_object_begin(j, score_type_names[scores[s]->type]);
        json_numbers(j, scores[s]->numbers);
        if (truths) json_array_begin(j, "categories");
        for (int32_t c = 0; truths && c < scores[s]->n_categories; c++) {
            const score_category_t *category = &scores[s]->categories[c];
            json_object_begin(j, NULL);
            json_int(j, "id", truths->categories[c].id);
            json_string(j, "name", truths->categories[c].name);
            json_int(j, "objects", category->n_truths);
            json_int(j, "crowds", category->n_crowds);
            json_int(j, "detections", category->n_detections);
            json_numbers(j, category->numbers);
            json_object_end(j);
        }
        if (truths) json_array_end(j);
        json_object_end(j);
    }
}
