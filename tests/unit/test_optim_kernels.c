/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda isa=avx2,avx512,avx512_bf16 : the optimizers' kernels against their formulas,
 * computed in double. */
#include <omp.h>

#include "tests/op_util.h"
#include "tests/tap.h"

enum { N_STEPS = 6 };

static const struct {
    const char *name;
    optim_kind_t kind;
    optim_args_t args;
} cases[] = {
    {"sgd", OPTIM_SGD, {.lr = 0.1, .gradient_scale = 1}},
    {"sgd with momentum", OPTIM_SGD, {.lr = 0.1, .momentum = 0.9, .gradient_scale = 1}},
    {"sgd, decayed and clipped",
     OPTIM_SGD,
     {.lr = 0.1, .momentum = 0.9, .gradient_scale = 0.5, .weight_decay = 0.05}},
    {"nesterov",
     OPTIM_SGD,
     {.lr = 0.1, .momentum = 0.9, .gradient_scale = 0.5, .weight_decay = 0.05, .nesterov = true}},
    {"adadelta", OPTIM_ADADELTA, {.lr = 1, .rho = 0.95, .epsilon = 1e-6, .gradient_scale = 1}},
    {"adadelta, decayed and clipped",
     OPTIM_ADADELTA,
     {.lr = 0.7, .rho = 0.9, .epsilon = 0.01, .gradient_scale = 0.5, .weight_decay = 0.05}},
    {"adamw", OPTIM_ADAMW, {.lr = 0.01, .beta = {0.9, 0.999}, .epsilon = 1e-8, .gradient_scale = 1}},
    {"adamw, decayed and clipped",
     OPTIM_ADAMW,
     {.lr = 0.1, .beta = {0.8, 0.95}, .epsilon = 0.01, .gradient_scale = 0.5, .weight_decay = 0.05}},
    {"lars",
     OPTIM_LARS,
     {.lr = 2, .momentum = 0.9, .trust_ratio = 0.01, .gradient_scale = 0.5, .weight_decay = 0.05}},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

typedef struct element {
    double weight, state[2], average;
} element_t;

/* Step t = 1, 2, … of one weight. */
static void follow(element_t *e, optim_kind_t kind, const optim_args_t *a, double gradient, int t)
{
    double g = a->gradient_scale * gradient, *s = e->state, w = e->weight;
    if (kind != OPTIM_ADAMW) g += a->weight_decay * w;
    if (kind == OPTIM_SGD) {
        s[0] = a->momentum * s[0] + g;
        w -= a->lr * (a->nesterov ? g + a->momentum * s[0] : s[0]);
    } else if (kind == OPTIM_ADADELTA) {
        s[0] = a->rho * s[0] + (1 - a->rho) * g * g;
        double delta = sqrt(s[1] + a->epsilon) / sqrt(s[0] + a->epsilon) * g;
        s[1] = a->rho * s[1] + (1 - a->rho) * delta * delta;
        w -= a->lr * delta;
    } else if (kind == OPTIM_ADAMW) {
        s[0] = a->beta[0] * s[0] + (1 - a->beta[0]) * g;
        s[1] = a->beta[1] * s[1] + (1 - a->beta[1]) * g * g;
        double m = s[0] / (1 - pow(a->beta[0], t)), v = s[1] / (1 - pow(a->beta[1], t));
        w = w - a->lr * a->weight_decay * w - a->lr * m / (sqrt(v) + a->epsilon);
    } else {
        s[0] = a->momentum * s[0] + a->lr * a->trust_ratio * g;
        w -= s[0];
    }
    e->weight = w;
    e->average = a->average_decay * e->average + (1 - a->average_decay) * w;
}

/* Flat buffers: weight, gradient, two states, average. A guard before and after the range shows writes
 * outside. */
enum { WEIGHT, GRADIENT, STATE, AVERAGE = STATE + 2, N_FLATS };

/* Rounding is relative to the largest intermediate values: about 1, except for averages of squares, where
 * nothing cancels. */
static bool same(const float *got, const element_t *expected, size_t field, double size, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double value = *(const double *)((const char *)&expected[i] + field);
        if (fabs(got[i] - value) <= 3e-6 * (fabs(value) + size)) continue;
        printf("# element %lld is %.9g, not %.9g\n", (long long)i, got[i], value);
        return false;
    }
    return true;
}

