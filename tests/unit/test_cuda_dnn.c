/* SPDX-License-Identifier: MIT */
/* Convolutions on cuDNN: its proposals as algorithms, in chunks, what becomes of engines that may not be used, and
 * of a library that is missing, of another version or fails. The emulator's cuDNN proposes as many engines as this
 * test asks for, among others that must not be taken.
 *
 * RUN np=0 device=cuda */
#include "compute/ops/backend.h"
#include "tests/op_result.h"
#include "tests/tap.h"

static const op_desc_t cases[] = {
    CONV(7, 12, 11, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(5, 13, 10, 6, 10, 3, 2, 2, 1, 1, 0, 1, 2, 2, true),
    CONV(9, 9, 9, 5, 4, 5, 5, 1, 1, 2, 2, 1, 1, 1, false),
    CONV(7, 12, 11, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, {true, 2, 2}),
    CONV(7, 12, 11, 8, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, {true, 0, 0}),
    CONV(11, 20, 20, 16, 12, 1, 1, 2, 2, 0, 0, 1, 1, 1, false),
};
enum { N_CASES = sizeof cases / sizeof cases[0], LITTLE = 40 << 10 };

/* What is listed is kept until the device is closed. */
static void reopen(const backend_t *device, int64_t workspace_bytes, const char *n_engines)
{
    backend_options_t options = {.n_threads = 1, .workspace_bytes = workspace_bytes};
    device->close();
    setenv("DPTRAIN_EMU_DNN_ENGINES", n_engines, 1);
    must(device->open(&options), "opening the device");
}

static op_desc_t stored(const op_desc_t *desc, dtype_t compute)
{
    op_desc_t d = *desc;
    d.compute = compute;
    if (compute == DTYPE_BF16) d.x_dtype[0] = d.y_dtype[0] = DTYPE_BF16;
    return d;
}

static int count_listed(const backend_t *device, op_desc_t desc, op_pass_t pass)
{
    const char *names[OP_MAX_ALGORITHMS];
    int n_found = 0;
    must(op_infer(&desc), "op_infer");
    const int n = op_list_algorithms(device, &desc, pass, true, names, OP_MAX_ALGORITHMS);
    for (int i = 0; i < n; i++) n_found += strncmp(names[i], "cudnn", 5) == 0;
    return n_found;
}

static bool are_listed(const backend_t *device, const op_desc_t *desc, int n)
{
    return count_listed(device, *desc, OP_FORWARD) == n &&
           count_listed(device, *desc, OP_BACKWARD_DATA) == n &&
           count_listed(device, *desc, OP_BACKWARD_WEIGHTS) == n;
}

/* The gradient of the weight has bfloat16's rounding: once, or once per chunk and then of the sum's terms. */
static bool is_near(const op_result_t *a, const op_result_t *b, bool rounded)
{
    op_result_t x = *a, y = *b;
    bool near = true;
    if (!rounded) return op_result_near(a, b);
    double size = 0;
    for (int64_t i = 0; i < shape_count(a->shape[2]); i++) size = fmax(size, fabs((double)a->part[2][i]));
    for (int64_t i = 0; i < shape_count(a->shape[2]); i++)
        near = near && fabs((double)a->part[2][i] - (double)b->part[2][i]) <= 0x1p-7 * size;
    x.part[2] = y.part[2] = NULL;
    x.part[3] = y.part[3] = NULL;
    return near && op_result_same_bits(&x, &y);
}

static void check_chunks(const backend_t *device, const op_desc_t *desc, dtype_t compute)
{
    op_desc_t d = stored(desc, compute);
    reopen(device, 0, "2");
    op_algorithms_t wanted = op_result_algorithms(device, d, "cudnn"), last = wanted;
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) snprintf(last.name[pass], OP_ALGORITHM_MAX, "cudnn-2");
    op_result_t roomy = op_result_of(device, &d, &wanted), second = op_result_of(device, &d, &last);
    op_result_t again = op_result_of(device, &d, &wanted);
    shape_text_t x = shape_format(d.x[0]);
    OK(op_result_same_bits(&roomy, &again), "%s %s by cudnn: the same bits each time", dtype_name(compute),
       x.text);
    OK(strcmp(second.algorithms.name[OP_BACKWARD_DATA], "cudnn-2") == 0 &&
           (compute == DTYPE_TF32 || op_result_same_bits(&roomy, &second)),
       "… the emulator's second engine gives the same as its first");
    reopen(device, LITTLE, "2");
    op_result_t tight = op_result_of(device, &d, &wanted);
    OK(tight.n_workspace_bytes <= LITTLE && is_near(&roomy, &tight, compute == DTYPE_BF16),
       "… and in %zu bytes of scratch instead of %zu", tight.n_workspace_bytes, roomy.n_workspace_bytes);
    op_result_free(&roomy), op_result_free(&second), op_result_free(&again), op_result_free(&tight);
}

/* An engine that adds to dx takes the place of that which writes it. */
static void check_adding(const backend_t *device, dtype_t compute)
{
    op_desc_t d = stored(&cases[1], compute);
    reopen(device, 0, "1");
    op_algorithms_t wanted = op_result_algorithms(device, d, "cudnn");
    op_run_t r = op_run_with(device, d, true, &wanted);
    const int64_t n = shape_count(d.x[0]);
    op_run_fill(&r, 5);
    if (compute == DTYPE_BF16) util_narrow(r.x[0], d.x[0]), util_narrow(r.dy, r.op->desc.y[0]);
    must(op_run_forward(&r), "forward"), must(op_run_backward(&r), "backward");
    float *once = op_result_copy(r.dx[0], d.x_dtype[0], d.x[0]);
    r.args.accumulate_dx[0] = r.op->adds_dx = true;
    must(op_run_backward(&r), "backward");
    float *twice = op_result_copy(r.dx[0], d.x_dtype[0], d.x[0]);
    int64_t i = 0;
    while (i < n && twice[i] == 2 * once[i]) i++;
    OK(i == n, "%s: dx is added to", dtype_name(compute));
    mem_free(&twice);
    mem_free(&once);
    op_run_free(&r);
}

