/* SPDX-License-Identifier: MIT */
/* Fused layers: conv2d and linear with an epilogue give the results of the separate operators on ref, forward
 * and backward, in training and in evaluation, including NaN. Tolerances as in test_op_backends.c.
 *
 * RUN device=cpu san=slow */
#include <float.h>

#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

/* As CONV, with the pooling window's height and width after the bias; 0: ReLU only. */
#define CONV_RELU(n, h, w, c, k, kh, kw, sh, sw, ph, pw, dh, dw, g, bias, ...)                               \
    CONV(n, h, w, c, k, kh, kw, sh, sw, ph, pw, dh, dw, g, bias, {true, __VA_ARGS__})

static const op_desc_t cases[] = {
    /* LeNet-5, whole and ragged batches */
    CONV_RELU(64, 28, 28, 1, 20, 5, 5, 1, 1, 0, 0, 1, 1, 1, true, 2, 2),
    CONV_RELU(33, 12, 12, 20, 50, 5, 5, 1, 1, 0, 0, 1, 1, 1, true, 2, 2),
    CONV_RELU(1, 12, 12, 20, 50, 5, 5, 1, 1, 0, 0, 1, 1, 1, true, 2, 2),
    /* ReLU only; no bias; padding; strides; windows that leave pixels over, that are not square */
    CONV_RELU(16, 9, 7, 3, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, 0, 0),
    CONV_RELU(5, 11, 10, 8, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, false, 2, 2),
    CONV_RELU(32, 13, 11, 3, 10, 5, 3, 2, 1, 2, 1, 1, 1, 1, true, 3, 2),
    CONV_RELU(17, 8, 9, 5, 1, 2, 3, 1, 2, 0, 2, 1, 1, 1, true, 1, 2),
    CONV_RELU(40, 7, 7, 16, 64, 1, 1, 1, 1, 0, 0, 1, 1, 1, true, 2, 2),
    CONV_RELU(3, 6, 6, 2, 33, 3, 3, 3, 3, 1, 1, 1, 1, 1, true, 2, 2),
    /* shapes that the hand-written kernels leave to libraries */
    CONV_RELU(4, 12, 11, 4, 6, 3, 3, 1, 1, 2, 2, 2, 2, 1, true, 2, 2),
    CONV_RELU(2, 8, 9, 6, 10, 3, 3, 1, 1, 1, 1, 1, 1, 2, true, 2, 3),
    /* windows of two pixels, of more than a thread holds; pointwise, with pixels left over; more rows than
     * are summed at once */
    CONV_RELU(3, 9, 8, 5, 35, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, 2, 1),
    CONV_RELU(3, 14, 13, 5, 35, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, 3, 4),
    CONV_RELU(9, 13, 11, 7, 66, 1, 1, 1, 1, 0, 0, 1, 1, 1, true, 3, 3),
    CONV_RELU(7, 21, 19, 6, 4, 3, 3, 1, 1, 1, 1, 1, 1, 2, true, 0, 0),
    /* Winograd's, in part outside of the image */
    CONV_RELU(3, 9, 10, 16, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, 0, 0),
    {.kind = OP_LINEAR, .n_inputs = 1, .x = {{2, {700, 9}}}, .attr.linear = {37, true, {true, 0, 0}}},
    {.kind = OP_LINEAR, .n_inputs = 1, .x = {{2, {64, 800}}}, .attr.linear = {500, true, {true, 0, 0}}},
    {.kind = OP_LINEAR, .n_inputs = 1, .x = {{4, {3, 4, 4, 5}}}, .attr.linear = {7, false, {true, 0, 0}}},
    {.kind = OP_LINEAR, .n_inputs = 1, .x = {{2, {1, 1}}}, .attr.linear = {1, true, {true, 0, 0}}},
};

/* error: beyond that of sums, relative to the largest value */
static bool close_within(const char *what, const float *got, const float *want, shape_t shape, double k,
                         double error)
{
    double size = sqrt(k);
    int64_t n_bad = 0;
    for (int64_t i = 0; i < shape_count(shape); i++)
        if (!isnan(want[i])) size = fmax(size, fabs((double)want[i]));
    for (int64_t i = 0; i < shape_count(shape); i++) {
        bool same = isnan(want[i]) ? isnan(got[i])
                                   : fabs((double)got[i] - (double)want[i]) <=
                                         (4 * FLT_EPSILON * sqrt(k) + error) * size;
        if (!same && n_bad++ == 0)
            printf("# %s[%lld] of %s: %.9g, should be %.9g\n", what, (long long)i, shape_format(shape).text,
                   (double)got[i], (double)want[i]);
    }
    if (!util_guards_hold(got, shape)) printf("# %s: written beyond its end\n", what), n_bad++;
    return n_bad == 0;
}

