#include "image/resize.h"

#include <math.h>
#include <string.h>

#ifdef __SSE4_1__
#include <smmintrin.h>
#endif

#include "base/clones.h"
#include "base/mem.h"

/* A weight of 1, in bits: products with 8 bits, their sum and its rounding stay below 2^31. */
enum { BITS = 22, ONE = 1 << BITS, HALF = ONE / 2 };
enum { RGB = 3, BLOCK = 64 };

/* What rounding may have added to a part that reaches to the image's edges. */
static const double SLACK = 1e-6;

/* Four bytes of which three are a pixel. */
typedef uint8_t bytes_t __attribute__((vector_size(4)));
typedef int32_t lanes_t __attribute__((vector_size(16)));

/* How one side is made: the result's pixel i is the sum of n[i] pixels from first[i] on, by weights[i *
 * most]. */
typedef struct axis {
    int64_t n_in, n_out;
    double start, scale, reach; /* of the filter, to each side, in pixels of the image */
    int64_t most;
    int32_t *first, *n, *weights;
} axis_t;

/* Rows after the first step: those that the filter sees at a time, one after the other in a ring. */
typedef struct ring {
    uint8_t *rows;
    int64_t n_rows, n_row_bytes;
    uint8_t *last; /* the image's last row, with room behind it */
} ring_t;

void resize_scratch_free(resize_scratch_t *scratch)
{
    mem_free(&scratch->block);
    scratch->n_bytes = 0;
}

static axis_t make_axis(int64_t n_in, double start, double length, int64_t n_out)
{
    const double scale = length / (double)n_out, reach = fmax(scale, 1);
    return (axis_t){n_in, n_out, start, scale, reach, .most = 2 * (int64_t)ceil(reach) + 1};
}

static size_t axis_bytes(const axis_t *axis)
{
    return mem_round((size_t)(axis->n_out * (2 + axis->most)) * sizeof(int32_t));
}

static double weigh(const axis_t *axis, int64_t pixel, double centre)
{
    const double distance = fabs((double)pixel - centre + .5) * (1 / axis->reach);
    return distance < 1 ? 1 - distance : 0;
}

