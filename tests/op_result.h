/* SPDX-License-Identifier: MIT */
/* The results of a convolution, copied from the backend so that two runs can be compared. */
#ifndef TESTS_OP_RESULT_H
#define TESTS_OP_RESULT_H

#include <float.h>

#include "tests/op_util.h"

/* In host memory: y, dx, dweight, dbias. */
typedef struct op_result {
    float *part[4]; /* the last NULL without a bias */
    shape_t shape[4];
    size_t n_workspace_bytes;
    op_algorithms_t algorithms;
} op_result_t;

/* As float32, whatever type it is stored as. */
static inline float *op_result_copy(const float *from, dtype_t dtype, shape_t shape)
{
    float *to;
    int64_t n = shape_count(shape);
    must(mem_new_array(n, sizeof *to, "a result", &to), "memory");
    if (dtype == DTYPE_BF16)
        bf16_widen(to, (const void *)from, n);
    else
        memcpy(to, from, (size_t)n * sizeof *to);
    return to;
}

/* Computed from op_run_fill's values; scratch is filled with NaN before each pass. */
static inline op_result_t op_result_of(const backend_t *device, const op_desc_t *desc,
                                       const op_algorithms_t *wanted)
{
    op_run_t r = op_run_with(device, *desc, true, wanted);
    const op_desc_t *d = &r.op->desc;
    op_result_t out = {.shape = {d->y[0], d->x[0], d->param[0], d->param[1]},
                       .n_workspace_bytes = r.op->n_workspace_bytes,
                       .algorithms = r.op->algorithms};
    op_run_fill(&r, 77);
    if (d->x_dtype[0] == DTYPE_BF16) util_narrow(r.x[0], d->x[0]);
    if (d->y_dtype[0] == DTYPE_BF16) util_narrow(r.dy, d->y[0]);
    memset(r.workspace, 0xff, r.op->n_workspace_bytes);
    must(op_run_forward(&r), "forward");
    memset(r.workspace, 0xff, r.op->n_workspace_bytes);
    must(op_run_backward(&r), "backward");
    const float *from[4] = {r.y, r.dx[0], r.dparam[0], r.dparam[1]};
    const dtype_t dtypes[4] = {d->y_dtype[0], d->x_dtype[0], DTYPE_F32, DTYPE_F32};
    for (int i = 0; i < 2 + d->n_params; i++) out.part[i] = op_result_copy(from[i], dtypes[i], out.shape[i]);
    op_run_free(&r);
    return out;
}

/* Selects the algorithm of this name in all passes that have it, and the backend's default in the others. */
static inline op_algorithms_t op_result_algorithms(const backend_t *device, op_desc_t desc, const char *name)
{
    op_algorithms_t out = {0};
    must(op_infer(&desc), "op_infer");
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        const char *names[OP_MAX_ALGORITHMS];
        int n = op_list_algorithms(device, &desc, (op_pass_t)pass, true, names, OP_MAX_ALGORITHMS);
        for (int i = 0; i < n; i++)
            if (strcmp(names[i], name) == 0) snprintf(out.name[pass], OP_ALGORITHM_MAX, "%s", name);
    }
    return out;
}

static inline void op_result_free(op_result_t *r)
{
    for (int i = 0; i < 4; i++) mem_free(&r->part[i]);
}

/* Products of other shapes may be added in another order: 4·FLT_EPSILON·√K·√K for K products of standard
 * normal numbers, as in test_op_backends.c. */
static inline bool op_result_near(const op_result_t *a, const op_result_t *b)
{
    double k = (double)shape_count(a->shape[0]) * (double)shape_sample_count(a->shape[2]);
    bool all = true;
    for (int i = 0; i < 4 && a->part[i]; i++)
        for (int64_t e = 0; e < shape_count(a->shape[i]) && all; e++) {
            double difference = fabs((double)a->part[i][e] - (double)b->part[i][e]);
            all = difference <= 4 * FLT_EPSILON * sqrt(k) * fmax(1, fabs((double)a->part[i][e]));
            if (!all) printf("# part %d, element %lld: off by %g\n", i, (long long)e, difference);
        }
    return all;
}

static inline bool op_result_same_bits(const op_result_t *a, const op_result_t *b)
{
    bool all = true;
    for (int i = 0; i < 4 && a->part[i]; i++)
        all &= memcmp(a->part[i], b->part[i], (size_t)shape_count(a->shape[i]) * sizeof(float)) == 0;
    return all;
}

#endif
