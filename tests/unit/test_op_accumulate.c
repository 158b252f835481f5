/* SPDX-License-Identifier: MIT */
/* Gradients that are added instead of overwritten, on every operator: one at a time and together, with the
 * bits of a separate addition, or by kernels that add themselves, but for rounding; calls without gradients of
 * parameters; and the weight of a loss.
 *
 * RUN device=ref,cpu,cuda slow=cuda san=slow */
#include "tests/op_util.h"
#include "tests/tap.h"

/* The fused ones run where the kernel fuses, the others everywhere. */
static const op_desc_t cases[] = {
    CONV(2, 9, 8, 3, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(2, 8, 8, 16, 16, 3, 3, 2, 2, 1, 1, 1, 1, 1, false),
    CONV(3, 6, 7, 8, 12, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    {.kind = OP_CONV2D,
     .n_inputs = 1,
     .x = {{4, {2, 10, 10, 3}}},
     .attr.conv2d = {8, 3, 3, 1, 1, 0, 0, 1, 1, 1, true, {true, 2, 2}}},
    {.kind = OP_CONV2D,
     .n_inputs = 1,
     .compute = DTYPE_BF16,
     .x = {{4, {2, 9, 9, 16}}},
     .attr.conv2d = {16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, {0}}},
    LINEAR(5, 31, 17, true),
    LINEAR(4, 9, 6, false),
    {.kind = OP_LINEAR, .n_inputs = 1, .x = {{2, {6, 20}}}, .attr.linear = {16, true, {true, 0, 0}}},
    POOL(2, 9, 8, 5, POOL_MAX, 3, 3, 2, 2, 1, 1),
    POOL(2, 8, 8, 3, POOL_AVG, 2, 2, 2, 2, 0, 0),
    RELU({4, {2, 5, 3, 7}}),
    DROPOUT(0.4, {2, {9, 50}}),
    ADD({4, {2, 3, 5, 7}}),
    UPSAMPLE_ADD(2, 3, 2, 5),
    DECONV(2, 3, 2, 5, 4, 2, true),
    ROI_ALIGN(2, 24, 32, 5, 9, 3, 2, 2),
    NORM(0.1, 1e-5, {4, {4, 5, 6, 12}}),
    NORM_GROUPS(2, {4, {5, 4, 4, 3}}),
    GROUP_NORM(3, {4, {4, 5, 6, 12}}),
    {.kind = OP_BATCH_NORM,
     .n_inputs = 2,
     .x = {{4, {3, 4, 5, 8}}, {4, {3, 4, 5, 8}}},
     .attr.batch_norm = {0.1, 1e-5, 0, {true, 0, 0}}},
    XENT(7, 10, 0.1),
    XENT_WEIGHTS(7, 10, 0.1),
    BCE(6, 9),
    SMOOTH_L1(3, 6, 5, 3, 0.5),
    BCE_AT(4, 12, 3, 2),
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static bool can_run(const backend_t *device, const op_desc_t *desc)
{
    return util_has(device, desc) && (device->kernel[desc->kind]->fuses || !op_is_fused(desc));
}

static void randomize(const tensor_t *tensor, uint64_t stream)
{
    rng_t rng = rng_new(31, RNG_TEST, stream);
    float *values = tensor->data;
    uint16_t *narrow = tensor->data;
    for (int64_t i = 0; i < shape_count(tensor->shape) && tensor->data; i++) {
        float value = (float)rng_normal(&rng);
        if (tensor->dtype == DTYPE_BF16)
            narrow[i] = bf16_from_float(value);
        else
            values[i] = value;
    }
}

static float element(const void *data, dtype_t dtype, int64_t i)
{
    return dtype == DTYPE_BF16 ? bf16_to_float(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}

/* got = start + term, where start is what randomize wrote; or got = term; off by at most `error`, and in bfloat16 by
 * the rounding of `term`, which a kernel that adds itself leaves out. */
static bool is_sum(const tensor_t *got, const tensor_t *start, const tensor_t *term, bool added, float error)
{
    for (int64_t i = 0; i < shape_count(got->shape); i++) {
        const float one = element(term->data, term->dtype, i);
        float want = one, most = error;
        if (added) want += element(start->data, start->dtype, i);
        if (got->dtype == DTYPE_BF16) want = bf16_round(want);
        if (added && error > 0 && got->dtype == DTYPE_BF16) most += (fabsf(one) + 2 * fabsf(want)) / 256;
        if (fabsf(element(got->data, got->dtype, i) - want) <= most) continue;
        printf("# element %lld of %s: %.9g, not %.9g\n", (long long)i, shape_format(got->shape).text,
               (double)element(got->data, got->dtype, i), (double)want);
        return false;
    }
    return true;
}

/* Buffers that op_run_new does not know. */
static void fill(op_run_t *r)
{
    op_run_fill(r, 30);
    const op_desc_t *d = &r->op->desc;
    for (int i = 0; i < d->n_inputs; i++)
        if (d->x_dtype[i] == DTYPE_BF16) util_narrow(r->x[i], d->x[i]);
    if (d->y_dtype[0] == DTYPE_BF16) util_narrow(r->dy, d->y[0]);
    must(op_run_forward(r), "forward");
}

/* bits of `which`: dx[0], dx[1], …, then dparam[0], … wanted: as op_plan's */
static bool accumulates(const backend_t *device, const op_desc_t *desc, const op_algorithms_t *wanted,
                        unsigned which)
{
    op_run_t plain = op_run_with(device, *desc, true, wanted),
             start = op_run_with(device, *desc, true, wanted), got = op_run_with(device, *desc, true, wanted);
    op_args_t *args = &got.args;
    int n_dx = 0;
    bool good = true;
    const float error_dx = got.op->adds_dx ? 1e-5f : 0, error_dparam = got.op->adds_dparam ? 1e-5f : 0;
    fill(&plain), fill(&got);
    must(op_run_backward(&plain), "backward");
    while (n_dx < OP_MAX_INPUTS && plain.dx[n_dx]) n_dx++;
    for (int i = 0; i < n_dx; i++) {
        args->accumulate_dx[i] = which >> i & 1;
        randomize(&args->dx[i], (uint64_t)i), randomize(&start.args.dx[i], (uint64_t)i);
    }
    for (int i = 0; i < plain.op->desc.n_params; i++) {
        args->accumulate_dparam[i] = which >> (n_dx + i) & 1;
        randomize(&args->dparam[i], 9 + (uint64_t)i), randomize(&start.args.dparam[i], 9 + (uint64_t)i);
    }
    size_t n_addend = op_addend_bytes(got.op, args->accumulate_dx, args->accumulate_dparam);
    args->addend = n_addend ? util_block(device, n_addend) : NULL;
    if (n_addend) memset(args->addend, 0xff, n_addend);
    must(op_run_backward(&got), "backward, adding");
    for (int i = 0; i < n_dx; i++)
        good = is_sum(&args->dx[i], &start.args.dx[i], &plain.args.dx[i], which >> i & 1, error_dx) && good;
    for (int i = 0; i < plain.op->desc.n_params; i++)
        good = is_sum(&args->dparam[i], &start.args.dparam[i], &plain.args.dparam[i], which >> (n_dx + i) & 1,
                      error_dparam) &&
               good;
    util_free(&args->addend);
    op_run_free(&plain), op_run_free(&start), op_run_free(&got);
    return good;
}

static void test_case(const backend_t *device, const op_desc_t *desc, const char *how)
{
    const char *name = op_traits(desc->kind)->name;
    if (!can_run(device, desc)) {
        tap_skip("this device does not have or fuse the operator");
        return;
    }
    bool good = true;
    for (unsigned which = 0; which < 16; which++) good = good && accumulates(device, desc, NULL, which);
    OK(good, "%s of %s%s: gradients are added", name, shape_format(desc->x[0]).text, how);
}

/* With bfloat16 tensors the sums are rounded to bfloat16. */
static void test_narrow(const backend_t *device, const op_desc_t *desc)
{
    op_desc_t narrow = *desc;
    if (!device->stores_bf16 || op_traits(desc->kind)->loss ||
        (desc->kind == OP_CONV2D && desc->compute != DTYPE_BF16)) {
        tap_skip("the operator's tensors are not stored as bfloat16 here");
        return;
    }
    for (int i = 0; i < desc->n_inputs && i < op_traits(desc->kind)->n_gradients; i++)
        narrow.x_dtype[i] = DTYPE_BF16;
    narrow.y_dtype[0] = DTYPE_BF16;
    test_case(device, &narrow, " in bfloat16");
}

static void test_without_dparam(const backend_t *device, const op_desc_t *desc)
{
    const char *name = op_traits(desc->kind)->name;
    if (!can_run(device, desc)) {
        tap_skip("this device does not have or fuse the operator");
        return;
    }
    op_run_t all = op_run_new(device, *desc, true), got = op_run_new(device, *desc, true);
    fill(&all), fill(&got);
    must(op_run_backward(&all), "backward");
    for (int i = 0; i < OP_MAX_PARAMS; i++) got.args.dparam[i].data = NULL;
    must(op_run_backward(&got), "backward without dparam");
    bool good = true;
    for (int i = 0; i < OP_MAX_INPUTS && got.dx[i]; i++)
        good = good && is_sum(&got.args.dx[i], NULL, &all.args.dx[i], false, 0);
    OK(good, "%s of %s without gradients of parameters", name, shape_format(desc->x[0]).text);
    op_run_free(&all), op_run_free(&got);
}

/* The weight scales the gradient, not the losses. */
static void test_weight(const backend_t *device, const op_desc_t *desc)
{
    op_run_t one = op_run_new(device, *desc, true), half = op_run_new(device, *desc, true);
    fill(&one);
    half.args.loss.weight = 0.5f;
    fill(&half);
    must(op_run_backward(&one), "backward"), must(op_run_backward(&half), "backward");
    bool good = true;
    for (int64_t i = 0; i < shape_count(one.op->desc.y[0]); i++) good = good && one.y[i] == half.y[i];
    for (int64_t i = 0; i < shape_count(one.op->desc.x[0]); i++)
        good = good && half.dx[0][i] == 0.5f * one.dx[0][i];
    OK(good, "%s: a weight of one half", op_traits(desc->kind)->name);
    op_run_free(&one), op_run_free(&half);
}

/* Products, windows with and without a stride, groups, and an epilogue whose gradient both passes share. */
static const op_desc_t convs[] = {
    CONV(2, 9, 8, 16, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    CONV(2, 9, 8, 16, 32, 3, 3, 2, 2, 1, 1, 1, 1, 1, true),
    CONV(3, 6, 7, 8, 12, 1, 1, 1, 1, 0, 0, 1, 1, 1, true),
    CONV(2, 7, 9, 8, 16, 1, 1, 2, 2, 0, 0, 1, 1, 1, false),
    CONV(2, 7, 6, 12, 8, 3, 3, 2, 1, 1, 1, 1, 1, 4, false),
    {.kind = OP_CONV2D,
     .n_inputs = 1,
     .x = {{4, {3, 8, 8, 8}}},
     .attr.conv2d = {16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, {true, 2, 2}}},
};
enum { N_CONVS = sizeof convs / sizeof convs[0] };

/* Every algorithm of a pass that adds its gradients. */
static void test_algorithms(const backend_t *device, const op_desc_t *desc, op_pass_t pass)
{
    const char *names[OP_MAX_ALGORITHMS];
    op_desc_t whole = *desc;
    must(op_infer(&whole), "the shapes");
    int n =
        can_run(device, desc) ? op_list_algorithms(device, &whole, pass, true, names, OP_MAX_ALGORITHMS) : 0;
    if (n == 0) {
        tap_skip("this device has no choice of algorithms, or does not fuse");
        return;
    }
    bool good = true;
    for (int i = 0; i < n; i++) {
        op_algorithms_t wanted = {0};
        strcpy(wanted.name[pass], names[i]);
        const bool adds = accumulates(device, desc, &wanted, pass == OP_BACKWARD_DATA ? 1 : 6);
        if (!adds) printf("# by %s\n", names[i]);
        good = good && adds;
    }
    OK(good, "%s of %s: %s by %d algorithms", dtype_name(whole.x_dtype[0]), shape_format(desc->x[0]).text,
       op_pass_names[pass], n);
}

static void test_narrow_algorithms(const backend_t *device, const op_desc_t *desc)
{
    op_desc_t mixed = *desc, narrow;
    if (!device->stores_bf16) {
        tap_skip("tensors are not stored as bfloat16 here"),
            tap_skip("tensors are not stored as bfloat16 here");
        return;
    }
    mixed.compute = DTYPE_BF16, mixed.x_dtype[0] = DTYPE_BF16;
    narrow = mixed, narrow.y_dtype[0] = DTYPE_BF16;
    test_algorithms(device, &mixed, OP_BACKWARD_DATA), test_algorithms(device, &narrow, OP_BACKWARD_DATA);
}

/* On a GPU products add themselves, so that gradients that are sums need no memory and no launch of their own. */
static void test_no_addend(const backend_t *device)
{
    static const op_desc_t products[] = {CONV(2, 9, 8, 16, 32, 3, 3, 2, 2, 1, 1, 1, 1, 1, true),
                                         LINEAR(5, 32, 16, true), DECONV(2, 3, 2, 8, 4, 2, true)};
    for (int i = 0; i < 3; i++) {
        if (strcmp(device->name, "cuda") != 0) {
            tap_skip("not a GPU");
            continue;
        }
        op_run_t r = op_run_new(device, products[i], true);
        OK(op_addend_bytes(r.op, (const bool[OP_MAX_INPUTS]){true}, NULL) == 0, "%s adds its gradient itself",
           op_traits(products[i].kind)->name);
        op_run_free(&r);
    }
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 2);
    tap_plan(3 * N_CASES + N_CONVS * (2 + 2) + 3 + 5 + 1);
    OK(util_has_all(cases, sizeof cases[0], N_CASES), "every operator has a case");
    for (int i = 0; i < N_CASES; i++) {
        test_case(device, &cases[i], "");
        test_narrow(device, &cases[i]);
        test_without_dparam(device, &cases[i]);
    }
    for (int i = 0; i < N_CONVS; i++) {
        test_algorithms(device, &convs[i], OP_BACKWARD_DATA),
            test_algorithms(device, &convs[i], OP_BACKWARD_WEIGHTS);
        test_narrow_algorithms(device, &convs[i]);
    }
    test_no_addend(device);
    test_weight(device, &(op_desc_t)XENT(7, 10, 0.1));
    test_weight(device, &(op_desc_t)BCE(6, 9));
    for (int i = 0; i < N_CASES; i++)
        if (cases[i].n_inputs == 4 && op_traits(cases[i].kind)->loss) {
            if (util_has(device, &cases[i]))
                test_weight(device, &cases[i]);
            else
                tap_skip("the device lacks the operator");
        }
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