static bool close_to(const char *what, const float *got, const float *want, shape_t shape, double k)
{
    return close_within(what, got, want, shape, k, 0);
}

/* The separate operators, each with its own buffers. */
typedef struct chain {
    op_run_t product, relu, pool;
    bool pools;
} chain_t;

static op_desc_t without_epilogue(op_desc_t desc)
{
    if (desc.kind == OP_CONV2D)
        desc.attr.conv2d.epilogue = (epilogue_t){0};
    else
        desc.attr.linear.epilogue = (epilogue_t){0};
    return desc;
}

static chain_t chain_new(const op_desc_t *desc)
{
    epilogue_t e = op_epilogue(desc);
    chain_t chain = {.product = op_run_new(&backend_ref, without_epilogue(*desc), true),
                     .pools = e.pool_h > 0};
    shape_t y = chain.product.op->desc.y[0];
    chain.relu = op_run_new(&backend_ref, (op_desc_t){.kind = OP_RELU, .n_inputs = 1, .x = {y}}, true);
    op_desc_t pool = {.kind = OP_POOL2D,
                      .n_inputs = 1,
                      .x = {y},
                      .attr.pool2d = {POOL_MAX, e.pool_h, e.pool_w, e.pool_h, e.pool_w, 0, 0}};
    if (chain.pools) chain.pool = op_run_new(&backend_ref, pool, true);
    return chain;
}

static void chain_free(chain_t *chain)
{
    op_run_free(&chain->product);
    op_run_free(&chain->relu);
    if (chain->pools) op_run_free(&chain->pool);
}

static void copy(float *to, const float *from, shape_t shape)
{
    memcpy(to, from, (size_t)shape_count(shape) * sizeof *to);
}

/* The y of the last operator. */
static const float *chain_forward(chain_t *chain)
{
    shape_t y = chain->relu.op->desc.y[0];
    must(op_run_forward(&chain->product), "forward");
    copy(chain->relu.x[0], chain->product.y, y);
    must(op_run_forward(&chain->relu), "forward");
    if (!chain->pools) return chain->relu.y;
    copy(chain->pool.x[0], chain->relu.y, y);
    must(op_run_forward(&chain->pool), "forward");
    return chain->pool.y;
}

static void chain_backward(chain_t *chain, const float *dy)
{
    shape_t y = chain->relu.op->desc.y[0];
    if (chain->pools) {
        copy(chain->pool.dy, dy, chain->pool.op->desc.y[0]);
        must(op_run_backward(&chain->pool), "backward");
    }
    copy(chain->relu.dy, chain->pools ? chain->pool.dx[0] : dy, y);
    must(op_run_backward(&chain->relu), "backward");
    copy(chain->product.dy, chain->relu.dx[0], y);
    must(op_run_backward(&chain->product), "backward");
}

static bool same_gradients(const op_run_t *got, const op_run_t *want, double k_dx, double k_param)
{
    const op_desc_t *d = &got->op->desc;
    bool same = !got->args.dx[0].data || close_to("dx", got->dx[0], want->dx[0], d->x[0], k_dx);
    /* cuDNN's is rounded to bfloat16. */
    const bool rounded =
        strncmp(got->op->algorithms.name[OP_BACKWARD_WEIGHTS], "cudnn", 5) == 0 && d->compute == DTYPE_BF16;
    for (int i = 0; i < d->n_params; i++)
        same = close_within(i ? "bias gradient" : "weight gradient", got->dparam[i], want->dparam[i],
                            d->param[i], k_param, rounded && i == 0 ? 0x1p-8 : 0) &&
               same;
    return same;
}

/* The algorithm under test: the backend's default; the one for bfloat16 products, in the passes that have it;
 * the last one listed. */
typedef enum choice { CHOICE_RULE, CHOICE_BF16, CHOICE_LAST } choice_t;

