/* SPDX-License-Identifier: MIT */
/* Draws category names at their boxes, inside the image and without overlaps. */
#include "data/show/font.h"
#include "data/show/objects.h"
#include "data/show/palette.h"

enum { PAD = 2, HEIGHT = FONT_HEIGHT + PAD, CORNERS = 5, NARROW = 16 };

static const rgb_t dark = {16, 18, 22};

static bool boxes_overlap(page_box_t a, page_box_t b)
{
    return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

static bool is_within(page_box_t inner, page_box_t outer)
{
    return inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width &&
           inner.y + inner.height <= outer.y + outer.height;
}

static bool is_free(const objects_t *o, page_box_t tag)
{
    for (int64_t i = 0; i < o->n_tags; i++)
        if (boxes_overlap(o->tags[i], tag)) return false;
    return true;
}

/* Tries above the box, its upper corners, then its lower ones; shifts a name that would leave the image. */
static bool find_place(const objects_t *o, page_box_t box, int64_t width, page_box_t at, page_box_t *out)
{
    const int64_t right = box.x + box.width - width, foot = box.y + box.height - HEIGHT;
    const page_box_t corners[CORNERS] = {{box.x, box.y - HEIGHT, width, HEIGHT},
                                         {box.x, box.y, width, HEIGHT},
                                         {right, box.y, width, HEIGHT},
                                         {box.x, foot, width, HEIGHT},
                                         {right, foot, width, HEIGHT}};
    for (int i = 0; i < CORNERS; i++) {
        page_box_t tag = corners[i];
        if (tag.x + width > at.x + at.width) tag.x = at.x + at.width - width;
        if (tag.x < at.x) tag.x = at.x;
        if (!is_within(tag, at) || !is_free(o, tag)) continue;
        *out = tag;
        return true;
    }
    return false;
}

/* True for the largest object of its category. */
static bool is_first(const objects_t *o, int64_t number)
{
    for (int64_t i = 0; i < number; i++)
        if (o->order[i]->category == o->order[number]->category) return false;
    return true;
}

void objects_draw_tags(objects_t *o, const objects_image_t *image, page_t *page)
{
    o->n_tags = 0;
    for (int64_t i = 0; i < o->n_order; i++) {
        const annotation_t *a = o->order[i];
        const char *name = image->labels ? image->labels[a - image->sample->annotations]
                                         : image->categories[a->category].name;
        const int64_t width = page_text_width(1, name) + 2 * PAD;
        const page_box_t box = objects_box(image, a->box);
        page_box_t tag;
        const bool roomy = box.width >= width + PAD && box.height >= 2 * HEIGHT;
        if (!roomy && !(is_first(o, i) && box.width + box.height >= NARROW)) continue;
        if (!find_place(o, box, width, image->at, &tag)) continue;
        page_fill(page, tag, palette_colour(a->category));
        page_text(page, tag.x + PAD, tag.y + PAD, (text_style_t){1, dark}, name);
        o->tags[o->n_tags++] = tag;
    }
}
