/* SPDX-License-Identifier: MIT */
/* RUN np=0 isa=avx2,avx512
 * The rounding errors of Winograd's convolutions, against sums in double; the same bits on any number of threads.
 * test_op_backends.c compares values. */
#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"

enum { N = 1, SIDE = 18, C = 64, K = 64, TAPS = 9 };

typedef struct errors {
    double off, size;
} errors_t;

static void add(errors_t *e, double want, float got)
{
    e->off += (want - (double)got) * (want - (double)got);
    e->size += want * want;
}

/* Element (row, column, c) of an image [SIDE, SIDE, n]; 0 outside. */
static double at(const float *x, int row, int column, int c, int n)
{
    const bool inside = row >= 0 && row < SIDE && column >= 0 && column < SIDE;
    return inside ? (double)x[(row * SIDE + column) * n + c] : 0;
}

/* One output pixel of forward; of backward data, with `turned` taps, one of dx. */
static double pixel(const op_run_t *r, int row, int column, int out, bool turned)
{
    const float *w = r->param[0], *x = turned ? r->dy : r->x[0];
    double sum = turned ? 0 : (double)r->param[1][out];
    for (int tap = 0; tap < TAPS; tap++)
        for (int c = 0; c < C; c++) {
            const int dy = tap / 3 - 1, dx = tap % 3 - 1, i = turned ? c : out, j = turned ? out : c;
            sum += at(x, turned ? row - dy : row + dy, turned ? column - dx : column + dx, c, C) *
                   (double)w[(i * TAPS + tap) * C + j];
        }
    return sum;
}

static double weight(const op_run_t *r, int out, int tap, int c)
{
    double sum = 0;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            sum +=
                at(r->dy, row, column, out, K) * at(r->x[0], row + tap / 3 - 1, column + tap % 3 - 1, c, C);
    return sum;
}

static double relative(errors_t e)
{
    return sqrt(e.off / e.size);
}

static op_run_t run(op_desc_t desc, int n_threads)
{
    static const op_algorithms_t wanted = {.name = {"winograd/nhwc", "winograd/nhwc", "winograd/nhwc"}};
    must(backend_open(&backend_cpu, n_threads), "opening");
    op_run_t r = op_run_with(&backend_cpu, desc, true, &wanted);
    op_run_fill(&r, 1);
    must(op_run_forward(&r), "forward");
    must(op_run_backward(&r), "backward");
    return r;
}

static bool equal(const float *a, const float *b, shape_t shape)
{
    return memcmp(a, b, (size_t)shape_count(shape) * sizeof *a) == 0;
}

/* Few tiles with many filters, and many tiles. */
static void check_threads(void)
{
    const op_desc_t descs[] = {CONV(1, 14, 19, 128, 272, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
                               CONV(3, 30, 41, 48, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1, true)};
    for (int i = 0; i < 2; i++) {
        op_run_t one = run(descs[i], 1);
        for (int n_threads = 2; n_threads <= 5; n_threads += 3) {
            op_run_t r = run(descs[i], n_threads);
            const op_desc_t *d = &r.op->desc;
            OK(equal(r.y, one.y, d->y[0]) && equal(r.dx[0], one.dx[0], d->x[0]) &&
                   equal(r.dparam[0], one.dparam[0], d->param[0]) &&
                   equal(r.dparam[1], one.dparam[1], d->param[1]),
               "%s: the same bits on %d threads", shape_format(d->x[0]).text, n_threads);
            op_run_free(&r);
        }
        op_run_free(&one);
    }
}

int main(void)
{
    errors_t forward = {0}, data = {0}, weights = {0};
    tap_plan(3 + 4 + 1);
    op_run_t r = run((op_desc_t)CONV(N, SIDE, SIDE, C, K, 3, 3, 1, 1, 1, 1, 1, 1, 1, true), 1);
    for (int i = 0; i < SIDE * SIDE * K; i += 7) {
        add(&forward, pixel(&r, i / K / SIDE, i / K % SIDE, i % K, false), r.y[i]);
        add(&data, pixel(&r, i / K / SIDE, i / K % SIDE, i % K, true), r.dx[0][i]);
    }
    for (int i = 0; i < K * TAPS * C; i += 7)
        add(&weights, weight(&r, i / TAPS / C, i / C % TAPS, i % C), r.dparam[0][i]);
    OK(relative(forward) < 1e-6, "forward: %.2g", relative(forward));
    OK(relative(data) < 1e-6, "backward data: %.2g", relative(data));
    OK(relative(weights) < 1e-6, "backward weights: %.2g", relative(weights));
    op_run_free(&r);
    check_threads();
    if (backend_cpu.close) backend_cpu.close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
