/* SPDX-License-Identifier: MIT */
/* Shrinks one image and maps its boxes, polygons and RLE masks accordingly. Images that are small enough pass
 * through unchanged. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/annotation/mask.h"
#include "data/image/image.h"
#include "data/image/orient.h"
#include "data/image/resize.h"
#include "data/source/source.h"
#include "tools/pack/parts.h"

struct pack_resizer {
    int64_t shorter_side, quality;
    image_decoder_t *decoder;
    resize_scratch_t scratch;
    uint8_t *rgb, *mask, *small_mask, *encoded; /* small_mask: column by column, as in RLE */
    arena_t arena;                              /* annotations */
};

/* Maps coordinates of the stored image to the new one: x' = m[0] x + m[1] y + m[2], y' likewise from m[3].
 * transform/map.h works about the centres and would round differently. */
typedef struct shrink {
    double m[6];
    int64_t width, height; /* of the new image */
} shrink_t;

err_t pack_resizer_new(int64_t shorter_side, int64_t quality, pack_resizer_t **out)
{
    pack_resizer_t *r;
    TRY(mem_new(sizeof *r, "resizing images", &r));
    r->shorter_side = shorter_side;
    r->quality = quality;
    err_t err = image_decoder_new((image_limits_t){0}, &r->decoder);
    if (err == ERR_OK)
        *out = r;
    else
        pack_resizer_free(&r);
    return err;
}

void pack_resizer_free(pack_resizer_t **resizer)
{
    pack_resizer_t *r = *resizer;
    if (!r) return;
    image_decoder_free(&r->decoder);
    resize_scratch_free(&r->scratch);
    mem_free(&r->rgb);
    mem_free(&r->mask);
    mem_free(&r->small_mask);
    mem_free(&r->encoded);
    arena_free(&r->arena);
    mem_free(resizer);
}

static int64_t scale_side(int64_t n, double factor)
{
    int64_t to = (int64_t)floor((double)n * factor + 0.5);
    return to < 1 ? 1 : to > RESIZE_MAX ? RESIZE_MAX : to;
}

/* The orientation, whose matrix is read off the origin and the unit vectors, then the scale. */
static shrink_t shrink_make(const image_info_t *info, int64_t width, int64_t height)
{
    image_rect_t to[3]; /* of (0, 0), (1, 0) and (0, 1) */
    for (int i = 0; i < 3; i++)
        to[i] = orient_to_shown(info->orientation, info->stored_width, info->stored_height,
                                (image_rect_t){.x = i == 1, .y = i == 2});
    const double x = (double)width / (double)info->width, y = (double)height / (double)info->height;
    return (shrink_t){.m = {(to[1].x - to[0].x) * x, (to[2].x - to[0].x) * x, to[0].x * x,
                            (to[1].y - to[0].y) * y, (to[2].y - to[0].y) * y, to[0].y * y},
                      .width = width,
                      .height = height};
}

static void shrink_point(const shrink_t *shrink, double x, double y, double out[2])
{
    const double *m = shrink->m;
    out[0] = m[0] * x + m[1] * y + m[2];
    out[1] = m[3] * x + m[4] * y + m[5];
}

static void shrink_box(const shrink_t *shrink, const double box[4], double out[4])
{
    double a[2], b[2];
    shrink_point(shrink, box[0], box[1], a);
    shrink_point(shrink, box[0] + box[2], box[1] + box[3], b);
    out[0] = fmin(a[0], b[0]);
    out[1] = fmin(a[1], b[1]);
    out[2] = fabs(a[0] - b[0]);
    out[3] = fabs(a[1] - b[1]);
}

static err_t shrink_polygons(pack_resizer_t *r, const shrink_t *shrink, const annotation_t *in,
                             annotation_t *out)
{
    size_t n = 0;
    float *points;
    for (int32_t i = 0; i < in->n_polygons; i++) n += (size_t)in->n_points[i];
    TRY(arena_new(&r->arena, 2 * n * sizeof *points, &points));
    for (size_t i = 0; i < n; i++) {
        double to[2];
        shrink_point(shrink, in->points[2 * i], in->points[2 * i + 1], to);
        points[2 * i] = (float)to[0];
        points[2 * i + 1] = (float)to[1];
    }
    out->points = points;
    out->exact = NULL; /* from now on these are the source's */
    return ERR_OK;
}

