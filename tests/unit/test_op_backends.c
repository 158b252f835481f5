/* SPDX-License-Identifier: MIT */
/* Every operator of a device against ref on odd shapes, forward, backward and in evaluation.
 *
 * Tolerance: data are standard normal, so a sum of K products has size about √K, and adding in float loses at
 * most about u·√K of that in standard deviations (u = 2^-24, errors independent). Allowed:
 * 4·FLT_EPSILON·√K·scale, eight standard deviations or more, where scale is the largest reference value of
 * the tensor or the size √K of the terms' sum, whichever is larger. Where results are differences of larger
 * terms (batch norm, softmax) scale is the size of those. K = 0: no arithmetic with a choice, so the values
 * are equal.
 *
 * Winograd's transforms add and take away terms larger than the result (Lavin & Gray, "Fast Algorithms for
 * Convolutional Neural Networks", 2016, section 7), and it is allowed four times as much. Measured over the
 * cases here: the largest error of any other algorithm is 0.16 of the tolerance, Winograd's 0.49.
 *
 * Products of bfloat16 have the tolerances of float32: both sides round the same operands and add in float32
 * or better. Those of tf32, where a device has them, are compared with float32's: cutting two factors to 10
 * bits of fraction changes a product by up to 4·2^-11 of it (two, where they are rounded), one of standard
 * normal ones by some 2^-11, and a sum of K of them by √K times as much; eight times that, or the former, is
 * allowed besides.
 *
 * ref computes the other side of each comparison, so it needs no run of its own.
 *
 * RUN device=cpu,cuda slow=cuda san=slow isa=avx2,avx512,avx512_bf16 */
#include <float.h>

#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

