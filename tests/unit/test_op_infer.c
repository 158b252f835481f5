/* SPDX-License-Identifier: MIT */
/* Shape rules of op_infer, its error messages, and other properties of operators. */
#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

typedef struct rule {
    op_desc_t desc;
    int n_params, n_states;
    shape_t y, param[OP_MAX_PARAMS], state[OP_MAX_STATES];
    int64_t macs;
} rule_t;

static const rule_t rules[] = {
    /* LeNet-5 */
    {CONV(64, 28, 28, 1, 20, 5, 5, 1, 1, 0, 0, 1, 1, 1, true),
     2,
     0,
     {4, {64, 24, 24, 20}},
     {{4, {20, 5, 5, 1}}, {1, {20}}},
     {{0}},
     64 * 24 * 24 * 20 * 25},
    /* Sizes round down: (7 + 2 - 3) / 4 + 1 = 2, (8 + 0 - 2) / 4 + 1 = 2. */
    {CONV(1, 7, 8, 3, 5, 3, 2, 4, 4, 1, 0, 1, 1, 1, false),
     1,
     0,
     {4, {1, 2, 2, 5}},
     {{4, {5, 3, 2, 3}}},
     {{0}},
     4 * 5 * 18},
    /* A dilated kernel spans 2·(3-1)+1 = 5 and 3·(2-1)+1 = 4. */
    {CONV(2, 5, 4, 6, 4, 3, 2, 1, 1, 0, 0, 2, 3, 2, true),
     2,
     0,
     {4, {2, 1, 1, 4}},
     {{4, {4, 3, 2, 3}}, {1, {4}}},
     {{0}},
     2 * 4 * 18},
    {CONV(1, 1, 1, 8, 8, 3, 3, 1, 1, 1, 1, 1, 1, 8, false),
     1,
     0,
     {4, {1, 1, 1, 8}},
     {{4, {8, 3, 3, 1}}},
     {{0}},
     72},
    {LINEAR(3, 7, 5, true), 2, 0, {2, {3, 5}}, {{2, {5, 7}}, {1, {5}}}, {{0}}, 105},
    {{.kind = OP_LINEAR, .n_inputs = 1, .x = {{4, {3, 4, 4, 50}}}, .attr.linear = {500, false}},
     1,
     0,
     {2, {3, 500}},
     {{2, {500, 800}}},
     {{0}},
     3 * 500 * 800},
    {POOL(2, 24, 24, 20, POOL_MAX, 2, 2, 2, 2, 0, 0), 0, 0, {4, {2, 12, 12, 20}}, {{0}}, {{0}}, 0},
    {POOL(2, 7, 5, 3, POOL_AVG, 3, 3, 2, 2, 1, 1), 0, 0, {4, {2, 4, 3, 3}}, {{0}}, {{0}}, 0},
    {POOL(2, 7, 5, 3, POOL_AVG, 7, 5, 1, 1, 0, 0), 0, 0, {4, {2, 1, 1, 3}}, {{0}}, {{0}}, 0},
    {RELU({3, {2, 3, 4}}), 0, 0, {3, {2, 3, 4}}, {{0}}, {{0}}, 0},
    {DROPOUT(0.5, {2, {2, 3}}), 0, 0, {2, {2, 3}}, {{0}}, {{0}}, 0},
    {ADD({4, {1, 2, 3, 4}}), 0, 0, {4, {1, 2, 3, 4}}, {{0}}, {{0}}, 0},
    {ROI_ALIGN(2, 16, 24, 5, 11, 7, 3, 2), 0, 0, {4, {11, 7, 3, 5}}, {{0}}, {{0}}, 0},
    {SMOOTH_L1(2, 6, 5, 3, 0.1), 0, 0, {1, {2}}, {{0}}, {{0}}, 0},
    {BCE_AT(3, 8, 2, 4), 0, 0, {1, {3}}, {{0}}, {{0}}, 0},
    {DECONV(2, 5, 7, 3, 4, 2, true),
     2,
     0,
     {4, {2, 10, 14, 4}},
     {{4, {2, 2, 4, 3}}, {1, {4}}},
     {{0}},
     2 * 10 * 14 * 4 * 3},
    {UPSAMPLE_ADD(2, 3, 5, 4), 0, 0, {4, {2, 6, 10, 4}}, {{0}}, {{0}}, 0},
    {NORM(0.1, 1e-5, {4, {2, 3, 4, 5}}),
     2,
     2,
     {4, {2, 3, 4, 5}},
     {{1, {5}}, {1, {5}}},
     {{1, {5}}, {1, {5}}},
     0},
    {NORM(0.1, 1e-5, {2, {2, 3}}), 2, 2, {2, {2, 3}}, {{1, {3}}, {1, {3}}}, {{1, {3}}, {1, {3}}}, 0},
    {GROUP_NORM(2, {4, {2, 3, 4, 6}}), 2, 0, {4, {2, 3, 4, 6}}, {{1, {6}}, {1, {6}}}, {{0}}, 0},
    {XENT(4, 10, 0.1), 0, 0, {1, {4}}, {{0}}, {{0}}, 0},
    {BCE(4, 10), 0, 0, {1, {4}}, {{0}}, {{0}}, 0},
};

