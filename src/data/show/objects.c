/* SPDX-License-Identifier: MIT */
/* Draws masks, boxes and crowd hatching onto a page, with 4 × 4 supersampling and EXIF's orientation applied.
 * objects_tags.c draws names. */
#include "data/show/objects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/annotation/mask.h"
#include "data/image/orient.h"
#include "data/show/palette.h"
#include "data/transform/warp.h"

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

/* Counts the samples of the page's pixels that are in the mask. */
static void cover_mask(const objects_t *o, const objects_image_t *p, page_box_t part)
{
    const image_info_t *info = p->info;
    const double x = (double)info->width / (double)p->at.width,
                 y = (double)info->height / (double)p->at.height;
    const image_rect_t shown = {(double)(part.x - p->at.x) * x, (double)(part.y - p->at.y) * y,
                                (double)part.width * x, (double)part.height * y};
    const map_t stored = map_orient(info->orientation, (map_size_t){info->stored_height, info->stored_width});
    const map_t crop = map_crop(stored.out, shown, (map_size_t){part.height, part.width},
                                (image_rect_t){0, 0, (double)part.width, (double)part.height}, false);
    const map_t map = map_compose(&crop, &stored);
    warp_mask(&map, o->mask, SIDE, o->covered);
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
    cover_mask(o, p, part);
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

static err_t put_in_order(objects_t *o, const sample_t *sample)
{
    const annotation_t **all = NULL;
    if (!o->order) TRY(mem_new_array(OBJECTS_MAX, sizeof(annotation_t *), "objects", &o->order));
    if (!o->tags) TRY(mem_new_array(OBJECTS_MAX, sizeof *o->tags, "names of objects", &o->tags));
    TRY(mem_new_array(sample->n_annotations, sizeof(annotation_t *), "objects", &all));
    for (int32_t i = 0; i < sample->n_annotations; i++) all[i] = &sample->annotations[i];
    qsort(all, (size_t)sample->n_annotations, sizeof(annotation_t *), by_size);
    o->n_order = sample->n_annotations < OBJECTS_MAX ? sample->n_annotations : OBJECTS_MAX;
    for (int64_t i = 0; i < o->n_order; i++) o->order[i] = all[i];
    mem_free(&all);
    return ERR_OK;
}

err_t objects_draw(objects_t *o, const objects_image_t *image, page_t *page)
{
    err_info_t failure = {.code = ERR_OK};
    ASSERT(image->at.width > 0 && image->at.height > 0);
    TRY(put_in_order(o, image->sample));
    for (int64_t i = 0; i < o->n_order; i++) {
        err_t err = draw_mask(o, image, o->order[i], page);
        if (err != ERR_OK && err != ERR_DATA) return err;
        if (err == ERR_OK || failure.code != ERR_OK) continue;
        err = err_context(err, "the image %s, annotation %lld", image->sample->name,
                          (long long)o->order[i]->id);
        err_take(err, &failure);
    }
    for (int64_t i = 0; i < o->n_order; i++) draw_frame(image, o->order[i], page);
    objects_draw_tags(o, image, page);
    return failure.code == ERR_OK ? ERR_OK : err_put(&failure);
}
