/* SPDX-License-Identifier: MIT */
/* Products on cuBLASLt. Its proposals as algorithms: each is offered; without any, layers run by implicit, with
 * the same results beyond rounding. Weights that are given rounded. The emulator's cuBLASLt proposes as many as this test asks for.
 *
 * RUN np=0 device=cuda */
#include "compute/ops/backend.h"
#include "tests/op_result.h"
#include "tests/tap.h"

static const op_desc_t cases[] = {
    CONV(3, 6, 5, 8, 12, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(2, 7, 6, 16, 12, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(2, 7, 6, 16, 12, 3, 3, 2, 2, 1, 1, 1, 1, 2, false),
    LINEAR(5, 64, 48, true),
    {.kind = OP_LINEAR, .n_inputs = 1, .x = {{4, {3, 2, 2, 5}}}, .attr.linear = {7, true, {true, 0, 0}}},
};
static const dtype_t types[] = {DTYPE_F32, DTYPE_TF32, DTYPE_BF16};
enum { N_CASES = sizeof cases / sizeof cases[0], N_TYPES = sizeof types / sizeof types[0] };

static void propose(const char *n)
{
    setenv("DPTRAIN_EMU_LT_ALGORITHMS", n, 1);
}

/* tf32's products on tensor cores differ from implicit's, which are exact. */
static void check_fallback(const backend_t *device, const op_desc_t *desc, dtype_t compute)
{
    op_desc_t d = *desc;
    shape_text_t x = shape_format(d.x[0]);
    d.compute = compute == DTYPE_TF32 ? DTYPE_F32 : compute;
    propose("1");
    op_result_t proposed = op_result_of(device, &d, NULL);
    d.compute = compute;
    propose("0");
    op_result_t fallen = op_result_of(device, &d, NULL);
    OK(strcmp(fallen.algorithms.name[OP_FORWARD], "implicit") == 0 &&
           strcmp(fallen.algorithms.name[OP_BACKWARD_DATA], "implicit") == 0 &&
           strcmp(fallen.algorithms.name[OP_BACKWARD_WEIGHTS], "implicit") == 0,
       "%s of %s in %s without a proposal: implicit", op_traits(d.kind)->name, x.text, dtype_name(compute));
    OK(op_result_near(&proposed, &fallen), "… with the same results");
    op_result_free(&proposed), op_result_free(&fallen);
}

static void check_list(const backend_t *device, const op_desc_t *desc, const char *first)
{
    const char *names[OP_MAX_ALGORITHMS];
    op_desc_t d = *desc;
    op_algorithms_t wanted = {0};
    op_t *op = NULL;
    propose("8");
    must(op_infer(&d), "op_infer");
    int n = op_list_algorithms(device, &d, OP_FORWARD, true, names, OP_MAX_ALGORITHMS), n_found = 0;
    for (int i = 0; i < n; i++) n_found += strncmp(names[i], first, strlen(first)) == 0;
    while (n > 0 && strncmp(names[n - 1], "cudnn", 5) == 0) n--;
    OK(n == 9 && n_found == 8, "%s: eight proposals and implicit", op_traits(d.kind)->name);
    snprintf(wanted.name[OP_FORWARD], OP_ALGORITHM_MAX, "%s-8", first);
    op_result_t by_last = op_result_of(device, desc, &wanted), by_first = op_result_of(device, desc, NULL);
    OK(strcmp(by_last.algorithms.name[OP_FORWARD], wanted.name[OP_FORWARD]) == 0 &&
           op_result_near(&by_first, &by_last),
       "… the last gives the same results");
    op_result_free(&by_last), op_result_free(&by_first);
    propose("3");
    OK(op_plan(device, &d, true, &wanted, &op) == ERR_USAGE && strstr(err_message(), "-3, implicit"),
       "… one that the library no longer proposes is an error: %s", err_message());
}

/* A weight that the caller has rounded, in place of a rounded copy. */
static void check_rounded(const backend_t *device, const op_desc_t *desc)
{
    op_desc_t d = *desc;
    d.compute = DTYPE_BF16;
    propose("1");
    op_run_t own = op_run_new(device, d, true), given = op_run_new(device, d, true);
    shape_t weight = own.op->desc.param[0], shapes[3] = {own.op->desc.y[0], d.x[0], weight};
    op_run_fill(&own, 5), op_run_fill(&given, 5);
    float *rounded = util_floats(device, weight);
    memcpy(rounded, given.param[0], (size_t)shape_count(weight) * sizeof(float));
    util_narrow(rounded, weight);
    given.args.param_bf16[0] = (const uint16_t *)(void *)rounded;
    must(op_run_forward(&own), "forward"), must(op_run_backward(&own), "backward");
    must(op_run_forward(&given), "forward"), must(op_run_backward(&given), "backward");
    const float *want[] = {own.y, own.dx[0], own.dparam[0]}, *got[] = {given.y, given.dx[0], given.dparam[0]};
    bool same = true;
    for (int i = 0; i < 3; i++)
        same &= memcmp(got[i], want[i], (size_t)shape_count(shapes[i]) * sizeof(float)) == 0;
    OK(same, "%s with a rounded weight: the same bits", op_traits(d.kind)->name);
    op_run_free(&own), op_run_free(&given), util_free(&rounded);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 1);
    if (!strstr(device->device()->name, "emulated")) tap_skip_all("only the emulator's cuBLASLt can be told");
    tap_plan(2 * N_CASES * N_TYPES + 3 * 2 + N_CASES + 1);
    for (int i = 0; i < N_CASES; i++)
        for (int t = 0; t < N_TYPES; t++) check_fallback(device, &cases[i], types[t]);
    for (int i = 0; i < N_CASES; i++) check_rounded(device, &cases[i]);
    op_desc_t large = CONV(4, 32, 32, 64, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, false);
    check_list(device, &cases[3], "gemm");
    check_list(device, &large, "im2col");
    device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
