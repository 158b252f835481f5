/* SPDX-License-Identifier: MIT */
/* Results in memory, and writing them. results_read.c reads them. */
#include "data/score/results.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"

const char *const score_type_names[SCORE_TYPE_COUNT] = {"bbox", "segm"};

err_t results_new(bool boxes, bool masks, results_t **out)
{
    results_t *results = NULL;
    TRY(mem_new(sizeof *results, "results", &results));
    results->has[SCORE_BBOX] = boxes;
    results->has[SCORE_SEGM] = masks;
    *out = results;
    return ERR_OK;
}

void results_free(results_t **results)
{
    if (!*results) return;
    mem_free(&(*results)->detections);
    arena_free(&(*results)->texts);
    mem_free(results);
}

err_t results_add(results_t *results, const detection_t *detection)
{
    const char *mask = NULL;
    TRY(mem_grow(results->n + 1, sizeof *detection, "results", &results->detections));
    if (results->has[SCORE_SEGM])
        TRY(arena_text(&results->texts, detection->mask, strlen(detection->mask), &mask));
    results->detections[results->n] = *detection;
    results->detections[results->n++].mask = mask;
    return ERR_OK;
}

static void write_box(json_t *j, const double box[4])
{
    json_array_begin(j, "bbox");
    for (int i = 0; i < 4; i++) json_real(j, NULL, box[i]);
    json_array_end(j);
}

static void write_mask(json_t *j, const truth_image_t *image, const char *mask)
{
    json_object_begin(j, "segmentation");
    json_array_begin(j, "size");
    json_int(j, NULL, image->height);
    json_int(j, NULL, image->width);
    json_array_end(j);
    json_string(j, "counts", mask);
    json_object_end(j);
}

err_t results_write(const results_t *results, const truths_t *truths, score_type_t type, const char *path)
{
    json_t j = {0};
    ASSERT(results->has[type]);
    json_array_begin(&j, NULL);
    for (int64_t i = 0; i < results->n && j.status == ERR_OK; i++) {
        const detection_t *d = &results->detections[i];
        const truth_image_t *image = &truths->images[d->image];
        json_object_begin(&j, NULL);
        json_int(&j, "image_id", image->id);
        json_int(&j, "category_id", truths->categories[d->category].id);
        if (type == SCORE_BBOX)
            write_box(&j, d->box);
        else
            write_mask(&j, image, d->mask);
        json_real(&j, "score", d->score);
        json_object_end(&j);
    }
    json_array_end(&j);
    err_t err = json_write_file(&j, path);
    json_free(&j);
    return err;
}
