/* SPDX-License-Identifier: MIT */
/* RUN device=ref,cpu
 *
 * The least work of a pass, by numbers worked out by hand: multiply-adds of convolutions with padding, strides and
 * pooling, of Winograd's algorithms, and the bytes of each pass. */
#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

static const backend_t *backend;
static char memory[2]; /* stands for tensors, which op_work does not read */

/* An operator whose gradients are all asked for; its x, y and their gradients are stored as `stored`. */
static op_t *plan(op_desc_t desc, dtype_t stored, const op_algorithms_t *wanted, op_args_t *args)
{
    op_t *op = NULL;
    for (int i = 0; i < desc.n_inputs; i++) desc.x_dtype[i] = stored;
    desc.y_dtype[0] = stored;
    if (stored == DTYPE_BF16 && op_traits(desc.kind)->products) desc.compute = DTYPE_BF16;
    must(op_infer(&desc), "a description");
    must(op_plan(backend, &desc, true, wanted, &op), "a plan");
    *args = op_args(op);
    args->training = true;
    args->y[0].data = args->dy[0].data = memory;
    for (int i = 0; i < desc.n_inputs; i++) args->dx[i].data = memory + 1;
    for (int i = 0; i < desc.n_params; i++) args->dparam[i].data = memory;
    return op;
}

static bool macs_are(op_desc_t desc, const op_algorithms_t *wanted, double forward, double data,
                     double weights)
{
    const double expected[OP_PASS_COUNT] = {forward, data, weights};
    op_args_t args;
    op_t *op = plan(desc, DTYPE_F32, wanted, &args);
    bool ok = true;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        const double macs = op_work(op, &args, (op_pass_t)pass).macs;
        if (macs != expected[pass])
            printf("# %s: %.0f multiply-adds, expected %.0f\n", op_pass_names[pass], macs, expected[pass]);
        ok = ok && macs == expected[pass];
    }
    op_free(&op);
    return ok;
}

static void test_convolutions(void)
{
    /* Of 3×3 taps on one pixel, one is inside; on 4×4 pixels, 3 + 4 + 3 of a row of windows. */
    OK(macs_are((op_desc_t)CONV(2, 1, 1, 8, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, false), NULL, 256, 256, 256),
       "padding is not multiplied");
    OK(macs_are((op_desc_t)CONV(1, 4, 4, 2, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, true), NULL, 600, 600, 600),
       "at borders, the taps inside");
    /* Windows at -1, 1, 3 of 6 pixels: taps 0 to 2 read 2 + 3 + 3 of a row of them. */
    OK(macs_are((op_desc_t)CONV(1, 6, 6, 4, 4, 3, 3, 2, 2, 1, 1, 1, 1, 2, false), NULL, 512, 512, 512),
       "with stride and groups");
    /* Windows at -2, -1, 0, 1 with taps two pixels apart: 2 + 4 + 2 of 4 pixels. */
    OK(macs_are((op_desc_t)CONV(1, 4, 4, 1, 1, 3, 3, 1, 1, 2, 2, 2, 2, 1, false), NULL, 64, 64, 64),
       "with dilation");
    OK(macs_are((op_desc_t)LINEAR(3, 7, 5, true), NULL, 105, 105, 105), "linear: all");
    OK(macs_are((op_desc_t)POOL(2, 4, 4, 3, POOL_MAX, 2, 2, 2, 2, 0, 0), NULL, 0, 0, 0), "pooling: none");
    op_desc_t pooled = CONV(1, 7, 7, 2, 4, 3, 3, 1, 1, 0, 0, 1, 1, 1, false);
    pooled.attr.conv2d.epilogue = (epilogue_t){true, 2, 2};
    if (!backend->kernel[OP_CONV2D]->fuses)
        tap_skip("the backend does not fuse");
    else
        OK(macs_are(pooled, NULL, 1152, 1152, 1152), "5×5 results, of which pooling reads 4×4");
}

static bool lists(const op_desc_t *inferred, op_pass_t pass, const char *name)
{
    const char *names[OP_MAX_ALGORITHMS];
    int n = op_list_algorithms(backend, inferred, pass, true, names, OP_MAX_ALGORITHMS);
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* Of a map of side × side pixels; skips a check if the backend lacks it. */
static void test_winograd(const char *name, int64_t side, int pad, double forward, double data,
                          double weights, const char *what)
{
    enum { N = 2, C = 16, K = 32 };
    op_desc_t desc = CONV(N, side, side, C, K, 3, 3, 1, 1, pad, pad, 1, 1, 1, true);
    op_algorithms_t wanted;
    const double each = N * C * K;
    must(op_infer(&desc), "a description");
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        snprintf(wanted.name[pass], OP_ALGORITHM_MAX, "%s", name);
        if (lists(&desc, (op_pass_t)pass, name)) continue;
        tap_skip("the backend has no Winograd");
        return;
    }
    OK(macs_are(desc, &wanted, each * forward, each * data, each * weights), "%s, %lld×%lld: %s", name,
       (long long)side, (long long)side, what);
}

typedef struct pass_bytes {
    op_desc_t desc;
    dtype_t stored;
    double forward, data, weights;
    const char *what;
} pass_bytes_t;

static bool bytes_are(const pass_bytes_t *c)
{
    const double expected[OP_PASS_COUNT] = {c->forward, c->data, c->weights};
    op_args_t args;
    op_t *op = plan(c->desc, c->stored, NULL, &args);
    /* How forward saves what it needs is the kernel's. */
    const double saved = (double)op->n_saved_bytes;
    const int reader = op_macs(&op->desc) > 0 ? OP_BACKWARD_WEIGHTS : OP_BACKWARD_DATA;
    bool ok = true;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        const double more = pass == OP_FORWARD || pass == reader ? saved : 0;
        const double bytes = op_work(op, &args, (op_pass_t)pass).bytes;
        if (bytes != expected[pass] + more)
            printf("# %s: %.0f bytes, expected %.0f + %.0f\n", op_pass_names[pass], bytes, expected[pass],
                   more);
        ok = ok && bytes == expected[pass] + more;
    }
    op_free(&op);
    return ok;
}

