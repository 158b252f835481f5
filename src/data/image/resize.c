/* SPDX-License-Identifier: MIT */
/* Separable antialiased resize of a region: computes the weights of both axes, then passes rows through a ring buffer.
 * The inner loops: portable here, for vectors in rows_*.c; the widest that the CPU supports is chosen. */
#include "data/image/resize.h"

#include <math.h>
#include <string.h>

#include "base/isa.h"
#include "base/mem.h"
#include "data/image/rows.h"

enum { RGB = 3 };

static inline int32_t pair_weight(const pair_t *pair, int64_t which)
{
    return pair->high[which] * (1 << ROWS_LOW_BITS) + pair->low[which];
}

static void plain_resize(const taps_t *x, const uint8_t *const *rows, uint8_t *const *out)
{
    for (int64_t i = 0; i < RGB * x->n_out; i++) {
        const uint8_t *pixels = rows[0] + (int64_t)RGB * x->first[i / RGB] + i % RGB;
        int32_t sum = ROWS_HALF;
        for (int64_t k = 0; k < 2 * x->n_pairs; k++)
            sum += pair_weight(&x->pairs[i / RGB * x->n_pairs + k / 2], k % 2) * pixels[RGB * k];
        out[0][i] = (uint8_t)(sum >> ROWS_BITS);
    }
}

static void plain_mix(const uint8_t *const *rows, const pair_t *pairs, int64_t n_pairs, int64_t n_bytes,
                      uint8_t *out)
{
    for (int64_t i = 0; i < n_bytes; i++) {
        int32_t sum = ROWS_HALF;
        for (int64_t k = 0; k < 2 * n_pairs; k++) sum += pair_weight(&pairs[k / 2], k % 2) * rows[k][i];
        out[i] = (uint8_t)(sum >> ROWS_BITS);
    }
}

const rows_ops_t rows_plain = {"plain", 1, plain_resize, plain_mix};

const rows_ops_t *rows_ops(void)
{
#ifdef __x86_64__
    if (rows_avx512 && isa_best() >= ISA_AVX512) return rows_avx512;
    if (rows_avx2 && isa_best() >= ISA_AVX2) return rows_avx2;
    if (rows_sse41 && __builtin_cpu_supports("sse4.1")) return rows_sse41;
#endif
    return &rows_plain;
}

/* Rounding may move a region by this much beyond the image's edges. */
static const double SLACK = 1e-6;

typedef struct axis {
    int64_t n_in;
    double start, scale, reach; /* reach: half the filter's width; all in pixels of the image */
    taps_t taps;
    int32_t *weights; /* scratch: of one output pixel */
} axis_t;

/* Horizontally resized rows: those under the filter and those computed together with its last one. */
typedef struct ring {
    const rows_ops_t *ops;
    uint8_t *rows;
    const uint8_t **seen; /* the rows under the filter */
    int64_t n_rows, n_row_bytes;
    uint8_t *last; /* padded copies of the image's last n_together rows */
    int64_t n_last_bytes;
} ring_t;

void resize_scratch_free(resize_scratch_t *scratch)
{
    mem_free(&scratch->block);
    scratch->n_bytes = 0;
}

static int64_t clamp_index(double x, int64_t low, int64_t high)
{
    return x < (double)low ? low : x > (double)high ? high : (int64_t)x;
}

/* The input pixels [*first, *end) under the filter of output pixel i. */
static void axis_reach(const axis_t *axis, int64_t i, int64_t *first, int64_t *end)
{
    const double centre = axis->start + ((double)i + .5) * axis->scale;
    *first = clamp_index(centre - axis->reach + .5, 0, axis->n_in - 1);
    *end = clamp_index(centre + axis->reach + .5, *first + 1, axis->n_in);
}

static axis_t axis_make(int64_t n_in, double start, double length, int64_t n_out)
{
    const double scale = length / (double)n_out;
    axis_t axis = {.n_in = n_in, .start = start, .scale = scale, .reach = fmax(scale, 1)};
    int64_t most = 0;
    for (int64_t i = 0; i < n_out; i++) {
        int64_t first, end;
        axis_reach(&axis, i, &first, &end);
        if (end - first > most) most = end - first;
    }
    axis.taps.n_out = n_out;
    axis.taps.n_pairs = (most + 1) / 2;
    return axis;
}

