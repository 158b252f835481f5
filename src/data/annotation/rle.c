/* SPDX-License-Identifier: MIT */
/* Operations on RLE, with the results of pycocotools (maskApi.c) also for runs of length 0 within a mask. Drawing
 * polygons is left to mask.c. */
#include "data/annotation/rle.h"

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