static const op_desc_t cases[] = {
    /* LeNet-5 */
    CONV(2, 28, 28, 1, 20, 5, 5, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(1, 12, 12, 20, 50, 5, 5, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(1, 28, 28, 1, 6, 5, 5, 1, 1, 2, 2, 1, 1, 1, true),
    /* a bit of everything */
    CONV(1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(1, 1, 1, 7, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 7, 5, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
    /* primes, rectangles, 1x1 */
    CONV(3, 11, 7, 5, 13, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
    CONV(2, 13, 17, 3, 11, 3, 5, 2, 1, 1, 2, 1, 1, 1, true),
    CONV(5, 7, 7, 17, 19, 1, 1, 1, 1, 0, 0, 1, 1, 1, false),
    CONV(2, 9, 11, 16, 32, 1, 1, 2, 2, 0, 0, 1, 1, 1, true),
    CONV(1, 1, 31, 2, 3, 1, 7, 1, 3, 0, 3, 1, 1, 1, true),
    /* stem of ResNet; a kernel larger than half of the image; as large as the padded image */
    CONV(1, 37, 35, 3, 16, 7, 7, 2, 2, 3, 3, 1, 1, 1, false),
    CONV(2, 6, 8, 3, 4, 5, 5, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(3, 5, 4, 6, 9, 7, 6, 1, 1, 1, 1, 1, 1, 1, true),
    /* stride larger than the kernel: pixels that nothing reads have gradient 0 */
    CONV(2, 11, 10, 3, 5, 2, 2, 3, 4, 0, 0, 1, 1, 1, true),
    CONV(1, 9, 9, 8, 8, 1, 1, 3, 3, 0, 0, 1, 1, 1, false),
    /* dilation, groups, depthwise; usual channel counts */
    CONV(2, 12, 11, 4, 6, 3, 3, 1, 1, 2, 2, 2, 2, 1, true),
    CONV(1, 13, 13, 3, 3, 3, 2, 2, 1, 3, 1, 3, 2, 1, false),
    CONV(2, 8, 9, 6, 10, 3, 3, 1, 1, 1, 1, 1, 1, 2, true),
    CONV(2, 7, 6, 8, 8, 3, 3, 2, 2, 1, 1, 1, 1, 8, true),
    CONV(1, 9, 8, 5, 10, 3, 3, 1, 1, 1, 1, 1, 1, 5, false),
    CONV(1, 10, 10, 16, 16, 3, 3, 1, 1, 2, 2, 2, 2, 4, true),
    CONV(1, 14, 14, 16, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
    /* shapes for blocked layouts and Winograd; windows of many pixels, processed in parts that end inside an
     * image */
    CONV(2, 14, 14, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 13, 11, 32, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
    CONV(3, 7, 5, 16, 32, 3, 3, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(1, 3, 4, 48, 16, 3, 3, 1, 1, 2, 2, 1, 1, 1, true),
    CONV(1, 40, 30, 48, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 7, 7, 192, 192, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(3, 9, 9, 32, 64, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(2, 33, 29, 40, 3, 5, 5, 1, 1, 2, 2, 1, 1, 1, true),
    CONV(3, 41, 37, 33, 7, 3, 3, 2, 2, 1, 1, 1, 1, 1, false),
    CONV(2, 40, 31, 35, 9, 3, 5, 1, 2, 4, 2, 3, 2, 1, true),
    /* edges of tiles: pixels and filters one more and one less than 32, 64 and 128, windows than 16; enough
     * pixels for large tiles; many filters; many groups of one channel and of several, with strides and
     * dilation */
    CONV(1, 1, 127, 2, 31, 1, 8, 1, 1, 0, 7, 1, 1, 1, true),
    CONV(1, 3, 43, 17, 33, 1, 1, 1, 1, 0, 0, 1, 1, 1, false),
    CONV(1, 8, 8, 5, 65, 1, 3, 1, 1, 0, 1, 1, 1, 1, true),
    CONV(1, 11, 3, 15, 64, 1, 1, 1, 1, 1, 0, 1, 1, 1, true),
    CONV(1, 190, 180, 1, 33, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(1, 95, 90, 3, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 182, 187, 33, 2, 1, 1, 1, 1, 0, 0, 1, 1, 1, false),
    CONV(2, 6, 7, 64, 129, 1, 1, 2, 1, 0, 0, 1, 1, 1, true),
    CONV(3, 9, 8, 36, 36, 3, 3, 2, 1, 1, 2, 1, 2, 36, true),
    CONV(2, 10, 9, 24, 40, 3, 2, 1, 2, 2, 1, 2, 1, 4, true),
    CONV(2, 7, 9, 12, 20, 1, 1, 1, 1, 0, 0, 1, 1, 4, true),
    CONV(1, 33, 32, 8, 70, 3, 3, 1, 1, 1, 1, 1, 1, 2, false),
    LINEAR(3, 800, 500, true),
    LINEAR(64, 500, 10, true),
    LINEAR(1, 1, 1, true),
    LINEAR(1, 17, 1, false),
    LINEAR(1, 1, 19, true),
    LINEAR(13, 1, 1, true),
    LINEAR(3, 31, 37, false),
    LINEAR(7, 4096, 11, true),
    LINEAR(1, 1021, 203, true),
    LINEAR(127, 13, 3, true),
    LINEAR(2, 784, 257, false),
    {.kind = OP_LINEAR, .n_inputs = 1, .x = {{4, {5, 4, 4, 50}}}, .attr.linear = {33, true}},
    {.kind = OP_LINEAR, .n_inputs = 1, .x = {{3, {2, 3, 7}}}, .attr.linear = {5, false}},
    POOL(2, 24, 24, 20, POOL_MAX, 2, 2, 2, 2, 0, 0),
    POOL(3, 8, 8, 50, POOL_MAX, 2, 2, 2, 2, 0, 0),
    POOL(2, 13, 11, 3, POOL_MAX, 3, 3, 2, 2, 1, 1),
    POOL(1, 7, 7, 1, POOL_MAX, 3, 3, 1, 1, 1, 1),
    POOL(1, 1, 1, 1, POOL_MAX, 1, 1, 1, 1, 0, 0),
    POOL(2, 5, 7, 5, POOL_MAX, 2, 3, 3, 4, 0, 1),
    POOL(1, 9, 10, 2, POOL_MAX, 7, 6, 1, 1, 3, 2),
    POOL(2, 5, 9, 17, POOL_MAX, 5, 9, 1, 1, 0, 0),
    POOL(2, 7, 5, 4, POOL_MAX, 2, 2, 2, 2, 0, 0),
    POOL(1, 20, 19, 2, POOL_MAX, 20, 19, 1, 1, 0, 0),
    POOL(2, 18, 17, 4, POOL_MAX, 16, 16, 1, 1, 0, 0),
    POOL(1, 19, 18, 8, POOL_MAX, 17, 16, 2, 1, 8, 5),
    POOL(2, 15, 14, 12, POOL_MAX, 3, 3, 2, 2, 1, 1),
    POOL(2, 15, 14, 12, POOL_AVG, 3, 2, 2, 1, 1, 1),
    POOL(2, 24, 24, 6, POOL_AVG, 2, 2, 2, 2, 0, 0),
    POOL(2, 11, 13, 3, POOL_AVG, 3, 3, 2, 2, 1, 1),
    POOL(1, 1, 1, 1, POOL_AVG, 1, 1, 1, 1, 0, 0),
    POOL(3, 7, 7, 64, POOL_AVG, 7, 7, 1, 1, 0, 0),
    POOL(2, 5, 7, 5, POOL_AVG, 2, 3, 3, 4, 0, 1),
    POOL(1, 9, 10, 2, POOL_AVG, 7, 6, 1, 1, 3, 2),
    POOL(2, 7, 5, 4, POOL_AVG, 2, 2, 2, 2, 1, 1),
    RELU({4, {3, 5, 7, 11}}),
    RELU({2, {1, 1}}),
    RELU({2, {33, 500}}),
    RELU({4, {2, 24, 24, 20}}),
    RELU({5, {2, 3, 1, 5, 7}}),
    DROPOUT(0.5, {2, {64, 500}}),
    DROPOUT(0.1, {4, {3, 5, 7, 3}}),
    DROPOUT(0.0, {2, {3, 17}}),
    DROPOUT(0.999, {2, {2, 1001}}),
    DROPOUT(0.3, {2, {5, 1}}),
    ADD({4, {3, 5, 7, 11}}),
    ADD({2, {1, 1}}),
    ADD({2, {33, 1009}}),
    ADD({3, {2, 3, 5}}),
    UPSAMPLE_ADD(2, 5, 7, 11),
    UPSAMPLE_ADD(1, 1, 1, 1),
    UPSAMPLE_ADD(2, 25, 34, 64),
    DECONV(3, 14, 14, 32, 24, 2, true),
    DECONV(2, 3, 5, 7, 5, 3, false),
    DECONV(1, 1, 1, 1, 1, 1, true),
    ROI_ALIGN(2, 120, 128, 3, 23, 7, 7, 2),
    ROI_ALIGN(1, 24, 40, 64, 5, 3, 2, 0),
    ROI_ALIGN(2, 24, 40, 20, 9, 3, 2, 0, true),
    ROI_ALIGN(3, 8, 8, 17, 40, 1, 1, 1),
    NORM(0.1, 1e-5, {4, {4, 7, 5, 16}}),
    NORM(0.1, 1e-5, {4, {2, 3, 3, 1}}),
    NORM(0.5, 1e-3, {2, {17, 13}}),
    NORM(0.1, 1e-5, {2, {2, 5}}),
    NORM(0.1, 1e-5, {2, {1, 3}}),
    NORM(1.0, 1e-5, {4, {1, 31, 29, 3}}),
    NORM(0.0, 1e-2, {3, {5, 11, 7}}),
    NORM(0.1, 1e-5, {4, {3, 1, 1, 64}}),
    NORM(0.1, 1e-5, {4, {5, 14, 14, 32}}),
    NORM_GROUPS(2, {4, {4, 7, 5, 16}}),
    NORM_GROUPS(3, {4, {7, 5, 5, 3}}),
    NORM_GROUPS(1, {4, {3, 12, 13, 5}}),
    NORM_GROUPS(4, {2, {17, 13}}),
    NORM_GROUPS(9, {2, {5, 4}}),
    /* rows and channels divided among many threads; more groups than rows per group */
    NORM(0.1, 1e-5, {4, {6, 28, 28, 64}}),
    NORM(0.1, 1e-5, {4, {3, 61, 67, 1}}),
    NORM(0.1, 1e-5, {4, {7, 5, 5, 260}}),
    NORM(0.1, 1e-5, {2, {300, 131}}),
    NORM_GROUPS(5, {4, {13, 6, 6, 72}}),
    NORM_GROUPS(2, {4, {7, 30, 31, 6}}),
    NORM_GROUPS(1, {3, {70, 2, 8}}),
    GROUP_NORM(4, {4, {4, 7, 5, 16}}),
    GROUP_NORM(1, {4, {1, 31, 29, 3}}),
    GROUP_NORM(5, {4, {1, 9, 11, 5}}),
    GROUP_NORM(32, {4, {3, 17, 12, 64}}),
    GROUP_NORM(13, {2, {17, 52}}),
    GROUP_NORM(2, {4, {7, 30, 31, 6}}),
    XENT(64, 10, 0.0),
    XENT(64, 10, 0.1),
    XENT(1, 1, 0.0),
    XENT(1, 2, 0.5),
    XENT(7, 1000, 0.1),
    XENT(3, 17, 0.0),
    XENT(1, 1001, 0.0),
    XENT(129, 3, 0.3),
    XENT(5, 1024, 0.1),
    XENT(3, 5003, 0.0),
    XENT_WEIGHTS(64, 91, 0.0),
    XENT_WEIGHTS(5, 1030, 0.1),
    BCE(64, 80),
    BCE(1, 1),
    BCE(7, 31),
    BCE(3, 33),
    BCE(2, 5003),
    BCE(131, 3),
    SMOOTH_L1(64, 1, 91, 1, 1.0 / 9),
    SMOOTH_L1(1, 3000, 1, 3000, 0),
    BCE_AT(5, 196, 7, 1),
    BCE_AT(2, 3000, 1, 1000),
    BCE_LABELS(2, 3000),
};

/* Lengths of the sums, 0 if the values must be equal, and scales that differ from the values' own. */
typedef struct limits {
    double k_y, k_dx, k_param;
    double scale_y, scale_dx, scale_param;
} limits_t;

static double largest(const float *block, shape_t shape)
{
    double max = 0;
    for (int64_t i = 0; i < shape_count(shape); i++) max = fmax(max, fabs((double)block[i]));
    return max;
}

/* The largest 1/std of any sample's group of channels. */
static void group_scale(const op_run_t *r, double *inverse_std)
{
    const op_desc_t *d = &r->op->desc;
    const int64_t n_c = d->param[0].dim[0], channels = n_c / d->attr.group_norm.groups;
    const int64_t n_pixels = shape_count(d->y[0]) / n_c / d->y[0].dim[0];
    *inverse_std = 0;
    for (int64_t n = 0; n < d->y[0].dim[0]; n++)
        for (int64_t first = 0; first < n_c; first += channels) {
            const float *x = r->x[0] + n * n_pixels * n_c + first;
            double mean = 0, variance = 0, m = (double)(n_pixels * channels);
            for (int64_t i = 0; i < n_pixels * channels; i++)
                mean += x[i / channels * n_c + i % channels] / m;
            for (int64_t i = 0; i < n_pixels * channels; i++)
                variance += pow(x[i / channels * n_c + i % channels] - mean, 2) / m;
            *inverse_std = fmax(*inverse_std, 1 / sqrt(variance + d->attr.group_norm.epsilon));
        }
}

/* x̂ is a difference of values around `mean`, times 1/std: the size of both, worst channel of the worst
 * group. */
static void norm_scales(const op_run_t *r, double *inverse_std, double *xhat)
{
    const op_desc_t *d = &r->op->desc;
    int64_t channels = d->param[0].dim[0], n_rows = shape_count(d->y[0]) / channels;
    int64_t group = d->attr.batch_norm.group && r->args.training ? d->attr.batch_norm.group : d->y[0].dim[0];
    if (d->kind == OP_GROUP_NORM) {
        group_scale(r, inverse_std);
        *xhat = largest(r->x[0], d->x[0]) * *inverse_std;
        return;
    }
    int64_t group_rows = n_rows / d->y[0].dim[0] * group;
    *inverse_std = *xhat = 0;
    for (int64_t first = 0; first < n_rows; first += group_rows)
        for (int64_t c = 0; c < channels; c++) {
            double mean = 0, variance = 0;
            int64_t end = first + group_rows < n_rows ? first + group_rows : n_rows;
            double m = (double)(end - first);
            for (int64_t i = first; i < end; i++) mean += r->x[0][i * channels + c] / m;
            for (int64_t i = first; i < end; i++) variance += pow(r->x[0][i * channels + c] - mean, 2) / m;
            variance = r->args.training ? variance : (double)r->state[1][c];
            *inverse_std = fmax(*inverse_std, 1 / sqrt(variance + d->attr.batch_norm.epsilon));
        }
    *xhat = largest(r->x[0], d->x[0]) * *inverse_std;
}

static double rows_of_regions(const op_desc_t *d)
{
    return (double)d->x[ROI_ALIGN_LEVELS].dim[0];
}

static limits_t limits_of(const op_run_t *ref)
{
    const op_desc_t *d = &ref->op->desc;
    const conv2d_attr_t *conv = &d->attr.conv2d;
    double window = (double)d->attr.pool2d.kernel_h * d->attr.pool2d.kernel_w, inverse_std, xhat;
    double rows = (double)d->x[0].dim[0], n_y = (double)shape_count(d->y[0]);
    switch (d->kind) {
    case OP_CONV2D:
        window = (double)conv->kernel_h * conv->kernel_w / conv->groups;
        return (limits_t){window * (double)d->x[0].dim[3],
                          window * (double)d->y[0].dim[3],
                          n_y / (double)d->y[0].dim[3],
                          0,
                          0,
                          0};
    case OP_LINEAR:
        return (limits_t){(double)shape_sample_count(d->x[0]), (double)d->y[0].dim[1], rows, 0, 0, 0};
    case OP_POOL2D:
        return (limits_t){d->attr.pool2d.mode == POOL_MAX ? 0 : window, window, 0, 1, 0, 0};
    case OP_BATCH_NORM:
    case OP_GROUP_NORM:
        norm_scales(ref, &inverse_std, &xhat);
        rows = n_y / (double)d->param[0].dim[0];
        return (limits_t){rows,
                          rows,
                          rows,
                          (1 + xhat) * (1 + largest(ref->param[0], d->param[0])),
                          largest(ref->dy, d->y[0]) * largest(ref->param[0], d->param[0]) * inverse_std *
                              (1 + xhat),
                          largest(ref->dy, d->y[0]) * sqrt(rows) * (1 + xhat)};
    case OP_SMOOTH_L1:
    case OP_SIGMOID_BCE_AT:
        return (limits_t){1, 1, 0, 0, 0, 0};
    case OP_DECONV2D:
        window = (double)(d->attr.deconv2d.kernel * d->attr.deconv2d.kernel);
        return (limits_t){
            (double)d->x[0].dim[3], window * (double)d->y[0].dim[3], n_y / (double)d->y[0].dim[3], 0, 0, 0};
    case OP_ROI_ALIGN:
        /* A cell is read by some of the bins of each region. */
        return (limits_t){16, 16 * rows_of_regions(d), 0, 0, 0, 0};
    case OP_SOFTMAX_XENT:
        return (limits_t){(double)d->x[0].dim[1],          (double)d->x[0].dim[1],       0,
                          2 * largest(ref->x[0], d->x[0]), (double)ref->args.loss.scale, 0};
    case OP_SIGMOID_BCE:
        return (limits_t){
            1, 1, 0, 2 * largest(ref->x[0], d->x[0]), (double)ref->args.loss.scale / (double)d->x[0].dim[1],
            0};
    default:
        return (limits_t){0};
    }
}

/* The allowed multiple of the rounding error, by algorithm, and the error of its products: see the head of
 * this file. */
static double growth = 1, product_error = 0;

static bool close_to(const char *what, const float *got, const float *want, shape_t shape, double k,
                     double scale)
{
    double allowed =
        growth * 4 * FLT_EPSILON * sqrt(k) * fmax(largest(want, shape), scale > 0 ? scale : sqrt(k)) +
        product_error * fmax(8 * sqrt(k), 4 * largest(want, shape));
    int64_t n_bad = 0;
    for (int64_t i = 0; i < shape_count(shape); i++) {
        if (fabs((double)got[i] - (double)want[i]) <= allowed) continue;
        if (n_bad++ == 0)
            printf("# %s[%lld] of %s: %.9g, ref %.9g, allowed difference %.3g\n", what, (long long)i,
                   shape_format(shape).text, (double)got[i], (double)want[i], allowed);
    }
    if (n_bad) printf("# %s: %lld elements differ\n", what, (long long)n_bad);
    bool inside = util_guards_hold(got, shape);
    if (!inside) printf("# %s: written beyond its end\n", what);
    return n_bad == 0 && inside;
}

static bool same_forward(const op_run_t *got, const op_run_t *ref)
{
    const op_desc_t *d = &ref->op->desc;
    limits_t limit = limits_of(ref);
    bool same = close_to("y", got->y, ref->y, d->y[0], limit.k_y, limit.scale_y);
    for (int i = 0; i < d->n_states; i++)
        same = close_to(i ? "state1" : "state0", got->state[i], ref->state[i], d->state[i], limit.k_y, 1) &&
               same;
    if (d->kind == OP_SOFTMAX_XENT)
        for (int64_t n = 0; n < d->x[0].dim[0]; n++)
            same = same && got->predictions[n] == ref->predictions[n];
    return same;
}

static bool same_backward(const op_run_t *got, const op_run_t *ref)
{
    const op_desc_t *d = &ref->op->desc;
    limits_t limit = limits_of(ref);
    bool same = true;
    for (int i = 0; i < d->n_inputs && got->args.dx[i].data; i++)
        same =
            close_to(i ? "dx1" : "dx0", got->dx[i], ref->dx[i], d->x[i], limit.k_dx, limit.scale_dx) && same;
    /* cuDNN's is rounded to bfloat16. */
    const bool rounded =
        strncmp(got->op->algorithms.name[OP_BACKWARD_WEIGHTS], "cudnn", 5) == 0 && d->compute == DTYPE_BF16;
    for (int i = 0; i < d->n_params; i++) {
        const double error = product_error;
        if (rounded && i == 0) product_error = 0x1p-10;
        same = close_to(i ? "dparam1" : "dparam0", got->dparam[i], ref->dparam[i], d->param[i], limit.k_param,
                        limit.scale_param) &&
               same;
        product_error = error;
    }
    return same;
}

static void spoil(float *block, shape_t shape)
{
    for (int64_t i = 0; i < shape_count(shape); i++) block[i] = NAN;
}

/* Backward of the batch in the buffers, after overwriting everything that it may not read. */
static void backward(op_run_t *r)
{
    const op_desc_t *d = &r->op->desc;
    const op_traits_t *traits = op_traits(d->kind);
    for (int i = 0; i < d->n_inputs; i++) {
        if (!(r->op->reads_x >> i & 1)) spoil(r->x[i], d->x[i]);
        if (r->dx[i]) spoil(r->dx[i], d->x[i]);
    }
    for (int i = 0; i < d->n_params; i++) spoil(r->dparam[i], d->param[i]);
    if (!(r->op->reads_y & 1)) spoil(r->y, d->y[0]);
    if (traits->loss) spoil(r->dy, d->y[0]);
    memset(r->workspace, 0xff, r->op->n_workspace_bytes);
    must(op_run_backward(r), "backward");
}

static void copy(float *to, const float *from, shape_t shape)
{
    memcpy(to, from, (size_t)shape_count(shape) * sizeof *to);
}

/* Random numbers take longer to draw than most operators to run, so they are drawn once per case. */
static void give(op_run_t *r, const op_run_t *given)
{
    const op_desc_t *d = &r->op->desc;
    for (int i = 0; i < d->n_inputs; i++) copy(r->x[i], given->x[i], d->x[i]);
    for (int i = 0; i < d->n_params; i++) copy(r->param[i], given->param[i], d->param[i]);
    for (int i = 0; i < d->n_states; i++) copy(r->state[i], given->state[i], d->state[i]);
    copy(r->dy, given->dy, d->y[0]);
}

static void forward(op_run_t *r, const op_run_t *given)
{
    give(r, given);
    spoil(r->y, r->op->desc.y[0]);
    memset(r->workspace, 0xff, r->op->n_workspace_bytes);
    must(op_run_forward(r), "forward");
}

/* ref's results for a case, computed once for all of its algorithms, from `given` and from another batch. */
typedef struct expected {
    const op_desc_t *desc;
    op_run_t given, other, trained, evaluated;
} expected_t;

/* A device's tf32 results are compared with ref's float32 results. */
static expected_t expect(const op_desc_t *desc, uint64_t seed)
{
    op_desc_t exact = *desc;
    expected_t e = {.desc = desc};
    op_run_t *runs[] = {&e.given, &e.other, &e.trained, &e.evaluated};
    product_error = desc->compute == DTYPE_TF32 ? 0x1p-11 : 0;
    if (desc->compute == DTYPE_TF32) exact.compute = DTYPE_F32;
    for (int i = 0; i < 4; i++) *runs[i] = op_run_new(&backend_ref, exact, runs[i] != &e.evaluated);
    op_run_fill(&e.given, seed), op_run_fill(&e.other, seed + 1);
    forward(&e.trained, &e.given);
    must(op_run_backward(&e.trained), "backward");
    e.evaluated.args.training = false;
    forward(&e.evaluated, &e.given);
    return e;
}

static void expected_free(expected_t *e)
{
    op_run_free(&e->given), op_run_free(&e->other), op_run_free(&e->trained), op_run_free(&e->evaluated);
}

/* An operator must not depend on an earlier batch. */
static void serve(op_run_t *r, const expected_t *e)
{
    forward(r, &e->other);
    backward(r);
    forward(r, &e->given);
}

/* Runs a case with one algorithm in all passes that have it; NULL: with the defaults. */
static void compare(const backend_t *device, const expected_t *e, const op_algorithms_t *algorithms,
                    const char *algorithm)
{
    const op_desc_t *desc = e->desc;
    op_run_t got = op_run_with(device, *desc, true, algorithms);
    char name[64];
    snprintf(name, sizeof name, "%s%s%s%s",
             desc->compute == DTYPE_BF16   ? "bf16 "
             : desc->compute == DTYPE_TF32 ? "tf32 "
                                           : "",
             op_traits(desc->kind)->name, algorithm ? " by " : "", algorithm ? algorithm : "");
    growth = algorithm && strncmp(algorithm, "winograd", 8) == 0 ? 4 : 1;
    shape_text_t x = shape_format(desc->x[0]), y = shape_format(e->trained.op->desc.y[0]);
    serve(&got, e);
    OK(same_forward(&got, &e->trained), "%s forward, %s to %s", name, x.text, y.text);
    backward(&got);
    OK(same_backward(&got, &e->trained), "%s backward, %s to %s", name, x.text, y.text);

    for (int i = 0; i < OP_MAX_INPUTS; i++) got.args.dx[i].data = NULL;
    forward(&got, &e->given);
    backward(&got);
    OK(same_backward(&got, &e->trained), "%s backward without dx, %s", name, x.text);

    op_run_t eval = op_run_with(device, *desc, false, algorithms);
    got.args.training = false;
    forward(&got, &e->given), forward(&eval, &e->given);
    OK(same_forward(&got, &e->evaluated) && same_forward(&eval, &e->evaluated), "%s in evaluation, %s", name,
       x.text);
    op_run_free(&eval), op_run_free(&got);
}

/* Every algorithm of any pass of the case. The names are static. In bfloat16, float32's algorithms run on
 * rounded operands: these are tested in some cases, bfloat16's own in all. */
static int algorithms_of(const backend_t *device, const op_desc_t *desc, bool all, const char **names,
                         op_algorithms_t *wanted)
{
    op_desc_t d = *desc;
    int n = 0;
    must(op_infer(&d), "op_infer");
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        const char *here[OP_MAX_ALGORITHMS];
        int n_here = op_list_algorithms(device, &d, (op_pass_t)pass, true, here, OP_MAX_ALGORITHMS);
        for (int i = 0; i < n_here; i++) {
            int k = 0;
            if (!all && !strstr(here[i], "bf16")) continue;
            while (k < n && strcmp(names[k], here[i]) != 0) k++;
            if (k == n) wanted[k] = (op_algorithms_t){0}, names[n++] = here[i];
            snprintf(wanted[k].name[pass], OP_ALGORITHM_MAX, "%s", here[i]);
        }
    }
    return n;
}

enum { MANY = 3 * OP_MAX_ALGORITHMS };

/* Gradients of parameters that are not requested. */
static void compare_without_dparam(const backend_t *device, const expected_t *e,
                                   const op_algorithms_t *algorithms, const char *algorithm)
{
    op_run_t got = op_run_with(device, *e->desc, true, algorithms);
    limits_t limit = limits_of(&e->trained);
    forward(&got, &e->given);
    for (int i = 0; i < OP_MAX_PARAMS; i++) got.args.dparam[i].data = NULL;
    backward(&got);
    OK(close_to("dx", got.dx[0], e->trained.dx[0], e->desc->x[0], limit.k_dx, limit.scale_dx),
       "%s by %s backward without dparam", op_traits(e->desc->kind)->name, algorithm);
    op_run_free(&got);
}

static void compare_algorithms(const backend_t *device, const expected_t *e, bool all)
{
    const char *names[MANY];
    op_algorithms_t wanted[MANY];
    int n = algorithms_of(device, e->desc, all, names, wanted);
    for (int i = 0; i < n; i++) {
        op_desc_t d = *e->desc;
        op_t *op;
        must(op_infer(&d), "op_infer");
        must(op_plan(device, &d, true, &wanted[i], &op), "op_plan");
        bool used = true;
        for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
            const char *name = op->algorithms.name[pass], *want = wanted[i].name[pass];
            used = used && (want[0] ? strcmp(name, want) == 0 : name[0] != '\0');
        }
        OK(used, "%s is used if requested", names[i]);
        op_free(&op);
        compare(device, e, &wanted[i], names[i]);
        compare_without_dparam(device, e, &wanted[i], names[i]);
    }
}

static int count_algorithms(const backend_t *device, const op_desc_t *desc, bool all)
{
    const char *names[MANY];
    op_algorithms_t wanted[MANY];
    return algorithms_of(device, desc, all, names, wanted);
}

/* Lengths that are not multiples of a vector, and addresses that are not aligned to one. */
static void compare_flat(const backend_t *device, int64_t n, int64_t offset)
{
    const backend_t *on[2] = {device, &backend_ref};
    shape_t shape = shape_1d(n + offset);
    size_t n_bytes = (size_t)(n + offset) * sizeof(float);
    float *w[2], *v[2], *g[2];
    rng_t rng = rng_new(9, RNG_TEST, 2);
    for (int i = 0; i < 2; i++)
        w[i] = util_floats(on[i], shape), v[i] = util_floats(on[i], shape), g[i] = util_floats(on[i], shape);
    util_normal(g[0], shape, &rng), util_normal(w[0], shape, &rng), util_normal(v[0], shape, &rng);
    memcpy(w[1], w[0], n_bytes), memcpy(v[1], v[0], n_bytes), memcpy(g[1], g[0], n_bytes);
    for (int i = 0; i < 2; i++) {
        optim_args_t args = {.weight = w[i] + offset,
                             .gradient = g[i] + offset,
                             .state = {v[i] + offset},
                             .n = n,
                             .lr = 0.03,
                             .momentum = 0.9,
                             .gradient_scale = 1};
        must(util_optim(on[i], OPTIM_SGD, &args), "sgd");
    }
    OK(close_to("v", v[0], v[1], shape, 2, 0) && close_to("w", w[0], w[1], shape, 2, 0),
       "sgd of %lld at offset %lld", (long long)n, (long long)offset);
    for (int i = 0; i < 2; i++) {
        must(on[i]->accumulate(util_device(v[i] + offset), util_device(g[i] + offset), n, DTYPE_F32),
             "accumulate");
        util_pull(on[i]);
    }
    OK(close_to("v", v[0], v[1], shape, 2, 0), "accumulate of %lld at offset %lld", (long long)n,
       (long long)offset);
    for (int i = 0; i < 2; i++) util_free(&w[i]), util_free(&v[i]), util_free(&g[i]);
}

/* With sanitizers: every operator, and the algorithms of some cases. */
enum { SWEEP_EVERY = UNDER_SANITIZER ? 16 : 1 };

int main(int argc, char **argv)
{
    enum { N_CASES = sizeof cases / sizeof cases[0], SOME = 4 };
    static const int64_t lengths[] = {0, 1, 7, 1000, 65539};
    enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };
    const backend_t *device = util_open(argc, argv, 2);
    int n_algorithms = 0, n_cases = 0;
    static op_desc_t all[3 * N_CASES];
    for (int i = 0; i < N_CASES; i++)
        if (util_has(device, &cases[i])) all[n_cases++] = cases[i];
    const int n_plain = n_cases;
    /* tests/emu is slow, and computes every precision alike: some cases are enough. */
    const backend_device_t *gpu = device->device ? device->device() : NULL;
    int every = gpu && strstr(gpu->name, "emulated") && !getenv("DPTRAIN_TEST_SLOW") ? 2 * SOME : 1;
    for (int i = 0; i < N_CASES; i++) {
        if ((cases[i].kind != OP_CONV2D && cases[i].kind != OP_LINEAR) || i % every) continue;
        all[n_cases] = cases[i];
        all[n_cases++].compute = DTYPE_BF16;
        if (!device->kernel[cases[i].kind]->tf32) continue;
        all[n_cases] = cases[i];
        all[n_cases++].compute = DTYPE_TF32;
    }
    const int n_swept = every == 1 ? n_plain : 0; /* with all algorithms, as is each fourth case */
    for (int i = 0; i < n_cases; i += SWEEP_EVERY)
        n_algorithms += count_algorithms(device, &all[i], i < n_swept || i % SOME == 0);
    tap_plan(4 * n_cases + 6 * n_algorithms + 4 * N_LENGTHS + 2);
    OK(util_has_all(cases, sizeof cases[0], N_CASES), "every operator has a case");
    for (int i = 0; i < n_cases; i++) {
        expected_t e = expect(&all[i], 100 + 2 * (uint64_t)i);
        compare(device, &e, NULL, NULL);
        if (i % SWEEP_EVERY == 0) compare_algorithms(device, &e, i < n_swept || i % SOME == 0);
        expected_free(&e);
    }
    growth = 1, product_error = 0;
    for (int i = 0; i < N_LENGTHS; i++)
        compare_flat(device, lengths[i], 0), compare_flat(device, lengths[i], 1);
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