static int64_t round_up(int64_t n, int64_t whole)
{
    return (n + whole - 1) / whole * whole;
}

/* Output pixels, rounded up to whole steps. */
static int64_t n_made(int64_t n_out)
{
    return round_up(n_out, ROWS_STEP);
}

static size_t pairs_bytes(const taps_t *taps)
{
    return mem_round((size_t)(n_made(taps->n_out) * taps->n_pairs) * sizeof(pair_t));
}

static size_t axis_bytes(const taps_t *taps)
{
    return pairs_bytes(taps) + mem_round((size_t)(n_made(taps->n_out) + 2 * taps->n_pairs) * sizeof(int32_t));
}

static double axis_weigh(const axis_t *axis, int64_t pixel, double centre)
{
    const double distance = fabs((double)pixel - centre + .5) * (1 / axis->reach);
    return distance < 1 ? 1 - distance : 0;
}

/* Weights that sum to ROWS_ONE, apart from rounding. */
static void axis_weigh_all(const axis_t *axis, int64_t first, int64_t n, double centre, int32_t *weights)
{
    double sum = 0;
    int64_t total = 0;
    for (int64_t k = 0; k < n; k++) sum += axis_weigh(axis, first + k, centre);
    for (int64_t k = 0; k < n; k++) {
        const double weight = sum > 0 ? axis_weigh(axis, first + k, centre) / sum : k == 0;
        weights[k] = (int32_t)(weight * ROWS_ONE + .5);
        total += weights[k];
    }
    /* Thousands of weights rounded up could turn white into 256. */
    if (total - ROWS_ONE > ROWS_HALF / 256) weights[n / 2] -= (int32_t)(total - ROWS_ONE);
}

static void axis_fill(axis_t *axis, bool mirror, char *block)
{
    taps_t *taps = &axis->taps;
    const int64_t n_out = taps->n_out, n_all = n_made(n_out), n_window = 2 * taps->n_pairs;
    taps->pairs = (pair_t *)(void *)block;
    taps->first = (int32_t *)(void *)(block + pairs_bytes(taps));
    axis->weights = taps->first + n_all;
    for (int64_t i = 0; i < n_out; i++) {
        const int64_t to = mirror ? n_out - 1 - i : i;
        int64_t first, end, window;
        axis_reach(axis, i, &first, &end);
        /* Keep the window within the image if it fits. */
        window = first > axis->n_in - n_window ? axis->n_in - n_window : first;
        if (window < 0) window = 0;
        memset(axis->weights, 0, (size_t)n_window * sizeof *axis->weights);
        axis_weigh_all(axis, first, end - first, axis->start + ((double)i + .5) * axis->scale,
                       axis->weights + (first - window));
        taps->first[to] = (int32_t)window;
        for (int64_t k = 0; k < n_window; k++) {
            pair_t *pair = &taps->pairs[to * taps->n_pairs + k / 2];
            for (int64_t lane = k % 2; lane < 8; lane += 2) {
                pair->high[lane] = (int16_t)(axis->weights[k] >> ROWS_LOW_BITS);
                pair->low[lane] = (int16_t)(axis->weights[k] & ROWS_LOW_MASK);
            }
        }
    }
    memset(taps->first + n_out, 0, (size_t)(n_all - n_out) * sizeof *taps->first);
    memset(taps->pairs + n_out * taps->n_pairs, 0,
           (size_t)((n_all - n_out) * taps->n_pairs) * sizeof *taps->pairs);
}

/* The kernels read ROWS_BEHIND bytes beyond a row, so the image's last rows are copied to padded memory. */
static const uint8_t *row_of(const image_t *image, int64_t y, uint8_t *last)
{
    const int64_t n_row = RGB * image->width, n_behind = (image->height - 1 - y) * n_row;
    const uint8_t *row = image->rgb + y * n_row;
    return n_behind < ROWS_BEHIND ? memcpy(last, row, (size_t)n_row) : row;
}

