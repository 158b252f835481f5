/* SPDX-License-Identifier: MIT */
/* Draws masks, boxes and crowd hatching onto a page, with 4 × 4 supersampling and EXIF's orientation applied; category
 * names inside the image and without overlaps; and the two lines below: the class, or swatches with the counts of its
 * categories, and the file's name. */
#include "data/show/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/annotation/mask.h"
#include "data/image/orient.h"
#include "data/transform/map.h"

/* Each pixel of the page has SIDE × SIDE samples. */
enum { SIDE = 4, PLACES = SIDE * SIDE, STRIPE = 6, DASH = 4 };

static const rgb_t shade = {16, 18, 22};
static const double fill_share = 0.38, stripe_share = 0.70, gap_share = 0.12, line_share = 0.95,
                    shade_share = 0.45;

void objects_free(objects_t *objects)
{
    mem_free(&objects->mask);
    mem_free(&objects->covered);
    mem_free(&objects->order);
    mem_free(&objects->tags);
    *objects = (objects_t){0};
}

static int64_t clamp_whole(double x, int64_t low, int64_t high)
{
    if (!(x > (double)low)) return low; /* NaN, too */
    return x < (double)high ? (int64_t)x : high;
}

/* Maps a rectangle of the image as stored, extended by `grow` pixels, to whole pixels of the page. */
static page_box_t to_page(const objects_image_t *p, image_rect_t stored, double grow)
{
    const image_info_t *info = p->info;
    const image_rect_t r =
        orient_to_shown(info->orientation, info->stored_width, info->stored_height, stored);
    const double x = (double)p->at.width / (double)info->width,
                 y = (double)p->at.height / (double)info->height;
    const int64_t left = clamp_whole(r.x * x + 0.5 - grow, 0, p->at.width - 1);
    const int64_t top = clamp_whole(r.y * y + 0.5 - grow, 0, p->at.height - 1);
    const int64_t right = clamp_whole((r.x + r.width) * x + 0.5 + grow, left + 1, p->at.width);
    const int64_t foot = clamp_whole((r.y + r.height) * y + 0.5 + grow, top + 1, p->at.height);
    return (page_box_t){p->at.x + left, p->at.y + top, right - left, foot - top};
}

page_box_t objects_box(const objects_image_t *image, const double box[4])
{
    return to_page(image, (image_rect_t){box[0], box[1], box[2], box[3]}, 0);
}

/* The mask's bounding box; false if it is empty. */
static bool find_mask(const uint8_t *mask, int64_t width, int64_t height, image_rect_t *out)
{
    int64_t left = width, right = 0, top = height, foot = 0;
    for (int64_t y = 0; y < height; y++) {
        const uint8_t *row = mask + y * width, *first = memchr(row, 1, (size_t)width);
        if (!first) continue;
        if (top == height) top = y;
        foot = y + 1;
        if (first - row < left) left = first - row;
        for (int64_t x = width; x > right; x--)
            if (row[x - 1]) right = x;
    }
    *out = (image_rect_t){(double)left, (double)top, (double)(right - left), (double)(foot - top)};
    return right > 0;
}

static bool is_inside(const objects_t *o, page_box_t part, int64_t x, int64_t y)
{
    return x >= 0 && y >= 0 && x < part.width && y < part.height &&
           o->covered[y * part.width + x] >= PLACES / 2;
}

static void lay_mask(const objects_t *o, page_box_t part, bool crowd, rgb_t colour, page_t *page)
{
    for (int64_t y = 0; y < part.height; y++)
        for (int64_t x = 0; x < part.width; x++) {
            const bool edge =
                is_inside(o, part, x, y) && !(is_inside(o, part, x - 1, y) && is_inside(o, part, x + 1, y) &&
                                              is_inside(o, part, x, y - 1) && is_inside(o, part, x, y + 1));
            const int64_t across = (part.x + x + part.y + y) % STRIPE;
            double share = !crowd ? fill_share : across < STRIPE / 2 ? stripe_share : gap_share;
            share = edge ? line_share : share * o->covered[y * part.width + x] / PLACES;
            page_mix(page, (page_box_t){part.x + x, part.y + y, 1, 1}, colour, share);
        }
}

