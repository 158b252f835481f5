/* SPDX-License-Identifier: MIT */
/* Every operator's gradients against differences of its own forward pass.
 *
 * Objective: L = Σ r·y in double with random r (for losses, which read no dy, L = loss_scale · Σ y).
 * Derivative by the five-point stencil (8(L(h)−L(−h)) − (L(2h)−L(−2h))) / 12h, with h = 1/32. Every value
 * lies on a grid of 1/256, so that value ± h is exact in float.
 *
 * Tolerance: a forward pass rounds y to float after sums of K terms, so that each r·y of L is off by about
 * u·√K·|r·y|, u = 2^-24, independently of the others; L by u·√K·√Σ(r·y)². The stencil weighs four such errors
 * by at most 8/12h: together √(2·8² + 2)/12h < 1/h times that. Allowed: 4 of these standard deviations, plus
 * 1e-4 of the largest gradient of the tensor for the stencil's own error, h⁴/30 ≈ 3e-8 times the fifth
 * derivative (only batch norm and losses have one). A missing term, a wrong sign or a wrong index is larger
 * by orders of magnitude.
 *
 * RUN device=ref,cpu,cuda isa=avx2,avx512,avx512_bf16 */
#include "tests/op_util.h"
#include "tests/tap.h"

enum { ENOUGH = 60 };
static const float step = 1.0f / 32;

typedef struct gradient_case {
    const char *what;
    double k; /* number of terms in a sum of the forward pass */
    op_desc_t desc;
} gradient_case_t;

