/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * The hand-written convolution tiles of every instruction set of this machine, against plain loops in double.
 * The operators' tests cover only the instruction set that the program chooses here. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/cpu/direct/direct.h"
#include "tests/tap.h"

static const direct_conv_t cases[] = {
    {64, 9, 9, 1, 7, 7, 20, 3, 3, 1, 1, 0, 0, true, 2, 2},
    {33, 8, 7, 20, 6, 5, 50, 3, 3, 1, 1, 0, 0, true, 2, 2},
    {5, 6, 6, 3, 6, 6, 16, 3, 3, 1, 1, 1, 1, true, 1, 1},
    {17, 11, 8, 4, 5, 4, 5, 3, 3, 2, 2, 0, 1, false, 1, 1},
    {1, 5, 5, 2, 5, 5, 3, 5, 5, 1, 1, 2, 2, false, 1, 1},
    {3, 7, 9, 13, 3, 4, 33, 2, 3, 2, 2, 0, 0, true, 3, 2},
    {40, 4, 4, 64, 4, 4, 64, 1, 1, 1, 1, 0, 0, true, 2, 2},
};

typedef struct buffers {
    int64_t n_x, n_y, n_dense, n_w, n_padded;
    float *x, *w, *bias, *dy, *y, *dense, *dx, *dw, *packed, *workspace, *from, *to;
    uint8_t *mask, *mask_to;
    double *want_dense;
} buffers_t;

static float *floats(int64_t n, uint64_t seed)
{
    float *block;
    rng_t rng = rng_new(seed, RNG_TEST, 0);
    if (mem_new_array(n + 64, sizeof *block, "test", &block) != ERR_OK) abort();
    for (int64_t i = 0; i < n; i++) block[i] = (float)rng_normal(&rng);
    return block;
}

static void open_buffers(const direct_isa_t *isa, const direct_conv_t *v, buffers_t *b)
{
    b->n_padded = direct_padded(isa, v->n);
    b->n_x = v->h * v->w * v->c, b->n_dense = v->oh * v->ow * v->k;
    b->n_y = (v->oh / v->pool_h) * (v->ow / v->pool_w) * v->k, b->n_w = v->k * v->r * v->s * v->c;
    b->x = floats(v->n * b->n_x, 1), b->w = floats(b->n_w, 2), b->bias = floats(v->k, 3);
    b->dy = floats(v->n * b->n_y, 4), b->y = floats(v->n * b->n_y, 0),
    b->dense = floats(v->n * b->n_dense, 0);
    b->dx = floats(v->n * b->n_x, 0), b->dw = floats(b->n_w, 0), b->packed = floats(direct_packed_size(v), 0);
    b->workspace = floats(direct_workspace_size(v), 0);
    b->from = floats(b->n_padded * (b->n_x + b->n_dense), 0),
    b->to = floats(b->n_padded * (b->n_x + b->n_dense), 0);
    b->mask = (uint8_t *)floats(v->n * b->n_y, 0), b->mask_to = (uint8_t *)floats(b->n_padded * b->n_y, 0);
    if (mem_new_array(v->n * b->n_dense, sizeof(double), "test", &b->want_dense) != ERR_OK) abort();
}

static void close_buffers(buffers_t *b)
{
    float **all[] = {&b->x,  &b->w,  &b->bias,   &b->dy,        &b->y,    &b->dense,
                     &b->dx, &b->dw, &b->packed, &b->workspace, &b->from, &b->to};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
    mem_free(&b->mask), mem_free(&b->mask_to), mem_free(&b->want_dense);
}

/* Iterates over the products of the convolution: indices of output, weight and input; false after
 * the last. */
typedef struct product {
    int64_t y, w, x;
} product_t;

static bool product_at(const direct_conv_t *v, int64_t number, product_t *out)
{
    int64_t c = number % v->c, s = number / v->c % v->s, r = number / v->c / v->s % v->r;
    int64_t cell = number / v->c / v->s / v->r, k = cell % v->k, ow = cell / v->k % v->ow;
    int64_t oh = cell / v->k / v->ow % v->oh, n = cell / v->k / v->ow / v->oh;
    int64_t h = oh * v->stride_h - v->pad_h + r, w = ow * v->stride_w - v->pad_w + s;
    out->y = cell, out->w = ((k * v->r + r) * v->s + s) * v->c + c;
    out->x = h < 0 || w < 0 || h >= v->h || w >= v->w ? -1 : ((n * v->h + h) * v->w + w) * v->c + c;
    return n < v->n;
}