static op_algorithms_t algorithms_of(const backend_t *device, const op_desc_t *desc, choice_t choice)
{
    op_algorithms_t out = {0};
    op_desc_t d = *desc;
    must(op_infer(&d), "op_infer");
    for (int pass = 0; pass < OP_PASS_COUNT && choice != CHOICE_RULE; pass++) {
        const char *names[OP_MAX_ALGORITHMS];
        int n = op_list_algorithms(device, &d, (op_pass_t)pass, true, names, OP_MAX_ALGORITHMS);
        for (int i = 0; i < n; i++)
            if (choice == CHOICE_LAST || strstr(names[i], "bf16"))
                snprintf(out.name[pass], OP_ALGORITHM_MAX, "%s", names[i]);
    }
    return out;
}

static void compare(const backend_t *device, const op_desc_t *desc, choice_t choice, uint64_t seed)
{
    op_algorithms_t wanted = algorithms_of(device, desc, choice);
    op_run_t got = op_run_with(device, *desc, true, &wanted);
    op_run_t eval = op_run_with(device, *desc, false, &wanted);
    chain_t chain = chain_new(desc);
    op_desc_t *d = &got.op->desc;
    shape_text_t x = shape_format(d->x[0]), w = shape_format(d->param[0]), y = shape_format(d->y[0]);
    const char *name = op_traits(d->kind)->name, *bf16 = d->compute == DTYPE_BF16 ? "bf16 " : "";
    double k = (double)shape_sample_count(d->param[0]);
    double k_dx = (double)shape_count(d->param[0]) / (double)d->x[0].dim[d->x[0].n_dims - 1];
    double k_param = (double)shape_count(chain.relu.op->desc.y[0]) / (double)d->param[0].dim[0];
    /* An earlier batch must not change the results. */
    op_run_fill(&got, seed + 1);
    must(op_run_forward(&got), "forward");
    must(op_run_backward(&got), "backward");
    op_run_fill(&got, seed), op_run_fill(&eval, seed), op_run_fill(&chain.product, seed);
    const float *want = chain_forward(&chain);
    memset(got.workspace, 0xff, got.op->n_workspace_bytes);
    must(op_run_forward(&got), "forward");
    OK(close_to("y", got.y, want, d->y[0], k), "%s%s %s by %s to %s: forward", bf16, name, x.text, w.text,
       y.text);
    must(op_run_forward(&eval), "forward");
    OK(close_to("y", eval.y, want, d->y[0], k), "… in evaluation");

    chain_backward(&chain, got.dy);
    memset(got.workspace, 0xff, got.op->n_workspace_bytes);
    must(op_run_backward(&got), "backward");
    OK(same_gradients(&got, &chain.product, k_dx, k_param), "… backward");
    got.args.dx[0].data = NULL;
    must(op_run_backward(&got), "backward");
    OK(same_gradients(&got, &chain.product, k_dx, k_param), "… backward without dx");

    got.x[0][0] = chain.product.x[0][0] = NAN;
    want = chain_forward(&chain);
    must(op_run_forward(&got), "forward");
    if (strncmp(got.op->algorithms.name[OP_FORWARD], "winograd", 8) == 0)
        tap_skip("Winograd's algorithm spreads a NaN over its tile");
    else
        OK(close_to("y", got.y, want, d->y[0], k), "… NaN goes where it should");
    chain_free(&chain);
    op_run_free(&got), op_run_free(&eval);
}

int main(int argc, char **argv)
{
    /* With sanitizers the large cases take minutes, and they run the same code as the next one. */
    enum { N_CASES = sizeof cases / sizeof cases[0], FIRST = 2 * UNDER_SANITIZER };
    const backend_t *device = util_open(argc, argv, 2);
    tap_plan(25 * (N_CASES - FIRST) + 1);
    for (int i = FIRST; i < N_CASES; i++) {
        op_desc_t bf16 = cases[i];
        bf16.compute = DTYPE_BF16;
        uint64_t seed = 300 + 2 * (uint64_t)i;
        compare(device, &cases[i], CHOICE_RULE, seed);
        compare(device, &cases[i], CHOICE_LAST, seed);
        compare(device, &bf16, CHOICE_RULE, seed);
        compare(device, &bf16, CHOICE_BF16, seed);
        compare(device, &bf16, CHOICE_LAST, seed);
    }
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