static err_t draw_mask(objects_t *o, const objects_image_t *p, const annotation_t *a, page_t *page)
{
    const int64_t width = p->info->stored_width, height = p->info->stored_height;
    image_rect_t where;
    if (a->segmentation == SEGMENTATION_NONE) return ERR_OK;
    if (width > INT32_MAX || height > INT32_MAX || width > MASK_MAX_PIXELS / height)
        RAISE(ERR_DATA, "the image has too many pixels for a mask");
    TRY(mem_grow(width * height, 1, "a mask", &o->mask));
    TRY(mask_draw(a, (int32_t)width, (int32_t)height, o->mask));
    if (!find_mask(o->mask, width, height, &where)) return ERR_OK;
    const page_box_t part = to_page(p, where, 1);
    TRY(mem_grow(p->at.width * p->at.height, 1, "a mask", &o->covered));
    /* Counts the samples of the page's pixels that are in the mask. */
    const double x = (double)p->info->width / (double)p->at.width,
                 y = (double)p->info->height / (double)p->at.height;
    const image_rect_t shown = {(double)(part.x - p->at.x) * x, (double)(part.y - p->at.y) * y,
                                (double)part.width * x, (double)part.height * y};
    const map_t stored = map_orient(p->info->orientation, (map_size_t){height, width});
    const map_t crop = map_crop(stored.out, shown, (map_size_t){part.height, part.width},
                                (image_rect_t){0, 0, (double)part.width, (double)part.height}, false);
    const map_t map = map_compose(&crop, &stored);
    warp_mask(&map, o->mask, SIDE, o->covered);
    lay_mask(o, part, a->crowd, palette_colour(a->category), page);
    return ERR_OK;
}

/* One side of a frame, one pixel wide. */
static void draw_side(page_t *page, page_box_t side, bool dashed, rgb_t colour)
{
    const int64_t n = side.width > side.height ? side.width : side.height;
    for (int64_t i = 0; i < n; i++) {
        const bool flat = side.width > side.height;
        const page_box_t dot = {side.x + (flat ? i : 0), side.y + (flat ? 0 : i), 1, 1};
        if (dashed && i / DASH % 2 == 1)
            page_mix(page, dot, shade, shade_share);
        else
            page_mix(page, dot, colour, line_share);
    }
}

static void draw_frame(const objects_image_t *p, const annotation_t *a, page_t *page)
{
    const page_box_t b = objects_box(p, a->box);
    const rgb_t colour = palette_colour(a->category);
    draw_side(page, (page_box_t){b.x, b.y, b.width, 1}, a->crowd, colour);
    if (b.height > 1) draw_side(page, (page_box_t){b.x, b.y + b.height - 1, b.width, 1}, a->crowd, colour);
    if (b.height > 2) {
        draw_side(page, (page_box_t){b.x, b.y + 1, 1, b.height - 2}, a->crowd, colour);
        if (b.width > 1)
            draw_side(page, (page_box_t){b.x + b.width - 1, b.y + 1, 1, b.height - 2}, a->crowd, colour);
    }
}

static int by_size(const void *a, const void *b)
{
    const annotation_t *x = *(const annotation_t *const *)a, *y = *(const annotation_t *const *)b;
    const double p = x->box[2] * x->box[3], q = y->box[2] * y->box[3];
    if (x->crowd != y->crowd) return x->crowd ? -1 : 1; /* crowds are drawn first */
    return p != q ? (p > q ? -1 : 1) : (x > y) - (x < y);
}

enum { PAD = 2, HEIGHT = FONT_HEIGHT + PAD, CORNERS = 5, NARROW = 16 };

static bool is_free(const objects_t *o, page_box_t tag)
{
    for (int64_t i = 0; i < o->n_tags; i++)
        if (o->tags[i].x < tag.x + tag.width && tag.x < o->tags[i].x + o->tags[i].width &&
            o->tags[i].y < tag.y + tag.height && tag.y < o->tags[i].y + o->tags[i].height)
            return false;
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
        const bool inside = tag.x >= at.x && tag.y >= at.y && tag.x + tag.width <= at.x + at.width &&
                            tag.y + tag.height <= at.y + at.height;
        if (!inside || !is_free(o, tag)) continue;
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

/* A name goes to a corner of its box where it is within the image and covers no other name. The largest object of each
 * category gets a name; the others do if their box is larger than the name. */
static void draw_tags(objects_t *o, const objects_image_t *image, page_t *page)
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
        page_text(page, tag.x + PAD, tag.y + PAD, (text_style_t){1, shade}, name);
        o->tags[o->n_tags++] = tag;
    }
}