static void test_kernel(const backend_t *device, int which, int64_t n, int64_t offset, bool averaged)
{
    optim_args_t args = cases[which].args;
    optim_kind_t kind = cases[which].kind;
    shape_t shape = shape_1d(n + offset);
    float *flat[N_FLATS];
    element_t *expected = NULL;
    rng_t rng = rng_new(17, RNG_TEST, (uint64_t)which);
    must(mem_new_array(n, sizeof *expected, "expected values", &expected), "memory");
    for (int f = 0; f < N_FLATS; f++) {
        flat[f] = util_floats(device, shape);
        for (int64_t i = 0; i < n + offset; i++) flat[f][i] = i < offset ? UTIL_GUARD : 0;
    }
    for (int64_t i = 0; i < n; i++) {
        flat[WEIGHT][offset + i] = flat[AVERAGE][offset + i] = (float)rng_normal(&rng);
        expected[i].weight = expected[i].average = flat[WEIGHT][offset + i];
    }
    args.weight = flat[WEIGHT] + offset, args.gradient = flat[GRADIENT] + offset;
    args.state[0] = flat[STATE] + offset;
    if (kind == OPTIM_ADADELTA || kind == OPTIM_ADAMW) args.state[1] = flat[STATE + 1] + offset;
    args.average = averaged ? flat[AVERAGE] + offset : NULL, args.average_decay = averaged ? 0.75 : 1;
    args.n = n;
    for (int t = 1; t <= N_STEPS; t++) {
        for (int b = 0; b < 2; b++) args.correction[b] = 1 - pow(args.beta[b], t);
        for (int64_t i = 0; i < n; i++) {
            flat[GRADIENT][offset + i] = (float)rng_normal(&rng);
            follow(&expected[i], kind, &args, flat[GRADIENT][offset + i], t);
        }
        must(util_optim(device, kind, &args), cases[which].name);
    }
    bool guarded = true;
    for (int f = 0; f < N_FLATS; f++) {
        guarded = guarded && util_guards_hold(flat[f], shape);
        for (int64_t i = 0; i < offset; i++) guarded = guarded && flat[f][i] == UTIL_GUARD;
    }
    bool squares = kind == OPTIM_ADADELTA;
    OK(guarded && same(args.weight, expected, offsetof(element_t, weight), 1, n) &&
           same(flat[STATE] + offset, expected, offsetof(element_t, state), squares ? 1e-3 : 1, n) &&
           same(flat[STATE + 1] + offset, expected, offsetof(element_t, state[1]), 1e-3, n) &&
           same(flat[AVERAGE] + offset, expected, offsetof(element_t, average), 1, n),
       "%s%s: %d steps of %lld at offset %lld", cases[which].name, averaged ? " with an average" : "",
       (int)N_STEPS, (long long)n, (long long)offset);
    for (int f = 0; f < N_FLATS; f++) util_free(&flat[f]);
    mem_free(&expected);
}

/* Spans of these lengths, which begin where the last one ended, in cells of at most CELL. */
static const int64_t span_lengths[] = {1, 15, 0, 17, 8191, 100003, 3, 64};
enum { N_SPANS = sizeof span_lengths / sizeof span_lengths[0], CELL = 5000, MAX_CELLS = 40 };
static const double clip_norm = 2, trust = 0.02, decay = 0.1, epsilon = 1e-8;

/* optim_norms_t's formulas. */
static void expect_norms(const float *w, const float *g, bool lars, double out[OPTIM_RATIO + N_SPANS])
{
    double g_squares[N_SPANS] = {0}, w_squares[N_SPANS] = {0}, sum = 0;
    for (int s = 0; s < N_SPANS; s++) {
        for (int64_t i = 0; i < span_lengths[s]; i++, w++, g++) {
            g_squares[s] += (double)*g * *g;
            w_squares[s] += (double)*w * *w;
        }
        sum += g_squares[s];
    }
    double scale = out[OPTIM_SCALE] = sqrt(sum) > clip_norm ? clip_norm / sqrt(sum) : 1;
    out[OPTIM_NORM] = sqrt(sum);
    for (int s = 0; s < N_SPANS && lars; s++) {
        double g_norm = scale * sqrt(g_squares[s]), w_norm = sqrt(w_squares[s]);
        bool has_ratio = s % 3 != 1 && g_norm > 0 && w_norm > 0;
        out[OPTIM_RATIO + s] = has_ratio ? trust * w_norm / (g_norm + decay * w_norm + epsilon) : 1;
    }
}