static bool close_to(const float *got, const double *want, int64_t n, double terms)
{
    double size = sqrt(terms);
    for (int64_t i = 0; i < n; i++) size = fmax(size, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 4 * FLT_EPSILON * sqrt(terms) * size)) {
            printf("# [%lld]: %.9g, should be %.9g\n", (long long)i, (double)got[i], want[i]);
            return false;
        }
    return true;
}

/* y is the pixel that the mask names, and no pixel of the window is larger. */
static bool epilogue_is_right(const direct_conv_t *v, const buffers_t *b, const float *y, const uint8_t *mask)
{
    int64_t out_h = v->oh / v->pool_h, out_w = v->ow / v->pool_w;
    for (int64_t i = 0; i < v->n * b->n_y; i++) {
        int64_t k = i % v->k, pw = i / v->k % out_w, ph = i / v->k / out_w % out_h, n = i / b->n_y;
        double best = 0;
        int which = DIRECT_OFF;
        for (int cell = 0; cell < v->pool_h * v->pool_w; cell++) {
            int64_t oh = ph * v->pool_h + cell / v->pool_w, ow = pw * v->pool_w + cell % v->pool_w;
            double value = b->want_dense[((n * v->oh + oh) * v->ow + ow) * v->k + k];
            if (value > best) best = value, which = cell;
        }
        if (fabs(y[i] - best) > 1e-4 || (best > 1e-4 && mask[i] != which)) return false;
    }
    return true;
}

static void test_forward(const direct_isa_t *isa, const direct_conv_t *v, buffers_t *b)
{
    product_t p;
    for (int64_t i = 0; i < v->n * b->n_dense; i++) b->want_dense[i] = b->bias[i % v->k];
    for (int64_t i = 0; product_at(v, i, &p); i++)
        if (p.x >= 0) b->want_dense[p.y] += (double)b->w[p.w] * b->x[p.x];
    direct_pack_forward(v, b->w, b->packed);
    isa->transpose(b->x, v->n, b->n_x, b->from);
    isa->forward(v, b->from, b->packed, b->bias, b->to, v->relu ? b->mask_to : NULL);
    isa->transpose_back(b->to, v->n, b->n_y, b->y);
    if (!v->relu) {
        OK(close_to(b->y, b->want_dense, v->n * b->n_y, (double)(v->r * v->s * v->c)), "%s: forward",
           isa->name);
        OK(true, "… no epilogue");
        return;
    }
    isa->transpose_bytes_back(b->mask_to, v->n, b->n_y, b->mask);
    OK(epilogue_is_right(v, b, b->y, b->mask), "%s: forward with its epilogue", isa->name);
    for (int64_t i = 0; i < v->n * b->n_dense; i++) b->dense[i] = (float)b->want_dense[i];
    isa->reduce(v, b->dense, b->y, b->mask);
    OK(epilogue_is_right(v, b, b->y, b->mask), "… the epilogue alone");
}

static void test_backward(const direct_isa_t *isa, const direct_conv_t *v, buffers_t *b)
{
    double *want_dx, *want_dw;
    product_t p;
    if (mem_new_array(v->n * b->n_x, sizeof *want_dx, "test", &want_dx) != ERR_OK) abort();
    if (mem_new_array(b->n_w, sizeof *want_dw, "test", &want_dw) != ERR_OK) abort();
    const float *dense = b->dy;
    if (v->relu) {
        isa->expand(v, b->dy, b->mask, b->dense);
        dense = b->dense;
    }
    for (int64_t i = 0; product_at(v, i, &p); i++) {
        if (p.x < 0) continue;
        want_dx[p.x] += (double)b->w[p.w] * dense[p.y];
        want_dw[p.w] += (double)b->x[p.x] * dense[p.y];
    }
    direct_pack_backward(v, b->w, b->packed);
    isa->transpose(dense, v->n, b->n_dense, b->from);
    isa->backward_data(v, b->from, b->packed, b->to);
    isa->transpose_back(b->to, v->n, b->n_x, b->dx);
    OK(close_to(b->dx, want_dx, v->n * b->n_x, (double)(v->r * v->s * v->k)), "… backward-data");
    isa->backward_weights(v, b->x, dense, NULL, b->dw, b->workspace);
    OK(close_to(b->dw, want_dw, b->n_w, (double)(v->n * v->oh * v->ow)), "… backward-weights");
    isa->backward_weights(v, b->x, b->dy, v->relu ? b->mask : NULL, b->dw, b->workspace);
    OK(close_to(b->dw, want_dw, b->n_w, (double)(v->n * v->oh * v->ow)), "… through the epilogue");
    mem_free(&want_dx);
    mem_free(&want_dw);
}

