/* SPDX-License-Identifier: MIT */
/* Convolution on tensor cores that reads windows in place, against ref on tiles of every size and their
 * edges; stored as bfloat16, the same results rounded, again and again; and gradients that are added, rounded
 * once.
 *
 * RUN np=0 device=cuda san=slow */
#include "compute/ops/backend.h"
#include "compute/tensor/float16.h"
#include "tests/op_result.h"
#include "tests/tap.h"

static const op_desc_t cases[] = {
    /* pixels: one tile, one more than one; channels and filters: 8, 24, 72, a tile and one more */
    CONV(1, 9, 8, 8, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 8, 16, 16, 64, 1, 3, 1, 1, 0, 1, 1, 1, 1, false),
    CONV(1, 3, 43, 24, 72, 3, 1, 1, 1, 1, 0, 1, 1, 1, true),
    CONV(2, 9, 8, 72, 136, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
    CONV(1, 5, 7, 136, 128, 2, 2, 1, 1, 0, 1, 1, 1, 1, true),
    /* enough pixels for parts of the gradient of the weight */
    CONV(3, 21, 20, 16, 24, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    /* strides: residue classes with different numbers of taps, and without */
    CONV(2, 15, 13, 24, 40, 3, 3, 2, 2, 1, 1, 1, 1, 1, false),
    CONV(2, 9, 11, 16, 32, 1, 1, 2, 2, 0, 0, 1, 1, 1, true),
    CONV(2, 8, 10, 8, 16, 2, 2, 3, 4, 0, 0, 1, 1, 1, false),
    CONV(1, 2, 9, 16, 8, 3, 3, 4, 3, 1, 2, 1, 1, 1, false),
    CONV(1, 13, 12, 16, 16, 3, 2, 1, 2, 2, 1, 1, 1, 1, true),
    /* dilation, with strides that divide it or not; kernels that are not square; padding beyond the kernel */
    CONV(1, 14, 12, 16, 16, 3, 3, 1, 1, 2, 2, 2, 2, 1, false),
    CONV(1, 15, 14, 16, 8, 3, 3, 2, 2, 2, 2, 2, 2, 1, false),
    CONV(1, 16, 17, 8, 16, 3, 3, 3, 2, 2, 3, 2, 3, 1, false),
    CONV(1, 6, 20, 16, 16, 1, 7, 1, 1, 0, 3, 1, 1, 1, true),
    CONV(1, 20, 6, 16, 16, 7, 1, 2, 1, 3, 0, 1, 1, 1, false),
    CONV(1, 3, 4, 16, 8, 3, 3, 1, 1, 4, 3, 1, 1, 1, true),
    /* first layers */
    CONV(1, 12, 11, 1, 8, 5, 5, 1, 1, 2, 2, 1, 1, 1, true),
    CONV(2, 22, 21, 3, 16, 7, 7, 2, 2, 3, 3, 1, 1, 1, false),
    CONV(2, 9, 8, 3, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(1, 10, 11, 4, 72, 3, 2, 1, 2, 0, 1, 2, 1, 1, false),
    CONV(1, 27, 26, 3, 24, 11, 11, 4, 4, 2, 2, 1, 1, 1, true),
    CONV(1, 7, 9, 7, 8, 3, 4, 2, 3, 1, 0, 1, 1, 1, false),
};
static const char *const names[] = {"implicit-mma", "implicit-mma-2"};
enum { N_CASES = sizeof cases / sizeof cases[0], N_NAMES = 2, N_RULES = 6 };

static bool has(const op_algorithms_t *algorithms, const char *name, bool data)
{
    return strcmp(algorithms->name[OP_FORWARD], name) == 0 &&
           (!data || strcmp(algorithms->name[OP_BACKWARD_DATA], name) == 0) &&
           strcmp(algorithms->name[OP_BACKWARD_WEIGHTS], name) == 0;
}

/* Of a result in float32 and one that stores tensors as bfloat16: y and dx are rounded. */
static bool is_rounded(const op_result_t *wide, const op_result_t *narrow)
{
    bool all = true;
    for (int i = 0; i < 4 && wide->part[i]; i++)
        for (int64_t e = 0; e < shape_count(wide->shape[i]) && all; e++) {
            float want = i < 2 ? bf16_round(wide->part[i][e]) : wide->part[i][e];
            all = narrow->part[i][e] == want;
            if (!all)
                printf("# part %d, element %lld: %g, not %g\n", i, (long long)e, (double)narrow->part[i][e],
                       (double)want);
        }
    return all;
}

/* dx of a backward that adds to bfloat16 ones, or to float32. */
static bool adds(const backend_t *device, const op_desc_t *desc, const op_algorithms_t *wanted,
                 const op_result_t *wide)
{
    op_run_t r = op_run_with(device, *desc, true, wanted);
    const op_desc_t *d = &r.op->desc;
    bool narrow = d->x_dtype[0] == DTYPE_BF16, all = r.op->adds_dx;
    int64_t n = shape_count(d->x[0]);
    op_run_fill(&r, 77);
    if (narrow) util_narrow(r.x[0], d->x[0]), util_narrow(r.dy, d->y[0]);
    for (int64_t e = 0; e < n; e++) r.dx[0][e] = (float)(e % 17) / 4;
    if (narrow) util_narrow(r.dx[0], d->x[0]);
    memset(r.workspace, 0xff, r.op->n_workspace_bytes);
    r.args.accumulate_dx[0] = true;
    must(op_run_backward(&r), "backward, adding");
    float *got = op_result_copy(r.dx[0], d->x_dtype[0], d->x[0]);
    for (int64_t e = 0; e < n && all; e++) {
        float want = wide->part[1][e] + (float)(e % 17) / 4;
        all = got[e] == (narrow ? bf16_round(want) : want);
        if (!all) printf("# dx[%lld]: %g, not %g\n", (long long)e, (double)got[e], (double)want);
    }
    mem_free(&got), op_run_free(&r);
    return all;
}

static void test_case(const backend_t *device, const op_desc_t *desc, const op_result_t *ref,
                      const char *name)
{
    op_desc_t wide = *desc, narrow;
    shape_text_t x = shape_format(desc->x[0]);
    bool data = desc->x[0].dim[3] >= 8;
    wide.compute = DTYPE_BF16, narrow = wide, narrow.x_dtype[0] = narrow.y_dtype[0] = DTYPE_BF16;
    op_algorithms_t wanted = op_result_algorithms(device, wide, name);
    op_result_t in_float = op_result_of(device, &wide, &wanted),
                in_half = op_result_of(device, &narrow, &wanted);
    OK(has(&in_half.algorithms, name, data) && op_result_near(&in_float, ref), "%s by %s", x.text, name);
    /* Without a pass for dx of a first layer another algorithm makes it. */
    OK(is_rounded(&in_float, &in_half), "… the same, rounded, in bfloat16");
    if (data)
        OK(adds(device, &wide, &wanted, &in_float) && adds(device, &narrow, &wanted, &in_float),
           "… and adds to dx");
    op_result_free(&in_float), op_result_free(&in_half);
}

/* What is left to other algorithms. */
static void test_refused(const backend_t *device)
{
    const op_desc_t refused[] = {
        CONV(2, 9, 8, 12, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
        CONV(2, 9, 8, 16, 12, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
        CONV(2, 9, 8, 16, 16, 3, 3, 1, 1, 1, 1, 1, 1, 2, true),
        CONV(2, 9, 8, 16, 16, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
        CONV(2, 9, 8, 3, 16, 3, 3, 1, 1, 1, 1, 1, 2, 1, true),
        CONV(2, 9, 8, 16, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, {true, 0, 0}),
    };
    for (int i = 0; i < 6; i++) {
        op_desc_t d = refused[i];
        d.compute = DTYPE_BF16;
        op_algorithms_t found = op_result_algorithms(device, d, names[0]);
        OK(!found.name[OP_FORWARD][0] && !found.name[OP_BACKWARD_DATA][0] &&
               !found.name[OP_BACKWARD_WEIGHTS][0],
           "not offered: case %d", i);
    }
    op_desc_t d = cases[3];
    op_algorithms_t found = op_result_algorithms(device, d, names[0]);
    OK(!found.name[OP_FORWARD][0], "not offered in float32");
}

/* What is read in place by default: not where few tiles leave multiprocessors idle, nor where a value of a
 * window is used often. */
static void test_rule(const backend_t *device)
{
    const struct {
        op_desc_t desc;
        const char *name[OP_PASS_COUNT];
    } rules[] = {
        {CONV(256, 7, 7, 512, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, false),
         {"implicit-mma", "implicit-mma", "implicit-mma"}},
        {CONV(8, 7, 7, 512, 512, 3, 3, 1, 1, 1, 1, 1, 1, 1, false), {"im2col", "im2col", "implicit-mma"}},
        {CONV(2, 14, 14, 256, 256, 3, 3, 1, 1, 1, 1, 1, 1, 1, false), {"im2col", "im2col", "implicit-mma"}},
        {CONV(256, 14, 14, 1024, 2048, 1, 1, 2, 2, 0, 0, 1, 1, 1, false), {"im2col", "im2col", "im2col"}},
        {CONV(256, 56, 56, 128, 128, 3, 3, 2, 2, 1, 1, 1, 1, 1, false),
         {"implicit-mma", "implicit-mma", "implicit-mma"}},
        {CONV(2, 14, 14, 32, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, false), {"implicit", "implicit", "implicit"}},
    };
    for (int i = 0; i < N_RULES; i++) {
        op_desc_t d = rules[i].desc;
        d.compute = DTYPE_BF16;
        must(op_infer(&d), "op_infer");
        for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
            const char *listed[OP_MAX_ALGORITHMS] = {"none"};
            op_list_algorithms(device, &d, (op_pass_t)pass, true, listed, OP_MAX_ALGORITHMS);
            OK(strcmp(listed[0], rules[i].name[pass]) == 0, "%s, %s: %s", shape_format(d.x[0]).text,
               op_pass_names[pass], listed[0]);
        }
    }
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 1);
    int n_data = 0;
    for (int i = 0; i < N_CASES; i++) n_data += cases[i].x[0].dim[3] >= 8;
    tap_plan(N_NAMES * (2 * N_CASES + n_data) + 7 + N_RULES * OP_PASS_COUNT + 1);
    for (int i = 0; i < N_CASES; i++) {
        op_desc_t d = cases[i];
        d.compute = DTYPE_BF16;
        op_result_t ref = op_result_of(&backend_ref, &d, NULL);
        for (int k = 0; k < N_NAMES; k++) test_case(device, &cases[i], &ref, names[k]);
        op_result_free(&ref);
    }
    test_refused(device);
    test_rule(device);
    device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