/* Fills cells and groups; returns the number of cells. Only cells i with i % 2 == parity have elements, all with -1. */
static int cut_spans(optim_span_t *cells, optim_span_t *groups, int parity)
{
    int64_t first = 0;
    int n = 0;
    for (int s = 0; s < N_SPANS; s++) {
        groups[s] = (optim_span_t){n, 0, s % 3 != 1};
        for (int64_t left = span_lengths[s]; left > 0; groups[s].n++) {
            const int64_t length = left < CELL ? left : CELL;
            cells[n] = (optim_span_t){first, parity >= 0 && n % 2 != parity ? 0 : length, false};
            first += length, left -= length, n++;
        }
    }
    return n;
}

/* Cells at once, or apart: those of each parity, whose squares are then added. */
static void run_norms(const backend_t *device, bool lars, bool apart, const float *w, const float *g,
                      double *out)
{
    hd_buffer_t cells, groups, squares, norms;
    double other[2 * MAX_CELLS] = {0};
    optim_norms_t args = {.weight = util_device(w),
                          .gradient = util_device(g),
                          .n_groups = N_SPANS,
                          .n_longest = CELL,
                          .clip_norm = clip_norm,
                          .trust = lars ? trust : 0,
                          .weight_decay = decay,
                          .epsilon = epsilon};
    must(hd_buffer_new(device, MAX_CELLS * sizeof(optim_span_t), "cells", &cells), "memory");
    must(hd_buffer_new(device, N_SPANS * sizeof(optim_span_t), "groups", &groups), "memory");
    must(hd_buffer_new(device, 2 * (MAX_CELLS + N_SPANS) * sizeof(double), "squares", &squares), "memory");
    must(hd_buffer_new(device, (OPTIM_RATIO + N_SPANS) * sizeof(double), "norms", &norms), "memory");
    args.cells = cells.device, args.groups = groups.device, args.out = norms.device;
    args.squares = squares.device, args.sums = args.squares + 2 * MAX_CELLS;
    util_push(device);
    for (int parity = apart ? 1 : -1; parity >= (apart ? 0 : -1); parity--) {
        args.n_cells = cut_spans(cells.host, groups.host, parity);
        must(hd_buffer_push_all(&cells), "cells"), must(hd_buffer_push_all(&groups), "groups");
        must(device->squares(&args), "squares");
        must(hd_buffer_pull_all(&squares), "squares");
        double *sums = squares.host;
        for (int i = 0; i < 2 * args.n_cells; i++) sums[i] += other[i], other[i] = sums[i];
    }
    must(hd_buffer_push_all(&squares), "squares");
    must(device->norms(&args), "norms");
    must(hd_buffer_pull_all(&norms), "norms");
    memcpy(out, norms.host, (size_t)(OPTIM_RATIO + (lars ? N_SPANS : 0)) * sizeof *out);
    hd_buffer_free(&cells), hd_buffer_free(&groups), hd_buffer_free(&squares), hd_buffer_free(&norms);
}

