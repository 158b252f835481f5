/* SPDX-License-Identifier: MIT */
/* Operators that count rows: the first rows are those of a smaller batch, bit by bit; the others are not read,
 * and 0 in the results.
 *
 * RUN device=ref,cpu,cuda */
#include "tests/op_util.h"
#include "tests/tap.h"

enum { N_ALL = 9, N_CLASSES = 12 };

static void spoil(void *block, int64_t first, int64_t n, int64_t row_bytes)
{
    memset((char *)block + first * row_bytes, 0xff, (size_t)((n - first) * row_bytes));
}

static bool is_zero(const void *block, int64_t first, int64_t n, int64_t row_bytes)
{
    const char *byte = block;
    for (int64_t i = first * row_bytes; i < n * row_bytes; i++)
        if (byte[i]) return false;
    return true;
}

static op_desc_t case_of(op_kind_t kind, int64_t n)
{
    op_desc_t xent = XENT(n, N_CLASSES, 0.1), bce = BCE(n, N_CLASSES);
    return kind == OP_SOFTMAX_XENT ? xent : bce;
}

static void give(op_run_t *to, const op_run_t *from, int64_t n)
{
    for (int i = 0; i < 2; i++) {
        const tensor_t *x = &from->args.x[i];
        memcpy(to->x[i], from->x[i], (size_t)(n * shape_sample_count(x->shape)) * sizeof(float));
    }
}

static void test_rows(const backend_t *device, op_kind_t kind, int64_t n)
{
    op_run_t whole = op_run_new(device, case_of(kind, N_ALL), true), *r = &whole;
    const int64_t row = N_CLASSES * (int64_t)sizeof(float);
    op_run_fill(r, 40);
    op_run_t few = op_run_new(device, case_of(kind, n > 0 ? n : 1), true);
    give(&few, r, n > 0 ? n : 1);
    spoil(r->x[0], n, N_ALL, row);
    spoil(r->x[1], n, N_ALL, kind == OP_SOFTMAX_XENT ? 4 : row);
    r->args.n_rows = n;
    must(op_run_forward(r), "forward"), must(op_run_backward(r), "backward");
    must(op_run_forward(&few), "forward"), must(op_run_backward(&few), "backward");
    bool same = memcmp(r->y, few.y, (size_t)n * sizeof(float)) == 0 &&
                memcmp(r->dx[0], few.dx[0], (size_t)(n * row)) == 0;
    bool zero = is_zero(r->y, n, N_ALL, 4) && is_zero(r->dx[0], n, N_ALL, row) &&
                util_guards_hold(r->y, shape_1d(N_ALL)) && util_guards_hold(r->dx[0], r->args.dx[0].shape);
    if (r->predictions) {
        same = same && memcmp(r->predictions, few.predictions, (size_t)n * sizeof(int32_t)) == 0;
        zero = zero && is_zero(r->predictions, n, N_ALL, 4);
    }
    OK(same && zero, "%s: %lld of %d rows", op_traits(kind)->name, (long long)n, N_ALL);
    op_run_free(r), op_run_free(&few);
}

/* A sum keeps its rows. */
static void test_sum(const backend_t *device, op_kind_t kind)
{
    op_run_t r = op_run_new(device, case_of(kind, N_ALL), true);
    op_run_fill(&r, 41);
    must(op_run_forward(&r), "forward");
    r.args.n_rows = 4, r.args.accumulate_dx[0] = true;
    r.args.addend = util_block(device, op_addend_bytes(r.op, r.args.accumulate_dx, NULL));
    for (int64_t i = 0; i < N_ALL * N_CLASSES; i++) r.dx[0][i] = 3;
    must(op_run_backward(&r), "backward");
    bool kept = true;
    for (int64_t i = 0; i < N_ALL * N_CLASSES; i++) kept = kept && (r.dx[0][i] == 3) == (i >= 4 * N_CLASSES);
    OK(kept, "%s: other rows of a sum stay", op_traits(kind)->name);
    util_free(&r.args.addend), op_run_free(&r);
}

int main(int argc, char **argv)
{
    const backend_t *device = util_open(argc, argv, 2);
    tap_plan(2 * 6 + 1);
    for (int i = 0; i < 2; i++) {
        op_kind_t kind = i ? OP_SIGMOID_BCE : OP_SOFTMAX_XENT;
        test_rows(device, kind, 0), test_rows(device, kind, 1), test_rows(device, kind, 5);
        test_rows(device, kind, N_ALL - 1), test_rows(device, kind, N_ALL);
        test_sum(device, kind);
    }
    if (device->close) device->close();
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
