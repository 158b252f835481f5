/* SPDX-License-Identifier: MIT */
/* Operators with tensors stored as bfloat16 (all, only x, or only y) against ref in float32 on the widened
 * values.
 *
 * Tolerance: as in test_op_backends.c, 4·FLT_EPSILON·√K·scale for sums of K terms, where scale is the largest
 * value or √K, or, for batch norm's differences, the size of their operands. Rounding to bfloat16 adds half a
 * unit, at most 2^-8 of the value. Without sums (K = 0), and for sums of two terms, results equal ref's,
 * rounded. Everything that an operator may not read is NaN when it is called.
 *
 * RUN device=ref,cpu,cuda slow=cuda san=slow isa=avx2,avx512,avx512_bf16 */
#include <float.h>

#include "compute/ops/backend.h"
#include "compute/tensor/float16.h"
#include "tests/op_result.h"
#include "tests/tap.h"

/* With an addition and ReLU. */
#define NORM_ADD_RELU(...)                                                                                   \
    {                                                                                                        \
        .kind = OP_BATCH_NORM, .n_inputs = 2, .x = {__VA_ARGS__, __VA_ARGS__}, .attr.batch_norm = {          \
            .momentum = 0.1,                                                                                 \
            .epsilon = 1e-5,                                                                                 \
            .epilogue = {.relu = true}                                                                       \
        }                                                                                                    \
    }