/* A part of a batch can begin at any sample, whose size need not be a multiple of what engines prefer. */
static void check_alignment(const backend_t *device)
{
    op_desc_t d = cases[2], rest = cases[2];
    op_t *op = NULL;
    reopen(device, 0, "1");
    op_algorithms_t wanted = op_result_algorithms(device, d, "cudnn");
    op_run_t r = op_run_with(device, d, true, &wanted), part = r;
    rest.x[0].dim[0]--;
    must(op_infer(&rest), "op_infer"), must(op_plan(device, &rest, true, &wanted, &op), "op_plan");
    op_run_fill(&r, 5);
    must(op_run_forward(&r), "forward");
    const int64_t n = shape_count(rest.y[0]), one = shape_sample_count(rest.y[0]);
    float *all = op_result_copy(r.y, DTYPE_F32, r.op->desc.y[0]);
    part.op = op, part.args = op_args(op), part.args.training = true;
    part.args.x[0].data = r.x[0] + shape_sample_count(rest.x[0]), part.args.param[0].data = r.param[0];
    part.args.y[0].data = r.y, part.args.workspace = r.workspace;
    OK(op_run_forward(&part) == ERR_OK && memcmp(r.y, all + one, (size_t)n * sizeof *all) == 0,
       "a part of a batch, at an odd address");
    mem_free(&all);
    op_free(&op);
    op_run_free(&r);
}

static void check_none(const backend_t *device, const char *why)
{
    op_desc_t d = cases[0];
    op_algorithms_t wanted = {.name = {"cudnn"}};
    op_t *op = NULL;
    must(op_infer(&d), "op_infer");
    OK(are_listed(device, &d, 0), "%s: cuDNN offers nothing", why);
    OK(op_plan(device, &d, true, &wanted, &op) == ERR_USAGE && strstr(err_message(), "'cudnn'") &&
           strstr(err_message(), "implicit"),
       "… its name is an error that has the others: %s", err_message());
}

static void check_failure(const backend_t *device)
{
    op_desc_t d = cases[0];
    reopen(device, 0, "1");
    op_algorithms_t wanted = op_result_algorithms(device, d, "cudnn");
    op_run_t r = op_run_with(device, d, true, &wanted);
    op_run_fill(&r, 5);
    setenv("DPTRAIN_EMU_FAIL_DNN", "next", 1);
    OK(op_run_forward(&r) == ERR_SYSTEM && strstr(err_message(), "cuDNN") &&
           strstr(err_message(), "by cudnn"),
       "an engine that fails: %s", err_message());
    unsetenv("DPTRAIN_EMU_FAIL_DNN");
    OK(op_run_forward(&r) == ERR_OK, "… and afterwards works");
    op_run_free(&r);
}

int main(int argc, char **argv)
{
    static const dtype_t types[] = {DTYPE_F32, DTYPE_TF32, DTYPE_BF16};
    const backend_t *device = util_open(argc, argv, 1);
    const op_desc_t linear = LINEAR(5, 64, 48, true);
    char text[256];
    if (!strstr(device->device()->name, "emulated")) tap_skip_all("only the emulator's cuDNN can be told");
    reopen(device, 0, "1");
    if (count_listed(device, cases[0], OP_FORWARD) == 0) tap_skip_all("this build has no cuDNN");
    tap_plan(3 * 3 * N_CASES + 3 + 3 + 1 + 1 + 2 + 3 + 2 + 2 + 2 + 1);
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < N_CASES; i++) check_chunks(device, &cases[i], types[t]);
        check_adding(device, types[t]);
        reopen(device, 0, "9");
        op_desc_t d = stored(&cases[0], types[t]);
        OK(are_listed(device, &d, 4), "%s: four proposals at most", dtype_name(types[t]));
    }
    op_desc_t mixed = stored(&cases[0], DTYPE_BF16);
    mixed.y_dtype[0] = DTYPE_F32;
    OK(count_listed(device, mixed, OP_FORWARD) == 0 && count_listed(device, mixed, OP_BACKWARD_DATA) == 4,
       "bfloat16 products are bfloat16: a float32 y is another algorithm's");
    OK(count_listed(device, linear, OP_FORWARD) == 0, "a linear layer is left to cuBLASLt");
    reopen(device, 0, "0");
    check_none(device, "no engine");
    device->describe(text, sizeof text);
    OK(strstr(text, "cuDNN 9."), "the version is named: %s", text);
    setenv("DPTRAIN_EMU_DNN_VERSION", "8907", 1);
    reopen(device, 0, "1");
    check_none(device, "version 8");
    device->describe(text, sizeof text);
    OK(strstr(text, "cuDNN 8.9.7 is not used"), "it is named: %s", text);
    unsetenv("DPTRAIN_EMU_DNN_VERSION");
    reopen(device, 0, "1");
    op_result_t by_rule = op_result_of(device, &cases[0], NULL);
    device->describe(text, sizeof text);
    OK(!strstr(text, "cuDNN"), "the rule on the shape does not load it: %s", text);
    op_result_free(&by_rule);
    op_algorithms_t implicit = {.name = {"implicit", "implicit", "implicit"}};
    op_result_t by_name = op_result_of(device, &cases[0], &implicit);
    device->describe(text, sizeof text);
    OK(!strstr(text, "cuDNN"), "nor does the name of another algorithm: %s", text);
    op_result_free(&by_name);
    check_failure(device);
    check_alignment(device);
    device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
