/* SPDX-License-Identifier: MIT */
/* Shrinks one image and maps its boxes, polygons and RLE masks along. Images that are small enough pass
 * through unchanged. */
#include "tools/pack/resize.h"

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "data/annotation/mask.h"
#include "data/image/encode.h"
#include "data/image/resize.h"

struct pack_resizer {
    int64_t shorter_side, quality;
    image_decoder_t *decoder;
    resize_scratch_t scratch;
    uint8_t *rgb, *mask, *small_mask, *encoded; /* small_mask: down the columns from the left, as runs go */
    size_t n_rgb, n_mask, n_small_mask;
    arena_t arena; /* annotations */
};

/* From coordinates of the stored image to those of the new one: x' = m[0] x + m[1] y + m[2], y' likewise
 * from m[3]. */
typedef struct map {
    double m[6];
    int64_t width, height; /* of the new image */
} map_t;

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

static int64_t scaled(int64_t n, double factor)
{
    int64_t to = (int64_t)floor((double)n * factor + 0.5);
    return to < 1 ? 1 : to > RESIZE_MAX ? RESIZE_MAX : to;
}

/* What EXIF's orientation does to a point of a stored image of w × h, then the scale to the new one. The
 * orientations: 1 as it is, 2 mirrored, 3 half a turn, 4 upside down mirrored, 5 transposed, 6 to be turned
 * right, 7 transposed along the other diagonal, 8 to be turned left (CIPA DC-008, Orientation). */
static map_t make_map(const image_info_t *info, int64_t width, int64_t height)
{
    double w = (double)info->stored_width, h = (double)info->stored_height;
    const double shown[9][6] = {
        [1] = {1, 0, 0, 0, 1, 0},   [2] = {-1, 0, w, 0, 1, 0}, [3] = {-1, 0, w, 0, -1, h},
        [4] = {1, 0, 0, 0, -1, h},  [5] = {0, 1, 0, 1, 0, 0},  [6] = {0, -1, h, 1, 0, 0},
        [7] = {0, -1, h, -1, 0, w}, [8] = {0, 1, 0, -1, 0, w},
    };
    map_t map = {.width = width, .height = height};
    double x = (double)width / (double)info->width, y = (double)height / (double)info->height;
    int orientation = info->orientation >= 1 && info->orientation <= 8 ? info->orientation : 1;
    for (int i = 0; i < 6; i++) map.m[i] = shown[orientation][i] * (i < 3 ? x : y);
    return map;
}

static void apply(const map_t *map, double x, double y, double out[2])
{
    const double *m = map->m;
    out[0] = m[0] * x + m[1] * y + m[2];
    out[1] = m[3] * x + m[4] * y + m[5];
}

/* The point of the stored image that is at (x, y) of the new one. */
static void unapply(const map_t *map, double x, double y, double out[2])
{
    const double *m = map->m;
    double det = m[0] * m[4] - m[1] * m[3];
    x -= m[2];
    y -= m[5];
    out[0] = (m[4] * x - m[1] * y) / det;
    out[1] = (m[0] * y - m[3] * x) / det;
}

static void map_box(const map_t *map, const double box[4], double out[4])
{
    double a[2], b[2];
    apply(map, box[0], box[1], a);
    apply(map, box[0] + box[2], box[1] + box[3], b);
    out[0] = fmin(a[0], b[0]);
    out[1] = fmin(a[1], b[1]);
    out[2] = fabs(a[0] - b[0]);
    out[3] = fabs(a[1] - b[1]);
}

static err_t map_points(pack_resizer_t *r, const map_t *map, const annotation_t *in, annotation_t *out)
{
    size_t n = 0;
    float *points;
    for (int32_t i = 0; i < in->n_polygons; i++) n += (size_t)in->n_points[i];
    TRY(arena_new(&r->arena, 2 * n * sizeof *points, &points));
    for (size_t i = 0; i < n; i++) {
        double to[2];
        apply(map, in->points[2 * i], in->points[2 * i + 1], to);
        points[2 * i] = (float)to[0];
        points[2 * i + 1] = (float)to[1];
    }
    out->points = points;
    return ERR_OK;
}

static err_t make_room(uint8_t **block, size_t *n_block, size_t n_bytes)
{
    if (n_bytes <= *n_block) return ERR_OK;
    mem_free(block);
    *n_block = 0;
    TRY(mem_new(n_bytes, "an image", block));
    *n_block = n_bytes;
    return ERR_OK;
}