static void test_norms(const backend_t *device)
{
    int64_t n = 0;
    for (int s = 0; s < N_SPANS; s++) n += span_lengths[s];
    float *w = util_floats(device, shape_1d(n + 1)), *g = util_floats(device, shape_1d(n + 1));
    rng_t rng = rng_new(37, RNG_TEST, 0);
    for (int64_t i = 0; i < n; i++) w[i] = (float)rng_normal(&rng), g[i] = (float)rng_normal(&rng);
    for (int lars = 0; lars < 2; lars++) {
        double expected[OPTIM_RATIO + N_SPANS] = {0}, got[OPTIM_RATIO + N_SPANS] = {0},
                                      moved[OPTIM_RATIO + N_SPANS] = {0};
        bool equal = true;
        expect_norms(w, g, lars, expected);
        run_norms(device, lars, false, w, g, got);
        for (int i = 0; i < OPTIM_RATIO + N_SPANS; i++)
            equal = equal && fabs(got[i] - expected[i]) <= 1e-12 * expected[i];
        OK(equal, "norm, scale%s of %d spans", lars ? " and trust ratios" : "", (int)N_SPANS);
        memmove(w + 1, w, (size_t)n * sizeof *w), memmove(g + 1, g, (size_t)n * sizeof *g);
        run_norms(device, lars, true, w + 1, g + 1, moved);
        memmove(w, w + 1, (size_t)n * sizeof *w), memmove(g, g + 1, (size_t)n * sizeof *g);
        OK(memcmp(got, moved, sizeof got) == 0,
           "bitwise the same at another address, in cells computed apart");
    }
    double got[OPTIM_RATIO];
    g[7] = 3e38f, g[8] = -2e38f;
    run_norms(device, false, false, w, g, got);
    OK(isfinite(got[OPTIM_NORM]) && got[OPTIM_SCALE] > 0, "squares beyond float's range do not overflow");
    g[8] = NAN;
    run_norms(device, false, false, w, g, got);
    OK(isnan(got[OPTIM_NORM]) && isnan(got[OPTIM_SCALE]), "the scale of a norm that is not finite is NaN");
    util_free(&w), util_free(&g);
}

static double sum_with(const backend_t *device, int n_threads, const float *x, int64_t n)
{
    double sum = -1;
    omp_set_num_threads(n_threads);
    util_push(device);
    must(device->sum_squares(util_device(x), n, &sum), "sum_squares");
    return sum;
}

static void test_sum_squares(const backend_t *device)
{
    static const int64_t lengths[] = {0, 1, 15, 17, 8191, 100003, 3000001};
    for (int l = 0; l < (int)(sizeof lengths / sizeof lengths[0]); l++) {
        int64_t n = lengths[l];
        shape_t shape = shape_1d(n + 1);
        float *x = util_floats(device, shape);
        rng_t rng = rng_new(23, RNG_TEST, (uint64_t)l);
        double expected = 0;
        for (int64_t i = 1; i <= n; i++) {
            x[i] = (float)((double)rng_u32(&rng) * 0x1p-32);
            expected += (double)x[i] * x[i];
        }
        double one = sum_with(device, 1, x + 1, n), three = sum_with(device, 3, x + 1, n);
        OK(fabs(one - expected) <= 1e-12 * expected, "sum of %lld squares", (long long)n);
        OK(memcmp(&one, &three, sizeof one) == 0, "bitwise the same on three threads");
        memmove(x, x + 1, (size_t)n * sizeof *x);
        one = sum_with(device, 1, x, n);
        OK(memcmp(&one, &three, sizeof one) == 0, "… and at another address");
        util_free(&x);
    }
    float *few = util_floats(device, shape_1d(3));
    few[0] = 3e38f, few[1] = -2e38f, few[2] = 1;
    OK(isfinite(sum_with(device, 2, few, 3)), "squares beyond float's range do not overflow");
    few[1] = NAN;
    OK(isnan(sum_with(device, 2, few, 3)), "NaN is seen");
    util_free(&few);
}

/* Several threads have the same blocks as one. */
static void test_threads(const backend_t *device)
{
    enum { N = 100003 };
    float *flat[2][4];
    for (int run = 0; run < 2; run++) {
        rng_t rng = rng_new(29, RNG_TEST, 0);
        for (int f = 0; f < 4; f++) {
            flat[run][f] = util_floats(device, shape_1d(N));
            for (int64_t i = 0; i < N; i++) flat[run][f][i] = fabsf((float)rng_normal(&rng));
        }
        optim_args_t args = cases[7].args;
        args.weight = flat[run][0], args.gradient = flat[run][1], args.n = N;
        args.state[0] = flat[run][2], args.state[1] = flat[run][3];
        args.correction[0] = args.correction[1] = 0.5;
        omp_set_num_threads(run ? 3 : 1);
        must(util_optim(device, OPTIM_ADAMW, &args), "adamw");
    }
    bool equal = true;
    for (int f = 0; f < 4; f++) equal = equal && memcmp(flat[0][f], flat[1][f], N * sizeof(float)) == 0;
    OK(equal, "adamw on one thread and on three: the same bits");
    for (int run = 0; run < 2; run++)
        for (int f = 0; f < 4; f++) util_free(&flat[run][f]);
}