static bool holds(const rule_t *rule, const op_desc_t *d)
{
    bool right =
        shape_equal(d->y[0], rule->y) && d->n_params == rule->n_params && d->n_states == rule->n_states;
    for (int i = 0; i < rule->n_params; i++) right = right && shape_equal(d->param[i], rule->param[i]);
    for (int i = 0; i < rule->n_states; i++) right = right && shape_equal(d->state[i], rule->state[i]);
    return right && op_macs(d) == rule->macs;
}

static void test_rules(void)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        op_desc_t d = rules[i].desc;
        err_t err = op_infer(&d);
        OK(err == ERR_OK && holds(&rules[i], &d), "%s of %s gives %s", op_traits(d.kind)->name,
           shape_format(d.x[0]).text, shape_format(d.y[0]).text);
    }
}

typedef struct refusal {
    op_desc_t desc;
    const char *words[2]; /* substrings of the message, besides the operator's name */
} refusal_t;

static const refusal_t refusals[] = {
    {{.kind = OP_RELU, .n_inputs = 1, .dtype = DTYPE_F64, .x = {{2, {1, 2}}}}, {"float64", "float32"}},
    {{.kind = OP_RELU, .n_inputs = 1, .compute = DTYPE_BF16, .x = {{2, {1, 2}}}}, {"bfloat16", "linear"}},
    {{.kind = OP_LINEAR, .n_inputs = 1, .compute = DTYPE_F64, .x = {{2, {1, 2}}}, .attr.linear = {1, true}},
     {"float64", "bfloat16"}},
    {RELU({2, {3, 0}}), {"3×0", "empty"}},
    {CONV(0, 5, 5, 1, 1, 3, 3, 1, 1, 0, 0, 1, 1, 1, true), {"0×5×5×1", "empty"}},
    {{.kind = OP_ADD, .n_inputs = 2, .x = {{2, {3, 4}}, {2, {3, -1}}}}, {"3×-1", "empty"}},
    {{.kind = OP_CONV2D,
      .n_inputs = 1,
      .x = {{2, {3, 784}}},
      .attr.conv2d = {1, 3, 3, 1, 1, 0, 0, 1, 1, 1, true}},
     {"3×784", "[n, height, width, channels]"}},
    {CONV(1, 5, 5, 1, 0, 3, 3, 1, 1, 0, 0, 1, 1, 1, true), {"at least 1", "channels"}},
    {CONV(1, 5, 5, 1, 1, 0, 3, 1, 1, 0, 0, 1, 1, 1, true), {"at least 1", "kernel"}},
    {CONV(1, 5, 5, 1, 1, 3, 0, 1, 1, 0, 0, 1, 1, 1, true), {"at least 1", "kernel"}},
    {CONV(1, 5, 5, 1, 1, 3, 3, 0, 1, 0, 0, 1, 1, 1, true), {"at least 1", "stride"}},
    {CONV(1, 5, 5, 1, 1, 3, 3, 1, -1, 0, 0, 1, 1, 1, true), {"at least 1", "stride"}},
    {CONV(1, 5, 5, 1, 1, 3, 3, 1, 1, -1, 0, 1, 1, 1, true), {"padding", "at least 0"}},
    {CONV(1, 5, 5, 1, 1, 3, 3, 1, 1, 0, -2, 1, 1, 1, true), {"padding", "at least 0"}},
    {CONV(1, 5, 5, 1, 1, 3, 3, 1, 1, 0, 0, 0, 1, 1, true), {"at least 1", "dilation"}},
    {CONV(1, 5, 5, 1, 1, 3, 3, 1, 1, 0, 0, 1, 0, 1, true), {"at least 1", "dilation"}},
    {CONV(1, 5, 5, 1, 1, 3, 3, 1, 1, 0, 0, 1, 1, 0, true), {"at least 1", "groups"}},
    {CONV(1, 5, 5, 4, 6, 3, 3, 1, 1, 0, 0, 1, 1, 3, true), {"3 groups", "4 input and 6 output"}},
    {CONV(1, 5, 5, 6, 4, 3, 3, 1, 1, 0, 0, 1, 1, 3, true), {"3 groups", "6 input and 4 output"}},
    {CONV(1, 5, 6, 1, 1, 7, 3, 1, 1, 0, 0, 1, 1, 1, true), {"7×3", "1×5×6×1"}},
    {CONV(1, 5, 6, 1, 1, 3, 4, 1, 1, 0, 0, 1, 2, 1, true), {"3×7", "1×5×6×1"}},
    {{.kind = OP_LINEAR, .n_inputs = 1, .x = {{1, {7}}}, .attr.linear = {5, true}},
     {"7 to 5", "[n, features"}},
    {LINEAR(3, 7, 0, true), {"3×7 to 0", "at least one output"}},
    {{.kind = OP_POOL2D, .n_inputs = 1, .x = {{3, {3, 8, 8}}}, .attr.pool2d = {POOL_MAX, 2, 2, 2, 2, 0, 0}},
     {"3×8×8", "[n, height, width, channels]"}},
    {POOL(1, 5, 5, 1, POOL_MAX, 0, 2, 1, 1, 0, 0), {"kernel", "at least 1"}},
    {POOL(1, 5, 5, 1, POOL_MAX, 2, 2, 1, 0, 0, 0), {"stride", "at least 1"}},
    {POOL(1, 5, 5, 1, POOL_MAX, 2, 2, 1, 1, -1, 0), {"padding", "pool2d"}},
    {POOL(1, 5, 5, 1, POOL_AVG, 2, 3, 1, 1, 2, 0), {"padding smaller", "pool2d"}},
    {POOL(1, 5, 5, 1, POOL_AVG, 2, 3, 1, 1, 0, 3), {"padding smaller", "pool2d"}},
    {POOL(1, 5, 6, 2, POOL_AVG, 6, 3, 1, 1, 0, 0), {"6×3", "1×5×6×2"}},
    {DROPOUT(1.0, {2, {1, 2}}), {"rate 1 ", "[0, 1)"}},
    {DROPOUT(-0.1, {2, {1, 2}}), {"rate -0.1", "[0, 1)"}},
    {DROPOUT(NAN, {2, {1, 2}}), {"nan", "[0, 1)"}},
    {{.kind = OP_ADD, .n_inputs = 2, .x = {{2, {3, 4}}, {3, {3, 4, 1}}}}, {"3×4 and", "3×4×1"}},
    {{.kind = OP_ADD, .n_inputs = 2, .x = {{2, {3, 4}}, {2, {4, 3}}}}, {"3×4", "4×3"}},
    {NORM(0.1, 1e-5, {1, {7}}), {"got 7", "channels"}},
    {GROUP_NORM(4, {4, {2, 3, 3, 6}}), {"6 channels", "4 equal groups"}},
    {GROUP_NORM(0, {4, {2, 3, 3, 6}}), {"6 channels", "0 equal groups"}},
    {GROUP_NORM(2, {1, {6}}), {"got 6", "channels"}},
    {NORM(0.1, 0.0, {2, {2, 3}}), {"epsilon 0 ", "positive"}},
    {NORM(0.1, NAN, {2, {2, 3}}), {"epsilon", "nan"}},
    {NORM(1.5, 1e-5, {2, {2, 3}}), {"momentum 1.5", "[0, 1]"}},
    {NORM(-0.5, 1e-5, {2, {2, 3}}), {"momentum -0.5", "[0, 1]"}},
    {{.kind = OP_SOFTMAX_XENT, .n_inputs = 2, .x = {{3, {2, 3, 4}}, {1, {2}}}}, {"2×3×4", "[n, classes]"}},
    {{.kind = OP_SOFTMAX_XENT, .n_inputs = 2, .x = {{2, {2, 3}}, {1, {3}}}}, {"labels 2", "got 3"}},
    {{.kind = OP_SOFTMAX_XENT, .n_inputs = 3, .x = {{2, {2, 3}}, {1, {2}}, {1, {3}}}},
     {"weights 2", "got 3"}},
    {SMOOTH_L1(2, 6, 5, 4, 0.1), {"smooth_l1: predictions", "labels 2×4"}},
    {SMOOTH_L1(2, 6, 5, 3, -1), {"beta -1", "negative"}},
    {{.kind = OP_SIGMOID_BCE, .n_inputs = 2, .x = {{4, {2, 3, 4, 5}}, {1, {2}}}},
     {"2×3×4×5", "[n, classes]"}},
    {{.kind = OP_SIGMOID_BCE, .n_inputs = 2, .x = {{2, {2, 3}}, {2, {2, 1}}}}, {"targets 2×3", "got 2×1"}},
    {XENT(2, 3, 1.0), {"smoothing 1 ", "[0, 1)"}},
    {XENT(2, 3, -0.1), {"smoothing -0.1", "[0, 1)"}},
};