static const gradient_case_t cases[] = {
    {"conv2d 3x3", 27, CONV(2, 5, 5, 3, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, true)},
    {"conv2d without bias", 18, CONV(1, 5, 4, 2, 3, 3, 3, 1, 1, 0, 0, 1, 1, 1, false)},
    {"conv2d 1x1", 5, CONV(2, 3, 3, 5, 3, 1, 1, 1, 1, 0, 0, 1, 1, 1, true)},
    {"conv2d 1x1 stride 2", 3, CONV(1, 5, 5, 3, 2, 1, 1, 2, 2, 0, 0, 1, 1, 1, false)},
    {"conv2d 5x5", 25, CONV(2, 8, 8, 1, 3, 5, 5, 1, 1, 0, 0, 1, 1, 1, true)},
    {"conv2d stride 2x3", 18, CONV(2, 7, 9, 2, 3, 3, 3, 2, 3, 1, 1, 1, 1, 1, true)},
    {"conv2d stride larger than the kernel", 8, CONV(1, 7, 8, 2, 2, 2, 2, 3, 3, 0, 1, 1, 1, 1, true)},
    {"conv2d 2x3 padded 2x0", 12, CONV(1, 5, 7, 2, 3, 2, 3, 1, 1, 2, 0, 1, 1, 1, true)},
    {"conv2d dilation 2x3", 12, CONV(1, 7, 9, 2, 2, 3, 2, 1, 2, 1, 2, 2, 3, 1, true)},
    {"conv2d 2 groups", 18, CONV(2, 4, 5, 4, 6, 3, 3, 1, 1, 1, 1, 1, 1, 2, true)},
    {"conv2d depthwise", 9, CONV(1, 5, 5, 5, 5, 3, 3, 2, 2, 1, 1, 1, 1, 5, true)},
    {"conv2d depthwise, two filters a channel", 9, CONV(1, 5, 4, 3, 6, 3, 3, 1, 1, 1, 1, 1, 1, 3, false)},
    {"conv2d dilated groups", 18, CONV(1, 6, 7, 4, 2, 3, 3, 1, 1, 2, 2, 2, 2, 2, false)},
    {"linear", 7, LINEAR(3, 7, 5, true)},
    {"linear without bias", 11, LINEAR(2, 11, 3, false)},
    {"linear on images",
     24,
     {.kind = OP_LINEAR, .n_inputs = 1, .x = {{4, {3, 2, 3, 4}}}, .attr.linear = {5, true}}},
    {"linear of one", 1, LINEAR(1, 1, 1, true)},
    {"max pool 2x2", 1, POOL(2, 6, 4, 3, POOL_MAX, 2, 2, 2, 2, 0, 0)},
    {"max pool 3x3 stride 2 padded", 1, POOL(2, 7, 5, 2, POOL_MAX, 3, 3, 2, 2, 1, 1)},
    {"max pool 3x2 stride 1", 1, POOL(1, 5, 5, 3, POOL_MAX, 3, 2, 1, 1, 1, 0)},
    {"max pool global", 1, POOL(2, 5, 3, 4, POOL_MAX, 5, 3, 1, 1, 0, 0)},
    {"average pool 2x2", 4, POOL(2, 4, 6, 3, POOL_AVG, 2, 2, 2, 2, 0, 0)},
    {"average pool 3x3 stride 2 padded", 9, POOL(2, 6, 5, 2, POOL_AVG, 3, 3, 2, 2, 1, 1)},
    {"average pool stride larger than the kernel", 4, POOL(1, 7, 8, 2, POOL_AVG, 2, 2, 3, 4, 0, 1)},
    {"average pool global", 15, POOL(2, 5, 3, 4, POOL_AVG, 5, 3, 1, 1, 0, 0)},
    {"relu", 1, RELU({4, {2, 3, 5, 3}})},
    {"dropout", 1, DROPOUT(0.3, {4, {3, 3, 3, 3}})},
    {"add", 1, ADD({4, {2, 3, 3, 2}})},
    {"upsample and add", 1, UPSAMPLE_ADD(2, 2, 3, 2)},
    {"smooth L1 of a class, near its minimum", 8, SMOOTH_L1(3, 2, 3, 1, 20)},
    {"smooth L1 of anchors, near its minimum", 8, SMOOTH_L1(3, 4, 1, 4, 20, 0)},
    {"binary cross-entropy of some entries", 12, BCE_AT(2, 12, 2, 6)},
    {"binary cross-entropy of anchors", 12, BCE_LABELS(2, 12)},
    {"deconv2d", 5, DECONV(2, 2, 3, 5, 4, 2, true)},
    {"deconv2d without bias", 3, DECONV(1, 3, 2, 3, 2, 3, false)},
    {"regions", 16, ROI_ALIGN(2, 8, 16, 2, 5, 2, 3, 2)},
    {"regions, aligned", 16, ROI_ALIGN(2, 8, 16, 2, 5, 2, 3, 2, true)},
    {"batch norm", 54, NORM(0.1, 1e-5, {4, {3, 3, 6, 4}})},
    {"batch norm of matrices", 7, NORM(0.1, 1e-3, {2, {7, 5}})},
    {"group norm", 36, GROUP_NORM(2, {4, {3, 3, 6, 4}})},
    {"group norm of one group", 60, GROUP_NORM(1, {4, {2, 5, 4, 3}})},
    {"softmax cross-entropy", 10, XENT(5, 10, 0.0)},
    {"softmax cross-entropy with smoothing", 7, XENT(4, 7, 0.1)},
    {"softmax cross-entropy of weighted rows", 7, XENT_WEIGHTS(5, 7, 0.1)},
    {"sigmoid binary cross-entropy", 9, BCE(5, 9)},
    {"sigmoid binary cross-entropy of one class", 1, BCE(3, 1)},
};

static float on_grid(float value)
{
    return roundf(value * 256) / 256;
}

/* Inputs on the grid and away from kinks: any two pixels are at least 1/8 apart for max pooling, and values
 * at least 1/8 from zero for ReLU; the stencil moves a value by at most 1/16. */
static void settle(float *x, const op_desc_t *d, int input, rng_t *rng)
{
    int64_t n = shape_count(d->x[input]);
    for (int64_t i = 0; i < n; i++) {
        float away = d->kind == OP_RELU ? copysignf(0.125f, x[i]) : 0;
        x[i] = on_grid(x[i]) + away;
        if (d->kind == OP_POOL2D) x[i] = (float)(i - n / 2) / 8;
    }
    for (int64_t i = n - 1; i > 0 && d->kind == OP_POOL2D; i--) {
        int64_t j = rng_below(rng, (uint32_t)(i + 1));
        float other = x[j];
        x[j] = x[i], x[i] = other;
    }
}