/* Samples the mask at the centre of the new image's pixel (column, row), by the inverse of shrink_point. */
static uint8_t mask_at(const pack_resizer_t *r, const shrink_t *shrink, const sample_t *in, int64_t column,
                       int64_t row)
{
    const double *m = shrink->m;
    double det = m[0] * m[4] - m[1] * m[3];
    double x = (double)column + 0.5 - m[2], y = (double)row + 0.5 - m[5];
    int64_t i = (int64_t)floor((m[4] * x - m[1] * y) / det), j = (int64_t)floor((m[0] * y - m[3] * x) / det);
    i = i < 0 ? 0 : i >= in->width ? in->width - 1 : i;
    j = j < 0 ? 0 : j >= in->height ? in->height - 1 : j;
    return r->mask[j * in->width + i] != 0;
}

static err_t shrink_rle(pack_resizer_t *r, const shrink_t *shrink, const sample_t *in,
                        const annotation_t *from, annotation_t *out)
{
    TRY(mem_grow((int64_t)in->width * in->height, 1, "a mask", &r->mask));
    TRY(mask_draw(from, in->width, in->height, r->mask));
    int64_t n_pixels = shrink->width * shrink->height, n = 1, i = 0;
    TRY(mem_grow(n_pixels, 1, "a mask", &r->small_mask));
    uint8_t *small = r->small_mask, now = 0;
    for (int64_t x = 0; x < shrink->width; x++)
        for (int64_t y = 0; y < shrink->height; y++, i++) {
            small[i] = mask_at(r, shrink, in, x, y);
            n += small[i] != now;
            now = small[i];
        }
    uint32_t *runs;
    TRY(arena_new(&r->arena, (size_t)n * sizeof *runs, &runs));
    memset(runs, 0, (size_t)n * sizeof *runs);
    out->runs = runs;
    out->n_runs = (int32_t)n;
    now = 0;
    for (i = 0; i < n_pixels; now = small[i++]) {
        runs += small[i] != now;
        ++*runs;
    }
    return ERR_OK;
}

/* `list`: annotations or truths of `in`. */
static err_t shrink_list(pack_resizer_t *r, const shrink_t *shrink, const sample_t *in, int32_t n,
                         const annotation_t **list)
{
    const annotation_t *all = *list;
    annotation_t *to = NULL;
    double area = fabs(shrink->m[0] * shrink->m[4] - shrink->m[1] * shrink->m[3]);
    if (n > 0) TRY(arena_new(&r->arena, (size_t)n * sizeof *to, &to));
    for (int32_t i = 0; i < n; i++) {
        const annotation_t *from = &all[i];
        to[i] = *from;
        to[i].area = from->area * area;
        shrink_box(shrink, from->box, to[i].box);
        if (from->segmentation == SEGMENTATION_POLYGONS) TRY(shrink_polygons(r, shrink, from, &to[i]));
        if (from->segmentation == SEGMENTATION_RLE) TRY(shrink_rle(r, shrink, in, from, &to[i]));
    }
    *list = to;
    return ERR_OK;
}

err_t pack_resize(pack_resizer_t *r, const sample_t *in, sample_t *out)
{
    image_info_t info;
    image_t image;
    const image_bytes_t bytes = {in->name, in->bytes, in->n_bytes};
    *out = *in;
    arena_reset(&r->arena);
    mem_free(&r->encoded);
    TRY(source_info(in, in->name, &info));
    if (info.stored_width != in->width || info.stored_height != in->height)
        RAISE(ERR_DATA, "the image %s is %lld×%lld, but its annotations are for %d×%d", in->name,
              (long long)info.stored_width, (long long)info.stored_height, in->width, in->height);
    int64_t shorter = info.width < info.height ? info.width : info.height,
            longer = info.width + info.height - shorter;
    if (shorter <= r->shorter_side) return ERR_OK;
    double factor = fmin((double)r->shorter_side / (double)shorter, (double)RESIZE_MAX / (double)longer);
    const int64_t width = scale_side(info.width, factor), height = scale_side(info.height, factor);
    const shrink_t shrink = shrink_make(&info, width, height);
    TRY(mem_grow(width * height, 3, "an image", &r->rgb));
    TRY(image_decode(r->decoder, bytes, &image));
    const image_rect_t all = {0, 0, (double)image.width, (double)image.height};
    TRY(resize(&image, all, false, width, height, &r->scratch, r->rgb));
    const image_t small = {width, height, r->rgb};
    if (info.format == IMAGE_PNG)
        TRY(image_encode_png(r->rgb, width, height, 3, &r->encoded, &out->n_bytes));
    else
        TRY(image_encode_jpeg(&small, (int)r->quality, &r->encoded, &out->n_bytes));
    out->bytes = r->encoded;
    out->width = (int32_t)width;
    out->height = (int32_t)height;
    out->shown = false; /* it has no orientation any more */
    TRY(shrink_list(r, &shrink, in, in->n_annotations, &out->annotations));
    return shrink_list(r, &shrink, in, in->n_truths, &out->truths);
}
