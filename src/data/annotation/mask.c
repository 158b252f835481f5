/* SPDX-License-Identifier: MIT */
/* Draws polygons as pycocotools does (maskApi.c, rleFrPoly), so that masks equal those of COCO's evaluation.
 * Also decodes RLE.
 *
 * Corners are rounded to a grid of fifths of a pixel. Each edge is walked on that grid, one step at a time
 * along its longer axis, from the end with the smaller coordinate there, so that an edge has the same points
 * in both directions; the other coordinate is rounded. Where the walk crosses the middle of a pixel column x
 * (between grid columns 5 x + 2 and 5 x + 3), inside and outside swap in that column, from the first pixel
 * whose middle is not above the crossing. A pixel is inside if an odd number of swaps precede it, counted
 * down each column and continuing from its foot to the head of the next. */
#include "data/annotation/mask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { GRID = 5, MIDDLE = 2 };

typedef struct drawing {
    int32_t width, height;
    uint8_t *changes;          /* the swaps: [height, width], then each column's parity: [width] */
    int32_t x_min, x_max, top; /* bounds of the swaps; x_max < x_min: none */
    uint8_t *mask;
    int64_t n_walked;
} drawing_t;

typedef struct point {
    int x, y; /* on the grid */
} point_t;

/* Restores the double that was written with two decimals: pycocotools computes with doubles, and on the grid
 * rounding turns at a tenth of a pixel. */
static double widen_coordinate(float value)
{
    double hundredths = rint((double)value * 100.0) / 100.0;
    return (float)hundredths == value ? hundredths : (double)value;
}

static err_t to_grid(double x, double y, point_t *out)
{
    /* False for NaN. */
    if (!(fabs(x) <= MASK_MAX_COORDINATE && fabs(y) <= MASK_MAX_COORDINATE))
        RAISE(ERR_DATA, "its segmentation has a point at %g, %g; the limit is %d pixels from the corner", x,
              y, MASK_MAX_COORDINATE);
    *out = (point_t){(int)(GRID * x + .5), (int)(GRID * y + .5)};
    return ERR_OK;
}

/* Notes the swap, if any, where the walk steps to a neighbouring grid column. */
static void change_column(drawing_t *d, point_t from, point_t to)
{
    int left = (to.x < from.x ? to.x : to.x - 1) - MIDDLE, top = to.y < from.y ? to.y : from.y;
    if (left < 0 || left % GRID != 0 || left / GRID >= d->width) return;
    int x = left / GRID, y = top <= MIDDLE ? 0 : (top - MIDDLE + GRID - 1) / GRID;
    if (y >= d->height) { /* the head of the next column */
        y = 0;
        if (++x == d->width) return;
    }
    d->changes[(int64_t)y * d->width + x] ^= 1;
    d->changes[(int64_t)d->height * d->width + x] ^= 1;
    if (x < d->x_min) d->x_min = x;
    if (x > d->x_max) d->x_max = x;
    if (y < d->top) d->top = y;
}

static err_t walk_edge(drawing_t *d, point_t from, point_t to)
{
    int dx = abs(to.x - from.x), dy = abs(to.y - from.y);
    bool flat = dx >= dy;
    int n = flat ? dx : dy;
    if (n == 0) return ERR_OK;
    d->n_walked += n;
    if (d->n_walked > MASK_MAX_WALK)
        RAISE(ERR_DATA, "its segmentation is longer than %d pixels", MASK_MAX_WALK / GRID);
    bool backward = flat ? from.x > to.x : from.y > to.y;
    point_t low = backward ? to : from, high = backward ? from : to, last = from;
    double slope = flat ? (double)(high.y - low.y) / n : (double)(high.x - low.x) / n;
    for (int i = 0; i <= n; i++) {
        int t = backward ? n - i : i;
        point_t at = flat ? (point_t){low.x + t, (int)(low.y + slope * t + .5)}
                          : (point_t){(int)(low.x + slope * t + .5), low.y + t};
        if (i > 0 && at.x != last.x) change_column(d, last, at);
        last = at;
    }
    return ERR_OK;
}

static void forget_changes(drawing_t *d)
{
    d->x_min = d->width;
    d->x_max = -1;
    d->top = d->height;
}

/* Adds the enclosed pixels to the mask and clears the swaps. A closed polygon crosses every column an even
 * number of times, so that the parity is even again after the last column with a swap. */
static void fill_mask(drawing_t *d)
{
    uint8_t *inside = d->changes + (int64_t)d->height * d->width;
    /* Each column continues with the previous one's parity. */
    for (int32_t x = d->x_min, parity = 0; x <= d->x_max; x++) {
        int32_t own = inside[x];
        inside[x] = (uint8_t)parity;
        parity ^= own;
    }
    for (int64_t y = d->top; y < d->height; y++) {
        uint8_t *changes = d->changes + y * d->width, *mask = d->mask + y * d->width;
        for (int32_t x = d->x_min; x <= d->x_max; x++) {
            inside[x] ^= changes[x];
            mask[x] |= inside[x];
            changes[x] = 0;
        }
    }
    for (int32_t x = d->x_min; x <= d->x_max; x++) inside[x] = 0;
    forget_changes(d);
}