static const op_desc_t cases[] = {
    CONV(2, 9, 8, 16, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
    CONV(2, 9, 11, 16, 32, 1, 1, 2, 2, 0, 0, 1, 1, 1, true),
    CONV(3, 7, 5, 64, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 21, 19, 3, 16, 7, 7, 2, 2, 3, 3, 1, 1, 1, false),
    CONV(2, 8, 9, 6, 10, 3, 3, 1, 1, 1, 1, 1, 1, 2, true),
    CONV(2, 8, 6, 16, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, {true, 2, 2}),
    CONV(2, 8, 6, 8, 16, 1, 1, 1, 1, 0, 0, 1, 1, 1, true, {true, 0, 0}),
    CONV(3, 21, 20, 64, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(2, 7, 6, 5, 6, 1, 1, 1, 1, 0, 0, 1, 1, 1, false),
    LINEAR(5, 64, 48, true),
    LINEAR(3, 31, 37, false),
    NORM(0.1, 1e-5, {4, {4, 7, 5, 16}}),
    NORM(0.1, 1e-5, {4, {5, 14, 14, 72}}),
    NORM(0.1, 1e-5, {4, {3, 31, 17, 1}}),
    NORM_GROUPS(4, {4, {7, 5, 5, 19}}),
    NORM_GROUPS(2, {4, {4, 7, 5, 64}}),
    NORM_GROUPS(2, {4, {5, 17, 16, 64}}),
    NORM(0.1, 1e-5, {4, {5, 31, 17, 3}}),
    GROUP_NORM(4, {4, {4, 7, 5, 16}}),
    GROUP_NORM(32, {4, {2, 17, 16, 64}}),
    GROUP_NORM(3, {4, {3, 31, 17, 3}}),
    NORM_ADD_RELU({4, {3, 17, 16, 64}}),
    NORM_ADD_RELU({4, {4, 7, 5, 40}}),
    NORM_ADD_RELU({4, {3, 5, 5, 12}}),
    POOL(2, 15, 14, 12, POOL_MAX, 3, 3, 2, 2, 1, 1),
    POOL(2, 9, 10, 64, POOL_MAX, 3, 2, 1, 1, 1, 1),
    POOL(2, 7, 5, 300, POOL_MAX, 2, 2, 2, 2, 0, 0),
    POOL(2, 5, 7, 5, POOL_MAX, 2, 3, 3, 4, 0, 1),
    POOL(2, 15, 14, 12, POOL_AVG, 3, 2, 2, 1, 1, 1),
    POOL(2, 7, 7, 300, POOL_AVG, 7, 7, 1, 1, 0, 0),
    RELU({4, {3, 5, 7, 11}}),
    ADD({4, {3, 5, 7, 11}}),
    UPSAMPLE_ADD(2, 3, 4, 24),
    DECONV(2, 5, 4, 16, 24, 2, true),
    ROI_ALIGN(2, 24, 32, 32, 9, 3, 2, 2),
    DROPOUT(0.5, {2, {6, 500}}),
};

/* Tensors stored as bfloat16. */
typedef struct layout {
    const char *name;
    bool x[OP_MAX_INPUTS], y;
} layout_t;

static const layout_t layouts[] = {
    {"x and y", {true, true}, true}, {"only x", {true, true}, false}, {"only y", {false, false}, true}};
/* For two inputs. */
static const layout_t one_input = {"the first input and y", {true, false}, true};
static const layout_t wide = {"nothing", {false, false}, false};

typedef struct limits {
    double k_y, k_dx, k_param, scale;
} limits_t;

static limits_t limits_of(const op_desc_t *d)
{
    const conv2d_attr_t *conv = &d->attr.conv2d;
    const pool2d_attr_t *pool = &d->attr.pool2d;
    double rows = (double)(shape_count(d->x[0]) / d->x[0].dim[d->x[0].n_dims - 1]), window;
    switch (d->kind) {
    case OP_CONV2D:
        window = (double)conv->kernel_h * conv->kernel_w;
        return (limits_t){window * (double)d->x[0].dim[3], window * (double)conv->out_channels, rows, 0};
    case OP_LINEAR:
        return (limits_t){(double)d->x[0].dim[1], (double)d->y[0].dim[1], rows, 0};
    case OP_BATCH_NORM:
    case OP_GROUP_NORM:
        return (limits_t){rows, rows, rows, 32}; /* of standard normal values, γ up to 3 and 1/std up to 2 */
    case OP_POOL2D:
        window = (double)pool->kernel_h * pool->kernel_w;
        return (limits_t){pool->mode == POOL_MAX ? 0 : window, window, 0, 0};
    case OP_DECONV2D:
        return (limits_t){(double)d->x[0].dim[3], 4 * (double)d->y[0].dim[3], 4 * rows, 0};
    case OP_ROI_ALIGN:
        return (limits_t){16, 16 * (double)d->x[ROI_ALIGN_LEVELS].dim[0], 0, 0};
    default:
        return (limits_t){0};
    }
}

static float value_at(const void *tensor, int64_t i, bool narrow)
{
    return narrow ? bf16_to_float(((const uint16_t *)tensor)[i]) : ((const float *)tensor)[i];
}

/* Of cuDNN's gradient of a weight, and of its result before the bias: bfloat16's rounding, once more. */
static double product_error = 0;

static bool is_close(const char *what, const void *got, bool narrow, const float *want, shape_t shape,
                     double k, double scale)
{
    double size = 0;
    for (int64_t i = 0; i < shape_count(shape); i++) size = fmax(size, fabs((double)want[i]));
    double allowed = (4 * FLT_EPSILON * sqrt(k) + product_error) * fmax(fmax(size, scale), sqrt(k));
    for (int64_t i = 0; i < shape_count(shape); i++) {
        double w = (double)want[i], g = (double)value_at(got, i, narrow);
        bool close = fabs(g - w) <= allowed * 1.01 + (narrow ? 0x1p-8 * fabs(w) : 0);
        if (k <= 0) close = g == (double)(narrow ? bf16_round(want[i]) : want[i]);
        if (close) continue;
        printf("# %s[%lld] of %s: %.9g, should be %.9g, allowed %.3g\n", what, (long long)i,
               shape_format(shape).text, g, w, allowed);
        return false;
    }
    return true;
}

enum { GUARD = 0xa5 };

/* Fills a block of util_floats: NaN in the tensor, guards after it. */
static void spoil(void *block, shape_t shape, bool narrow)
{
    size_t all = (size_t)(shape_count(shape) + UTIL_GUARDS) * sizeof(float);
    size_t n_bytes = (size_t)shape_count(shape) * (narrow ? sizeof(uint16_t) : sizeof(float));
    memset(block, 0xff, n_bytes);
    memset((char *)block + n_bytes, GUARD, all - n_bytes);
}

static bool guards_hold(const char *what, const void *block, shape_t shape, bool narrow)
{
    size_t all = (size_t)(shape_count(shape) + UTIL_GUARDS) * sizeof(float);
    size_t i = (size_t)shape_count(shape) * (narrow ? sizeof(uint16_t) : sizeof(float));
    while (i < all && ((const uint8_t *)block)[i] == GUARD) i++;
    if (i < all) printf("# %s: written beyond its end\n", what);
    return i == all;
}

static void give(void *block, const float *from, shape_t shape, bool narrow)
{
    spoil(block, shape, narrow);
    if (narrow)
        bf16_narrow(block, from, shape_count(shape));
    else
        memcpy(block, from, (size_t)shape_count(shape) * sizeof(float));
}

/* ref has no epilogues for products: the reference is then the device itself, storing float32
 * (test_op_fused.c). */
static bool runs(const backend_t *backend, const op_desc_t *desc)
{
    return util_has(backend, desc) && (backend->kernel[desc->kind]->fuses || !op_is_fused(desc));
}

/* Rounds the reference's values to those that the layout can store. */
static op_run_t oracle_of(const backend_t *device, const op_desc_t *desc, const layout_t *l, bool training,
                          uint64_t seed)
{
    op_run_t r = op_run_new(runs(&backend_ref, desc) ? &backend_ref : device, *desc, training);
    op_run_fill(&r, seed);
    for (int i = 0; i < desc->n_inputs; i++)
        for (int64_t e = 0; l->x[i] && e < shape_count(desc->x[i]); e++) r.x[i][e] = bf16_round(r.x[i][e]);
    for (int64_t e = 0; l->y && e < shape_count(r.op->desc.y[0]); e++) r.dy[e] = bf16_round(r.dy[e]);
    return r;
}

/* Starts from the reference's inputs; y shares x's memory where allowed. */
static void begin(op_run_t *r, const op_run_t *oracle, const layout_t *l)
{
    const op_desc_t *d = &r->op->desc;
    for (int i = 0; i < d->n_inputs; i++) {
        give(r->x[i], oracle->x[i], d->x[i], l->x[i]);
        if (r->dx[i]) spoil(r->dx[i], d->x[i], l->x[i]);
    }
    for (int i = 0; i < d->n_params; i++) give(r->param[i], oracle->param[i], d->param[i], false);
    for (int i = 0; i < d->n_params; i++) spoil(r->dparam[i], d->param[i], false);
    for (int i = 0; i < d->n_states; i++) give(r->state[i], oracle->state[i], d->state[i], false);
    give(r->dy, oracle->dy, d->y[0], l->y);
    spoil(r->y, d->y[0], l->y);
    memset(r->saved, 0xff, r->op->n_saved_bytes);
    memset(r->workspace, 0xff, r->op->n_workspace_bytes);
}

static bool check_forward(op_run_t *r, const op_run_t *oracle, const layout_t *l)
{
    const op_desc_t *d = &r->op->desc;
    limits_t limit = limits_of(d);
    must(op_run_forward(r), "forward");
    product_error = strncmp(r->op->algorithms.name[OP_FORWARD], "cudnn", 5) == 0 ? 0x1p-8 : 0;
    bool good = is_close("y", r->args.y[0].data, l->y, oracle->y, d->y[0], limit.k_y, limit.scale) &&
                guards_hold("y", r->args.y[0].data, d->y[0], l->y);
    for (int i = 0; i < d->n_states; i++)
        good &= is_close("state", r->state[i], false, oracle->state[i], d->state[i], limit.k_y, limit.scale);
    product_error = 0;
    return good;
}

static bool check_backward(op_run_t *r, const op_run_t *oracle, const layout_t *l)
{
    const op_desc_t *d = &r->op->desc;
    limits_t limit = limits_of(d);
    bool good = true;
    for (int i = 0; i < d->n_inputs; i++)
        if (!(r->op->reads_x >> i & 1) && r->args.y[0].data != r->x[i]) spoil(r->x[i], d->x[i], l->x[i]);
    if (!(r->op->reads_y & 1)) spoil(r->y, d->y[0], l->y);
    memset(r->workspace, 0xff, r->op->n_workspace_bytes);
    must(op_run_backward(r), "backward");
    for (int i = 0; i < d->n_inputs && r->dx[i]; i++)
        good &= is_close(i ? "dx1" : "dx0", r->args.dx[i].data, l->x[i], oracle->dx[i], d->x[i], limit.k_dx,
                         limit.scale) &&
                guards_hold("dx", r->args.dx[i].data, d->x[i], l->x[i]);
    if (strncmp(r->op->algorithms.name[OP_BACKWARD_WEIGHTS], "cudnn", 5) == 0) product_error = 0x1p-8;
    for (int i = 0; i < d->n_params; i++)
        good &= is_close(i ? "dparam1" : "dparam0", r->dparam[i], false, oracle->dparam[i], d->param[i],
                         limit.k_param, limit.scale);
    product_error = 0;
    return good;
}

/* With dx in dy's memory, and y in x's unless backward needs x. */
static bool check_in_place(op_run_t *r, const op_run_t *given, const op_run_t *oracle, const layout_t *l)
{
    const op_traits_t *traits = op_traits(r->op->desc.kind);
    if (!traits->in_place || l->x[0] != l->y) return true;
    begin(r, given, l);
    if (!(r->op->reads_x & 1)) r->args.y[0].data = r->x[0];
    r->args.dx[0].data = r->dy;
    return check_forward(r, oracle, l) && check_backward(r, oracle, l);
}

static void check_evaluation(const backend_t *device, const op_desc_t *plain, const op_desc_t *narrow,
                             const layout_t *l, const op_algorithms_t *wanted, const char *name)
{
    op_run_t given = oracle_of(device, plain, l, false, 23), oracle = oracle_of(device, plain, l, false, 23);
    op_run_t got = op_run_with(device, *narrow, false, wanted);
    must(op_run_forward(&oracle), "the oracle");
    begin(&got, &given, l);
    bool good = check_forward(&got, &oracle, l);
    if (op_traits(plain->kind)->in_place && l->x[0] == l->y) {
        begin(&got, &given, l);
        got.args.y[0].data = got.x[0];
        good = check_forward(&got, &oracle, l) && good;
    }
    OK(good, "%s in evaluation", name);
    op_run_free(&given), op_run_free(&oracle), op_run_free(&got);
}

static op_desc_t narrowed(const op_desc_t *desc, const layout_t *l)
{
    op_desc_t narrow = *desc;
    for (int i = 0; i < desc->n_inputs; i++) narrow.x_dtype[i] = l->x[i] ? DTYPE_BF16 : DTYPE_F32;
    narrow.y_dtype[0] = l->y ? DTYPE_BF16 : DTYPE_F32;
    return narrow;
}

/* algorithm: NULL for the device's default. */
static void compare(const backend_t *device, const op_desc_t *desc, const layout_t *l, const char *algorithm)
{
    char name[128];
    op_desc_t narrow = narrowed(desc, l);
    op_algorithms_t wanted = {0};
    if (algorithm) wanted = op_result_algorithms(device, narrow, algorithm);
    snprintf(name, sizeof name, "%s of %s%s%s, %s in bfloat16", op_traits(desc->kind)->name,
             shape_format(desc->x[0]).text, algorithm ? " by " : "", algorithm ? algorithm : "", l->name);
    op_run_t given = oracle_of(device, desc, l, true, 22), oracle = oracle_of(device, desc, l, true, 22);
    op_run_t other = oracle_of(device, desc, l, true, 21), got = op_run_with(device, narrow, true, &wanted);
    must(op_run_forward(&oracle), "the oracle"), must(op_run_backward(&oracle), "the oracle");
    begin(&got, &other, l); /* an earlier batch must not change the results */
    must(op_run_forward(&got), "forward"), must(op_run_backward(&got), "backward");
    begin(&got, &given, l);
    OK(check_forward(&got, &oracle, l), "%s forward", name);
    OK(check_backward(&got, &oracle, l), "%s backward", name);
    OK(check_in_place(&got, &given, &oracle, l), "%s in place", name);
    op_run_free(&given), op_run_free(&oracle), op_run_free(&other), op_run_free(&got);
    check_evaluation(device, desc, &narrow, l, &wanted, name);
}

/* The algorithms of a GPU. The CPU's write bfloat16 by kernels that they share. */
static int algorithms_of(const backend_t *device, const op_desc_t *desc, const layout_t *l,
                         const char **names)
{
    op_desc_t narrow = narrowed(desc, l);
    must(op_infer(&narrow), "op_infer");
    return device->device
               ? op_list_algorithms(device, &narrow, OP_BACKWARD_DATA, true, names, OP_MAX_ALGORITHMS)
               : 0;
}

/* NaN, infinite and denormal values, ties between neighbours, and lengths that are not multiples of
 * a vector. */
static void check_accumulate(const backend_t *device, int64_t n, int64_t offset)
{
    uint16_t *sum = util_block(device, 2100 * sizeof *sum), *term = util_block(device, 2100 * sizeof *term);
    uint16_t want[2100];
    rng_t rng = rng_new(5, RNG_TEST, 1);
    ASSERT(n + offset < 2100);
    for (int64_t i = 0; i < 2100; i++) {
        sum[i] = i % 3 ? bf16_from_float((float)rng_normal(&rng)) : (uint16_t)rng_below(&rng, 1 << 16);
        term[i] = i % 5 ? bf16_from_float((float)rng_normal(&rng)) : (uint16_t)rng_below(&rng, 1 << 16);
        bool inside = i >= offset && i < offset + n;
        want[i] = inside ? bf16_from_float(bf16_to_float(sum[i]) + bf16_to_float(term[i])) : sum[i];
    }
    util_push(device);
    must(device->accumulate(util_device(sum + offset), util_device(term + offset), n, DTYPE_BF16),
         "accumulate");
    util_pull(device);
    int64_t i = 0;
    while (i < 2100 && (sum[i] == want[i] || (isnan(bf16_to_float(sum[i])) && isnan(bf16_to_float(want[i])))))
        i++;
    OK(i == 2100, "%lld values are accumulated in place, from %lld on", (long long)n, (long long)offset);
    util_free(&sum), util_free(&term);
}

/* The statistics of normal values around a mean, where every hundredth is near zero if `stray`. Allowed: the
 * bound in kernels/cuda/norm.cu, or float32's rounding where that adds without error. */
static void check_statistics(const backend_t *device, const layout_t *l, float mean, bool stray)
{
    enum { N_ROWS = 7 * 31 * 17, N_C = 16 };
    const op_desc_t plain = NORM(1.0, 1e-5, {4, {7, 31, 17, N_C}});
    op_run_t given = oracle_of(device, &plain, l, true, 24);
    op_run_t got = op_run_with(device, narrowed(&plain, l), true, &(op_algorithms_t){0});
    for (int64_t i = 0; i < N_ROWS * N_C; i++) {
        float *x = given.x[0] + i;
        *x = stray && i / N_C % 100 == 7 ? *x / 64 : *x + mean;
        if (l->x[0]) *x = bf16_round(*x);
    }
    begin(&got, &given, l);
    must(op_run_forward(&got), "forward"), must(op_run_backward(&got), "backward");
    bool good = true;
    for (int c = 0; c < N_C; c++) {
        double m = 0, v = 0;
        for (int64_t i = c; i < N_ROWS * N_C; i += N_C) m += (double)given.x[0][i] / N_ROWS;
        for (int64_t i = c; i < N_ROWS * N_C; i += N_C) v += pow((double)given.x[0][i] - m, 2) / (N_ROWS - 1);
        double e_m = fabs((double)got.state[0][c] - m), e_v = fabs((double)got.state[1][c] - v);
        bool exact = mean > 0 && !stray,
             close = e_m <= 4e-7 * (fabs(m) + sqrt(v)) && e_v <= (exact ? 4e-6 * v : 1.3e-6 * (m * m + v));
        if (!close && good)
            printf("# channel %d: mean %.9g, off by %.2g, variance %.9g, %.2g\n", c, m, e_m, v, e_v);
        good &= close;
    }
    OK(good, "batch norm's statistics of values around %g%s", (double)mean, stray ? ", some near zero" : "");
    op_run_t again = op_run_with(device, narrowed(&plain, l), true, &(op_algorithms_t){0});
    begin(&again, &given, l);
    must(op_run_forward(&again), "forward"), must(op_run_backward(&again), "backward");
    size_t n_bytes = (size_t)N_ROWS * N_C * (l->y ? sizeof(uint16_t) : sizeof(float));
    OK(memcmp(again.y, got.y, n_bytes) == 0 && memcmp(again.dx[0], got.dx[0], n_bytes) == 0 &&
           memcmp(again.dparam[0], got.dparam[0], N_C * sizeof(float)) == 0,
       "… and the same bits again");
    op_run_free(&given), op_run_free(&got), op_run_free(&again);
}

static void check_key(bool x, bool y, const char *end)
{
    char key[OP_KEY_MAX];
    op_desc_t d = cases[0];
    if (x) d.x_dtype[0] = DTYPE_BF16;
    if (y) d.y_dtype[0] = DTYPE_BF16;
    must(op_infer(&d), "op_infer");
    op_key(&d, key);
    size_t n = strlen(key), n_end = strlen(end);
    OK(n > n_end && strcmp(key + n - n_end, end) == 0 && !strstr(key, "narrow") == !(x || y), "the key is %s",
       key);
}

/* The operator as in networks: bfloat16 products; the i-th batch norm with an addition, ReLU or both. */
static op_desc_t case_of(int i)
{
    op_desc_t d = cases[i];
    if (d.kind == OP_CONV2D || d.kind == OP_LINEAR) d.compute = DTYPE_BF16;
    if (d.kind == OP_BATCH_NORM && d.n_inputs == 1) {
        d.attr.batch_norm.epilogue.relu = i % 3 != 2;
        if (i % 3) d.n_inputs = 2, d.x[1] = d.x[0];
    }
    return d;
}

int main(int argc, char **argv)
{
    enum { N_CASES = sizeof cases / sizeof cases[0], N_LAYOUTS = sizeof layouts / sizeof layouts[0] };
    const backend_t *device = util_open(argc, argv, 2);
    const char *names[OP_MAX_ALGORITHMS];
    int n = 0;
    for (int i = 0; i < N_CASES; i++) {
        op_desc_t d = case_of(i);
        if (!runs(device, &d)) continue;
        n += d.n_inputs == 2 ? N_LAYOUTS + 1 : N_LAYOUTS;
        for (int l = 0; l < N_LAYOUTS; l++) n += algorithms_of(device, &d, &layouts[l], names);
    }
    tap_plan(4 * n + 2 * 6 + 6 + 4 + 1);
    for (int i = 0; i < N_CASES; i++) {
        op_desc_t d = case_of(i);
        if (!runs(device, &d)) continue;
        for (int l = 0; l < N_LAYOUTS; l++) {
            int n_algorithms = algorithms_of(device, &d, &layouts[l], names);
            compare(device, &d, &layouts[l], NULL);
            for (int k = 0; k < n_algorithms; k++) compare(device, &d, &layouts[l], names[k]);
        }
        if (d.n_inputs == 2) compare(device, &d, &one_input, NULL);
    }
    for (int i = 0; i < 2; i++) {
        const layout_t *l = i ? &layouts[0] : &wide;
        check_statistics(device, l, 0, false), check_statistics(device, l, 100, false);
        check_statistics(device, l, 100, true);
    }
    static const int64_t lengths[] = {0, 7, 2000};
    for (int i = 0; i < 3; i++)
        check_accumulate(device, lengths[i], 0), check_accumulate(device, lengths[i], 1);
    check_key(true, true, " narrow=xy"), check_key(true, false, " narrow=x");
    check_key(false, true, " narrow=y"), check_key(false, false, " groups=1");
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
