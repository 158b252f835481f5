/* SPDX-License-Identifier: MIT */
/* Small values computed by hand.
 *
 * RUN device=ref,cpu,cuda isa=avx2,avx512,avx512_bf16 */
#include "tests/op_util.h"
#include "tests/tap.h"

#define SET(block, ...) memcpy((block), (float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}))
/* Every listed value to float precision. */
#define IS(block, ...) same((block), (float[]){__VA_ARGS__}, sizeof((float[]){__VA_ARGS__}) / sizeof(float))

static bool same(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-6f * (1 + fabsf(want[i])))) {
            printf("# element %zu: %.9g, expected %.9g\n", i, (double)got[i], (double)want[i]);
            return false;
        }
    return true;
}

static void ones(float *block, shape_t shape)
{
    for (int64_t i = 0; i < shape_count(shape); i++) block[i] = 1;
}

static op_run_t start(const backend_t *device, op_desc_t desc)
{
    op_run_t r = op_run_new(device, desc, true);
    ones(r.dy, r.op->desc.y[0]);
    return r;
}

static void test_conv2d(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)CONV(1, 3, 3, 1, 1, 2, 2, 1, 1, 0, 0, 1, 1, 1, true));
    SET(r.x[0], 1, 2, 3, 4, 5, 6, 7, 8, 9);
    SET(r.param[0], 1, 2, 3, 4);
    SET(r.param[1], 0.5f);
    OK_CALL(op_run_forward(&r), "conv2d 2x2 runs");
    OK(IS(r.y, 37.5f, 47.5f, 67.5f, 77.5f), "conv2d 2x2: cross-correlation plus bias");
    OK_CALL(op_run_backward(&r), "conv2d 2x2 runs backward");
    OK(IS(r.dx[0], 1, 3, 2, 4, 10, 6, 3, 7, 4), "conv2d 2x2: dx");
    OK(IS(r.dparam[0], 12, 16, 24, 28) && IS(r.dparam[1], 4), "conv2d 2x2: dw and db");
    op_run_free(&r);

    r = start(device, (op_desc_t)CONV(1, 1, 2, 1, 1, 1, 3, 1, 1, 0, 1, 1, 1, 1, false));
    SET(r.x[0], 1, 2);
    SET(r.param[0], 10, 20, 30);
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 80, 50), "conv2d 1x3: the padding is zero and on both sides");
    op_run_free(&r);

    r = start(device, (op_desc_t)CONV(1, 1, 1, 2, 4, 1, 1, 1, 1, 0, 0, 1, 1, 2, false));
    SET(r.x[0], 3, 5);
    SET(r.param[0], 1, 2, 3, 4);
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 3, 6, 15, 20), "conv2d with 2 groups: outputs 0-1 read input 0, outputs 2-3 input 1");
    op_run_free(&r);

    r = start(device, (op_desc_t)CONV(1, 1, 5, 1, 1, 1, 2, 1, 2, 0, 0, 1, 2, 1, false));
    SET(r.x[0], 1, 2, 3, 4, 5);
    SET(r.param[0], 1, 10);
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 31, 53), "conv2d with dilation 2 and stride 2");
    op_run_free(&r);
}

static void test_linear(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)LINEAR(1, 2, 3, true));
    SET(r.x[0], 1, 2);
    SET(r.param[0], 1, 2, 3, 4, 5, 6);
    SET(r.param[1], 0.5f, 0, -1);
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 5.5f, 11, 16), "linear: y = x·wT + b");
    must(op_run_backward(&r), "backward");
    OK(IS(r.dx[0], 9, 12) && IS(r.dparam[0], 1, 2, 1, 2, 1, 2) && IS(r.dparam[1], 1, 1, 1),
       "linear: gradients");
    op_run_free(&r);
}