err_t objects_draw(objects_t *o, const objects_image_t *image, page_t *page)
{
    err_info_t failure = {.code = ERR_OK};
    ASSERT(image->at.width > 0 && image->at.height > 0);
    const sample_t *sample = image->sample;
    const annotation_t **all = NULL;
    if (!o->order) TRY(mem_new_array(OBJECTS_MAX, sizeof(annotation_t *), "objects", &o->order));
    if (!o->tags) TRY(mem_new_array(OBJECTS_MAX, sizeof *o->tags, "names of objects", &o->tags));
    TRY(mem_new_array(sample->n_annotations, sizeof(annotation_t *), "objects", &all));
    for (int32_t i = 0; i < sample->n_annotations; i++) all[i] = &sample->annotations[i];
    qsort(all, (size_t)sample->n_annotations, sizeof(annotation_t *), by_size);
    o->n_order = sample->n_annotations < OBJECTS_MAX ? sample->n_annotations : OBJECTS_MAX;
    for (int64_t i = 0; i < o->n_order; i++) o->order[i] = all[i];
    mem_free(&all);
    for (int64_t i = 0; i < o->n_order; i++) {
        err_t err = draw_mask(o, image, o->order[i], page);
        if (err != ERR_OK && err != ERR_DATA) return err;
        if (err == ERR_OK || failure.code != ERR_OK) continue;
        err = err_context(err, "the image %s, annotation %lld", image->sample->name,
                          (long long)o->order[i]->id);
        err_take(err, &failure);
    }
    for (int64_t i = 0; i < o->n_order; i++) draw_frame(image, o->order[i], page);
    draw_tags(o, image, page);
    return failure.code == ERR_OK ? ERR_OK : err_put(&failure);
}

enum { SWATCH = 7, SPACE = 4, BETWEEN = 9, TEXT_MAX = 512, MOST_COUNTS = 64 };

static const rgb_t ink = {32, 36, 42}, faint = {100, 106, 114};

typedef struct count {
    int32_t category, n;
} count_t;

void caption_fitting(page_t *page, int64_t x, int64_t y, int64_t room, text_style_t style, const char *text)
{
    const char *spelled;
    int64_t over = page_text_width(style.scale, text) - room;
    if (room < 4 * FONT_ADVANCE * style.scale - style.scale) return;
    if (over > 0) {
        over += 3 * FONT_ADVANCE * style.scale;
        while (*text && over > 0) over -= font_spell(&text, &spelled) * FONT_ADVANCE * style.scale;
        x = page_text(page, x, y, style, "...");
    }
    page_text(page, x, y, style, text);
}

/* Sorted by count, then by category. */
static int count_objects(const sample_t *sample, count_t *counts)
{
    int n = 0;
    for (int32_t i = 0; i < sample->n_annotations; i++) {
        const int32_t category = sample->annotations[i].category;
        int k = 0;
        while (k < n && counts[k].category != category) k++;
        if (k == MOST_COUNTS) continue;
        if (k == n) counts[n++] = (count_t){category, 0};
        counts[k].n++;
    }
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0; k--) {
            const count_t a = counts[k - 1], b = counts[k];
            if (a.n > b.n || (a.n == b.n && a.category < b.category)) break;
            counts[k - 1] = b, counts[k] = a;
        }
    return n;
}

/* Draws whole entries only; "+3" stands for those that do not fit. */
static void draw_counts(const caption_t *c, const category_t *categories, const count_t *counts, int n,
                        page_t *page)
{
    int64_t x = c->x;
    const int64_t end = c->x + c->width;
    char text[TEXT_MAX];
    for (int i = 0; i < n; i++) {
        const char *name = categories[counts[i].category].name;
        snprintf(text, sizeof text, counts[i].n > 1 ? "%s %" PRId32 : "%s", name, counts[i].n);
        const int64_t width = SWATCH + SPACE + page_text_width(1, text);
        /* Room for the "+3" that follows, unless it is the last. */
        const int64_t rest = i + 1 < n ? BETWEEN + 3 * FONT_ADVANCE : 0;
        if (x + width + rest > end) {
            snprintf(text, sizeof text, i > 0 ? "+%d" : "%d categories", n - i);
            caption_fitting(page, x, c->y, end - x, (text_style_t){1, faint}, text);
            return;
        }
        page_fill(page, (page_box_t){x, c->y, SWATCH, SWATCH}, palette_colour(counts[i].category));
        page_text(page, x + SWATCH + SPACE, c->y, (text_style_t){1, ink}, text);
        x += width + BETWEEN;
    }
}

void caption_draw(const caption_t *c, const category_t *categories, const sample_t *sample, const char *text,
                  page_t *page)
{
    count_t counts[MOST_COUNTS];
    if (sample->label >= 0) {
        const char *class = categories[sample->label].name;
        caption_fitting(page, c->x + 1, c->y, c->width - 1, (text_style_t){1, ink}, class); /* twice: bold */
        caption_fitting(page, c->x, c->y, c->width - 1, (text_style_t){1, ink}, class);
    } else if (sample->n_annotations == 0) {
        caption_fitting(page, c->x, c->y, c->width, (text_style_t){1, faint}, "no objects");
    } else {
        draw_counts(c, categories, counts, count_objects(sample, counts), page);
    }
    caption_fitting(page, c->x, c->y + c->line, c->width, (text_style_t){1, faint}, text);
}