/* Whether the old image's pixel at the centre of the new one's (x, y) is in the mask. */
static uint8_t mask_at(const pack_resizer_t *r, const map_t *map, const sample_t *in, int64_t x, int64_t y)
{
    double from[2];
    unapply(map, (double)x + 0.5, (double)y + 0.5, from);
    int64_t i = (int64_t)floor(from[0]), j = (int64_t)floor(from[1]);
    i = i < 0 ? 0 : i >= in->width ? in->width - 1 : i;
    j = j < 0 ? 0 : j >= in->height ? in->height - 1 : j;
    return r->mask[j * in->width + i] != 0;
}

static err_t map_runs(pack_resizer_t *r, const map_t *map, const sample_t *in, const annotation_t *from,
                      annotation_t *out)
{
    TRY(make_room(&r->mask, &r->n_mask, (size_t)in->width * (size_t)in->height));
    TRY(mask_draw(from, in->width, in->height, r->mask));
    int64_t n_pixels = map->width * map->height, n = 1, i = 0;
    TRY(make_room(&r->small_mask, &r->n_small_mask, (size_t)n_pixels));
    uint8_t *small = r->small_mask, now = 0;
    for (int64_t x = 0; x < map->width; x++)
        for (int64_t y = 0; y < map->height; y++, i++) {
            small[i] = mask_at(r, map, in, x, y);
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

static err_t map_annotations(pack_resizer_t *r, const map_t *map, const sample_t *in, sample_t *out)
{
    annotation_t *to = NULL;
    double area = fabs(map->m[0] * map->m[4] - map->m[1] * map->m[3]);
    if (in->n_annotations > 0) TRY(arena_new(&r->arena, (size_t)in->n_annotations * sizeof *to, &to));
    for (int32_t i = 0; i < in->n_annotations; i++) {
        const annotation_t *from = &in->annotations[i];
        to[i] = *from;
        to[i].area = from->area * area;
        map_box(map, from->box, to[i].box);
        if (from->segmentation == SEGMENTATION_POLYGONS) TRY(map_points(r, map, from, &to[i]));
        if (from->segmentation == SEGMENTATION_RLE) TRY(map_runs(r, map, in, from, &to[i]));
    }
    out->annotations = to;
    return ERR_OK;
}

static err_t encode(pack_resizer_t *r, const image_info_t *info, const map_t *map, size_t *n_bytes)
{
    if (info->format == IMAGE_PNG)
        return image_encode_png(r->rgb, map->width, map->height, 3, &r->encoded, n_bytes);
    const image_t small = {map->width, map->height, r->rgb};
    return image_encode_jpeg(&small, (int)r->quality, &r->encoded, n_bytes);
}

err_t pack_resize(pack_resizer_t *r, const sample_t *in, sample_t *out)
{
    image_info_t info;
    image_t image;
    const image_bytes_t bytes = {in->name, in->bytes, in->n_bytes};
    *out = *in;
    arena_reset(&r->arena);
    mem_free(&r->encoded);
    TRY(image_info(bytes, &info));
    if (info.stored_width != in->width || info.stored_height != in->height)
        RAISE(ERR_DATA, "the image %s is %lld×%lld, but its annotations are for %d×%d", in->name,
              (long long)info.stored_width, (long long)info.stored_height, in->width, in->height);
    int64_t shorter = info.width < info.height ? info.width : info.height,
            longer = info.width + info.height - shorter;
    if (shorter <= r->shorter_side) return ERR_OK;
    double factor = fmin((double)r->shorter_side / (double)shorter, (double)RESIZE_MAX / (double)longer);
    map_t map = make_map(&info, scaled(info.width, factor), scaled(info.height, factor));
    TRY(make_room(&r->rgb, &r->n_rgb, (size_t)map.width * (size_t)map.height * 3));
    TRY(image_decode(r->decoder, bytes, &image));
    const image_rect_t all = {0, 0, (double)image.width, (double)image.height};
    TRY(resize(&image, all, false, map.width, map.height, &r->scratch, r->rgb));
    TRY(encode(r, &info, &map, &out->n_bytes));
    out->bytes = r->encoded;
    out->width = (int32_t)map.width;
    out->height = (int32_t)map.height;
    return map_annotations(r, &map, in, out);
}