static int64_t between(double x, int64_t low, int64_t high)
{
    return x < (double)low ? low : x > (double)high ? high : (int64_t)x;
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

static void fill_axis(axis_t *axis, bool mirror, void *block)
{
    axis->first = block;
    axis->n = axis->first + axis->n_out;
    axis->weights = axis->n + axis->n_out;
    for (int64_t i = 0; i < axis->n_out; i++) {
        const int64_t to = mirror ? axis->n_out - 1 - i : i;
        const double centre = axis->start + ((double)i + .5) * axis->scale;
        const int64_t first = between(centre - axis->reach + .5, 0, axis->n_in - 1);
        const int64_t end = between(centre + axis->reach + .5, first + 1, axis->n_in);
        axis->first[to] = (int32_t)first;
        axis->n[to] = (int32_t)(end - first);
        weigh_all(axis, first, end - first, centre, axis->weights + to * axis->most);
    }
}

#ifdef __SSE4_1__
/* One instruction each, which GCC 12 does not find in the other form. */
static inline lanes_t widen(bytes_t pixel)
{
    return (lanes_t)_mm_cvtepu8_epi32(_mm_cvtsi32_si128((int32_t)pixel));
}

static inline bytes_t narrow(lanes_t sum)
{
    const __m128i halves = _mm_packus_epi32((__m128i)sum, (__m128i)sum);
    return (bytes_t)_mm_cvtsi128_si32(_mm_packus_epi16(halves, halves));
}
#else
static inline lanes_t widen(bytes_t pixel)
{
    return __builtin_convertvector(pixel, lanes_t);
}

static inline bytes_t narrow(lanes_t sum)
{
    return __builtin_convertvector(sum, bytes_t);
}
#endif

/* One row: each pixel's three channels side by side in a vector. The fourth lane is the next pixel's, or room
 * behind the row; in the result the next pixel overwrites it. */
LOOP_CLONES static void resize_row(const axis_t *axis, const uint8_t *row, uint8_t *out)
{
    for (int64_t i = 0; i < axis->n_out; i++) {
        const int32_t *weights = axis->weights + i * axis->most;
        const uint8_t *pixels = row + (int64_t)RGB * axis->first[i];
        lanes_t sum = {HALF, HALF, HALF, HALF};
        for (int32_t k = 0; k < axis->n[i]; k++) {
            bytes_t pixel;
            memcpy(&pixel, pixels + RGB * k, sizeof pixel);
            sum += widen(pixel) * weights[k];
        }
        const bytes_t pixel = narrow(sum >> BITS);
        memcpy(out + RGB * i, &pixel, sizeof pixel);
    }
}

/* One row of the result, of rows in the ring, whose lengths are multiples of BLOCK. */
LOOP_CLONES static void mix_rows(const ring_t *ring, int64_t first, int32_t n, const int32_t *weights,
                                 int64_t n_bytes, uint8_t *out)
{
    const int64_t begin = first % ring->n_rows;
    for (int64_t at = 0; at < n_bytes; at += BLOCK) {
        int32_t sum[BLOCK];
        uint8_t block[BLOCK];
        for (int i = 0; i < BLOCK; i++) sum[i] = HALF;
        for (int32_t k = 0; k < n; k++) {
            const int64_t slot = begin + k < ring->n_rows ? begin + k : begin + k - ring->n_rows;
            const uint8_t *row = ring->rows + slot * ring->n_row_bytes + at;
            for (int i = 0; i < BLOCK; i++) sum[i] += weights[k] * row[i];
        }
        for (int i = 0; i < BLOCK; i++) block[i] = (uint8_t)(sum[i] >> BITS);
        memcpy(out + at, block, (size_t)(n_bytes - at < BLOCK ? n_bytes - at : BLOCK));
    }
}

static void resize_all(const image_t *image, const axis_t *x, const axis_t *y, const ring_t *ring,
                       uint8_t *rgb)
{
    const int64_t n_row = RGB * image->width, n_out_row = RGB * x->n_out;
    int64_t next = y->first[0];
    for (int64_t i = 0; i < y->n_out; i++) {
        const int64_t first = y->first[i], end = first + y->n[i];
        for (next = next < first ? first : next; next < end; next++) {
            const uint8_t *row = image->rgb + next * n_row;
            if (next == image->height - 1) row = memcpy(ring->last, row, (size_t)n_row);
            resize_row(x, row, ring->rows + next % ring->n_rows * ring->n_row_bytes);
        }
        mix_rows(ring, first, y->n[i], y->weights + i * y->most, n_out_row, rgb + i * n_out_row);
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
    /* A lane more than the pixels, which resize_row writes and reads. */
    ring_t ring = {.n_rows = y.most, .n_row_bytes = (RGB * width + 1 + BLOCK - 1) / BLOCK * BLOCK};
    const size_t n_x = axis_bytes(&x), n_y = axis_bytes(&y),
                 n_ring = (size_t)(ring.n_rows * ring.n_row_bytes);
    const size_t n_bytes = n_x + n_y + n_ring + (size_t)(RGB * image->width + 1);
    if (n_bytes > scratch->n_bytes) {
        resize_scratch_free(scratch);
        TRY(mem_new(n_bytes, "resizing pictures", &scratch->block));
        scratch->n_bytes = n_bytes;
    }
    uint8_t *block = scratch->block;
    fill_axis(&x, mirror, block);
    fill_axis(&y, false, block + n_x);
    ring.rows = block + n_x + n_y;
    ring.last = ring.rows + n_ring;
    resize_all(image, &x, &y, &ring, rgb);
    return ERR_OK;
}