static void test_pool2d(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)POOL(1, 2, 2, 1, POOL_MAX, 2, 2, 1, 1, 0, 0));
    SET(r.x[0], 7, 7, 7, 7);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(IS(r.y, 7) && IS(r.dx[0], 1, 0, 0, 0), "max pool: of equal pixels the first gets the gradient");
    op_run_free(&r);

    r = start(device, (op_desc_t)POOL(1, 2, 3, 1, POOL_MAX, 2, 2, 1, 1, 0, 0));
    SET(r.x[0], 1, 9, 2, 3, 4, 5);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(IS(r.y, 9, 9) && IS(r.dx[0], 0, 2, 0, 0, 0, 0),
       "max pool: a pixel that wins twice gets both gradients");
    op_run_free(&r);

    r = start(device, (op_desc_t)POOL(1, 2, 2, 1, POOL_MAX, 2, 2, 2, 2, 1, 1));
    SET(r.x[0], -1, -2, -3, -4);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(IS(r.y, -1, -2, -3, -4) && IS(r.dx[0], 1, 1, 1, 1), "max pool: the padding never wins");
    op_run_free(&r);

    r = start(device, (op_desc_t)POOL(1, 2, 2, 1, POOL_MAX, 3, 3, 3, 3, 1, 1));
    SET(r.x[0], -INFINITY, -INFINITY, -INFINITY, -INFINITY);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(isinf(r.y[0]) && r.y[0] < 0 && IS(r.dx[0], 1, 0, 0, 0),
       "max pool: of four -inf the first, not the padding");
    op_run_free(&r);

    r = start(device, (op_desc_t)POOL(1, 2, 2, 1, POOL_AVG, 3, 3, 3, 3, 1, 1));
    SET(r.x[0], 1, 2, 3, 4);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(IS(r.y, 2.5f) && IS(r.dx[0], 0.25f, 0.25f, 0.25f, 0.25f), "average pool: the padding is not counted");
    op_run_free(&r);
}

static void test_batch_norm(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)NORM(0.25, 3.0, {2, {2, 1}}));
    SET(r.x[0], 1, 3); /* mean 2, biased variance 1, with epsilon 4 */
    SET(r.param[0], 2);
    SET(r.param[1], 1);
    SET(r.state[0], 0);
    SET(r.state[1], 1);
    SET(r.dy, 1, 2);
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 0, 2), "batch norm: biased variance of the batch plus epsilon");
    OK(IS(r.state[0], 0.5f) && IS(r.state[1], 1.25f),
       "batch norm: running mean, and running unbiased variance");
    must(op_run_backward(&r), "backward");
    /* x̂ = ∓1/2; dβ = 3; dγ = -1/2 + 1 = 1/2; dx = 2/2·(dy - 3/2 - x̂/4). */
    OK(IS(r.dparam[0], 0.5f) && IS(r.dparam[1], 3) && IS(r.dx[0], -0.375f, 0.375f), "batch norm: gradients");
    r.args.training = false;
    SET(r.state[1], 6);
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 1.0f + 1.0f / 3, 1.0f + 5.0f / 3), "batch norm in evaluation: running values");
    OK(IS(r.state[0], 0.5f) && IS(r.state[1], 6), "batch norm in evaluation: running values do not change");
    op_run_free(&r);

    /* Groups {1, 3} and {5}: means 2 and 5, variances 1 and 0 (unbiased 2 and 0). */
    r = start(device, (op_desc_t){.kind = OP_BATCH_NORM,
                                  .n_inputs = 1,
                                  .x = {{2, {3, 1}}},
                                  .attr.batch_norm = {0.5, 3.0, 2}});
    SET(r.x[0], 1, 3, 5);
    SET(r.param[0], 2);
    SET(r.param[1], 1);
    SET(r.state[0], 0);
    SET(r.state[1], 1);
    SET(r.dy, 1, 2, 7);
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 0, 2, 1), "batch norm in groups: each has its own mean and variance");
    OK(IS(r.state[0], 1.75f) && IS(r.state[1], 1),
       "batch norm in groups: running values follow their average");
    must(op_run_backward(&r), "backward");
    OK(IS(r.dparam[0], 0.5f) && IS(r.dparam[1], 10) && IS(r.dx[0], -0.375f, 0.375f, 0),
       "batch norm in groups: gradients");
    op_run_free(&r);

    r = start(device, (op_desc_t)NORM(0.25, 3.0, {2, {1, 1}}));
    SET(r.x[0], 5);
    SET(r.param[0], 2);
    SET(r.param[1], 1);
    SET(r.state[0], 0);
    SET(r.state[1], 1);
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 1) && IS(r.state[1], 0.75f), "batch norm of one value: variance 0, no division by n-1");
    op_run_free(&r);
}

