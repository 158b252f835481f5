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

/* The options of the case as given. */
typedef struct comm_words {
    const char *tests, *types, *ops, *communicators; /* comma-separated lists, or "all" but for the last */
    const char *inplace;                             /* "both", "in", "out" */
} comm_words_t;

/* The parsed lists. */
typedef struct comm_plan {
    comm_test_t tests[COMM_TESTS];
    collective_type_t types[COLLECTIVE_TYPES];
    collective_op_t ops[COLLECTIVE_OPS];
    int n_tests, n_types, n_ops;
    bool all_tests, all_types, all_ops;    /* given as `all`: skip what a communicator does not offer */
    bool out_of_place, in_place;           /* the calls to measure */
    const char *names[COLLECTIVE_MAX_OPS]; /* the communicators given; n_names 0: auto */
    int n_names;
    const collective_ops_t *by[COLLECTIVE_MAX_OPS]; /* set by comm_plan_settle */
    int n_by;
} comm_plan_t;

/* ERR_USAGE names an unknown word and the nearest known one, or what a known communicator does not offer. */
err_t comm_plan_parse(const comm_words_t *words, comm_plan_t *out);

/* Chooses the communicators, in the order of `offered`; auto is the first of these. ERR_USAGE if something is
 * not available.
 *
 *   offered  [n] by collective_list: the same on all ranks */
err_t comm_plan_settle(comm_plan_t *plan, const collective_ops_t *const *offered, int n);

/* Whether a communicator offers a test in one of the ways to be measured, or a type or an operation. */
bool comm_plan_has_test(const comm_plan_t *plan, const collective_ops_t *by, comm_test_t test);
bool comm_has_type(const collective_ops_t *by, collective_type_t type);
bool comm_has_op(const collective_ops_t *by, collective_op_t op);

#endif
