/* SPDX-License-Identifier: MIT */
/* Applies a transform to decoded pixels: either resizes them, or resizes and then warps them. */
#include "data/transform/render.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/transform/warp.h"

void render_scratch_free(render_scratch_t *scratch)
{
    resize_scratch_free(&scratch->resize);
    mem_free(&scratch->rgb);
}

/* Extends [*from, *from + *length) by one step on each side, to whole pixels within [low, high), at least
 * one. Returns its length in steps. */
static int64_t cut_out(double *from, double *length, double step, double low, double high)
{
    const double first = fmin(fmax(floor(*from - step), low), high - 1);
    const double end = fmin(fmax(ceil(*from + *length + step), first + 1), high);
    const double n = ceil((end - first) / step);
    *from = first;
    *length = end - first;
    return n < RESIZE_MAX ? (int64_t)n : RESIZE_MAX;
}

/* The length in the image of one pixel of the square, at least a pixel. */
static double step_of(double along, double across)
{
    return fmax(hypot(along, across), 1);
}

render_window_t render_window(const transform_t *t, map_size_t image)
{
    if (!t->moved) return (render_window_t){t->part, t->width, t->height};
    const map_t map = transform_map(t, image);
    const double *m = map.affine.matrix, size = (double)t->size;
    render_window_t w = {.part = map_box(&map, (image_rect_t){0, 0, size, size})};
    image_rect_t all = {0, 0, (double)image.width, (double)image.height};
    if (t->bordered) all = t->part;
    const double right = fmin(ceil(all.x + all.width), (double)image.width),
                 foot = fmin(ceil(all.y + all.height), (double)image.height);
    w.width = cut_out(&w.part.x, &w.part.width, step_of(m[3], m[2]), floor(all.x), right);
    w.height = cut_out(&w.part.y, &w.part.height, step_of(m[0], m[1]), floor(all.y), foot);
    return w;
}

static void put_in_square(const transform_t *t, const uint8_t *inner, uint8_t *rgb)
{
    const int64_t size = t->size;
    memset(rgb, TRANSFORM_GREY, (size_t)(3 * size * size));
    for (int64_t y = 0; y < t->height; y++)
        memcpy(rgb + 3 * ((t->top + y) * size + t->left), inner + 3 * y * t->width, (size_t)(3 * t->width));
}

static err_t render_resized(const transform_t *t, const image_t *decoded, image_rect_t place,
                            render_scratch_t *scratch, uint8_t *rgb)
{
    bool whole = t->width == t->size && t->height == t->size;
    if (!whole) TRY(mem_grow(t->width * t->height, 3, "an image", &scratch->rgb));
    uint8_t *to = whole ? rgb : scratch->rgb;
    TRY(resize(decoded, place, t->mirror, t->width, t->height, &scratch->resize, to));
    jitter_apply(&t->jitter, to, t->width * t->height, 3);
    if (!whole) put_in_square(t, to, rgb);
    return ERR_OK;
}

/* Draws grey where the map leaves the part. */
static void put_borders(const transform_t *t, const map_t *map, uint8_t *rgb)
{
    const image_rect_t part = t->part;
    for (int64_t i = 0; i < t->size; i++)
        for (int64_t j = 0; j < t->size; j++, rgb += 3) {
            const map_point_t p = map_point(map, (double)j + 0.5, (double)i + 0.5);
            if (p.x < part.x || p.y < part.y || p.x >= part.x + part.width || p.y >= part.y + part.height)
                memset(rgb, TRANSFORM_GREY, 3);
        }
}

static err_t render_warped(const transform_t *t, map_size_t size, const image_t *decoded, image_rect_t place,
                           render_scratch_t *scratch, uint8_t *rgb)
{
    const render_window_t w = render_window(t, size);
    const map_size_t window = {w.height, w.width};
    const image_rect_t whole = {0, 0, (double)w.width, (double)w.height};
    const map_t map = transform_map(t, size), crop = map_crop(window, whole, size, w.part, false);
    const map_t to_window = map_compose(&map, &crop);
    TRY(mem_grow(w.width * w.height, 3, "an image", &scratch->rgb));
    TRY(resize(decoded, place, false, w.width, w.height, &scratch->resize, scratch->rgb));
    warp_rgb(&to_window, scratch->rgb, rgb);
    jitter_apply(&t->jitter, rgb, t->size * t->size, 3);
    if (t->bordered) put_borders(t, &map, rgb);
    return ERR_OK;
}

err_t render(const transform_t *t, map_size_t size, const image_t *decoded, image_rect_t place,
             render_scratch_t *scratch, uint8_t *rgb)
{
    if (t->moved) return render_warped(t, size, decoded, place, scratch, rgb);
    return render_resized(t, decoded, place, scratch, rgb);
}
