#include "image/resize.h"

#include <math.h>
#include <string.h>

#ifdef __SSE4_1__
#include <smmintrin.h>
#endif

#include "base/clones.h"
#include "base/mem.h"

/* A weight of 1, in bits: products with 8 bits, their sum and its rounding stay below 2^31. Weights are kept
 * in two parts, of which products with 8 bits stay below 2^31 in pairs. */
enum { BITS = 22, ONE = 1 << BITS, HALF = ONE / 2, LOW_BITS = 11, LOW_MASK = (1 << LOW_BITS) - 1 };
enum { RGB = 3, BLOCK = 16, BEHIND = 8 };

/* What rounding may have added to a part that reaches to the image's edges. */
static const double SLACK = 1e-6;

/* The weights of two neighbours, high and low parts, as often as a vector has room for a sum of both. */
typedef struct pair {
    int16_t high[8], low[8]; /* of the first, of the second, of the first, … */
} pair_t;

/* How one side is made: the result's pixel i is the sum of 2 n_pairs pixels from first[i] on, by the weights
 * in pairs[i * n_pairs]; some may be 0, and beyond an image of fewer pixels. */
typedef struct axis {
    int64_t n_in, n_out;
    double start, scale, reach; /* of the filter, to each side, in pixels of the image */
    int64_t n_pairs;
    int32_t *first, *weights; /* weights: of one pixel */
    pair_t *pairs;
} axis_t;

/* Rows after the first step: those that the filter sees at a time, one after the other in a ring. */
typedef struct ring {
    uint8_t *rows;
    const uint8_t **seen; /* by one row of the result */
    int64_t n_rows, n_row_bytes;
    uint8_t *last; /* room for one of the image's last rows, with room behind it */
} ring_t;

void resize_scratch_free(resize_scratch_t *scratch)
{
    mem_free(&scratch->block);
    scratch->n_bytes = 0;
}

static int64_t between(double x, int64_t low, int64_t high)
{
    return x < (double)low ? low : x > (double)high ? high : (int64_t)x;
}

/* The pixels that the filter reaches from a pixel of the result. */
static void reached(const axis_t *axis, int64_t i, int64_t *first, int64_t *end)
{
    const double centre = axis->start + ((double)i + .5) * axis->scale;
    *first = between(centre - axis->reach + .5, 0, axis->n_in - 1);
    *end = between(centre + axis->reach + .5, *first + 1, axis->n_in);
}

static axis_t make_axis(int64_t n_in, double start, double length, int64_t n_out)
{
    const double scale = length / (double)n_out;
    axis_t axis = {.n_in = n_in, .n_out = n_out, .start = start, .scale = scale, .reach = fmax(scale, 1)};
    int64_t most = 0;
    for (int64_t i = 0; i < n_out; i++) {
        int64_t first, end;
        reached(&axis, i, &first, &end);
        if (end - first > most) most = end - first;
    }
    axis.n_pairs = (most + 1) / 2;
    return axis;
}

static size_t axis_bytes(const axis_t *axis)
{
    return mem_round((size_t)(axis->n_out * axis->n_pairs) * sizeof(pair_t)) +
           mem_round((size_t)(axis->n_out + 2 * axis->n_pairs) * sizeof(int32_t));
}

static double weigh(const axis_t *axis, int64_t pixel, double centre)
{
    const double distance = fabs((double)pixel - centre + .5) * (1 / axis->reach);
    return distance < 1 ? 1 - distance : 0;
}

/* Weights that sum to one, but for rounding. */
static void weigh_all(const axis_t *axis, int64_t first, int64_t n, double centre, int32_t *weights)
{
    double sum = 0;
    int64_t total = 0;
    for (int64_t k = 0; k < n; k++) sum += weigh(axis, first + k, centre);
    for (int64_t k = 0; k < n; k++) {
        const double weight = sum > 0 ? weigh(axis, first + k, centre) / sum : k == 0;
        weights[k] = (int32_t)(weight * ONE + .5);
        total += weights[k];
    }
    /* Many thousand roundings, all of them up, could make 256 of white. */
    if (total - ONE > HALF / 256) weights[n / 2] -= (int32_t)(total - ONE);
}

