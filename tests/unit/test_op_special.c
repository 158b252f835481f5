/* SPDX-License-Identifier: MIT */
/* NaN and infinities, dropout's mask, operators in place, recorded operators.
 *
 * RUN device=ref,cpu,cuda isa=avx2,avx512,avx512_bf16 */
#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

static void test_relu_nan(const backend_t *device)
{
    /* Longer than any vector, so that both the vector loop and its remainder meet a NaN. */
    op_run_t r = op_run_new(device, (op_desc_t)RELU({2, {1, 77}}), true);
    op_run_fill(&r, 1);
    r.x[0][0] = r.x[0][37] = r.x[0][76] = NAN;
    r.x[0][1] = INFINITY, r.x[0][2] = -INFINITY;
    must(op_run_forward(&r), "forward");
    OK(isnan(r.y[0]) && isnan(r.y[37]) && isnan(r.y[76]), "relu: NaN stays NaN");
    OK(isinf(r.y[1]) && r.y[1] > 0 && r.y[2] == 0, "relu: infinities");
    bool others = true;
    for (int i = 3; i < 76; i++) others = others && (i == 37 || r.y[i] == fmaxf(r.x[0][i], 0));
    OK(others, "relu: a NaN does not affect other elements");
    op_run_free(&r);
}

/* A NaN in each pixel of a 4x5 image in turn, in channel c: NaN in exactly the windows that contain it. */
static bool nan_spreads(op_run_t *r, int64_t c)
{
    const op_desc_t *d = &r->op->desc;
    const int64_t *in = d->x[0].dim, *out = d->y[0].dim;
    const pool2d_attr_t *a = &d->attr.pool2d;
    for (int64_t cell = 0; cell < in[1] * in[2]; cell++) {
        op_run_fill(r, 2);
        r->x[0][cell * in[3] + c] = NAN;
        must(op_run_forward(r), "forward");
        for (int64_t i = 0; i < shape_count(d->y[0]); i++) {
            int64_t h = i / out[3] / out[2] * a->stride_h - a->pad_h,
                    w = i / out[3] % out[2] * a->stride_w - a->pad_w;
            int64_t at_h = cell / in[2], at_w = cell % in[2];
            bool inside = at_h >= h && at_h < h + a->kernel_h && at_w >= w && at_w < w + a->kernel_w;
            if (isnan(r->y[i]) != (inside && i % out[3] == c)) return false;
        }
    }
    return true;
}

static void test_pool_nan(const backend_t *device)
{
    static const op_desc_t descs[] = {
        POOL(1, 4, 5, 1, POOL_MAX, 2, 2, 2, 2, 0, 0),  POOL(1, 4, 5, 3, POOL_MAX, 3, 3, 1, 2, 1, 1),
        POOL(1, 4, 5, 17, POOL_MAX, 2, 2, 2, 2, 0, 0), POOL(1, 4, 5, 16, POOL_MAX, 2, 2, 2, 2, 0, 0),
        POOL(1, 4, 5, 2, POOL_AVG, 3, 3, 2, 2, 1, 1),
    };
    for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++)
        for (int training = 0; training < 2; training++) {
            op_run_t r = op_run_new(device, descs[i], training);
            OK(nan_spreads(&r, 0) && nan_spreads(&r, descs[i].x[0].dim[3] - 1),
               "%s pool of %s: NaN in exactly the windows that contain it, %s",
               descs[i].attr.pool2d.mode == POOL_MAX ? "max" : "average", shape_format(descs[i].x[0]).text,
               training ? "training" : "evaluation");
            op_run_free(&r);
        }
}

