/* SPDX-License-Identifier: MIT */
/* What was unusual about a file, in words. */
#include <inttypes.h>
#include <stdio.h>

#include "data/coco/coco.h"

typedef enum list { ANNOTATION, IMAGE, CATEGORY, ANY } list_t;

typedef struct words {
    size_t flaw; /* its offset in coco_flaws_t */
    list_t list; /* of the first one's id */
    coco_effect_t effect;
    const char *one, *several;
} words_t;

#define FLAW(member) offsetof(coco_flaws_t, member)
static const words_t words[] = {
    {FLAW(empty), ANNOTATION, COCO_LEFT_OUT, "annotation without area in its image was skipped",
     "annotations without area in their image were skipped"},
    {FLAW(negative), ANNOTATION, COCO_LEFT_OUT, "annotation with a negative width or height was skipped",
     "annotations with a negative width or height were skipped"},
    {FLAW(duplicates), ANNOTATION, COCO_LEFT_OUT, "annotation that is listed twice, with its id, was skipped",
     "annotations that are listed twice, with their ids, were skipped"},
    {FLAW(ignored), ANNOTATION, COCO_SCORES,
     "annotation has \"ignore\": 1: neither a target nor background in training; scores count it, as pycocotools does",
     "annotations have \"ignore\": 1: neither targets nor background in training; scores count them, as pycocotools "
     "does"},
    {FLAW(cut), ANNOTATION, COCO_TRAINING, "box exceeded its image and was clipped",
     "boxes exceeded their image and were clipped"},
    {FLAW(thin), ANNOTATION, COCO_TRAINING,
     "annotation had polygons of fewer than 3 points, which were skipped",
     "annotations had polygons of fewer than 3 points, which were skipped"},
    {FLAW(no_mask), ANNOTATION, COCO_SCORES,
     "annotation has only polygons of fewer than 3 points: its box is kept, it has no mask",
     "annotations have only polygons of fewer than 3 points: their boxes are kept, they have no mask"},
    {FLAW(loose), ANNOTATION, COCO_SCORES,
     "annotation has a polygon in other brackets, which was taken as one",
     "annotations have a polygon in other brackets, which was taken as one"},
    {FLAW(same_ids), ANNOTATION, COCO_TRAINING,
     "annotation has the id of another and was kept; training needs no ids, scores need one for each",
     "annotations have the id of another and were kept; training needs no ids, scores need one for each"},
    {FLAW(no_ids), ANNOTATION, COCO_TRAINING,
     "annotation has no integer as its id and was kept; training needs no ids, scores need one for each",
     "annotations have no integers as their ids and were kept; training needs no ids, scores need one for each"},
    {FLAW(no_areas), ANNOTATION, COCO_SCORES,
     "annotation has no area; it is the mask's, else the box's: scores by size depend on it",
     "annotations have no area; it is the mask's, else the box's: scores by size depend on it"},
    {FLAW(no_boxes), ANNOTATION, COCO_SCORES, "annotation has no box; it is the one around its mask",
     "annotations have no box; it is the one around their mask"},
    {FLAW(texts), ANY, COCO_SCORES, "element has numbers as strings, which were read",
     "elements have numbers as strings, which were read"},
    {FLAW(no_names), CATEGORY, COCO_SCORES, "category has no name; it is called by its id",
     "categories have no name; they are called by their ids"},
    {FLAW(same_names), CATEGORY, COCO_TRAINING, "category has the name of another; they stay two classes",
     "categories have the name of another; they stay classes of their own"},
    {FLAW(no_files), IMAGE, COCO_TRAINING, "image has no file_name; it is the end of its path or coco_url",
     "images have no file_name; it is the end of their path or coco_url"},
    {FLAW(federated), IMAGE, COCO_SCORES,
     "image has neg_category_ids, as in LVIS; scores are COCO's, not LVIS's",
     "images have neg_category_ids, as in LVIS; scores are COCO's, not LVIS's"},
};

static void tell_flaw(const coco_flaw_t *flaw, const words_t *w, char *out, size_t n_out)
{
    static const char *const lists[] = {
        [ANNOTATION] = "annotation", [IMAGE] = "image", [CATEGORY] = "category", [ANY] = "id"};
    int n = snprintf(out, n_out, "%" PRId64 " %s (first: ", flaw->n, flaw->n == 1 ? w->one : w->several);
    if (n < 0 || (size_t)n >= n_out) return;
    if (w->list == ANNOTATION && flaw->first < ANNOTATION_FIRST_ID)
        snprintf(out + n, n_out - (size_t)n, "annotations[%" PRId64 "])", flaw->first - INT64_MIN);
    else
        snprintf(out + n, n_out - (size_t)n, "%s %" PRId64 ")", lists[w->list], flaw->first);
}

void coco_tell(const coco_t *coco, void *context, coco_listen_t *listen)
{
    if (coco->encoding.gzip) listen(context, COCO_SCORES, "it is compressed by gzip, and was decompressed");
    if (coco->encoding.utf16)
        listen(context, COCO_SCORES, "it is text in UTF-16, and was converted to UTF-8");
    if (coco->encoding.bom)
        listen(context, COCO_SCORES, "it begins with a byte order mark, which was skipped");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const words_t *w = &words[i];
        const coco_flaw_t *flaw = (const coco_flaw_t *)(const void *)((const char *)&coco->flaws + w->flaw);
        char line[256];
        if (flaw->n == 0) continue;
        tell_flaw(flaw, w, line, sizeof line);
        listen(context, w->effect, line);
    }
}