static void test_refusals(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        op_desc_t d = refusals[i].desc;
        const refusal_t *want = &refusals[i];
        err_t err = op_infer(&d);
        const char *message = err == ERR_OK ? "(accepted)" : err_message();
        OK(err == ERR_USAGE && strstr(message, op_traits(d.kind)->name) && strstr(message, want->words[0]) &&
               strstr(message, want->words[1]),
           "refused: %s", message);
    }
}

static void test_traits(void)
{
#define NAME(KIND, name) [OP_##KIND] = #name,
    static const char *const names[OP_KIND_COUNT] = {OP_LIST(NAME)};
    bool right = true, ruled[OP_KIND_COUNT] = {false};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) ruled[rules[i].desc.kind] = true;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        right = right && ruled[kind] && strcmp(op_traits((op_kind_t)kind)->name, names[kind]) == 0;
    OK(right, "every operator has its name, and a case here");
    op_desc_t xent = XENT(4, 10, 0.1), relu = RELU({2, {4, 10}});
    must(op_infer(&xent), "softmax_xent"), must(op_infer(&relu), "relu");
    OK(xent.n_outputs == 2 && shape_equal(xent.y[1], shape_1d(4)) && xent.y_dtype[1] == DTYPE_I32 &&
           xent.x_dtype[1] == DTYPE_I32 && relu.n_outputs == 1,
       "softmax_xent reads integer labels and has integer predictions");
    must(op_infer(&xent), "softmax_xent");
    OK(xent.x_dtype[1] == DTYPE_I32 && xent.x_dtype[0] == DTYPE_F32, "inferring again changes nothing");
}

