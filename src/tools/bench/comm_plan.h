/* SPDX-License-Identifier: MIT */
/* The plan of `bench comm`: tests, types, operations and sizes in nccl-tests' terms, and its bandwidth
 * formulas. Nothing here communicates. */
#ifndef TOOLS_BENCH_COMM_PLAN_H
#define TOOLS_BENCH_COMM_PLAN_H

#include "cluster/comm/collective.h"

typedef enum comm_test {
    COMM_TEST_ALL_REDUCE,
    COMM_TEST_ALL_GATHER,
    COMM_TEST_REDUCE_SCATTER,
    COMM_TEST_BROADCAST,
    COMM_TEST_REDUCE,
    COMM_TEST_ALLTOALL,
    COMM_TEST_SENDRECV,
    COMM_TEST_BISECTION, /* ranks i and i + n / 2 swap, all pairs concurrently */
    COMM_TEST_ALL_PAIRS, /* two ranks swap, one pair after another */
    COMM_TESTS,
} comm_test_t;

typedef struct comm_test_info {
    const char *name;
    collective_kind_t kind;
    bool reduces, rooted;
    bool in_parts; /* a message consists of one piece per rank */
} comm_test_info_t;

extern const comm_test_info_t comm_tests[COMM_TESTS];

/* Bus bandwidth / algorithm bandwidth (size / time) on n ranks; makes results comparable with the speed of
 * the hardware for any n (nccl-tests, doc/PERFORMANCE.md).
 *
 *   all_reduce                            2 (n - 1) / n
 *   reduce_scatter, all_gather, alltoall  (n - 1) / n
 *   others                                1 */
double comm_busbw_factor(comm_test_t test, int n);

/* Elements per piece for a message of about n_bytes, rounded down to whole elements and, with one piece per
 * rank, to 16 bytes per piece, as in nccl-tests. May be 0. */
int64_t comm_piece_count(comm_test_t test, int64_t n_bytes, collective_type_t type, int n);
/* Size of the resulting message. */
int64_t comm_message_bytes(comm_test_t test, int64_t count, collective_type_t type, int n);

/* A range of sizes: multiplied by `factor` if that is above 1, otherwise `step` is added. */
typedef struct comm_sizes {
    int64_t min, max, factor, step;
} comm_sizes_t;

/* Replaces zeros by defaults. ERR_USAGE if the range is empty or endless. */
err_t comm_sizes_resolve(comm_sizes_t *sizes, bool quick);
/* The size after *n_bytes (0: the first); false after the last. */
bool comm_sizes_next(const comm_sizes_t *sizes, int64_t *n_bytes);

/* The parsed lists. */
typedef struct comm_plan {
    comm_test_t tests[COMM_TESTS];
    collective_type_t types[COLLECTIVE_TYPES];
    collective_op_t ops[COLLECTIVE_OPS];
    int n_tests, n_types, n_ops;
    bool all_tests, all_types; /* given as `all`: skip what a communicator does not support */
    bool by_auto;              /* comm_plan_settle chooses */
    bool by_mpi, by_host, by_nccl;
} comm_plan_t;

/* Parses comma-separated lists, or "all". ERR_USAGE names an unknown word and the nearest known one. */
err_t comm_plan_parse(const char *tests, const char *types, const char *ops, const char *communicators,
                      comm_plan_t *out);

/* Completes the plan: by_auto becomes by_nccl or by_mpi. ERR_USAGE if something is not available. The same on
 * all ranks.
 *
 *   on_device  gradients are on GPUs (comm_on_device)
 *   in_place   only in-place calls are requested */
err_t comm_plan_settle(comm_plan_t *plan, bool on_device, bool in_place);

#endif