static void prepare(op_run_t *r)
{
    op_desc_t *d = &r->op->desc;
    rng_t rng = rng_new(21, RNG_TEST, 1);
    op_run_fill(r, 20);
    for (int i = 0; i < d->n_inputs && r->dx[i]; i++) settle(r->x[i], d, i, &rng);
    for (int p = 0; p < d->n_params; p++)
        for (int64_t i = 0; i < shape_count(d->param[p]); i++) r->param[p][i] = on_grid(r->param[p][i]);
}

/* L; *spread is √Σ(r·y)². */
static double objective(op_run_t *r, double *spread)
{
    must(op_run_forward(r), "forward");
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < shape_count(r->op->desc.y[0]); i++) {
        double weight = op_traits(r->op->desc.kind)->loss ? (double)r->args.loss.scale : (double)r->dy[i];
        sum += weight * r->y[i];
        squares += weight * r->y[i] * weight * r->y[i];
    }
    *spread = sqrt(squares);
    return sum;
}

static double objective_at(op_run_t *r, float *cell, float value)
{
    double spread, sum;
    float old = *cell;
    *cell = value;
    sum = objective(r, &spread);
    *cell = old;
    return sum;
}

static double derivative(op_run_t *r, float *cell)
{
    float v = *cell;
    double near = objective_at(r, cell, v + step) - objective_at(r, cell, v - step);
    double far = objective_at(r, cell, v + 2 * step) - objective_at(r, cell, v - 2 * step);
    return (8 * near - far) / (12.0 * (double)step);
}

/* Checks every element or, if there are more, ENOUGH random ones. */
static bool agrees(op_run_t *r, float *value, const float *gradient, shape_t shape, double noise,
                   const char *name)
{
    int64_t n = shape_count(shape);
    rng_t rng = rng_new(22, RNG_TEST, 3);
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(gradient[i])) {
            printf("# %s[%lld] is %g\n", name, (long long)i, (double)gradient[i]);
            return false;
        }
        largest = fmax(largest, fabs((double)gradient[i]));
    }
    for (int64_t k = 0; k < (n < ENOUGH ? n : ENOUGH); k++) {
        int64_t i = n <= ENOUGH ? k : rng_below(&rng, (uint32_t)n);
        double numeric = derivative(r, &value[i]);
        if (fabs(numeric - gradient[i]) <= noise + 1e-4 * largest) continue;
        printf("# %s[%lld] of %s: %.9g, by differences %.9g\n", name, (long long)i, shape_format(shape).text,
               (double)gradient[i], numeric);
        return false;
    }
    return util_guards_hold(gradient, shape);
}

static void check(const backend_t *device, const gradient_case_t *c)
{
    op_run_t r = op_run_new(device, c->desc, true);
    const op_desc_t *d = &r.op->desc;
    prepare(&r);
    double spread;
    objective(&r, &spread);
    must(op_run_backward(&r), "backward");
    double noise = 4 * 0x1p-24 * sqrt(c->k) * spread / (double)step;
    bool pass = spread > 0;
    for (int i = 0; i < d->n_inputs && r.dx[i]; i++)
        pass = agrees(&r, r.x[i], r.dx[i], d->x[i], noise, i ? "dx1" : "dx0") && pass;
    for (int i = 0; i < d->n_params; i++)
        pass = agrees(&r, r.param[i], r.dparam[i], d->param[i], noise, i ? "dparam1" : "dparam0") && pass;
    OK(pass, "%s, %s", c->what, shape_format(d->x[0]).text);
    op_run_free(&r);
}

int main(int argc, char **argv)
{
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    const backend_t *device = util_open(argc, argv, 1);
    tap_plan(N_CASES + 2);
    OK(util_has_all(&cases[0].desc, sizeof cases[0], N_CASES), "every operator has a case");
    for (int i = 0; i < N_CASES; i++) {
        if (util_has(device, &cases[i].desc))
            check(device, &cases[i]);
        else
            tap_skip("the device lacks the operator");
    }
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
