/* SPDX-License-Identifier: MIT */
/* Types and functions shared by the files of the case `comm`. Private to them. */
#ifndef TOOLS_BENCH_COMM_CASE_H
#define TOOLS_BENCH_COMM_CASE_H

#include "cluster/comm/buffer.h"
#include "compute/ops/hd_buffer.h"
#include "tools/bench/bench.h"
#include "tools/bench/comm_check.h"
#include "tools/bench/comm_plan.h"

typedef struct bench_comm_options {
    int64_t min_bytes, max_bytes, step_factor, step_bytes, root, check;
    const char *test, *op, *datatype, *communicator, *inplace, *inject;
    double line_rate_gbs;
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
    double busbw_sum;
    int64_t n_busbw, n_points, n_wrong;
    bool above_line_rate;
    table_t *table;
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
/* The host side of the buffers: inputs are generated and results compared there. Push and pull copy the first
 * n_bytes of both buffers, or in place of recv alone, to the device and back; host memory needs neither. */
char *comm_lane_recv(const comm_lane_t *lane);
char *comm_lane_send(const comm_lane_t *lane);
err_t comm_lane_push(const comm_session_t *session, const comm_lane_t *lane, size_t n_bytes, bool in_place);
err_t comm_lane_pull(const comm_lane_t *lane, size_t n_bytes, bool in_place);

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

/* Collective. Prints where every rank runs. */
err_t comm_devices_print(comm_session_t *session);

/* Collective. All sizes, types and operations of a collective. */
err_t comm_table(comm_session_t *session, comm_test_t test, comm_lane_t *lane);

/* Collective. The matrix of all pairs of ranks, at the largest size. */
err_t comm_all_pairs(comm_session_t *session, const comm_what_t *what);

#endif