static void test_bytes(void)
{
    const pass_bytes_t cases[] = {
        /* x 200, y 500, weight 4·(5·2·9) = 360, bias 20 */
        {CONV(1, 5, 5, 2, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, true), DTYPE_F32, 200 + 380 + 500, 500 + 380 + 200,
         500 + 200 + 380, "conv2d"},
        {CONV(1, 5, 5, 2, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, true), DTYPE_BF16, 100 + 380 + 250, 250 + 380 + 100,
         250 + 100 + 380, "conv2d in bfloat16, its weights in float32"},
        /* 3×3 of 5×5 pixels are read; all of dx is written. */
        {CONV(1, 5, 5, 2, 4, 1, 1, 2, 2, 0, 0, 1, 1, 1, false), DTYPE_F32, 72 + 32 + 144, 144 + 32 + 200,
         144 + 72 + 32, "conv2d of single pixels with a stride"},
        {LINEAR(3, 7, 5, true), DTYPE_F32, 84 + 160 + 60, 60 + 160 + 84, 60 + 84 + 160, "linear"},
        {LINEAR(3, 7, 5, false), DTYPE_BF16, 42 + 140 + 30, 30 + 140 + 42, 30 + 42 + 140,
         "linear in bfloat16"},
        {RELU({2, {4, 10}}), DTYPE_F32, 320, 480, 0, "relu: backward reads y"},
        {RELU({2, {4, 10}}), DTYPE_BF16, 160, 240, 0, "relu in bfloat16"},
        {POOL(1, 5, 5, 2, POOL_MAX, 2, 2, 2, 2, 0, 0), DTYPE_F32, 128 + 32, 32 + 200, 0,
         "pool2d: the last row and column are not read"},
        {POOL(1, 4, 4, 2, POOL_AVG, 4, 4, 1, 1, 0, 0), DTYPE_BF16, 64 + 4, 4 + 64, 0, "pool2d in bfloat16"},
        /* x 256, γ and β 2·8 */
        {NORM(0.1, 1e-5, {4, {2, 4, 4, 2}}), DTYPE_F32, 16 + 512, 256 * 3 + 16, 0, "batch_norm"},
        {NORM(0.1, 1e-5, {4, {2, 4, 4, 2}}), DTYPE_BF16, 16 + 256, 128 * 3 + 16, 0, "batch_norm in bfloat16"},
        {ADD({2, {4, 10}}), DTYPE_F32, 480, 480, 0, "add: dy to both"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pass_bytes_t *c = &cases[i];
        if (c->stored == DTYPE_BF16 && !backend->stores_bf16)
            tap_skip("the backend does not store bfloat16");
        else
            OK(bytes_are(c), "bytes of %s", c->what);
    }
}

static void test_asked_for(void)
{
    op_args_t args;
    op_t *op = plan((op_desc_t)LINEAR(3, 7, 5, true), DTYPE_F32, NULL, &args);
    args.accumulate_dparam[0] = true;
    OK(op_work(op, &args, OP_BACKWARD_WEIGHTS).bytes == 60 + 84 + 160 + 140, "a sum is read and written");
    args.param_bf16[0] = (uint16_t *)(void *)memory;
    OK(op_work(op, &args, OP_FORWARD).bytes == 84 + 70 + 20 + 60, "rounded weights");
    args.dx[0].data = NULL;
    const op_work_t none = op_work(op, &args, OP_BACKWARD_DATA);
    OK(none.macs == 0 && none.bytes == 0 && op_work(op, &args, OP_BACKWARD_WEIGHTS).macs == 105,
       "a gradient that is not asked for");
    op_free(&op);
    op = plan((op_desc_t)ADD({2, {4, 10}}), DTYPE_F32, NULL, &args);
    args.dx[0].data = args.dy[0].data, args.dx[1].data = NULL;
    OK(op_work(op, &args, OP_BACKWARD_DATA).bytes == 0, "add: dy itself is a gradient");
    op_free(&op);
    op = plan((op_desc_t)XENT(6, 5, 0), DTYPE_F32, NULL, &args);
    args.n_rows = 1;
    OK(op_work(op, &args, OP_FORWARD).bytes == 24, "a loss may save one of its rows");
    op_free(&op);
}

int main(int argc, char **argv)
{
    backend = util_open(argc, argv, 1);
    tap_plan(7 + 7 + 12 + 5 + 1);
    test_convolutions();
    test_winograd("winograd/nhwc", 2, 1, 16, 16, 16, "F(2×2, 3×3) alone");
    test_winograd("winograd/nhwc", 4, 1, 36, 36, 36, "F(4×4, 3×3) alone");
    test_winograd("winograd/nhwc", 3, 1, 36, 36, 36, "a tile that is not full");
    test_winograd("winograd/nhwc", 6, 1, 100, 100, 100, "whole tiles and half ones: 36 + 2·24 + 16");
    test_winograd("winograd/nhwc", 8, 0, 100, 144, 100, "tiles of y, and backward data of x");
    test_winograd("winograd/nhwc", 14, 1, 484, 484, 484, "9·36 + 6·24 + 16");
    test_winograd("winograd", 14, 1, 441, 441, 441, "a quarter of 9 products a pixel");
    test_bytes();
    test_asked_for();
    if (backend->close) backend->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