/* A product of rows that do not fill the registers; panels: a comes in panels. */
static void test_product(const direct_isa_t *isa, int64_t n_columns, bool panels, bool add)
{
    enum { ROWS = 21, STEPS = 37, COLUMNS = 96, ROW = STEPS + 3, C_ROW = COLUMNS + 5 };
    float *a = floats(2 * DIRECT_TURNED_PANEL * ROW, 1), *b = floats(COLUMNS * STEPS, 2),
          *c = floats(ROWS * C_ROW, 3), *before = floats(ROWS * C_ROW, 3);
    direct_product_t p = {.a = a,
                          .b = b,
                          .c = c,
                          .n_rows = ROWS,
                          .n_columns = n_columns,
                          .n_steps = STEPS,
                          .a_row = ROW,
                          .a_step = 1,
                          .b_panel = STEPS * DIRECT_PANEL,
                          .b_step = DIRECT_PANEL,
                          .c_row = C_ROW,
                          .add = add};
    if (panels) p.a_row = 0, p.a_step = DIRECT_TURNED_PANEL, p.a_panel = STEPS * DIRECT_TURNED_PANEL;
    isa->product(&p);
    bool good = true;
    for (int64_t i = 0; i < ROWS * C_ROW; i++) {
        const int64_t row = i / C_ROW, column = i % C_ROW;
        double want = add || column >= n_columns ? (double)before[i] : 0;
        for (int64_t x = 0; x < STEPS && column < n_columns; x++) {
            const float *at = panels ? a + row / DIRECT_TURNED_PANEL * p.a_panel + row % DIRECT_TURNED_PANEL
                                     : a + row * ROW;
            want += (double)at[x * p.a_step] *
                    (double)b[column / DIRECT_PANEL * p.b_panel + x * DIRECT_PANEL + column % DIRECT_PANEL];
        }
        good = good && fabs(want - (double)c[i]) <= 1e-5 * (1 + fabs(want));
    }
    OK(good, "%s: a product with %d columns%s%s", isa->name, (int)n_columns, panels ? ", panels" : "",
       add ? ", added" : "");
    mem_free(&a), mem_free(&b), mem_free(&c), mem_free(&before);
}

static void test_products(const direct_isa_t *isa)
{
    static const int64_t columns[] = {16, 48, 96};
    for (int i = 0; i < 3 * 4; i++) test_product(isa, columns[i / 4], i & 1, i & 2);
}

int main(void)
{
    /* With sanitizers the small cases are enough. */
    enum { N_CASES = sizeof cases / sizeof cases[0], FIRST = 2 * UNDER_SANITIZER };
    const direct_isa_t *tables[] = {direct_base, NULL, NULL};
    int n_tables = 1;
#ifdef __x86_64__
    if (direct_avx2 && isa_best() >= ISA_AVX2) tables[n_tables++] = direct_avx2;
    if (direct_isa() == direct_avx512 && direct_avx512) tables[n_tables++] = direct_avx512;
#endif
    tap_plan(n_tables * ((N_CASES - FIRST) * 5 + 3 * 4) + 1);
    for (int t = 0; t < n_tables; t++)
        for (int i = FIRST; i < N_CASES; i++) {
            buffers_t b;
            open_buffers(tables[t], &cases[i], &b);
            test_forward(tables[t], &cases[i], &b);
            test_backward(tables[t], &cases[i], &b);
            close_buffers(&b);
        }
    for (int t = 0; t < n_tables; t++) test_products(tables[t]);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