static void test_softmax_rows(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)XENT_WEIGHTS(4, 2, 0.0));
    SET(r.x[0], 0, logf(3), NAN, 1, 1, 1, 7, 1000);
    SET(r.x[2], 2, 1, 0.5f, 0);
    memcpy(r.labels, (int32_t[]){0, -1, 1, 1}, 4 * sizeof(int32_t));
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, 2 * logf(4), 0, logf(2) / 2, 0), "softmax cross-entropy: weights, and a row without a label");
    OK(r.predictions[0] == 1 && r.predictions[1] >= 0 && r.predictions[2] == 0,
       "softmax cross-entropy: every row has a prediction");
    must(op_run_backward(&r), "backward");
    OK(IS(r.dx[0], -0.375f, 0.375f, 0, 0, 0.0625f, -0.0625f, 0, 0),
       "softmax cross-entropy with weights: gradient · 1/4");
    op_run_free(&r);

    r = start(device, (op_desc_t)XENT(2, 3, 0.1));
    SET(r.x[0], 5, 4, 3, 0, 0, 0);
    memcpy(r.labels, (int32_t[]){-1, 2}, 2 * sizeof(int32_t));
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    OK(IS(r.y, 0, logf(3)) && IS(r.dx[0], 0, 0, 0, 0.075f, 0.075f, -0.15f),
       "softmax cross-entropy: a row without a label, without weights");
    op_run_free(&r);
}

static void test_softmax_xent(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)XENT(3, 2, 0.0));
    SET(r.x[0], 0, logf(3), 1, 1, 1000, 0); /* probabilities 1/4 3/4, 1/2 1/2, 1 0 */
    memcpy(r.labels, (int32_t[]){0, 1, 1}, 3 * sizeof(int32_t));
    must(op_run_forward(&r), "forward");
    OK(IS(r.y, logf(4), logf(2), 1000), "softmax cross-entropy: losses");
    OK(r.predictions[0] == 1 && r.predictions[1] == 0 && r.predictions[2] == 0,
       "softmax cross-entropy: the largest logit, of equals the first");
    must(op_run_backward(&r), "backward");
    OK(IS(r.dx[0], -0.1875f, 0.1875f, 0.125f, -0.125f, 0.25f, -0.25f),
       "softmax cross-entropy: gradient · 1/4");
    op_run_free(&r);

    r = start(device, (op_desc_t)XENT(1, 2, 0.2));
    SET(r.x[0], 0, logf(3));
    r.labels[0] = 0;
    r.args.y[1].data = NULL;
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(IS(r.y, 0.9f * logf(4) + 0.1f * logf(4.0f / 3)), "softmax cross-entropy with smoothing: loss");
    OK(IS(r.dx[0], -0.1625f, 0.1625f), "softmax cross-entropy with smoothing: gradient");
    op_run_free(&r);
}