static void test_softmax_nan(const backend_t *device)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int b = 0; b < 3; b++) {
        op_run_t r = op_run_new(device, (op_desc_t)XENT(38, 19, 0.0), true);
        op_run_fill(&r, 3);
        /* Row n has one bad logit at n % 19, at the label in the first half of the rows and elsewhere in the
         * rest; row 37 stays clean. */
        for (int n = 0; n < 37; n++) {
            r.x[0][n * 19 + n % 19] = bad[b];
            r.labels[n] = n < 19 ? n % 19 : (n + 5) % 19;
        }
        must(op_run_forward(&r), "forward");
        bool loss = true, in_range = true;
        for (int n = 0; n < 37; n++) {
            loss = loss && !isfinite(r.y[n]);
            in_range = in_range && r.predictions[n] >= 0 && r.predictions[n] < 19;
        }
        OK(loss, "softmax cross-entropy: a logit of %g makes the loss non-finite, wherever it is",
           (double)bad[b]);
        OK(in_range, "softmax cross-entropy: a logit of %g, and the prediction is still a class",
           (double)bad[b]);
        OK(isfinite(r.y[37]), "softmax cross-entropy: a logit of %g does not affect other rows",
           (double)bad[b]);
        op_run_free(&r);
    }
    op_run_t r = op_run_new(device, (op_desc_t)XENT(1, 4, 0.1), true);
    for (int k = 0; k < 4; k++) r.x[0][k] = -INFINITY;
    must(op_run_forward(&r), "forward");
    OK(!isfinite(r.y[0]), "softmax cross-entropy: all logits -inf");
    op_run_free(&r);
}

/* Rows so long that many threads share one: a bad logit anywhere, and equal logits far apart. */
static void test_softmax_long(const backend_t *device)
{
    enum { CLASSES = 3001 };
    static const int at[] = {0, 1, 31, 32, 255, 256, 1500, CLASSES - 1};
    enum { N = sizeof at / sizeof at[0] };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    op_run_t r = op_run_new(device, (op_desc_t)XENT(N, CLASSES, 0.0), true);
    for (int b = 0; b < 3; b++) {
        op_run_fill(&r, 8);
        for (int n = 0; n < N; n++) r.x[0][n * CLASSES + at[n]] = bad[b];
        must(op_run_forward(&r), "forward");
        bool loss = true, in_range = true;
        for (int n = 0; n < N; n++) {
            loss = loss && !isfinite(r.y[n]);
            in_range = in_range && r.predictions[n] >= 0 && r.predictions[n] < CLASSES;
        }
        OK(loss && in_range, "softmax cross-entropy of %d classes: a logit of %g", CLASSES, (double)bad[b]);
    }
    op_run_fill(&r, 8);
    for (int n = 0; n < N; n++)
        for (int k = n; k < N; k++) r.x[0][n * CLASSES + at[k]] = 100;
    must(op_run_forward(&r), "forward");
    bool first = true;
    for (int n = 0; n < N; n++) first = first && r.predictions[n] == at[n];
    OK(first, "softmax cross-entropy of %d classes: of equal logits the first", CLASSES);
    op_run_free(&r);
}

/* A bad logit in every class in turn, with either target. */
static void test_sigmoid_nan(const backend_t *device)
{
    enum { CLASSES = 37, N = 2 * CLASSES + 1 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int b = 0; b < 3; b++) {
        op_run_t r = op_run_new(device, (op_desc_t)BCE(N, CLASSES), true);
        op_run_fill(&r, 9);
        for (int n = 0; n < 2 * CLASSES; n++) {
            r.x[0][n * CLASSES + n % CLASSES] = bad[b];
            r.targets[n * CLASSES + n % CLASSES] = n < CLASSES ? 1 : 0;
        }
        must(op_run_forward(&r), "forward");
        bool loss = true;
        for (int n = 0; n < 2 * CLASSES; n++) loss = loss && !isfinite(r.y[n]);
        OK(loss && isfinite(r.y[N - 1]),
           "sigmoid cross-entropy: a logit of %g makes its row's loss non-finite, whatever its target",
           (double)bad[b]);
        op_run_free(&r);
    }
}

/* NaN inputs reach the output of every operator with sums. */
static void test_sums_nan(const backend_t *device)
{
    static const op_desc_t descs[] = {
        CONV(2, 5, 5, 3, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
        LINEAR(2, 21, 5, true),
        ADD({2, {2, 9}}),
        NORM(0.1, 1e-5, {2, {6, 3}}),
        GROUP_NORM(3, {4, {2, 3, 3, 6}}),
    };
    for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++) {
        op_run_t r = op_run_new(device, descs[i], true);
        op_run_fill(&r, 4);
        r.x[0][0] = NAN;
        must(op_run_forward(&r), "forward");
        bool other = false;
        for (int64_t k = 0; k < shape_count(r.op->desc.y[0]); k++) other = other || isfinite(r.y[k]);
        OK(isnan(r.y[0]) && other, "%s: a NaN reaches everything that depends on it",
           op_traits(descs[i].kind)->name);
        op_run_free(&r);
    }
}

