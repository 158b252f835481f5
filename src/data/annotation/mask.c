/* SPDX-License-Identifier: MIT */
/* Run lengths of masks, and polygons drawn, with the results of pycocotools (maskApi.c) also for runs of length 0 within
 * a mask, so that masks equal those of COCO's evaluation. */
#include "data/annotation/mask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char memory[] = "runs of a mask";

void rle_free(rle_t *rle)
{
    mem_free(&rle->runs);
    rle->n = 0;
}

/* Makes room for n runs. */
static err_t reserve_runs(rle_t *rle, int64_t n)
{
    return mem_grow(n, sizeof *rle->runs, memory, &rle->runs);
}

err_t rle_check(const rle_t *rle, int32_t width, int32_t height)
{
    int64_t sum = 0, n_pixels = (int64_t)width * height;
    for (int32_t i = 0; i < rle->n; i++) sum += rle->runs[i];
    if (sum != n_pixels)
        RAISE(ERR_DATA, "its runs add up to %lld pixels, but the image has %d × %d = %lld", (long long)sum,
              width, height, (long long)n_pixels);
    return ERR_OK;
}

err_t rle_encode(const uint8_t *mask, int32_t width, int32_t height, rle_t *out)
{
    bool inside = false;
    int64_t n = 0;
    uint32_t run = 0;
    TRY(reserve_runs(out, 1));
    for (int64_t x = 0; x < width; x++) {
        TRY(reserve_runs(out, n + height + 1));
        for (int64_t y = 0; y < height; y++, run++) {
            if ((mask[y * width + x] != 0) == inside) continue;
            out->runs[n++] = run;
            run = 0;
            inside = !inside;
        }
    }
    out->runs[n++] = run;
    out->n = narrow_int(n);
    return ERR_OK;
}

err_t rle_decode(const rle_t *rle, int32_t width, int32_t height, uint8_t *mask)
{
    int64_t at = 0;
    TRY(rle_check(rle, width, height));
    memset(mask, 0, (size_t)width * (size_t)height);
    for (int32_t i = 0; i < rle->n; i++) {
        int64_t x = at / height, y = at % height, n = i % 2 ? rle->runs[i] : 0;
        for (; n > 0; n--) {
            mask[y * width + x] = 1;
            if (++y == height) y = 0, x++;
        }
        at += rle->runs[i];
    }
    return ERR_OK;
}

static int by_position(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

err_t rle_from_swaps(uint32_t *swaps, int64_t n, int32_t width, int32_t height, rle_t *out)
{
    uint32_t last = 0;
    int32_t n_runs = 0;
    if (n > 1) qsort(swaps, (size_t)n, sizeof *swaps, by_position);
    TRY(reserve_runs(out, n + 1));
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 < n && swaps[i] == swaps[i + 1]) {
            i++; /* two at the same place cancel */
            continue;
        }
        out->runs[n_runs++] = swaps[i] - last;
        last = swaps[i];
    }
    out->runs[n_runs++] = (uint32_t)((int64_t)width * height - last);
    out->n = n_runs;
    return ERR_OK;
}

uint32_t rle_area(const rle_t *rle)
{
    uint32_t area = 0;
    for (int32_t i = 1; i < rle->n; i += 2) area += rle->runs[i];
    return area;
}

void rle_box(const rle_t *rle, int32_t width, int32_t height, double box[4])
{
    uint32_t h = (uint32_t)height, left = (uint32_t)width, top = h, right = 0, foot = 0, end = 0;
    memset(box, 0, 4 * sizeof *box);
    if (rle->n < 2) return;
    for (int32_t i = 0; i + 1 < rle->n; i += 2) {
        uint32_t first = end + rle->runs[i], last = first + rle->runs[i + 1] - 1;
        end = last + 1;
        if (rle->runs[i + 1] == 0) continue;
        uint32_t x0 = first / h, y0 = first % h, x1 = last / h, y1 = last % h;
        if (x0 < x1) y0 = 0, y1 = h - 1; /* it spans a column's end */
        left = x0 < left ? x0 : left;
        right = x1 > right ? x1 : right;
        top = y0 < top ? y0 : top;
        foot = y1 > foot ? y1 : foot;
    }
    /* Differences wrap around if all runs inside are empty. */
    box[0] = left;
    box[1] = top;
    box[2] = right - left + 1;
    box[3] = foot - top + 1;
}

/* A position in a mask, in runs. */
typedef struct walk {
    const uint32_t *runs;
    int32_t n, next;
    uint32_t left; /* of the current run */
    bool inside;
} walk_t;

static walk_t walk_begin(const rle_t *rle)
{
    return (walk_t){rle->runs, rle->n, 1, rle->runs[0], false};
}

static void walk_on(walk_t *walk, uint32_t n)
{
    walk->left -= n;
    if (walk->left > 0 || walk->next >= walk->n) return;
    walk->left = walk->runs[walk->next++];
    walk->inside = !walk->inside;
}

/* The pixels up to the nearer end of the two current runs. */
static uint32_t walk_both(const walk_t *a, const walk_t *b)
{
    return a->left < b->left ? a->left : b->left;
}