static err_t draw_polygon(drawing_t *d, const float *points, int32_t n_points)
{
    point_t first, from, to;
    TRY(to_grid(widen_coordinate(points[0]), widen_coordinate(points[1]), &first));
    from = first;
    for (int32_t i = 1; i < n_points; i++) {
        TRY(to_grid(widen_coordinate(points[2 * i]), widen_coordinate(points[2 * i + 1]), &to));
        TRY(walk_edge(d, from, to));
        from = to;
    }
    TRY(walk_edge(d, from, first));
    fill_mask(d);
    return ERR_OK;
}

static err_t draw_box(drawing_t *d, const double *box)
{
    double right = box[0] + box[2], foot = box[1] + box[3];
    const double corners[4][2] = {{box[0], box[1]}, {box[0], foot}, {right, foot}, {right, box[1]}};
    point_t points[4];
    for (int i = 0; i < 4; i++) TRY(to_grid(corners[i][0], corners[i][1], &points[i]));
    for (int i = 0; i < 4; i++) TRY(walk_edge(d, points[i], points[(i + 1) % 4]));
    fill_mask(d);
    return ERR_OK;
}

static err_t draw_polygons(drawing_t *d, const annotation_t *annotation)
{
    const float *points = annotation->points;
    for (int32_t i = 0; i < annotation->n_polygons; i++) {
        if (annotation->n_points[i] < 1) RAISE(ERR_DATA, "its segmentation has a polygon without points");
        TRY(draw_polygon(d, points, annotation->n_points[i]));
        points += 2 * (int64_t)annotation->n_points[i];
    }
    return ERR_OK;
}

static err_t draw_runs(const annotation_t *annotation, int32_t width, int32_t height, uint8_t *mask)
{
    int64_t at = 0, n_pixels = (int64_t)width * height, sum = 0;
    for (int32_t i = 0; i < annotation->n_runs; i++) sum += annotation->runs[i];
    if (sum != n_pixels)
        RAISE(ERR_DATA, "its runs add up to %lld pixels, but the image has %d × %d = %lld", (long long)sum,
              width, height, (long long)n_pixels);
    for (int32_t i = 0; i < annotation->n_runs; i++) {
        int64_t x = at / height, y = at % height, n = i % 2 ? annotation->runs[i] : 0;
        for (; n > 0; n--) {
            mask[y * width + x] = 1;
            if (++y == height) y = 0, x++;
        }
        at += annotation->runs[i];
    }
    return ERR_OK;
}

err_t mask_draw(const annotation_t *annotation, int32_t width, int32_t height, uint8_t *mask)
{
    err_t err = ERR_OK;
    drawing_t d = {.width = width, .height = height, .mask = mask};
    if (width < 1 || height < 1 || width > MASK_MAX_PIXELS / height)
        RAISE(ERR_DATA, "cannot draw a mask of %d × %d pixels; the limit is %d", width, height,
              MASK_MAX_PIXELS);
    memset(mask, 0, (size_t)width * (size_t)height);
    forget_changes(&d);
    if (annotation->segmentation == SEGMENTATION_RLE) return draw_runs(annotation, width, height, mask);
    TRY(mem_new(((size_t)height + 1) * (size_t)width, "a mask", &d.changes));
    if (annotation->segmentation == SEGMENTATION_POLYGONS)
        err = draw_polygons(&d, annotation);
    else
        err = draw_box(&d, annotation->box);
    mem_free(&d.changes);
    return err;
}

/* Five bits per character from '0' on, lowest first. Bit 32: another character follows. Bit 16 of the last
 * one is the sign. */
static err_t read_number(const char *text, size_t n_text, size_t *at, int64_t *out)
{
    enum { FIRST = '0', BITS = 5, MORE = 32, SIGN = 16, MAX_CHARACTERS = 7 };
    int64_t number = 0;
    for (int k = 0; k < MAX_CHARACTERS && *at < n_text; k++) {
        int c = (unsigned char)text[(*at)++] - FIRST;
        if (c < 0 || c >= 2 * MORE) RAISE(ERR_DATA, "its compressed RLE has an invalid character");
        number += (int64_t)(c & (MORE - 1)) << BITS * k;
        if (c & MORE) continue;
        if (c & SIGN) number -= (int64_t)1 << BITS * (k + 1);
        *out = number;
        return ERR_OK;
    }
    if (*at == n_text) RAISE(ERR_DATA, "its compressed RLE ends within a number");
    RAISE(ERR_DATA, "its compressed RLE has a number of more than %d bits", BITS * MAX_CHARACTERS);
}

err_t mask_read_runs(const char *text, size_t n_text, uint32_t *runs, int32_t *n_runs)
{
    int32_t n = 0;
    ASSERT(n_text <= INT32_MAX);
    for (size_t at = 0; at < n_text; n++) {
        int64_t run = 0;
        TRY(read_number(text, n_text, &at, &run));
        if (n > 2) run += runs[n - 2];
        if (run < 0 || run > UINT32_MAX)
            RAISE(ERR_DATA, "its compressed RLE has a run of length %lld", (long long)run);
        runs[n] = (uint32_t)run;
    }
    *n_runs = n;
    return ERR_OK;
}