static void test_in_place(const backend_t *device)
{
    static const op_desc_t descs[] = {RELU({4, {3, 5, 7, 11}}),
                                      DROPOUT(0.4, {4, {3, 5, 7, 11}}),
                                      DROPOUT(0.4, {2, {3, 33}}),
                                      NORM(0.1, 1e-5, {4, {3, 5, 7, 11}}),
                                      NORM(0.1, 1e-5, {4, {6, 9, 7, 16}}),
                                      GROUP_NORM(4, {4, {6, 9, 7, 16}}),
                                      {.kind = OP_BATCH_NORM,
                                       .n_inputs = 1,
                                       .x = {{4, {3, 5, 7, 16}}},
                                       .attr.batch_norm = {.epsilon = 1e-5, .frozen = true}}};
    for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++)
        for (int training = 1; training >= 0; training--) {
            op_run_t apart = op_run_new(device, descs[i], true),
                     in_place = op_run_new(device, descs[i], true);
            size_t n_bytes = (size_t)shape_count(descs[i].x[0]) * sizeof(float);
            op_run_fill(&apart, 5), op_run_fill(&in_place, 5);
            bool kept = training && in_place.op->reads_x & 1;
            float *y = kept ? in_place.y : in_place.x[0];
            in_place.args.y[0].data = y, in_place.args.dx[0].data = in_place.dy;
            apart.args.training = in_place.args.training = training;
            must(op_run_forward(&apart), "forward");
            must(op_run_forward(&in_place), "forward in place");
            bool same = memcmp(apart.y, y, n_bytes) == 0;
            if (training) {
                must(op_run_backward(&apart), "backward");
                must(op_run_backward(&in_place), "backward in place");
                same = same && memcmp(apart.dx[0], in_place.dy, n_bytes) == 0;
            }
            OK(op_traits(descs[i].kind)->in_place && same, "%s in place, %s, %s",
               op_traits(descs[i].kind)->name, shape_format(descs[i].x[0]).text,
               training ? "training" : "evaluation");
            op_run_free(&apart), op_run_free(&in_place);
        }
}

/* Bitwise equal to ref, however the global batch is divided. */
static void test_dropout_cut(const backend_t *device, shape_t whole)
{
    enum { N_CUT = 3 };
    int64_t n_sample = shape_sample_count(whole);
    op_run_t got = op_run_new(device, (op_desc_t)DROPOUT(0.35, whole), true);
    op_run_t ref = op_run_new(&backend_ref, (op_desc_t)DROPOUT(0.35, whole), true);
    op_run_fill(&got, 6), op_run_fill(&ref, 6);
    must(op_run_forward(&got), "forward");
    must(op_run_forward(&ref), "forward");
    must(op_run_backward(&got), "backward");
    must(op_run_backward(&ref), "backward");
    size_t n_bytes = (size_t)shape_count(whole) * sizeof(float);
    OK(memcmp(got.y, ref.y, n_bytes) == 0 && memcmp(got.dx[0], ref.dx[0], n_bytes) == 0,
       "dropout of %s: bitwise equal to ref", shape_format(whole).text);

    bool same = true;
    for (int part = 0; part < 2; part++) {
        int64_t first = part ? N_CUT : 0, n = part ? whole.dim[0] - N_CUT : N_CUT;
        op_run_t cut = op_run_new(device, (op_desc_t)DROPOUT(0.35, shape_with_batch(whole, n)), true);
        cut.args.dropout.first_sample = got.args.dropout.first_sample + (uint64_t)first;
        cut.args.x[0].data = got.x[0] + first * n_sample;
        cut.args.dy[0].data = got.dy + first * n_sample;
        must(op_run_forward(&cut), "forward");
        must(op_run_backward(&cut), "backward");
        size_t n_part = (size_t)(n * n_sample) * sizeof(float);
        same = same && memcmp(cut.y, got.y + first * n_sample, n_part) == 0 &&
               memcmp(cut.dx[0], got.dx[0] + first * n_sample, n_part) == 0;
        op_run_free(&cut);
    }
    OK(same, "dropout of %s: the same however the batch is divided", shape_format(whole).text);
    op_run_free(&got), op_run_free(&ref);
}

