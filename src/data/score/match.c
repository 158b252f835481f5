/* SPDX-License-Identifier: MIT */
/* Matching as in pycocotools' evaluateImg and computeIoU, for all thresholds and area ranges. Sums over images
 * are score.c's. */
#include "data/score/match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const double area_ranges[MATCH_AREAS][2] = {
    {0, 1e10}, {0, 32 * 32}, {32 * 32, 96 * 96}, {96 * 96, 1e10}};

void matcher_free(matcher_t *m)
{
    for (int i = 0; i < MATCH_MOST; i++) rle_free(&m->masks[i]);
    for (int32_t i = 0; i < m->n_truth_masks; i++) rle_free(&m->truth_masks[i]);
    mem_free(&m->truth_masks);
    mask_scratch_free(&m->scratch);
    mem_free(&m->iou);
    mem_free(&m->order);
    mem_free(&m->taken);
    mem_free(&m->ignored);
    mem_free(&m->detections);
    mem_free(&m->truths);
}

static int by_score(const void *a, const void *b)
{
    const detection_t *x = *(const detection_t *const *)a, *y = *(const detection_t *const *)b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    return (x > y) - (x < y); /* they are in the order of the file in memory */
}

static err_t reserve_truths(matcher_t *m, int32_t n_detections)
{
    int64_t n = m->n_truths;
    TRY(mem_grow(n * n_detections, sizeof *m->iou, "IoU of detections", &m->iou));
    TRY(mem_grow(n, sizeof *m->order, "order of truths", &m->order));
    TRY(mem_grow(n, sizeof *m->taken, "matched truths", &m->taken));
    TRY(mem_grow(n, sizeof *m->ignored, "ignored truths", &m->ignored));
    if (m->type != SCORE_SEGM || n <= m->n_truth_masks) return ERR_OK;
    TRY(mem_grow(n, sizeof *m->truth_masks, "masks of truths", &m->truth_masks));
    m->n_truth_masks = m->n_truths;
    return ERR_OK;
}

static err_t read_mask(const char *text, rle_t *out)
{
    size_t n = strlen(text);
    TRY(mem_grow((int64_t)n, sizeof *out->runs, "runs of a mask", &out->runs));
    return rle_parse(text, n, out->runs, &out->n);
}

static err_t draw_truth(matcher_t *m, const annotation_t *a, rle_t *out)
{
    const truth_image_t *image = m->image;
    if (a->segmentation == SEGMENTATION_NONE)
        RAISE(
            ERR_DATA,
            "annotation %lld (image %lld) has no segmentation, so that masks cannot be scored; score boxes, "
            "or complete the annotations",
            (long long)a->id, (long long)image->id);
    err_t err = mask_encode(a, image->width, image->height, &m->scratch, out);
    return err == ERR_OK
               ? ERR_OK
               : err_context(err, "annotation %lld (image %lld)", (long long)a->id, (long long)image->id);
}

static err_t prepare_masks(matcher_t *m, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        TRY(read_mask(m->detections[i]->mask, &m->masks[i]));
        m->areas[i] = rle_area(&m->masks[i]);
    }
    for (int32_t i = 0; i < m->n_truths; i++) TRY(draw_truth(m, m->truths[i], &m->truth_masks[i]));
    return ERR_OK;
}

/* Masks only where their boxes meet. */
static void measure_masks(matcher_t *m, int32_t n)
{
    double boxes[MATCH_MOST][4], box[4];
    for (int32_t i = 0; i < n; i++) rle_box(&m->masks[i], m->image->width, m->image->height, boxes[i]);
    for (int32_t k = 0; k < m->n_truths; k++) {
        bool crowd = m->truths[k]->crowd;
        rle_box(&m->truth_masks[k], m->image->width, m->image->height, box);
        for (int32_t i = 0; i < n; i++)
            m->iou[i * m->n_truths + k] =
                rle_box_iou(boxes[i], box, crowd) > 0 ? rle_iou(&m->masks[i], &m->truth_masks[k], crowd) : 0;
    }
}

/* IoU of all pairs, and areas. */
static err_t measure(matcher_t *m, int32_t n)
{
    if (m->type == SCORE_SEGM) {
        TRY(prepare_masks(m, n));
        measure_masks(m, n);
    }
    for (int32_t i = 0; i < n; i++) {
        const double *box = m->detections[i]->box;
        if (m->type == SCORE_BBOX || m->box_areas) m->areas[i] = box[2] * box[3];
        for (int32_t k = 0; m->type == SCORE_BBOX && k < m->n_truths; k++)
            m->iou[i * m->n_truths + k] = rle_box_iou(box, m->truths[k]->box, m->truths[k]->crowd);
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

err_t match(matcher_t *m, outcome_t out[MATCH_MOST], int32_t *n_out)
{
    int32_t n = m->n_detections < MATCH_MOST ? (int32_t)m->n_detections : MATCH_MOST;
    if (m->n_detections > 1) qsort(m->detections, (size_t)m->n_detections, sizeof(detection_t *), by_score);
    TRY(reserve_truths(m, n));
    TRY(measure(m, n));
    for (int32_t i = 0; i < n; i++) out[i] = (outcome_t){.score = m->detections[i]->score, .rank = i};
    for (int area = 0; area < MATCH_AREAS; area++) match_area(m, area, n, out);
    *n_out = n;
    return ERR_OK;
}
