/* SPDX-License-Identifier: MIT */
/* Convolution with little scratch: samples are processed in chunks, the last one smaller, with the same
 * results as without a limit. If not even one sample fits, the error names the option. Results may differ by
 * rounding: sums of weight gradients are divided differently, and products of other shapes may add in another
 * order.
 *
 * RUN np=0 device=cuda */
#include "compute/ops/backend.h"
#include "tests/op_result.h"
#include "tests/tap.h"

/* As in test_op_fused.c. */
#define CONV_RELU(n, h, w, c, k, kh, kw, sh, sw, ph, pw, dh, dw, g, bias, ...)                               \
    CONV(n, h, w, c, k, kh, kw, sh, sw, ph, pw, dh, dw, g, bias, {true, __VA_ARGS__})

static const op_desc_t cases[] = {
    CONV(7, 12, 11, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(5, 13, 10, 6, 10, 3, 2, 2, 1, 1, 0, 1, 2, 2, true),
    CONV(9, 9, 9, 5, 4, 5, 5, 1, 1, 2, 2, 1, 1, 1, false),
    CONV_RELU(7, 12, 11, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, 2, 2),
    CONV_RELU(7, 12, 11, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, 3, 3),
    CONV_RELU(11, 20, 20, 16, 12, 1, 1, 1, 1, 0, 0, 1, 1, 1, true, 2, 3),
    CONV_RELU(11, 20, 20, 16, 12, 1, 1, 1, 1, 0, 0, 1, 1, 1, true, 0, 0),
};
enum { N_CASES = sizeof cases / sizeof cases[0], LITTLE = 96 << 10 };

static void reopen(const backend_t *device, int64_t workspace_bytes)
{
    backend_options_t options = {.n_threads = 1, .workspace_bytes = workspace_bytes};
    if (device->close) device->close();
    must(device->open(&options), "opening the device");
}

/* Each chunk adds its part of dx. plain: without a sum. */
static void compare_sum(const backend_t *device, const op_desc_t *desc, const op_algorithms_t *wanted,
                        const op_result_t *plain)
{
    op_run_t r = op_run_with(device, *desc, true, wanted);
    bool good = r.op->adds_dx;
    op_run_fill(&r, 77);
    must(op_run_forward(&r), "forward");
    memcpy(r.dx[0], r.x[0], (size_t)shape_count(plain->shape[1]) * sizeof(float));
    r.args.accumulate_dx[0] = true;
    if (good) must(op_run_backward(&r), "backward, adding");
    for (int64_t i = 0; i < shape_count(plain->shape[1]) && good; i++)
        good = fabsf(r.dx[0][i] - plain->part[1][i] - r.x[0][i]) <= 1e-6f * fmaxf(10, fabsf(r.dx[0][i]));
    OK(good, "… and the gradients of all samples are added");
    op_run_free(&r);
}

static void compare(const backend_t *device, const op_desc_t *desc, bool by_windows)
{
    op_algorithms_t wanted = {0};
    reopen(device, 0);
    if (by_windows) wanted = op_result_algorithms(device, *desc, "im2col"); /* writes the windows to memory */
    op_result_t roomy = op_result_of(device, desc, &wanted);
    reopen(device, LITTLE);
    op_result_t tight = op_result_of(device, desc, &wanted);
    shape_text_t x = shape_format(desc->x[0]);
    OK(op_result_near(&roomy, &tight), "%s %s by %s: the same in chunks", dtype_name(desc->compute), x.text,
       roomy.algorithms.name[OP_FORWARD]);
    OK(tight.n_workspace_bytes <= LITTLE, "… within the limit, %zu bytes instead of %zu",
       tight.n_workspace_bytes, roomy.n_workspace_bytes);
    compare_sum(device, desc, &wanted, &tight);
    op_result_free(&roomy), op_result_free(&tight);
}

/* im2col is not offered if not even one sample's windows fit; the algorithm without scratch still is. */
static void check_short(const backend_t *device)
{
    op_desc_t d = CONV(2, 32, 32, 8, 8, 5, 5, 1, 1, 2, 2, 1, 1, 1, true);
    op_algorithms_t wanted = {.name = {"im2col"}};
    op_t *op = NULL;
    reopen(device, LITTLE);
    must(op_infer(&d), "op_infer");
    OK(op_plan(device, &d, true, &wanted, &op) == ERR_USAGE && strstr(err_message(), "choose from implicit"),
       "im2col is not offered where no sample fits: %s", err_message());
    OK(op_plan(device, &d, true, NULL, &op) == ERR_OK &&
           strcmp(op->algorithms.name[OP_FORWARD], "implicit") == 0,
       "the rule chooses an algorithm that fits");
    op_free(&op);
    d = (op_desc_t)CONV(2, 128, 128, 64, 64, 1, 1, 1, 1, 0, 0, 1, 1, 65536, true);
    d.x[0].dim[3] = d.attr.conv2d.out_channels = 65536;
    must(op_infer(&d), "op_infer");
    OK(op_plan(device, &d, true, NULL, &op) == ERR_USAGE && strstr(err_message(), "--workspace") &&
           strstr(err_message(), "groups=65536"),
       "nothing fits: the layer and --workspace are named: %s", err_message());
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 1);
    tap_plan(12 * N_CASES + 3 + 1);
    for (int i = 0; i < N_CASES; i++)
        for (int by_windows = 0; by_windows < 2; by_windows++) {
            op_desc_t bf16 = cases[i];
            bf16.compute = DTYPE_BF16;
            compare(device, &cases[i], by_windows);
            compare(device, &bf16, by_windows);
        }
    check_short(device);
    device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