static void test_sigmoid_bce(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)BCE(4, 2));
    /* σ: 1/2 1/4, 1/2 3/4; logits whose exponential overflows; a target between 0 and 1. */
    SET(r.x[0], 0, -logf(3), 0, logf(3), 1000, -1000, 2, 0);
    SET(r.targets, 1, 0, 0, 1, 0, 1, 0.25f, 0.5f);
    must(op_run_forward(&r), "forward");
    float right = (logf(2) + logf(4.0f / 3)) / 2,
          between = (2 - 2 * 0.25f + logf(1 + expf(-2)) + logf(2)) / 2;
    OK(IS(r.y, right, right, 1000, between), "sigmoid cross-entropy: the mean over the classes");
    must(op_run_backward(&r), "backward");
    float s = 1 / (1 + expf(-2));
    OK(IS(r.dx[0], -0.0625f, 0.03125f, 0.0625f, -0.03125f, 0.125f, -0.125f, (s - 0.25f) / 8, 0),
       "sigmoid cross-entropy: gradient · 1/4 / 2 classes");
    op_run_free(&r);
}

static void test_dropout(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)DROPOUT(0.25, {2, {2, 6}}));
    ones(r.x[0], r.op->desc.y[0]);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    bool forward = true, backward = true;
    for (uint32_t i = 0; i < 12; i++) {
        rng_block_t b = rng_dropout_block(r.args.dropout.key, r.args.dropout.layer, r.args.dropout.step,
                                          r.args.dropout.first_sample + i / 6, i % 6 / 4);
        float want = b.word[i % 6 % 4] < 0xC0000000u ? 1 / 0.75f : 0;
        forward = forward && r.y[i] == want;
        backward = backward && r.dx[0][i] == want;
    }
    OK(forward && backward, "dropout: keeps the elements given by rng_dropout_block, forward and backward");
    op_run_free(&r);

    r = start(device, (op_desc_t)DROPOUT(0.0, {2, {1, 64}}));
    ones(r.x[0], r.op->desc.y[0]);
    must(op_run_forward(&r), "forward");
    OK(memcmp(r.x[0], r.y, 64 * sizeof(float)) == 0, "dropout with rate 0 keeps everything");
    op_run_free(&r);
}

static void test_elementwise(const backend_t *device)
{
    op_run_t r = start(device, (op_desc_t)RELU({2, {1, 3}}));
    SET(r.x[0], -1, 0, 2);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(IS(r.y, 0, 0, 2) && IS(r.dx[0], 0, 0, 1), "relu: zero has no gradient");
    op_run_free(&r);

    r = start(device, (op_desc_t)ADD({2, {1, 2}}));
    SET(r.x[0], 1, 2);
    SET(r.x[1], 10, 20);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    OK(IS(r.y, 11, 22) && IS(r.dx[0], 1, 1) && IS(r.dx[1], 1, 1), "add");
    op_run_free(&r);

    float *weight = util_floats(device, shape_1d(2)), *gradient = util_floats(device, shape_1d(2));
    float *velocity = util_floats(device, shape_1d(2));
    SET(weight, 1, -1);
    SET(gradient, 0.5f, 1);
    SET(velocity, 0, 0);
    optim_args_t sgd = {.weight = weight,
                        .gradient = gradient,
                        .state = {velocity},
                        .n = 2,
                        .lr = 0.1,
                        .momentum = 0.9,
                        .gradient_scale = 1};
    must(util_optim(device, OPTIM_SGD, &sgd), "sgd");
    OK(IS(velocity, 0.5f, 1) && IS(weight, 0.95f, -1.1f), "sgd: first step");
    must(util_optim(device, OPTIM_SGD, &sgd), "sgd");
    OK(IS(velocity, 0.95f, 1.9f) && IS(weight, 0.855f, -1.29f), "sgd: second step, with momentum");
    must(device->accumulate(util_device(weight), util_device(gradient), 1, DTYPE_F32), "accumulate");
    util_pull(device);
    OK(IS(weight, 1.355f, -1.29f), "accumulate adds to n elements only");
    util_free(&weight), util_free(&gradient), util_free(&velocity);
}

