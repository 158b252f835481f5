/* SPDX-License-Identifier: MIT */
/* The case `comm`: its plan in nccl-tests' terms, the data that verifies a collective, and what its files share. */
#ifndef TOOLS_BENCH_COMM_H
#define TOOLS_BENCH_COMM_H

#include "cluster/comm/buffer.h"
#include "cluster/comm/collective.h"
#include "compute/ops/hd_buffer.h"
#include "tools/bench/bench.h"

typedef enum comm_test {
    COMM_TEST_ALL_REDUCE,
    COMM_TEST_ALL_GATHER,
    COMM_TEST_REDUCE_SCATTER,
    COMM_TEST_BROADCAST,
    COMM_TEST_REDUCE,
    COMM_TEST_GATHER,
    COMM_TEST_SCATTER,
    COMM_TEST_ALLTOALL,
    COMM_TEST_ALLTOALLV,
    COMM_TEST_HYPERCUBE, /* an all_gather; a power of two ranks */
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

/* Algorithm bandwidth / (size / time) on n ranks: (n - 1) / n for hypercube, else 1 (nccl-tests, src/hypercube.cu). */
double comm_algbw_factor(comm_test_t test, int n);
/* Bus bandwidth / algorithm bandwidth; makes results comparable with the speed of the hardware for any n (nccl-tests,
 * doc/PERFORMANCE.md; the four that it does not describe: src/gather.cu, scatter.cu, alltoallv.cu, hypercube.cu).
 *
 *   all_reduce                                                        2 (n - 1) / n
 *   reduce_scatter, all_gather, gather, scatter, alltoall, alltoallv  (n - 1) / n
 *   others                                                            1 */
double comm_busbw_factor(comm_test_t test, int n);

/* Elements per piece for a message of about n_bytes, rounded down to whole elements and, with one piece per
 * rank, to 16 bytes per piece, as in nccl-tests. May be 0. */
int64_t comm_piece_count(comm_test_t test, int64_t n_bytes, collective_type_t type, int n);
/* Size of the resulting message: what the rank that moves the most sends or receives. */
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

/* Data that verifies a collective. Every rank can compute any rank's input and the whole result on its own,
 * at a cost per element that does not depend on the number of ranks, so every element is compared. (Where the parts of
 * an alltoallv are takes a time in the square of the ranks.)
 *
 * Inputs depend on seed, rank and index, which reveals data that is shifted, swapped, duplicated, missing or
 * left from an earlier call. Reductions are exact in any order. At each index a hash selects one rank, the
 * owner, whose value is large and unique; the other ranks hold
 *
 *   sum       one common small value; the total stays in the range of exact integers
 *   avg       the same; the owner's surplus is a multiple of the number of ranks
 *   prod      1, except for one rank with a power of two
 *   max, min  values from the other half of the type's range */
typedef struct comm_check {
    collective_kind_t kind;
    collective_type_t type;
    collective_op_t op;
    int rank, size;
    int root, peer; /* as in collective_spec_t */
    int64_t count;  /* elements per piece */
    uint64_t seed;  /* different for every call */
} comm_check_t;

/* Whether the result is the same in any order, as far as kind, type, op and size say. It is not where a GPU's
 * library multiplies floats by 1 / size before it sums them, unless that is a power of two. */
bool comm_check_is_exact(const comm_check_t *check, bool on_device);

/* Writes this rank's input to its send buffer or, in place, to where collective.h expects it. */
void comm_check_fill(const comm_check_t *check, void *input);

/* Counts the wrong elements of this rank's result.
 *
 *   result  the receive buffer, for a scatter in place from rank × count on. For the root of a broadcast and the
 *           non-root ranks of a reduction or a gather: their input, which must be unchanged
 *   first   index of the first wrong element; -1 if there is none */
int64_t comm_check_count_wrong(const comm_check_t *check, const void *result, int64_t *first);

/* Number of result elements that are compared. */
int64_t comm_check_elements(const comm_check_t *check);

/* Describes an element of the result: "3.5 instead of 4". */
void comm_check_describe(const comm_check_t *check, const void *result, int64_t element, char *out,
                         size_t n_bytes);

typedef struct bench_comm_options {
    int64_t min_bytes, max_bytes, step_factor, step_bytes, root, check;
    const char *test, *op, *datatype, *communicator, *inplace, *inject;
    const char *output_file;             /* nccl-tests' JSON; NULL: none */
    double line_rate_gbs, expect_busbw;  /* 0: none */
    comm_plan_t plan;                    /* parsed; see comm_plan_settle */
    int64_t inject_rank, inject_element; /* inject_element -1: no fault */
} bench_comm_options_t;

/* A communicator to measure, with buffers of max_bytes each. */
typedef struct comm_lane {
    const collective_ops_t *by;
    /* Those of its memory; send is missing with --inplace in. */
    char *send, *recv;
    hd_buffer_t device_send, device_recv;
    comm_buffer_t shared;
} comm_lane_t;

/* Where a rank runs. */
typedef struct comm_place {
    char host[TOPO_HOST_MAX], where[48], name[64]; /* where: PCI address or CPUs; name: of GPU or CPU */
    int32_t pid, device;                           /* device: index of the GPU; -1: none */
} comm_place_t;

typedef struct comm_json comm_json_t;

/* One run of the case. */
typedef struct comm_session {
    bench_t *bench;
    const bench_comm_options_t *options;
    comm_plan_t plan; /* settled */
    comm_sizes_t sizes;
    comm_lane_t lanes[COLLECTIVE_MAX_OPS]; /* [plan.n_by] */
    double line_rate_gbs;                  /* 0: unknown */
    uint64_t n_checks;                     /* so far; seeds the data */
    int64_t n_measured;                    /* calls */
    /* Of the table being printed: */
    double busbw_sum, busbw_max, undisturbed_sum;
    int64_t busbw_max_bytes;                           /* message size of busbw_max */
    int64_t n_busbw, n_points, n_wrong, n_undisturbed; /* n_busbw, n_undisturbed: of the sums */
    bool above_line_rate;
    table_t *table;
    comm_json_t *json; /* of --output-file, on rank 0; else NULL */
} comm_session_t;

/* A collective to measure, of any size. */
typedef struct comm_what {
    comm_test_t test;
    collective_type_t type;
    collective_op_t op;
    comm_lane_t *lane;
    int peer; /* of an exchange */
} comm_what_t;

/* One repeatable call. */
typedef struct comm_call {
    comm_session_t *session;
    comm_what_t what;
    int64_t count, n_bytes; /* elements per piece; bytes of the message */
    bool in_place;
    collective_t *collective;
} comm_call_t;

/* Collective. Allocates a lane's buffers, zeroed, and opens its communicator. Close it after errors, too. */
err_t comm_lane_open(comm_session_t *session, const collective_ops_t *by, comm_lane_t *lane);
void comm_lane_close(comm_session_t *session, comm_lane_t *lane);
/* Not collective. Number of buffers that comm_lane_open will allocate. */
int comm_lane_buffers(const comm_session_t *session, const collective_ops_t *by);

/* Not collective. */
err_t comm_call_new(comm_session_t *session, const comm_what_t *what, int64_t count, bool in_place,
                    comm_call_t *out);
bench_work_t comm_call_work(comm_call_t *call, const char *what);
void comm_call_free(comm_call_t *call);
/* Collective. Runs the call once on fresh inputs and compares every element on every rank. *n_wrong is
 * the sum over all ranks; the first wrong element is printed. Leaves the buffers zeroed. */
err_t comm_call_check(comm_call_t *call, int64_t *n_wrong);

typedef struct comm_rate {
    double algbw_gbs, busbw_gbs;
    bool above_line_rate;
} comm_rate_t;

/* One half of a row: out of place, or in place. */
typedef struct comm_half {
    bool wanted;
    comm_call_t call;
    int64_t n_wrong; /* -1: not checked */
    bench_result_t result;
    comm_rate_t rate;
} comm_half_t;

/* Bandwidths of a call that takes `sec`; flags the session if above the line rate.
 *
 *   remote  the data crosses the network */
comm_rate_t comm_rate(comm_session_t *session, const comm_call_t *call, double sec, bool remote);

/* Collective. Writes the record of a call.
 *
 *   n_wrong  -1: not checked
 *   a, b     the ranks of a pair; -1: not a pair */
err_t comm_record(const comm_call_t *call, const bench_result_t *result, const comm_rate_t *rate,
                  int64_t n_wrong, int a, int b);

/* nccl-tests' JSON (-J). ERR_USAGE unless the plan has one table. */
err_t comm_json_check(const comm_plan_t *plan, int n_communicators);
/* Collective. Creates the file and writes its head. ERR_SYSTEM, ERR_USAGE.
 *
 *   places  [size] */
err_t comm_json_open(comm_session_t *session, const comm_place_t *places, comm_json_t **out);
/* Not collective. Adds a row of the table; NULL: does nothing. */
void comm_json_row(comm_json_t *file, const comm_what_t *what, int root, const comm_half_t halves[2]);
/* Not collective. Adds the totals of the session's table and writes the file; without `keep`, removes it. Takes NULL.
 * ERR_SYSTEM. */
err_t comm_json_close(const comm_session_t *session, bool keep, comm_json_t **file);

#endif
