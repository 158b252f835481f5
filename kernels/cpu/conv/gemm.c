/* SPDX-License-Identifier: MIT */
/* Convolution as a matrix product: the window of each output pixel becomes a row of r·s·c values, in the
 * order of our weights (im2col). Output rows are taken in chunks, so that the workspace is bounded and stays
 * in cache. A 1×1 convolution of stride 1 needs no copy: its windows are the pixels. Chunks run in order and
 * every row and pixel has one owner, so no sum depends on thread scheduling. */
#include <string.h>

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/loop.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/onednn.h"

enum { CHUNK_BYTES = 1 << 20 };

typedef struct geometry {
    conv2d_attr_t a;
    int64_t n, h, w, c, oh, ow, k;
    int64_t n_window;    /* values in a window */
    int64_t rows, chunk; /* rows of output pixels, n · oh; rows per chunk */
    bool direct;         /* windows are single pixels: no copy */
} geometry_t;

static geometry_t geometry_of(const op_desc_t *d)
{
    const int64_t *x = d->x[0].dim, *y = d->y[0].dim;
    const conv2d_attr_t *a = &d->attr.conv2d;
    geometry_t g = {.a = *a, .n = x[0], .h = x[1], .w = x[2], .c = x[3], .oh = y[1], .ow = y[2], .k = y[3]};
    g.n_window = a->kernel_h * a->kernel_w * g.c;
    g.rows = g.n * g.oh;
    g.direct = g.n_window == g.c && a->stride_h == 1 && a->stride_w == 1 && a->pad_h == 0 && a->pad_w == 0;
    g.chunk = CHUNK_BYTES / (g.ow * g.n_window * (int64_t)sizeof(float));
    if (g.chunk > g.rows || g.direct) g.chunk = g.rows;
    if (g.chunk < 1) g.chunk = 1;
    return g;
}

static bool conv_gemm_fits(const conv_impl_t *impl, const conv_problem_t *problem)
{
    (void)impl;
    return problem->desc->attr.conv2d.groups == 1;
}

static err_t conv_gemm_plan(const conv_impl_t *impl, const conv_problem_t *problem, void **out,
                            size_t *n_workspace_bytes)
{
    (void)impl, (void)out;
    geometry_t g = geometry_of(problem->desc);
    *n_workspace_bytes = g.direct ? 0 : (size_t)(g.chunk * g.ow * g.n_window) * sizeof(float);
    return ERR_OK;
}

static void conv_gemm_unplan(void **plan_)
{
    (void)plan_;
}

/* The columns of the window of output ow that lie inside the image: returns how many, *first is the first. */
static int64_t columns_inside(const geometry_t *g, int64_t ow, int64_t *first)
{
    int64_t left = ow * g->a.stride_w - g->a.pad_w, step = g->a.dilation_w, end = g->a.kernel_w;
    *first = left < 0 ? (-left + step - 1) / step : 0;
    if (left >= g->w)
        end = 0;
    else if ((g->w - 1 - left) / step + 1 < end)
        end = (g->w - 1 - left) / step + 1;
    return end > *first ? end - *first : 0;
}

/* Row r of all windows of one row of output pixels. x: the image's row, NULL outside the image. */
static void fill_row(const geometry_t *g, const float *x, int r, float *windows)
{
    int64_t c = g->c, n_part = g->a.kernel_w * c, step = g->a.dilation_w;
    for (int64_t ow = 0; ow < g->ow; ow++) {
        float *part = windows + ow * g->n_window + r * n_part;
        int64_t first, n = x ? columns_inside(g, ow, &first) : 0;
        if (n < g->a.kernel_w) memset(part, 0, (size_t)n_part * sizeof *part);
        if (n == 0) continue;
        const float *from = x + (ow * g->a.stride_w - g->a.pad_w + first * step) * c;
        if (step == 1)
            memcpy(part + first * c, from, (size_t)(n * c) * sizeof *part);
        else
            for (int64_t s = 0; s < n; s++)
                memcpy(part + (first + s) * c, from + s * step * c, (size_t)c * sizeof *part);
    }
}

static void im2col(const geometry_t *g, const float *x, int64_t first_row, int64_t n_rows, float *windows)
{
    int64_t n_row = g->ow * g->n_window;
#pragma omp parallel for schedule(static) if (n_rows * n_row > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n_rows; i++) {
        int64_t image = (first_row + i) / g->oh, oh = (first_row + i) % g->oh;
        for (int r = 0; r < g->a.kernel_h; r++) {
            int64_t ih = oh * g->a.stride_h - g->a.pad_h + r * g->a.dilation_h;
            bool inside = ih >= 0 && ih < g->h;
            fill_row(g, inside ? x + (image * g->h + ih) * g->w * g->c : NULL, r, windows + i * n_row);
        }
    }
}

LOOP_CLONES(add, (float *restrict sum, const float *restrict part, int64_t n), (sum, part, n))
{
    for (int64_t i = 0; i < n; i++) sum[i] += part[i];
}