static int64_t n_kept(op_run_t *r)
{
    int64_t n = 0;
    must(op_run_forward(r), "forward");
    for (int64_t i = 0; i < shape_count(r->op->desc.y[0]); i++) n += r->y[i] != 0;
    return n;
}

/* Two independent masks of 20000 elements at rate 0.3 agree in 58 % of the elements. */
static bool unlike(const float *a, const float *b)
{
    int64_t agree = 0;
    for (int64_t i = 0; i < 20000; i++) agree += (a[i] != 0) == (b[i] != 0);
    return agree > 11000 && agree < 12200;
}

static void test_dropout_mask(const backend_t *device)
{
    op_run_t r = op_run_new(device, (op_desc_t)DROPOUT(0.3, {2, {20, 1000}}), true);
    op_run_t s = op_run_new(device, (op_desc_t)DROPOUT(0.3, {2, {20, 1000}}), true);
    op_run_fill(&r, 7), op_run_fill(&s, 7);
    int64_t n = n_kept(&r);
    OK(n > 13700 && n < 14300, "dropout of rate 0.3 keeps %lld of 20000", (long long)n); /* σ = 65 */
    n_kept(&s);
    OK(memcmp(r.y, s.y, 20000 * sizeof(float)) == 0, "dropout: the same key, the same mask");
    s.args.dropout.step++, n_kept(&s);
    OK(unlike(r.y, s.y), "dropout: another step, another mask");
    s.args.dropout.step--, s.args.dropout.layer++, n_kept(&s);
    OK(unlike(r.y, s.y), "dropout: another layer, another mask");
    s.args.dropout.layer--, s.args.dropout.first_sample += 20, n_kept(&s);
    OK(unlike(r.y, s.y), "dropout: other samples, another mask");
    s.args.dropout.first_sample -= 20, s.args.dropout.key = rng_key(12, RNG_DROPOUT), n_kept(&s);
    OK(unlike(r.y, s.y), "dropout: another seed, another mask");
    op_run_free(&r), op_run_free(&s);
}

/* A recorded step uses the values of each launch: results equal ref's with these values. */
static bool recorded_as(void *graph, op_run_t *r, op_run_t *ref, const backend_step_t *values)
{
    const backend_t *device = r->op->backend;
    size_t n_y = (size_t)shape_count(r->op->desc.y[0]) * sizeof(float);
    size_t n_dx = (size_t)shape_count(r->op->desc.x[0]) * sizeof(float);
    util_push(device);
    must(device->graph->launch(graph, 0, values), "running the recorded step");
    util_pull(device);
    ref->args.dropout.step = values->step, ref->args.dropout.first_sample = values->first_sample;
    ref->args.loss.scale = values->loss_scale;
    must(op_run_forward(ref), "forward");
    must(op_run_backward(ref), "backward");
    if (r->op->desc.kind == OP_DROPOUT)
        return memcmp(r->y, ref->y, n_y) == 0 && memcmp(r->dx[0], ref->dx[0], n_dx) == 0;
    for (int64_t i = 0; i < shape_count(r->op->desc.x[0]); i++)
        if (!(fabsf(r->dx[0][i] - ref->dx[0][i]) <= 1e-6f * values->loss_scale)) return false;
    return true;
}

