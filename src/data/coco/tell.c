/* SPDX-License-Identifier: MIT */
/* What was unusual about a file, in words. */
#include <inttypes.h>
#include <stdio.h>

#include "data/coco/coco.h"

typedef struct words {
    size_t flaw; /* its offset in coco_flaws_t */
    const char *one, *several, *what;
} words_t;

#define FLAW(member) offsetof(coco_flaws_t, member)
static const words_t words[] = {
    {FLAW(cut), "box exceeded its image and was clipped", "boxes exceeded their image and were clipped",
     "annotation"},
    {FLAW(empty), "annotation without area in its image was skipped",
     "annotations without area in their image were skipped", "annotation"},
    {FLAW(thin), "annotation had polygons of fewer than 3 points, which were skipped",
     "annotations had polygons of fewer than 3 points, which were skipped", "annotation"},
    {FLAW(duplicates), "annotation with a duplicate id was skipped",
     "annotations with a duplicate id were skipped", "annotation"},
};

void coco_tell(const coco_t *coco, void *context, void (*tell)(void *context, const char *line))
{
    if (coco->encoding.gzip) tell(context, "it is compressed by gzip, and was decompressed");
    if (coco->encoding.utf16) tell(context, "it is text in UTF-16, and was converted to UTF-8");
    if (coco->encoding.bom) tell(context, "it begins with a byte order mark, which was skipped");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const words_t *w = &words[i];
        const coco_flaw_t *flaw = (const coco_flaw_t *)(const void *)((const char *)&coco->flaws + w->flaw);
        char line[256];
        if (flaw->n == 0) continue;
        snprintf(line, sizeof line, "%" PRId64 " %s (first: %s %" PRId64 ")", flaw->n,
                 flaw->n == 1 ? w->one : w->several, w->what, flaw->first);
        tell(context, line);
    }
}