/* Adds row r of all windows of one row of output pixels to the image's row dx. */
static void add_row(const geometry_t *g, const float *windows, int r, float *dx)
{
    int64_t c = g->c, step = g->a.dilation_w;
    for (int64_t ow = 0; ow < g->ow; ow++) {
        int64_t first, n = columns_inside(g, ow, &first);
        if (n == 0) continue;
        const float *part = windows + ow * g->n_window + (r * g->a.kernel_w + first) * c;
        float *to = dx + (ow * g->a.stride_w - g->a.pad_w + first * step) * c;
        if (step == 1)
            add(to, part, n * c);
        else
            for (int64_t s = 0; s < n; s++) add(to + s * step * c, part + s * c, c);
    }
}

/* Each row of dx sums up the window rows, of the n_rows in this chunk, that read it. */
static void col2im(const geometry_t *g, const float *windows, int64_t first_row, int64_t n_rows, float *dx)
{
    int64_t n_row = g->ow * g->n_window, stride = g->a.stride_h;
    int64_t image = first_row / g->oh, last_image = (first_row + n_rows - 1) / g->oh;
#pragma omp parallel for schedule(static) if (n_rows * n_row > LOOP_FORK_MIN)
    for (int64_t row = image * g->h; row < (last_image + 1) * g->h; row++) {
        int64_t first_of_image = row / g->h * g->oh;
        for (int r = 0; r < g->a.kernel_h; r++) {
            int64_t reach = row % g->h + g->a.pad_h - (int64_t)r * g->a.dilation_h, oh = reach / stride;
            if (reach < 0 || reach % stride != 0 || oh >= g->oh) continue;
            int64_t i = first_of_image + oh - first_row;
            if (i >= 0 && i < n_rows) add_row(g, windows + i * n_row, r, dx + row * g->w * g->c);
        }
    }
}

static err_t gemm_forward(const geometry_t *g, const conv_buffers_t *b, float *windows)
{
    float *y = b->y;
    if (b->bias) matrix_spread_rows(y, b->bias, g->rows * g->ow, g->k);
    for (int64_t row = 0; row < g->rows; row += g->chunk) {
        int64_t n_rows = loop_count(row, g->rows, g->chunk);
        if (!g->direct) im2col(g, b->x, row, n_rows, windows);
        E_DNNL(dnnl_sgemm('N', 'T', n_rows * g->ow, g->k, g->n_window, 1, g->direct ? b->x : windows,
                          g->n_window, b->weight, g->n_window, b->bias ? 1 : 0, y + row * g->ow * g->k, g->k),
               "sgemm, conv2d forward");
    }
    return ERR_OK;
}

static err_t gemm_backward_data(const geometry_t *g, const conv_buffers_t *b, float *windows)
{
    const float *dy = b->dy;
    if (!g->direct && !b->add_dx) memset(b->dx, 0, (size_t)(g->n * g->h * g->w * g->c) * sizeof(float));
    for (int64_t row = 0; row < g->rows; row += g->chunk) {
        int64_t n_rows = loop_count(row, g->rows, g->chunk);
        E_DNNL(dnnl_sgemm('N', 'N', n_rows * g->ow, g->n_window, g->k, 1, dy + row * g->ow * g->k, g->k,
                          b->weight, g->n_window, g->direct && b->add_dx ? 1 : 0, g->direct ? b->dx : windows,
                          g->n_window),
               "sgemm, conv2d data gradient");
        if (!g->direct) col2im(g, windows, row, n_rows, b->dx);
    }
    return ERR_OK;
}

static err_t gemm_backward_weights(const geometry_t *g, const conv_buffers_t *b, float *windows)
{
    const float *dy = b->dy;
    for (int64_t row = 0; row < g->rows; row += g->chunk) {
        int64_t n_rows = loop_count(row, g->rows, g->chunk);
        if (!g->direct) im2col(g, b->x, row, n_rows, windows);
        E_DNNL(dnnl_sgemm('T', 'N', g->k, g->n_window, n_rows * g->ow, 1, dy + row * g->ow * g->k, g->k,
                          g->direct ? b->x : windows, g->n_window, row == 0 && !b->add_dweight ? 0 : 1,
                          b->dweight, g->n_window),
               "sgemm, conv2d weight gradient");
    }
    if (b->dbias) matrix_sum_columns(b->dbias, dy, g->rows * g->ow, g->k, b->add_dbias);
    return ERR_OK;
}

static err_t conv_gemm_run(const void *plan_, const conv_problem_t *problem, const conv_buffers_t *b,
                           void *workspace)
{
    (void)plan_;
    geometry_t g = geometry_of(problem->desc);
    if (problem->pass == OP_FORWARD) return gemm_forward(&g, b, workspace);
    return problem->pass == OP_BACKWARD_DATA ? gemm_backward_data(&g, b, workspace)
                                             : gemm_backward_weights(&g, b, workspace);
}

const conv_impl_t conv_gemm[] = {
    {.name = "gemm",
     .variant = "",
     .adds = true,
     .fits = conv_gemm_fits,
     .plan = conv_gemm_plan,
     .run = conv_gemm_run,
     .unplan = conv_gemm_unplan},
    {.name = NULL},
};
