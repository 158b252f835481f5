/* SPDX-License-Identifier: MIT */
/* Draws polygons as pycocotools does (maskApi.c, rleFrPoly), so that masks equal those of COCO's evaluation.
 *
 * Corners are rounded to a grid of fifths of a pixel. Each edge is walked on that grid, one step at a time
 * along its longer axis, from the end with the smaller coordinate there, so that an edge has the same points
 * in both directions; the other coordinate is rounded. Where the walk crosses the middle of a pixel column x
 * (between grid columns 5 x + 2 and 5 x + 3), inside and outside swap in that column, from the first pixel
 * whose middle is not above the crossing. A pixel is inside if an odd number of swaps precede it, counted
 * down each column and continuing from its foot to the head of the next. Only the steps that cross a middle
 * are computed. */
#include "data/annotation/mask.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

enum { GRID = 5, MIDDLE = 2 };

typedef struct drawing {
    int32_t width, height;
    mask_scratch_t *scratch;
    int64_t n, n_walked; /* n of scratch->swaps: x × height + y */
} drawing_t;

typedef struct point {
    int x, y; /* on the grid */
} point_t;

err_t mask_scratch_reserve(mask_scratch_t *s, int64_t max_runs)
{
    static const char what[] = "runs of a mask";
    TRY(mem_grow(max_runs, sizeof *s->swaps, what, &s->swaps));
    TRY(mem_grow(max_runs, sizeof *s->polygon.runs, what, &s->polygon.runs));
    return mem_grow(max_runs, sizeof *s->sum.runs, what, &s->sum.runs);
}

void mask_scratch_free(mask_scratch_t *s)
{
    mem_free(&s->swaps);
    rle_free(&s->polygon);
    rle_free(&s->sum);
}