static void test_recorded(const backend_t *device)
{
    static const op_desc_t descs[] = {DROPOUT(0.4, {2, {9, 100}}), XENT(9, 100, 0.1), BCE(9, 100)};
    static const backend_step_t steps[] = {{.step = 7, .first_sample = 90, .loss_scale = 0.125f},
                                           {.step = 1ull << 31, .first_sample = 3, .loss_scale = 1024}};
    for (int i = 0; i < 3; i++) {
        if (!device->graph) {
            tap_skip("this device cannot record");
            continue;
        }
        void *graph = NULL;
        op_run_t r = op_run_new(device, descs[i], true), ref = op_run_new(&backend_ref, descs[i], true);
        op_run_fill(&r, 9), op_run_fill(&ref, 9);
        op_args_t args = util_device_args(&r.args);
        must(device->memory->sync(), "sync");
        must(device->graph->begin(0), "recording");
        must(op_forward(r.op, &args), "forward");
        must(op_backward(r.op, &args), "backward");
        must(device->graph->end(false, &graph), "recording");
        OK(recorded_as(graph, &r, &ref, &steps[0]) && recorded_as(graph, &r, &ref, &steps[1]),
           "%s, recorded: with the values of each step", op_traits(descs[i].kind)->name);
        device->graph->release(graph);
        op_run_free(&r), op_run_free(&ref);
    }
}

/* Statistics shared with no other rank: sum_shared is called, and the result is the same. */
static int n_shared;
static err_t share_with_none(void *context, double *values, int64_t n)
{
    (void)context, (void)values, (void)n;
    n_shared++;
    return ERR_OK;
}

static void test_norm_shared(const backend_t *device)
{
    const op_desc_t desc = NORM(0.1, 1e-5, {4, {5, 6, 7, 12}});
    op_run_t own = op_run_new(device, desc, true), shared = op_run_new(device, desc, true);
    size_t n_bytes = (size_t)shape_count(own.op->desc.y[0]) * sizeof(float);
    op_run_fill(&own, 10), op_run_fill(&shared, 10);
    shared.args.batch_norm.sum_shared = share_with_none;
    must(op_run_forward(&own), "forward");
    must(op_run_forward(&shared), "forward");
    bool same = memcmp(own.y, shared.y, n_bytes) == 0 && memcmp(own.state[0], shared.state[0], 48) == 0 &&
                memcmp(own.state[1], shared.state[1], 48) == 0;
    int n_forward = n_shared;
    must(op_run_backward(&own), "backward");
    must(op_run_backward(&shared), "backward");
    same = same && memcmp(own.dx[0], shared.dx[0], n_bytes) == 0;
    for (int i = 0; i < 2; i++) same = same && memcmp(own.dparam[i], shared.dparam[i], 48) == 0;
    OK(same && n_forward > 0 && n_shared > n_forward,
       "batch norm shared with no other rank: bitwise the same");
    if (!device->graph) {
        tap_skip("this device cannot record");
    } else {
        void *graph = NULL;
        op_args_t args = util_device_args(&shared.args);
        must(device->graph->begin(0), "recording");
        err_t err = op_forward(shared.op, &args);
        must(device->graph->end(true, &graph), "recording");
        OK(err == ERR_USAGE, "shared batch norm cannot be recorded: %s", err_message());
    }
    op_run_free(&own), op_run_free(&shared);
    op_run_t samples = op_run_new(device, (op_desc_t)GROUP_NORM(1, {4, {1, 6, 7, 12}}), true);
    op_run_fill(&samples, 10);
    samples.args.batch_norm.sum_shared = share_with_none;
    n_shared = 0;
    must(op_run_forward(&samples), "forward"), must(op_run_backward(&samples), "backward");
    OK(n_shared == 0, "group norm shares nothing with other ranks");
    op_run_free(&samples);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 2);
    tap_plan(3 + 12 + 10 + 4 + 3 + 5 + 12 + 6 + 6 + 3 + 3 + 1);
    test_relu_nan(device);
    test_pool_nan(device);
    test_softmax_nan(device);
    test_softmax_long(device);
    test_sigmoid_nan(device);
    test_sums_nan(device);
    test_in_place(device);
    test_dropout_cut(device, shape_2d(8, 500));
    test_dropout_cut(device, shape_4d(7, 3, 5, 3));
    test_dropout_cut(device, shape_2d(5, 1));
    test_dropout_mask(device);
    test_recorded(device);
    test_norm_shared(device);
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
