/* SPDX-License-Identifier: MIT */
/* What the cases that compute share: one operator with buffers of its own, the peak that its speed is held
 * against, and the part of a record's key that says who computed. */
#ifndef TOOLS_BENCH_OPERATOR_H
#define TOOLS_BENCH_OPERATOR_H

#include "compute/graph/scratch.h"
#include "tools/bench/bench.h"

typedef struct bench_op {
    op_t *op;
    scratch_t scratch;
    char *saved, *workspace;
} bench_op_t;

/* Collective. Plans the operator on every rank and makes its buffers (scratch_new's numbers; outputs are NaN,
 * so that what was never computed is seen). wanted: as op_plan's. `what`, for messages: "conv1_2 of vgg16".
 * bench_op_free in any case. */
err_t bench_op_new(bench_t *bench, const op_desc_t *desc, bool training, const op_algorithms_t *wanted,
                   const char *what, bench_op_t *out);
void bench_op_free(bench_op_t *bench_op);

/* One pass of it, to be measured. */
typedef struct bench_pass {
    const bench_op_t *of;
    op_pass_t pass;
} bench_pass_t;
bench_work_t bench_pass_work(bench_pass_t *pass, const char *what);

/* Collective. FLOP/s that a rank gets in a large product while all ranks multiply. Measured once. */
err_t bench_peak(bench_t *bench, dtype_t compute, double *out);

/* Inside a record's key: "ranks", "threads", "device", "dtype" (NULL: none). j NULL: nothing. */
void bench_key_ranks(const bench_t *bench, const char *dtype, json_t *j);

/* The metrics of products: "gflops" of a rank, "gflops_all", "share_of_peak". n_flops: of one iteration of a
 * rank. j NULL: nothing. */
typedef struct bench_rate {
    double gflops, gflops_all, share_of_peak;
} bench_rate_t;
bench_rate_t bench_rate_of(const bench_t *bench, const bench_result_t *result, double n_flops, double peak);
void bench_rate_json(const bench_rate_t *rate, json_t *j);
/* The same in a table, after the time. */
#define BENCH_RATE_COLUMNS                                                                                   \
    {"time", .unit = "us ", .min_width = 12}, {"GFLOP/s", .min_width = 8}, {"all ranks"},                    \
    {                                                                                                        \
        "of peak"                                                                                            \
    }
void bench_rate_cells(table_t *table, const bench_result_t *result, const bench_rate_t *rate);

/* Collective. Adds up over the ranks what each found wrong; anything makes the command end with ERR_GATE. */
err_t bench_sum_wrong(bench_t *bench, int64_t *n_wrong);

#endif