static void fill_axis(axis_t *axis, bool mirror, char *block)
{
    const int64_t n_window = 2 * axis->n_pairs;
    axis->pairs = (pair_t *)(void *)block;
    axis->first =
        (int32_t *)(void *)(block + mem_round((size_t)(axis->n_out * axis->n_pairs) * sizeof(pair_t)));
    axis->weights = axis->first + axis->n_out;
    for (int64_t i = 0; i < axis->n_out; i++) {
        const int64_t to = mirror ? axis->n_out - 1 - i : i;
        int64_t first, end, window;
        reached(axis, i, &first, &end);
        /* As far as it can, the window stays within the image. */
        window = first > axis->n_in - n_window ? axis->n_in - n_window : first;
        if (window < 0) window = 0;
        memset(axis->weights, 0, (size_t)n_window * sizeof *axis->weights);
        weigh_all(axis, first, end - first, axis->start + ((double)i + .5) * axis->scale,
                  axis->weights + (first - window));
        axis->first[to] = (int32_t)window;
        pair_t *pairs = axis->pairs + to * axis->n_pairs;
        for (int64_t k = 0; k < n_window; k++)
            for (int64_t lane = k % 2; lane < 8; lane += 2) {
                pairs[k / 2].high[lane] = (int16_t)(axis->weights[k] >> LOW_BITS);
                pairs[k / 2].low[lane] = (int16_t)(axis->weights[k] & LOW_MASK);
            }
    }
}

#ifdef __SSE4_1__
typedef __m128i block_t;

static inline __m128i load(const void *from)
{
    return _mm_loadu_si128(from);
}

/* Of eight 16-bit numbers the products with a pair's weights, added in twos to the sums of high and low
 * parts. */
static inline void add_products(__m128i sums[2], __m128i numbers, const pair_t *pair)
{
    sums[0] = _mm_add_epi32(sums[0], _mm_madd_epi16(numbers, load(pair->high)));
    sums[1] = _mm_add_epi32(sums[1], _mm_madd_epi16(numbers, load(pair->low)));
}

static inline __m128i round_sum(const __m128i sums[2])
{
    return _mm_srai_epi32(_mm_add_epi32(_mm_slli_epi32(sums[0], LOW_BITS), sums[1]), BITS);
}

/* A pixel's three channels are side by side in a vector. The fourth lane is 0; in the result the next pixel
 * overwrites it. */
static inline __attribute__((always_inline)) void resize_pixels(const axis_t *axis, int64_t n_pairs,
                                                                const uint8_t *row, uint8_t *out)
{
    const __m128i in_twos = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
    const pair_t *pair = axis->pairs;
    const int32_t *first = axis->first;
    const int64_t n_out = axis->n_out;
    for (int64_t i = 0; i < n_out; i++) {
        const uint8_t *pixels = row + (int64_t)RGB * first[i];
        __m128i sums[2] = {_mm_setzero_si128(), _mm_set1_epi32(HALF)};
        for (int64_t k = 0; k < n_pairs; k++, pair++) {
            const __m128i two = _mm_loadl_epi64((const void *)(pixels + 2 * RGB * k));
            add_products(sums, _mm_shuffle_epi8(two, in_twos), pair);
        }
        const __m128i words = _mm_packus_epi32(round_sum(sums), sums[0]);
        const int32_t pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
        memcpy(out + RGB * i, &pixel, sizeof pixel);
    }
}

/* One row. */
LOOP_CLONES static void resize_row(const axis_t *axis, const uint8_t *row, uint8_t *out)
{
    switch (axis->n_pairs) {
    case 1:
        resize_pixels(axis, 1, row, out);
        break;
    case 2:
        resize_pixels(axis, 2, row, out);
        break;
    default:
        resize_pixels(axis, axis->n_pairs, row, out);
    }
}