/* Operators that the device may lack. */
static void test_selected(const backend_t *device)
{
    const op_desc_t boxes = SMOOTH_L1(3, 1, 2, 1, 0.5), cells = BCE_AT(2, 2, 2, 1);
    if (!util_has(device, &boxes)) {
        for (int i = 0; i < 6; i++) tap_skip("the device lacks the operator");
        return;
    }
    /* The second class of one sample, the first of the next, none of the last. */
    op_run_t r = start(device, boxes);
    SET(r.x[0], 9, 9, 9, 9, 1.25f, 3, -1, 0.5f, 0, 0, 0, 0, 9, 9, 9, 9, NAN, 1, 1, 1, 1, 1, 1, 1);
    SET(r.x[2], 1, 0.5f, 1);
    SET(r.x[3], 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0);
    memcpy(r.args.x[1].data, (int32_t[]){1, 0, -1}, 3 * sizeof(int32_t));
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    OK(IS(r.y, 0.0625f + 1.75f + 1.75f + 0.25f, 0.375f, 0), "smooth L1: quadratic up to beta, then linear");
    OK(IS(r.dx[0], 0, 0, 0, 0, 0.125f, 0.25f, -0.25f, 0.25f, 0, 0, 0, -0.125f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
          0, 0),
       "smooth L1: the gradient of the class that counts");
    op_run_free(&r);

    r = start(device, cells);
    SET(r.x[0], 9, 0, 9, logf(3), 1000, 9, -1000, 9);
    SET(r.x[2], 2, 0.5f);
    SET(r.x[3], 1, 0, 1, 1);
    memcpy(r.args.x[1].data, (int32_t[]){1, 0}, 2 * sizeof(int32_t));
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    OK(IS(r.y, 2 * (logf(2) + logf(4)), 500), "sigmoid cross-entropy of a class: one label for all cells");
    OK(IS(r.dx[0], 0, -0.25f, 0, 0.375f, 0, 0, -0.125f, 0), "sigmoid cross-entropy of a class: gradient");
    op_run_free(&r);

    r = start(device, (op_desc_t)BCE_LABELS(1, 3));
    SET(r.x[0], 0, 9, logf(3));
    SET(r.x[2], 2, 1, 0.5f);
    memcpy(r.args.x[1].data, (int32_t[]){1, -1, 0}, 3 * sizeof(int32_t));
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    OK(IS(r.y, 2 * logf(2) + 0.5f * logf(4)) && IS(r.dx[0], -0.25f, 0, 0.09375f),
       "sigmoid cross-entropy of anchors: the label is the target");
    op_run_free(&r);

    r = start(device, (op_desc_t)SMOOTH_L1(3, 1, 1, 1, 0, 1));
    for (int i = 0; i < 12; i++) r.x[0][i] = 3;
    for (int i = 0; i < 12; i++) r.x[3][i] = 1;
    SET(r.x[2], 1, 1, 0.5f);
    memcpy(r.args.x[1].data, (int32_t[]){0, -1, 1}, 3 * sizeof(int32_t));
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    OK(IS(r.y, 0, 0, 4) && IS(r.dx[0], 0, 0, 0, 0, 0, 0, 0, 0, 0.125f, 0.125f, 0.125f, 0.125f),
       "smooth L1 of anchors: those of the background do not count");
    op_run_free(&r);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 2);
    tap_plan(50);
    char text[128] = "";
    device->describe(text, sizeof text);
    OK(text[0] && strcmp(device->name, argc > 1 ? argv[1] : "ref") == 0, "%s describes itself: %s",
       device->name, text);
    test_conv2d(device);
    test_linear(device);
    test_pool2d(device);
    test_batch_norm(device);
    test_softmax_xent(device);
    test_softmax_rows(device);
    test_sigmoid_bce(device);
    test_selected(device);
    test_dropout(device);
    test_elementwise(device);
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