enum { N_RECORDED = 1003 };

/* The same numbers in every run. */
static optim_args_t recorded_args(const backend_t *device, int which, float *flat[N_FLATS])
{
    rng_t rng = rng_new(31, RNG_TEST, (uint64_t)which);
    for (int f = 0; f < N_FLATS; f++) {
        flat[f] = util_floats(device, shape_1d(N_RECORDED));
        for (int64_t i = 0; i < N_RECORDED; i++) flat[f][i] = fabsf((float)rng_normal(&rng));
    }
    optim_args_t args = cases[which].args;
    args.weight = util_device(flat[WEIGHT]), args.gradient = util_device(flat[GRADIENT]);
    args.state[0] = util_device(flat[STATE]), args.state[1] = util_device(flat[STATE + 1]);
    args.average = util_device(flat[AVERAGE]), args.n = N_RECORDED;
    return args;
}

static void set_step(optim_args_t *args, const backend_step_t *step)
{
    args->lr = step->lr, args->average_decay = step->average_decay;
    for (int b = 0; b < 2; b++) args->correction[b] = step->correction[b];
}

/* Values that change from step to step are read when a recorded step runs, not when it is recorded. */
static void test_recorded(const backend_t *device, int which)
{
    float *direct[N_FLATS], *replayed[N_FLATS];
    void *graph = NULL;
    optim_kind_t kind = cases[which].kind;
    optim_args_t args = recorded_args(device, which, direct), record = recorded_args(device, which, replayed);
    const backend_step_t none = {.lr = NAN, .average_decay = NAN, .correction = {NAN, NAN}};
    hd_buffer_t scale;
    must(hd_buffer_new(device, sizeof(double), "a scale", &scale), "memory");
    set_step(&record, &none);
    record.gradient_scale = NAN, record.scale_at = scale.device;
    util_push(device);
    must(device->graph->begin(0), "recording");
    err_t err = device->optim[kind](&record);
    must(device->graph->end(err != ERR_OK, &graph), "recording");
    must(err, cases[which].name);
    for (int t = 1; t <= 3; t++) {
        const backend_step_t step = {.lr = cases[which].args.lr / t,
                                     .average_decay = 0.5 + 0.1 * t,
                                     .correction = {1 - pow(0.9, t), 1 - pow(0.99, t)}};
        set_step(&args, &step);
        args.gradient_scale = *(double *)scale.host = 1.0 / (t + 1);
        must(hd_buffer_push_all(&scale), "the scale");
        must(device->optim[kind](&args), cases[which].name);
        must(device->graph->launch(graph, 0, &step), "a recorded step");
        must(backend_sync(device), "waiting");
    }
    util_pull(device);
    bool equal = true;
    for (int f = 0; f < N_FLATS; f++)
        equal = equal && memcmp(direct[f], replayed[f], N_RECORDED * sizeof(float)) == 0;
    OK(equal, "%s, recorded once and run with other values: the same bits", cases[which].name);
    device->graph->release(graph);
    hd_buffer_free(&scale);
    for (int f = 0; f < N_FLATS; f++) util_free(&direct[f]), util_free(&replayed[f]);
}

/* Spans shorter and longer than what a block of threads updates at once. */
static const int64_t own_lengths[] = {16, 4096, 64, 64, 9008, 16, 16, 16, 4032, 32, 20000, 8};
enum { N_OWN = sizeof own_lengths / sizeof own_lengths[0] };