/* BLOCK bytes of a row of the result, from rows of which each pair has its weights. */
static inline __attribute__((always_inline)) block_t mix_block(const uint8_t *const *rows, int64_t at,
                                                               const pair_t *pairs, int64_t n_pairs)
{
    const __m128i zero = _mm_setzero_si128(), half = _mm_set1_epi32(HALF);
    __m128i sums[4][2] = {{zero, half}, {zero, half}, {zero, half}, {zero, half}};
    for (int64_t k = 0; k < n_pairs; k++) {
        const __m128i a = load(rows[2 * k] + at), b = load(rows[2 * k + 1] + at);
        const __m128i left = _mm_unpacklo_epi8(a, b), right = _mm_unpackhi_epi8(a, b);
        add_products(sums[0], _mm_unpacklo_epi8(left, zero), &pairs[k]);
        add_products(sums[1], _mm_unpackhi_epi8(left, zero), &pairs[k]);
        add_products(sums[2], _mm_unpacklo_epi8(right, zero), &pairs[k]);
        add_products(sums[3], _mm_unpackhi_epi8(right, zero), &pairs[k]);
    }
    return _mm_packus_epi16(_mm_packus_epi32(round_sum(sums[0]), round_sum(sums[1])),
                            _mm_packus_epi32(round_sum(sums[2]), round_sum(sums[3])));
}
#else
static inline int32_t weight(const pair_t *pair, int64_t which)
{
    return pair->high[which] * (1 << LOW_BITS) + pair->low[which];
}

/* One row. */
static void resize_row(const axis_t *axis, const uint8_t *row, uint8_t *out)
{
    const int64_t n_window = 2 * axis->n_pairs;
    for (int64_t i = 0; i < RGB * axis->n_out; i++) {
        const uint8_t *pixels = row + (int64_t)RGB * axis->first[i / RGB] + i % RGB;
        int32_t sum = HALF;
        for (int64_t k = 0; k < n_window; k++)
            sum += weight(&axis->pairs[i / RGB * axis->n_pairs + k / 2], k % 2) * pixels[RGB * k];
        out[i] = (uint8_t)(sum >> BITS);
    }
}

typedef struct block {
    uint8_t bytes[BLOCK];
} block_t;
static inline block_t mix_block(const uint8_t *const *rows, int64_t at, const pair_t *pairs, int64_t n_pairs)
{
    block_t block;
    for (int i = 0; i < BLOCK; i++) {
        int32_t sum = HALF;
        for (int64_t k = 0; k < 2 * n_pairs; k++) sum += weight(&pairs[k / 2], k % 2) * rows[k][at + i];
        block.bytes[i] = (uint8_t)(sum >> BITS);
    }
    return block;
}
#endif

static inline __attribute__((always_inline)) void mix_blocks(const uint8_t *const *rows, const pair_t *pairs,
                                                             int64_t n_pairs, int64_t n_bytes, uint8_t *out)
{
    int64_t at = 0;
    for (; at + BLOCK <= n_bytes; at += BLOCK) {
        const block_t block = mix_block(rows, at, pairs, n_pairs);
        memcpy(out + at, &block, sizeof block);
    }
    if (at == n_bytes) return;
    const block_t block = mix_block(rows, at, pairs, n_pairs);
    memcpy(out + at, &block, (size_t)(n_bytes - at));
}

/* One row of the result, of rows whose lengths are multiples of BLOCK. */
LOOP_CLONES static void mix_rows(const uint8_t *const *rows, const pair_t *pairs, int64_t n_pairs,
                                 int64_t n_bytes, uint8_t *out)
{
    switch (n_pairs) {
    case 1:
        mix_blocks(rows, pairs, 1, n_bytes, out);
        break;
    case 2:
        mix_blocks(rows, pairs, 2, n_bytes, out);
        break;
    default:
        mix_blocks(rows, pairs, n_pairs, n_bytes, out);
    }
}

