/* SPDX-License-Identifier: MIT */
/* Turns detections into annotations, and draws them over their image. Pixels are left to objects.c. */
#include "data/show/detected.h"

#include <string.h>

#include "data/annotation/mask.h"
#include "data/show/caption.h"
#include "data/show/objects.h"
#include "data/show/single.h"

enum { LINE = 14 };

static err_t set_mask(detected_t *d, const char *text, annotation_t *out)
{
    const size_t n = strlen(text);
    uint32_t *runs;
    TRY(arena_new(&d->memory, (n + 1) * sizeof *runs, &runs));
    TRY(rle_parse(text, n, runs, &out->n_runs));
    out->segmentation = SEGMENTATION_RLE;
    out->runs = runs;
    return ERR_OK;
}

err_t detected_set(detected_t *d, const detection_t *detections, int64_t n, const category_t *categories,
                   double threshold)
{
    arena_reset(&d->memory);
    d->n = 0;
    TRY(arena_new(&d->memory, (size_t)(n + 1) * sizeof *d->annotations, &d->annotations));
    TRY(arena_new(&d->memory, (size_t)(n + 1) * sizeof *d->labels, &d->labels));
    for (int64_t i = 0; i < n; i++) {
        const detection_t *from = &detections[i];
        annotation_t *a = &d->annotations[d->n];
        if (!(from->score >= threshold)) continue;
        *a = (annotation_t){.id = i + 1, .category = from->category, .area = from->box[2] * from->box[3]};
        memcpy(a->box, from->box, sizeof a->box);
        if (from->mask) TRY(set_mask(d, from->mask, a));
        TRY(arena_format(&d->memory, &d->labels[d->n], "%s %.2f", categories[from->category].name,
                         from->score));
        d->n++;
    }
    return ERR_OK;
}

void detected_free(detected_t *d)
{
    arena_free(&d->memory);
    *d = (detected_t){0};
}

err_t detected_draw(const detected_page_t *p, page_t **out)
{
    const image_t *image = p->image;
    const image_info_t info = {.stored_width = image->width,
                               .stored_height = image->height,
                               .orientation = 1,
                               .width = image->width,
                               .height = image->height};
    const sample_t sample = {.name = p->name,
                             .label = -1,
                             .n_annotations = p->detected->n,
                             .annotations = p->detected->annotations};
    objects_image_t over = {
        .info = &info, .sample = &sample, .categories = p->categories, .labels = p->detected->labels};
    objects_t objects = {0};
    TRY(single_page(image, 2 * LINE, &over.at, out));
    err_t err = objects_draw(&objects, &over, *out);
    objects_free(&objects);
    const caption_t caption = {.x = over.at.x,
                               .y = over.at.y + over.at.height + SINGLE_GAP,
                               .width = (*out)->width - 2 * SINGLE_MARGIN,
                               .line = LINE};
    caption_draw(&caption, p->categories, &sample, p->name, *out);
    if (err != ERR_OK) page_free(out);
    return err;
}