/* One launch of spans has the bits of a launch for each. */
static void test_spans(const backend_t *device, int which)
{
    float *alone[N_FLATS], *together[N_FLATS];
    optim_args_t args[2] = {cases[which].args, cases[which].args};
    int64_t n = 0, first = 0;
    hd_buffer_t spans, ratios;
    must(hd_buffer_new(device, N_OWN * sizeof(optim_span_t), "spans", &spans), "memory");
    must(hd_buffer_new(device, N_OWN * sizeof(double), "ratios", &ratios), "memory");
    for (int i = 0; i < N_OWN; n += own_lengths[i++]) {
        ((optim_span_t *)spans.host)[i] = (optim_span_t){n, own_lengths[i], i % 3 != 1};
        ((double *)ratios.host)[i] = i % 3 != 1 ? 0.01 * (i + 1) : 1;
    }
    must(hd_buffer_push_all(&spans), "spans");
    must(hd_buffer_push_all(&ratios), "ratios");
    for (int run = 0; run < 2; run++) {
        float **flat = run ? together : alone;
        rng_t rng = rng_new(41, RNG_TEST, (uint64_t)which);
        for (int f = 0; f < N_FLATS; f++) {
            flat[f] = util_floats(device, shape_1d(n));
            for (int64_t i = 0; i < n; i++) flat[f][i] = fabsf((float)rng_normal(&rng));
        }
        args[run].average_decay = 0.75, args[run].correction[0] = args[run].correction[1] = 0.5;
    }
    util_push(device);
    for (int i = 0; i < N_OWN; first += own_lengths[i++]) {
        const bool is_weight = i % 3 != 1;
        optim_args_t one = args[0];
        one.weight = util_device(alone[WEIGHT] + first), one.gradient = util_device(alone[GRADIENT] + first);
        for (int s = 0; s < 2; s++) one.state[s] = util_device(alone[STATE + s] + first);
        one.average = util_device(alone[AVERAGE] + first), one.n = own_lengths[i];
        one.ratio_at = cases[which].kind == OPTIM_LARS ? (double *)ratios.device + i : NULL;
        if (!is_weight) one.weight_decay = 0;
        must(device->optim[cases[which].kind](&one), cases[which].name);
    }
    optim_args_t all = args[1];
    all.weight = util_device(together[WEIGHT]), all.gradient = util_device(together[GRADIENT]);
    for (int s = 0; s < 2; s++) all.state[s] = util_device(together[STATE + s]);
    all.average = util_device(together[AVERAGE]), all.n = n;
    all.spans = spans.device, all.n_spans = N_OWN;
    all.ratio_at = cases[which].kind == OPTIM_LARS ? ratios.device : NULL;
    must(device->optim[cases[which].kind](&all), cases[which].name);
    util_pull(device);
    bool equal = true;
    for (int f = 0; f < N_FLATS; f++)
        equal = equal && memcmp(alone[f], together[f], (size_t)n * sizeof(float)) == 0;
    OK(equal, "%s: %d spans in one launch have the bits of a launch for each", cases[which].name, (int)N_OWN);
    hd_buffer_free(&spans), hd_buffer_free(&ratios);
    for (int f = 0; f < N_FLATS; f++) util_free(&alone[f]), util_free(&together[f]);
}

int main(int argc, char **argv)
{
    static const int64_t lengths[] = {0, 1, 7, 1000, 40001};
    enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };
    const backend_t *device = NULL;
    char why[BACKEND_WHY_MAX];
    if (argc > 1 && backend_find(argv[1], &device, why) != ERR_OK) tap_skip_all(err_message());
    device = util_open(argc, argv, 2);
    tap_plan(N_CASES * (N_LENGTHS + 3) + (device->norms ? 6 : 3 * 7 + 2) + 1 +
             (device->graph ? 2 * N_CASES : 0) + 1);
    for (int c = 0; c < N_CASES; c++) {
        for (int l = 0; l < N_LENGTHS; l++) test_kernel(device, c, lengths[l], 0, false);
        test_kernel(device, c, 1001, 3, true);
        test_kernel(device, c, 4003, 16, true);
        test_kernel(device, c, 40007, 1, true);
    }
    if (device->norms)
        test_norms(device);
    else
        test_sum_squares(device);
    test_threads(device);
    for (int c = 0; c < N_CASES && device->graph; c++) test_recorded(device, c), test_spans(device, c);
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