double rle_iou(const rle_t *detection, const rle_t *truth, bool crowd)
{
    walk_t a = walk_begin(detection), b = walk_begin(truth);
    uint32_t both = 0, either = 0;
    do {
        uint32_t n = walk_both(&a, &b);
        if (a.inside || b.inside) either += n;
        if (a.inside && b.inside) both += n;
        walk_on(&a, n);
        walk_on(&b, n);
    } while (a.left > 0 || b.left > 0);
    if (both == 0) return 0;
    return (double)both / (double)(crowd ? rle_area(detection) : either);
}

double rle_box_iou(const double d[4], const double t[4], bool crowd)
{
    double width = fmin(d[2] + d[0], t[2] + t[0]) - fmax(d[0], t[0]);
    if (width <= 0) return 0;
    double height = fmin(d[3] + d[1], t[3] + t[1]) - fmax(d[1], t[1]);
    if (height <= 0) return 0;
    double both = width * height, area = d[2] * d[3];
    return both / (crowd ? area : area + t[2] * t[3] - both);
}

err_t rle_union(const rle_t *first, const rle_t *second, rle_t *out)
{
    walk_t a = walk_begin(first), b = walk_begin(second);
    uint32_t run = 0;
    int32_t n_runs = 0;
    bool inside = false, more = true;
    TRY(reserve_runs(out, (int64_t)first->n + second->n));
    while (more) {
        uint32_t n = walk_both(&a, &b);
        run += n;
        walk_on(&a, n);
        walk_on(&b, n);
        more = a.left > 0 || b.left > 0;
        if ((a.inside || b.inside) == inside && more) continue;
        inside = a.inside || b.inside;
        out->runs[n_runs++] = run;
        run = 0;
    }
    out->n = n_runs;
    return ERR_OK;
}

enum { FIRST = '0', BITS = 5, MORE = 32, SIGN = 16 };

/* Five bits per character from '0' on, lowest first. Bit 32: another character follows. Bit 16 of the last
 * one is the sign. */
static err_t read_number(const char *text, size_t n_text, size_t *at, int64_t *out)
{
    int64_t number = 0;
    for (int k = 0; k < RLE_TEXT_PER_RUN && *at < n_text; k++) {
        int c = (unsigned char)text[(*at)++] - FIRST;
        if (c < 0 || c >= 2 * MORE) RAISE(ERR_DATA, "its compressed RLE has an invalid character");
        number += (int64_t)(c & (MORE - 1)) << BITS * k;
        if (c & MORE) continue;
        if (c & SIGN) number -= (int64_t)1 << BITS * (k + 1);
        *out = number;
        return ERR_OK;
    }
    if (*at == n_text) RAISE(ERR_DATA, "its compressed RLE ends within a number");
    RAISE(ERR_DATA, "its compressed RLE has a number of more than %d bits", BITS * RLE_TEXT_PER_RUN);
}

err_t rle_parse(const char *text, size_t n_text, uint32_t *runs, int32_t *n_runs)
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

size_t rle_format(const rle_t *rle, char *text)
{
    char *at = text;
    for (int32_t i = 0; i < rle->n; i++) {
        int64_t left = (int64_t)rle->runs[i] - (i > 2 ? rle->runs[i - 2] : 0);
        for (bool more = true; more;) {
            int bits = (int)(left & (MORE - 1));
            left >>= BITS;
            more = left != (bits & SIGN ? -1 : 0);
            *at++ = (char)(FIRST + bits + (more ? MORE : 0));
        }
    }
    *at = '\0';
    return (size_t)(at - text);
}

/* Polygons are drawn as by rleFrPoly. Corners are rounded to a grid of fifths of a pixel. Each edge is walked on that
 * grid, one step at a time along its longer axis, from the end with the smaller coordinate there, so that an edge has
 * the same points in both directions; the other coordinate is rounded. Where the walk crosses the middle of a pixel
 * column x (between grid columns 5 x + 2 and 5 x + 3), inside and outside swap in that column, from the first pixel
 * whose middle is not above the crossing. A pixel is inside if an odd number of swaps precede it, counted down each
 * column and continuing from its foot to the head of the next. Only the steps that cross a middle are computed. */
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
    TRY(mem_grow(max_runs, sizeof *s->swaps, memory, &s->swaps));
    TRY(reserve_runs(&s->polygon, max_runs));
    return reserve_runs(&s->sum, max_runs);
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

err_t mask_encode(const annotation_t *annotation, int32_t width, int32_t height, mask_scratch_t *scratch,
                  rle_t *out)
{
    drawing_t d = {.width = width, .height = height, .scratch = scratch};
    if (width < 1 || height < 1 || width > MASK_MAX_PIXELS / height)
        RAISE(ERR_DATA, "cannot draw a mask of %d × %d pixels; the limit is %d", width, height,
              MASK_MAX_PIXELS);
    if (annotation->segmentation == SEGMENTATION_POLYGONS) return encode_polygons(&d, annotation, out);
    if (annotation->segmentation == SEGMENTATION_RLE) {
        TRY(reserve_runs(out, annotation->n_runs));
        for (int32_t i = 0; i < annotation->n_runs; i++) out->runs[i] = annotation->runs[i];
        out->n = annotation->n_runs;
        return rle_check(out, width, height);
    }
    const double *box = annotation->box, right = box[0] + box[2], foot = box[1] + box[3];
    const double corners[] = {box[0], box[1], box[0], foot, right, foot, right, box[1]};
    const annotation_t a = {.exact = corners};
    return encode_polygon(&d, &a, 0, 4, out);
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