static uint8_t *ring_slot(const ring_t *ring, int64_t y)
{
    return ring->rows + y % ring->n_rows * ring->n_row_bytes;
}

/* Resizes rows y, y + 1, … into the ring; below the image its last row is repeated. */
static void resize_rows(const image_t *image, int64_t y, const taps_t *x, const ring_t *ring)
{
    const uint8_t *in[ROWS_MOST];
    uint8_t *out[ROWS_MOST];
    for (int r = 0; r < ring->ops->n_together; r++) {
        in[r] = y + r < image->height ? row_of(image, y + r, ring->last + r * ring->n_last_bytes) : in[r - 1];
        out[r] = ring_slot(ring, y + r);
    }
    ring->ops->resize(x, in, out);
}

err_t resize(const image_t *image, image_rect_t from, bool mirror, int64_t width, int64_t height,
             resize_scratch_t *scratch, uint8_t *rgb)
{
    if (width < 1 || height < 1 || width > RESIZE_MAX || height > RESIZE_MAX)
        RAISE(ERR_USAGE, "cannot resize images to %lld x %lld: sides must be 1 to %d", (long long)width,
              (long long)height, RESIZE_MAX);
    const bool inside = from.width > 0 && from.height > 0 && from.x > -SLACK && from.y > -SLACK &&
                        from.x + from.width < (double)image->width + SLACK &&
                        from.y + from.height < (double)image->height + SLACK;
    if (!inside)
        RAISE(ERR_DATA, "cannot resize an image of %lld x %lld: it has no region of %g x %g at (%g, %g)",
              (long long)image->width, (long long)image->height, from.width, from.height, from.x, from.y);
    axis_t x = axis_make(image->width, from.x, from.width, width);
    axis_t y = axis_make(image->height, from.y, from.height, height);
    const rows_ops_t *ops = rows_ops();
    ring_t ring = {.ops = ops,
                   .n_rows = 2 * y.taps.n_pairs + ops->n_together - 1,
                   .n_row_bytes = round_up(RGB * n_made(width) + ROWS_BEHIND, ROWS_BLOCK),
                   .n_last_bytes = RGB * image->width + ROWS_BEHIND};
    const size_t n_x = axis_bytes(&x.taps), n_y = axis_bytes(&y.taps),
                 n_seen = mem_round((size_t)(2 * y.taps.n_pairs) * sizeof *ring.seen),
                 n_ring = (size_t)(ring.n_rows * ring.n_row_bytes);
    const size_t n_bytes = n_x + n_y + n_seen + n_ring + (size_t)(ops->n_together * ring.n_last_bytes);
    if (n_bytes > scratch->n_bytes) {
        resize_scratch_free(scratch);
        TRY(mem_new(n_bytes, "resizing images", &scratch->block));
        scratch->n_bytes = n_bytes;
    }
    char *block = scratch->block;
    axis_fill(&x, mirror, block);
    axis_fill(&y, false, block + n_x);
    ring.seen = (const uint8_t **)(void *)(block + n_x + n_y);
    ring.rows = (uint8_t *)block + n_x + n_y + n_seen;
    ring.last = ring.rows + n_ring;
    const int64_t n_out_bytes = RGB * width, window = 2 * y.taps.n_pairs;
    for (int64_t i = 0, next = 0; i < height; i++) {
        const int64_t first = y.taps.first[i];
        for (next = next < first ? first : next; next < first + window && next < image->height;
             next += ops->n_together)
            resize_rows(image, next, &x.taps, &ring);
        /* At most one row below the image's last is needed; its weight is 0. */
        for (int64_t k = 0; k < window; k++)
            ring.seen[k] = ring_slot(&ring, first + k < image->height ? first + k : first);
        ops->mix(ring.seen, y.taps.pairs + i * y.taps.n_pairs, y.taps.n_pairs, n_out_bytes,
                 rgb + i * n_out_bytes);
    }
    return ERR_OK;
}
