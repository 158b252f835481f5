/* SPDX-License-Identifier: MIT */
/* What `bench comm` is asked to measure: nccl-tests' words, sizes and figures. Nothing here talks to anybody.
 */
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
    COMM_TEST_BISECTION, /* rank i and rank i + n / 2 swap, all pairs at once */
    COMM_TEST_ALL_PAIRS, /* two ranks swap, one pair after another */
    COMM_TESTS,
} comm_test_t;

typedef struct comm_test_info {
    const char *name;
    collective_kind_t kind;
    bool reduces, rooted;
    bool in_parts; /* a message is made of a piece for each rank */
} comm_test_info_t;

extern const comm_test_info_t comm_tests[COMM_TESTS];

/* Bus bandwidth / algorithm bandwidth (size / time) on n ranks: what it takes to compare a collective with
 * the speed of the hardware, whatever n is. all_reduce 2 (n - 1) / n; reduce_scatter, all_gather and alltoall
 * (n - 1) / n; the others 1. nccl-tests, doc/PERFORMANCE.md. */
double comm_busbw_factor(comm_test_t test, int n);

/* Elements of a piece in a message of about n_bytes: rounded down to whole elements and, where there is a
 * piece for each rank, each to 16 bytes, as nccl-tests does. May be 0. */
int64_t comm_piece_count(comm_test_t test, int64_t n_bytes, collective_type_t type, int n);
/* The size of the message that is then sent. */
int64_t comm_message_bytes(comm_test_t test, int64_t count, collective_type_t type, int n);

/* A range of sizes: multiplied by `factor` where that is above 1, else `step` is added. */
typedef struct comm_sizes {
    int64_t min, max, factor, step;
} comm_sizes_t;

/* Defaults for what is 0, and whether there is a size at all. ERR_USAGE. */
err_t comm_sizes_resolve(comm_sizes_t *sizes, bool quick);
/* The size after *n_bytes (0: the first); false behind the last. */
bool comm_sizes_next(const comm_sizes_t *sizes, int64_t *n_bytes);

/* Lists of words, resolved. */
typedef struct comm_plan {
    comm_test_t tests[COMM_TESTS];
    collective_type_t types[COLLECTIVE_TYPES];
    collective_op_t ops[COLLECTIVE_OPS];
    int n_tests, n_types, n_ops;
    bool all_tests, all_types; /* as the word `all`: what a communicator can't do is left out */
    bool by_auto;              /* nothing named: comm_plan_settle chooses */
    bool by_mpi, by_host, by_nccl;
} comm_plan_t;

/* Comma lists, or "all". ERR_USAGE naming the word, and the nearest where there is one. */
err_t comm_plan_parse(const char *tests, const char *types, const char *ops, const char *communicators,
                      comm_plan_t *out);

/* What can be said only when it is known whether gradients are on GPUs (comm_on_device): by_auto becomes
 * by_nccl or by_mpi. ERR_USAGE for what can't be had. in_place: nothing else is wanted. The same on all
 * ranks. */
err_t comm_plan_settle(comm_plan_t *plan, bool on_device, bool in_place);

#endif