/* Two pixels are read as eight bytes, where an image of an odd width may have but one: so much may be behind.
 */
static const uint8_t *row_of(const image_t *image, int64_t y, const ring_t *ring)
{
    const int64_t n_row = RGB * image->width, n_behind = (image->height - 1 - y) * n_row;
    const uint8_t *row = image->rgb + y * n_row;
    return n_behind < BEHIND ? memcpy(ring->last, row, (size_t)n_row) : row;
}

static void resize_all(const image_t *image, const axis_t *x, const axis_t *y, const ring_t *ring,
                       uint8_t *rgb)
{
    const int64_t n_out_row = RGB * x->n_out;
    int64_t next = y->first[0];
    for (int64_t i = 0; i < y->n_out; i++) {
        const int64_t first = y->first[i];
        for (next = next < first ? first : next; next < first + ring->n_rows && next < image->height; next++)
            resize_row(x, row_of(image, next, ring), ring->rows + next % ring->n_rows * ring->n_row_bytes);
        /* Behind the last row there is one of weight 0 at most. */
        for (int64_t k = 0; k < ring->n_rows; k++) {
            const int64_t row = first + k < image->height ? first + k : first;
            ring->seen[k] = ring->rows + row % ring->n_rows * ring->n_row_bytes;
        }
        mix_rows(ring->seen, y->pairs + i * y->n_pairs, y->n_pairs, n_out_row, rgb + i * n_out_row);
    }
}

static err_t check(const image_t *image, image_rect_t from, int64_t width, int64_t height)
{
    if (width < 1 || height < 1 || width > RESIZE_MAX || height > RESIZE_MAX)
        RAISE(ERR_USAGE, "pictures cannot be resized to %lld x %lld: sides are 1 to %d", (long long)width,
              (long long)height, RESIZE_MAX);
    const bool inside = from.width > 0 && from.height > 0 && from.x > -SLACK && from.y > -SLACK &&
                        from.x + from.width < (double)image->width + SLACK &&
                        from.y + from.height < (double)image->height + SLACK;
    if (!inside)
        RAISE(ERR_DATA, "a picture of %lld x %lld has no part of %g x %g at (%g, %g) that could be resized",
              (long long)image->width, (long long)image->height, from.width, from.height, from.x, from.y);
    return ERR_OK;
}

err_t resize(const image_t *image, image_rect_t from, bool mirror, int64_t width, int64_t height,
             resize_scratch_t *scratch, uint8_t *rgb)
{
    TRY(check(image, from, width, height));
    axis_t x = make_axis(image->width, from.x, from.width, width);
    axis_t y = make_axis(image->height, from.y, from.height, height);
    /* A lane more than the pixels, which resize_row writes. */
    ring_t ring = {.n_rows = 2 * y.n_pairs, .n_row_bytes = (RGB * width + 1 + BLOCK - 1) / BLOCK * BLOCK};
    const size_t n_x = axis_bytes(&x), n_y = axis_bytes(&y),
                 n_seen = mem_round((size_t)ring.n_rows * sizeof *ring.seen),
                 n_ring = (size_t)(ring.n_rows * ring.n_row_bytes);
    const size_t n_bytes = n_x + n_y + n_seen + n_ring + (size_t)(RGB * image->width + BEHIND);
    if (n_bytes > scratch->n_bytes) {
        resize_scratch_free(scratch);
        TRY(mem_new(n_bytes, "resizing pictures", &scratch->block));
        scratch->n_bytes = n_bytes;
    }
    char *block = scratch->block;
    fill_axis(&x, mirror, block);
    fill_axis(&y, false, block + n_x);
    ring.seen = (const uint8_t **)(void *)(block + n_x + n_y);
    ring.rows = (uint8_t *)block + n_x + n_y + n_seen;
    ring.last = ring.rows + n_ring;
    resize_all(image, &x, &y, &ring, rgb);
    return ERR_OK;
}
