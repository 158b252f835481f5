/* SPDX-License-Identifier: MIT */
/* What was unusual about a file, in words. */
#include <inttypes.h>
#include <stdio.h>

#include "data/coco/coco.h"

typedef enum list { ANNOTATION, IMAGE, CATEGORY, ANY } list_t;

typedef struct words {
    size_t flaw; /* its offset in coco_flaws_t */
    list_t list; /* of the first one's id */
    const char *one, *several;
} words_t;

/* What was left out comes first. */
#define FLAW(member) offsetof(coco_flaws_t, member)
static const words_t words[] = {
    {FLAW(empty), ANNOTATION, "annotation without area in its image was skipped",
     "annotations without area in their image were skipped"},
    {FLAW(negative), ANNOTATION, "annotation with a negative width or height was skipped",
     "annotations with a negative width or height were skipped"},
    {FLAW(duplicates), ANNOTATION, "annotation that is listed twice, with its id, was skipped",
     "annotations that are listed twice, with their ids, were skipped"},
    {FLAW(ignored), ANNOTATION,
     "annotation has \"ignore\": 1: neither a target nor background in training; scores count it, as pycocotools does",
     "annotations have \"ignore\": 1: neither targets nor background in training; scores count them, as pycocotools "
     "does"},
    {FLAW(cut), ANNOTATION, "box exceeded its image and was clipped",
     "boxes exceeded their image and were clipped"},
    {FLAW(thin), ANNOTATION, "annotation had polygons of fewer than 3 points, which were skipped",
     "annotations had polygons of fewer than 3 points, which were skipped"},
    {FLAW(no_mask), ANNOTATION,
     "annotation has only polygons of fewer than 3 points: its box is kept, it has no mask",
     "annotations have only polygons of fewer than 3 points: their boxes are kept, they have no mask"},
    {FLAW(loose), ANNOTATION, "annotation has a polygon in other brackets, which was taken as one",
     "annotations have a polygon in other brackets, which was taken as one"},
    {FLAW(same_ids), ANNOTATION,
     "annotation has the id of another and was kept; training needs no ids, scores need one for each",
     "annotations have the id of another and were kept; training needs no ids, scores need one for each"},
    {FLAW(no_ids), ANNOTATION,
     "annotation has no integer as its id and was kept; training needs no ids, scores need one for each",
     "annotations have no integers as their ids and were kept; training needs no ids, scores need one for each"},
    {FLAW(no_areas), ANNOTATION,
     "annotation has no area; it is the mask's, else the box's: scores by size depend on it",
     "annotations have no area; it is the mask's, else the box's: scores by size depend on it"},
    {FLAW(no_boxes), ANNOTATION, "annotation has no box; it is the one around its mask",
     "annotations have no box; it is the one around their mask"},
    {FLAW(texts), ANY, "element has numbers as strings, which were read",
     "elements have numbers as strings, which were read"},
    {FLAW(no_names), CATEGORY, "category has no name; it is called by its id",
     "categories have no name; they are called by their ids"},
    {FLAW(same_names), CATEGORY, "category has the name of another; they stay two classes",
     "categories have the name of another; they stay classes of their own"},
    {FLAW(no_files), IMAGE, "image has no file_name; it is the end of its path or coco_url",
     "images have no file_name; it is the end of their path or coco_url"},
    {FLAW(federated), IMAGE, "image has neg_category_ids, as in LVIS; scores are COCO's, not LVIS's",
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

/* Whether scores depend on it: truths are not clipped, and nothing is left out of them. */
static bool concerns_scores(size_t flaw)
{
    static const size_t all[] = {FLAW(ignored),  FLAW(no_mask), FLAW(loose),    FLAW(no_areas),
                                 FLAW(no_boxes), FLAW(texts),   FLAW(no_names), FLAW(federated)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] == flaw) return true;
    return false;
}

static void tell_lines(const coco_t *coco, bool scores, void *context,
                       void (*tell)(void *context, const char *line))
{
    if (coco->encoding.gzip) tell(context, "it is compressed by gzip, and was decompressed");
    if (coco->encoding.utf16) tell(context, "it is text in UTF-16, and was converted to UTF-8");
    if (coco->encoding.bom) tell(context, "it begins with a byte order mark, which was skipped");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const words_t *w = &words[i];
        const coco_flaw_t *flaw = (const coco_flaw_t *)(const void *)((const char *)&coco->flaws + w->flaw);
        char line[256];
        if (flaw->n == 0 || (scores && !concerns_scores(w->flaw))) continue;
        tell_flaw(flaw, w, line, sizeof line);
        tell(context, line);
    }
}

void coco_tell(const coco_t *coco, void *context, void (*tell)(void *context, const char *line))
{
    tell_lines(coco, false, context, tell);
}

void coco_tell_scores(const coco_t *coco, void *context, void (*tell)(void *context, const char *line))
{
    tell_lines(coco, true, context, tell);
}