double mask_widen(float coordinate)
{
    double hundredths = rint((double)coordinate * 100.0) / 100.0;
    return (float)hundredths == coordinate ? hundredths : (double)coordinate;
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

/* Notes the swap in pixel column x; `top`: the upper one of the two points beside its middle. */
static void swap_at(drawing_t *d, int x, int top)
{
    int y = top <= MIDDLE ? 0 : (top - MIDDLE + GRID - 1) / GRID;
    if (y > d->height) y = d->height; /* the head of the next column */
    if (y == d->height && x + 1 == d->width) return;
    d->scratch->swaps[d->n++] = (uint32_t)((int64_t)x * d->height + y);
}

/* An edge whose longer axis is x, from its left end. */
static void walk_flat(drawing_t *d, point_t low, point_t high, int first, int last)
{
    double slope = (double)(high.y - low.y) / (high.x - low.x);
    for (int x = first; x <= last; x++) {
        int t = GRID * x + MIDDLE - low.x;
        int a = (int)(low.y + slope * t + .5), b = (int)(low.y + slope * (t + 1) + .5);
        swap_at(d, x, a < b ? a : b);
    }
}

/* Whether step t of a steep edge is on the far side of a column's middle. */
static bool is_beyond(int x, double slope, int t, int middle)
{
    return ((int)(x + slope * t + .5) > middle) == (slope > 0);
}

/* An edge whose longer axis is y, from its upper end. */
static void walk_steep(drawing_t *d, point_t low, point_t high, int first, int last)
{
    int n = high.y - low.y;
    double slope = (double)(high.x - low.x) / n;
    for (int x = first; x <= last; x++) {
        /* Step t is the first one beyond the middle; rounding may move it by one from where the line crosses. */
        int middle = GRID * x + MIDDLE, t = (int)((middle + .5 - low.x) / slope);
        t = t < 1 ? 1 : t > n ? n : t;
        while (t > 1 && is_beyond(low.x, slope, t - 1, middle)) t--;
        while (t < n && !is_beyond(low.x, slope, t, middle)) t++;
        swap_at(d, x, low.y + t - 1);
    }
}

/* The pixel column whose middle is the first one not left of the grid column x. */
static int column_from(int x)
{
    return x <= MIDDLE ? 0 : (x - MIDDLE + GRID - 1) / GRID;
}

static err_t walk_edge(drawing_t *d, point_t from, point_t to)
{
    int dx = abs(to.x - from.x), dy = abs(to.y - from.y), n = dx > dy ? dx : dy;
    int left = from.x < to.x ? from.x : to.x, first = column_from(left), last = column_from(left + dx) - 1;
    d->n_walked += n;
    if (d->n_walked > MASK_MAX_WALK)
        RAISE(ERR_DATA, "its segmentation is longer than %d pixels", MASK_MAX_WALK / GRID);
    if (last >= d->width) last = d->width - 1;
    if (first > last) return ERR_OK;
    uint32_t **swaps = &d->scratch->swaps;
    TRY(mem_grow(d->n + last - first + 1, sizeof **swaps, "corners of a mask", swaps));
    if (dx >= dy)
        walk_flat(d, from.x < to.x ? from : to, from.x < to.x ? to : from, first, last);
    else
        walk_steep(d, from.y < to.y ? from : to, from.y < to.y ? to : from, first, last);
    return ERR_OK;
}

/* Corner i of the polygons. */
static err_t corner(const annotation_t *a, int64_t i, point_t *out)
{
    if (a->exact) return to_grid(a->exact[2 * i], a->exact[2 * i + 1], out);
    return to_grid(mask_widen(a->points[2 * i]), mask_widen(a->points[2 * i + 1]), out);
}

/* Closes the polygon of the corners from `first` on. */
static err_t encode_polygon(drawing_t *d, const annotation_t *a, int64_t first, int32_t n, rle_t *out)
{
    point_t start, from, to;
    d->n = 0;
    TRY(corner(a, first, &start));
    from = start;
    for (int32_t i = 1; i < n; i++) {
        TRY(corner(a, first + i, &to));
        TRY(walk_edge(d, from, to));
        from = to;
    }
    TRY(walk_edge(d, from, start));
    return rle_from_swaps(d->scratch->swaps, d->n, d->width, d->height, out);
}

static err_t encode_polygons(drawing_t *d, const annotation_t *a, rle_t *out)
{
    rle_t *next = &d->scratch->polygon, *sum = &d->scratch->sum;
    int64_t first = 0;
    if (a->n_polygons == 0) return rle_from_swaps(NULL, 0, d->width, d->height, out);
    for (int32_t i = 0; i < a->n_polygons; first += a->n_points[i++]) {
        if (a->n_points[i] < 1) RAISE(ERR_DATA, "its segmentation has a polygon without points");
        TRY(encode_polygon(d, a, first, a->n_points[i], i ? next : out));
        if (i == 0) continue;
        TRY(rle_union(out, next, sum));
        const rle_t swap = *out;
        *out = *sum;
        *sum = swap;
    }
    return ERR_OK;
}

static err_t encode_box(drawing_t *d, const double *box, rle_t *out)
{
    double right = box[0] + box[2], foot = box[1] + box[3];
    const double corners[] = {box[0], box[1], box[0], foot, right, foot, right, box[1]};
    const annotation_t a = {.exact = corners};
    return encode_polygon(d, &a, 0, 4, out);
}

/* The runs as they are. */
static err_t copy_runs(const annotation_t *a, int32_t width, int32_t height, rle_t *out)
{
    TRY(mem_grow(a->n_runs, sizeof *out->runs, "runs of a mask", &out->runs));
    for (int32_t i = 0; i < a->n_runs; i++) out->runs[i] = a->runs[i];
    out->n = a->n_runs;
    return rle_check(out, width, height);
}

err_t mask_encode(const annotation_t *annotation, int32_t width, int32_t height, mask_scratch_t *scratch,
                  rle_t *out)
{
    drawing_t d = {.width = width, .height = height, .scratch = scratch};
    if (width < 1 || height < 1 || width > MASK_MAX_PIXELS / height)
        RAISE(ERR_DATA, "cannot draw a mask of %d × %d pixels; the limit is %d", width, height,
              MASK_MAX_PIXELS);
    if (annotation->segmentation == SEGMENTATION_RLE) return copy_runs(annotation, width, height, out);
    return annotation->segmentation == SEGMENTATION_POLYGONS ? encode_polygons(&d, annotation, out)
                                                             : encode_box(&d, annotation->box, out);
}

/* The middles of columns between two points, and two for rounding. */
static double max_columns(double from, double to, int32_t width)
{
    return fmin(floor(fabs(to - from)) + 2, width);
}

int64_t mask_max_runs(const annotation_t *a, int32_t width)
{
    if (a->segmentation == SEGMENTATION_RLE) return a->n_runs;
    if (a->segmentation == SEGMENTATION_NONE) return 1 + 2 * (int64_t)max_columns(0, a->box[2], width);
    int64_t n = 1;
    const float *points = a->points;
    for (int32_t p = 0; p < a->n_polygons; points += 2 * (ptrdiff_t)a->n_points[p++]) {
        double x = points[2 * (a->n_points[p] - 1)], sum = 1;
        for (int32_t i = 0; i < a->n_points[p]; x = points[2 * i++])
            sum += max_columns(x, points[2 * i], width);
        n += (int64_t)sum;
    }
    return n;
}

err_t mask_draw(const annotation_t *annotation, int32_t width, int32_t height, uint8_t *mask)
{
    mask_scratch_t scratch = {0};
    rle_t rle = {0};
    err_t err = mask_encode(annotation, width, height, &scratch, &rle);
    if (err == ERR_OK) err = rle_decode(&rle, width, height, mask);
    rle_free(&rle);
    mask_scratch_free(&scratch);
    return err;
}
