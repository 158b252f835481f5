/* SPDX-License-Identifier: MIT */
/* Results as bytes: an image's head, then its detections, each followed by the text of its mask. */
#include "train/detect/gather.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "train/task/task.h"

typedef struct head {
    int64_t index, id, n;
} head_t;

typedef struct item {
    double score, box[4];
    int32_t category;
    int32_t n_text; /* bytes that follow */
} item_t;

void gather_free(gather_t *g)
{
    mem_free(&g->bytes);
    mem_free(&g->images);
    mem_free(&g->detections);
    arena_free(&g->masks_text);
}

static err_t append(gather_t *g, const void *from, size_t n)
{
    TRY(mem_grow(g->n_bytes + (int64_t)n, 1, "detections", &g->bytes));
    memcpy(g->bytes + g->n_bytes, from, n);
    g->n_bytes += (int64_t)n;
    return ERR_OK;
}

static err_t append_object(gather_t *g, const detector_object_t *object, int32_t category)
{
    item_t item = {.score = object->score, .category = category};
    const int64_t at = g->n_bytes;
    memcpy(item.box, object->box, sizeof item.box);
    TRY(append(g, &item, sizeof item));
    if (!g->masks) return ERR_OK;
    TRY(mem_grow(g->n_bytes + RLE_TEXT_PER_RUN * (int64_t)object->mask.n + 1, 1, "detections", &g->bytes));
    item.n_text = (int32_t)rle_format(&object->mask, g->bytes + g->n_bytes);
    g->n_bytes += item.n_text;
    memcpy(g->bytes + at, &item, sizeof item);
    return ERR_OK;
}

err_t gather_add(gather_t *g, int64_t index, int64_t id, const detector_result_t *result)
{
    head_t head = {index, id, 0};
    for (int64_t i = 0; i < result->n; i++) head.n += g->map->category[result->objects[i].class] >= 0;
    TRY(append(g, &head, sizeof head));
    for (int64_t i = 0; i < result->n; i++) {
        const int32_t category = g->map->category[result->objects[i].class];
        if (category >= 0) TRY(append_object(g, &result->objects[i], category));
    }
    return ERR_OK;
}

static void take(const char **at, void *to, size_t n)
{
    memcpy(to, *at, n);
    *at += n;
}

static err_t keep_image(gather_t *g, const char **at)
{
    head_t head;
    take(at, &head, sizeof head);
    TRY(mem_grow(g->n_images + 1, sizeof *g->images, "images", &g->images));
    TRY(mem_grow(g->n_detections + head.n, sizeof *g->detections, "detections", &g->detections));
    g->images[g->n_images++] = (gather_image_t){head.index, head.id, g->n_detections, head.n};
    for (int64_t i = 0; i < head.n; i++) {
        detection_t *d = &g->detections[g->n_detections++];
        item_t item;
        take(at, &item, sizeof item);
        *d = (detection_t){.category = item.category, .score = item.score};
        memcpy(d->box, item.box, sizeof d->box);
        if (g->masks) TRY(arena_text(&g->masks_text, *at, (size_t)item.n_text, &d->mask));
        *at += item.n_text;
    }
    return ERR_OK;
}

static err_t keep_all(gather_t *g, const char *bytes, int64_t n_bytes)
{
    for (const char *at = bytes; at < bytes + n_bytes;) TRY(keep_image(g, &at));
    return ERR_OK;
}

err_t gather_exchange(gather_t *g)
{
    char *all = NULL;
    int64_t n_all;
    err_t err = task_gather(g->comm, g->bytes, g->n_bytes, "collecting detections", &all, &n_all);
    g->n_bytes = 0;
    if (err == ERR_OK && g->comm->rank == 0) err = keep_all(g, all, n_all);
    mem_free(&all);
    return err;
}

static int by_id(const void *a, const void *b)
{
    const gather_image_t *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

err_t gather_finish(gather_t *g, const truths_t *truths, results_t **out)
{
    results_t *results = NULL;
    err_t err;
    TRY_OUT(err, results_new(true, g->masks, &results));
    qsort(g->images, (size_t)g->n_images, sizeof *g->images, by_id);
    for (int64_t i = 0; i < g->n_images; i++) {
        const gather_image_t *image = &g->images[i];
        const int32_t row = truths_image(truths, image->id);
        if (row < 0) RAISE_OUT(err, ERR_DATA, "the image %" PRId64 " is not annotated", image->id);
        for (int64_t k = image->first; k < image->first + image->n; k++) {
            g->detections[k].image = row;
            TRY_OUT(err, results_add(results, &g->detections[k]));
        }
    }
    *out = results;
    return ERR_OK;
out:
    results_free(&results);
    return err;
}
