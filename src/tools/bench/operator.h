/* SPDX-License-Identifier: MIT */
/* Shared by the cases that compute: a single operator with its buffers, the yardstick, rates, and the
 * common part of a record's key. */
#ifndef TOOLS_BENCH_OPERATOR_H
#define TOOLS_BENCH_OPERATOR_H

#include "compute/graph/measure.h"
#include "tools/bench/bench.h"

typedef struct bench_op {
    op_t *op;
    scratch_t scratch;
    char *saved, *workspace;
} bench_op_t;

/* Collective. Plans the operator and allocates its buffers: inputs as scratch_new fills them, outputs NaN to
 * reveal elements that are never computed. Call bench_op_free in any case.
 *
 *   wanted  as in op_plan
 *   what    for messages: "conv1_2 of vgg16" */
err_t bench_op_new(bench_t *bench, const op_desc_t *desc, bool training, const op_algorithms_t *wanted,
                   const char *what, bench_op_t *out);
void bench_op_free(bench_op_t *bench_op);

/* One pass of an operator as a work. */
typedef struct bench_pass {
    const bench_op_t *of;
    op_pass_t pass;
} bench_pass_t;
bench_work_t bench_pass_work(bench_pass_t *pass, const char *what);

/* Collective. What a rank's hardware does at most. Measured once. */
err_t bench_yardstick(bench_t *bench, dtype_t compute, const yardstick_t **out);
/* Raises its FLOP/s, if known, to those of a product that was faster: a clock rate may have risen since.
 *
 *   product  for people: "a product of 64 x 64 x 64" */
void bench_raise_peak(bench_t *bench, dtype_t compute, double flops, const char *product);

/* Says what it is, and what measured it. */
void bench_print_peak(const yardstick_t *yardstick);

/* Writes "ranks", "threads", "device" and, unless NULL, "dtype" into a record's key. Does nothing if j is
 * NULL. */
void bench_key_ranks(const bench_t *bench, const char *dtype, json_t *j);

/* Rates of products. n_flops: per iteration of a rank. bench_rate_json does nothing if j is NULL. */
typedef struct bench_rate {
    double gflops, gflops_all;         /* per rank; of all ranks */
    double peak_gflops, share_of_peak; /* of the yardstick, and per rank / that; unknown: 0, NAN */
} bench_rate_t;
bench_rate_t bench_rate_of(const bench_t *bench, const bench_result_t *result, double n_flops,
                           const yardstick_t *yardstick);
void bench_rate_json(const bench_rate_t *rate, json_t *j);
/* The same as table columns, after the time. */
#define BENCH_RATE_COLUMNS                                                                                   \
    {"time", .unit = "us ", .min_width = 12}, {"GFLOP/s", .min_width = 8}, {"all ranks"},                    \
    {                                                                                                        \
        "of peak"                                                                                            \
    }
void bench_rate_cells(table_t *table, const bench_result_t *result, const bench_rate_t *rate);

/* Collective. Sums *n_wrong over the ranks. If it is not 0, the command will end with ERR_GATE. */
err_t bench_sum_wrong(bench_t *bench, int64_t *n_wrong);

#endif