static err_t refuse(op_t *op)
{
    RAISE(ERR_SYSTEM, "no %s today", op_traits(op->desc.kind)->name);
}

static void test_plan(void)
{
    static const op_kernel_t refusing = {.plan = refuse};
    static const backend_t half = {.name = "half", .kernel = {[OP_ADD] = &refusing}};
    op_desc_t relu = RELU({2, {1, 2}}), add = ADD({2, {1, 2}});
    op_t *op = NULL;
    must(op_infer(&relu), "relu");
    must(op_infer(&add), "add");
    OK(op_plan(&half, &relu, false, NULL, &op) == ERR_SYSTEM && strstr(err_message(), "half") &&
           strstr(err_message(), "relu"),
       "a backend without the operator: %s", err_message());
    OK(op_plan(&half, &add, false, NULL, &op) == ERR_SYSTEM && strstr(err_message(), "no add today") && !op,
       "a plan's own error is returned");
    op_free(&op);
    must(op_plan(&backend_ref, &relu, true, NULL, &op), "relu");
    OK(op->training && op->backend == &backend_ref && shape_equal(op->desc.y[0], relu.y[0]),
       "a plan keeps its description");
    op_free(&op);
    OK(!op, "op_free accepts NULL, and sets NULL");
}

static void test_backend_find(void)
{
    const backend_t *ref = NULL, *best = NULL, *none = NULL;
    char why[BACKEND_WHY_MAX];
    OK(backend_find("ref", &ref, why) == ERR_OK && ref == &backend_ref, "--device ref");
    OK(backend_find("auto", &best, why) == ERR_OK && best && best != ref, "--device auto is not ref");
    OK(backend_find("gpu", &none, why) == ERR_USAGE && strstr(err_message(), "gpu") &&
           strstr(err_message(), "cpu"),
       "--device gpu: %s", err_message());
    bool complete = true;
    for (int kind = 0; kind < OP_KIND_COUNT; kind++)
        complete = complete && ref->kernel[kind] && ref->kernel[kind]->forward && ref->kernel[kind]->backward;
    for (int kind = 0; kind < OPTIM_KIND_COUNT; kind++) complete = complete && ref->optim[kind];
    OK(complete && ref->sum_squares && ref->accumulate && ref->describe, "ref is complete");
}

int main(void)
{
    tap_plan((int)(sizeof rules / sizeof rules[0] + sizeof refusals / sizeof refusals[0]) + 3 + 4 + 4 + 1);
    test_rules();
    test_refusals();
    test_traits();
    test_plan();
    test_backend_find();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
