/* SPDX-License-Identifier: MIT */
/* Recomputes a sample of a convolution's elements in double precision, for each of the three passes. */
#include "tools/bench/conv_check.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"

int64_t conv_spot(int64_t count, int spot)
{
    if (spot == 0) return 0;
    if (spot == 1) return count - 1;
    rng_block_t block = rng_philox(rng_key(3, RNG_TEST), (uint32_t)spot, 0, 0, 0);
    uint64_t word = (uint64_t)block.word[0] << 32 | block.word[1];
    return (int64_t)(word % (uint64_t)count);
}

float *conv_result(const scratch_t *s, const op_desc_t *desc, op_pass_t pass, shape_t *shape)
{
    *shape = pass == OP_FORWARD ? desc->y[0] : pass == OP_BACKWARD_DATA ? desc->x[0] : desc->param[0];
    return pass == OP_FORWARD ? s->y : pass == OP_BACKWARD_DATA ? s->dx : s->dparam[0];
}

/* Flat index of [a, b, c, d]. */
static int64_t index4(shape_t shape, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return ((a * shape.dim[1] + b) * shape.dim[2] + c) * shape.dim[3] + d;
}

static void unravel4(shape_t shape, int64_t index, int64_t out[4])
{
    for (int i = 3; i >= 0; index /= shape.dim[i], i--) out[i] = index % shape.dim[i];
}

static bool in_image(shape_t image, int64_t h, int64_t w)
{
    return h >= 0 && h < image.dim[1] && w >= 0 && w < image.dim[2];
}

/* y[n, oh, ow, k] */
static double forward_at(const scratch_t *s, const op_desc_t *d, const int64_t i[4])
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    double sum = a->has_bias ? (double)s->param[1][i[3]] : 0;
    for (int r = 0; r < a->kernel_h; r++)
        for (int q = 0; q < a->kernel_w; q++) {
            int64_t h = i[1] * a->stride_h - a->pad_h + r, w = i[2] * a->stride_w - a->pad_w + q;
            for (int64_t c = 0; c < d->x[0].dim[3] && in_image(d->x[0], h, w); c++)
                sum += (double)s->x[index4(d->x[0], i[0], h, w, c)] *
                       (double)s->param[0][index4(d->param[0], i[3], r, q, c)];
        }
    return sum;
}

/* dx[n, h, w, c] */
static double backward_data_at(const scratch_t *s, const op_desc_t *d, const int64_t i[4])
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    double sum = 0;
    for (int r = 0; r < a->kernel_h; r++)
        for (int q = 0; q < a->kernel_w; q++) {
            int64_t h = i[1] + a->pad_h - r, w = i[2] + a->pad_w - q;
            if (h % a->stride_h || w % a->stride_w) continue;
            h /= a->stride_h, w /= a->stride_w;
            for (int64_t k = 0; k < d->y[0].dim[3] && in_image(d->y[0], h, w); k++)
                sum += (double)s->dy[index4(d->y[0], i[0], h, w, k)] *
                       (double)s->param[0][index4(d->param[0], k, r, q, i[3])];
        }
    return sum;
}

/* dweight[k, r, q, c] */
static double backward_weights_at(const scratch_t *s, const op_desc_t *d, const int64_t i[4])
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    double sum = 0;
    for (int64_t n = 0; n < d->y[0].dim[0]; n++)
        for (int64_t oh = 0; oh < d->y[0].dim[1]; oh++)
            for (int64_t ow = 0; ow < d->y[0].dim[2]; ow++) {
                int64_t h = oh * a->stride_h - a->pad_h + i[1], w = ow * a->stride_w - a->pad_w + i[2];
                if (!in_image(d->x[0], h, w)) continue;
                sum += (double)s->dy[index4(d->y[0], n, oh, ow, i[0])] *
                       (double)s->x[index4(d->x[0], n, h, w, i[3])];
            }
    return sum;
}

static double terms_of(const op_desc_t *d, op_pass_t pass)
{
    const conv2d_attr_t *a = &d->attr.conv2d;
    double window = (double)a->kernel_h * a->kernel_w;
    if (pass == OP_FORWARD) return window * (double)d->x[0].dim[3];
    if (pass == OP_BACKWARD_DATA) return window * (double)d->y[0].dim[3];
    return (double)d->y[0].dim[0] * (double)d->y[0].dim[1] * (double)d->y[0].dim[2];
}

int conv_check(const scratch_t *s, const op_desc_t *d, op_pass_t pass, const char *algorithm)
{
    static double (*const value_at[OP_PASS_COUNT])(const scratch_t *, const op_desc_t *, const int64_t *) = {
        forward_at, backward_data_at, backward_weights_at};
    double want[CONV_SPOTS], root = sqrt(terms_of(d, pass)), scale = root;
    double growth = strncmp(algorithm, "winograd", 8) == 0 ? 4 : 1;
    shape_t shape;
    const float *got = conv_result(s, d, pass, &shape);
    int64_t count = shape_count(shape), index[4];
    int n_wrong = 0;
    for (int i = 0; i < CONV_SPOTS; i++) {
        unravel4(shape, conv_spot(count, i), index);
        want[i] = value_at[pass](s, d, index);
        scale = fmax(scale, fabs(want[i]));
    }
    for (int i = 0; i < CONV_SPOTS; i++) {
        double difference = fabs((double)got[conv_spot(count, i)] - want[i]);
        n_wrong += !(difference <= growth * 4 * (double)FLT_EPSILON * root * scale); /* NaN is wrong, too */
    }
    return n_wrong;
}
