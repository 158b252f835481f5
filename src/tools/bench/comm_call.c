/* SPDX-License-Identifier: MIT */
/* A collective call of `bench comm`: its buffers, in the memory that the communicator asks for, the call, its
 * verification (comm_check.c), bandwidths and the record. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tools/bench/cases.h"
#include "tools/bench/comm.h"

int comm_lane_buffers(const comm_session_t *s, const collective_ops_t *by)
{
    return by->memory != COLLECTIVE_IN_BUFFER && s->plan.out_of_place ? 2 : 1;
}

err_t comm_lane_open(comm_session_t *s, const collective_ops_t *by, comm_lane_t *lane)
{
    bool two = comm_lane_buffers(s, by) == 2;
    lane->by = by;
    if (by->memory == COLLECTIVE_ON_HOST) {
        size_t n_bytes = (size_t)s->sizes.max;
        err_t err = mem_new(n_bytes, "the receive buffer", &lane->recv);
        if (err == ERR_OK && two) err = mem_new(n_bytes, "the send buffer", &lane->send);
        if (err == ERR_OK) memset(lane->recv, 0, n_bytes);
        if (err == ERR_OK && two) memset(lane->send, 0, n_bytes);
        TRY(comm_agree(s->bench->comm, err, "allocating the buffers"));
    }
    if (by->memory == COLLECTIVE_ON_DEVICE) {
        const backend_t *backend = s->bench->runtime.backend;
        size_t n_bytes = (size_t)s->sizes.max;
        err_t err = hd_buffer_new(backend, n_bytes, "the receive buffer", &lane->device_recv);
        if (err == ERR_OK && two)
            err = hd_buffer_new(backend, n_bytes, "the send buffer", &lane->device_send);
        TRY(comm_agree(s->bench->comm, err, "allocating the GPU buffers"));
    }
    return collective_open(s->bench->comm, by, s->sizes.max, &lane->shared);
}

void comm_lane_close(comm_session_t *s, comm_lane_t *lane)
{
    comm_buffer_free(s->bench->comm, &lane->shared);
    hd_buffer_free(&lane->device_send);
    hd_buffer_free(&lane->device_recv);
    mem_free(&lane->send);
    mem_free(&lane->recv);
}

/* The host side of the buffers: inputs are generated and results compared there. */
static char *comm_lane_recv(const comm_lane_t *lane)
{
    return lane->shared.data ? lane->shared.data : lane->recv ? lane->recv : lane->device_recv.host;
}

static char *comm_lane_send(const comm_lane_t *lane)
{
    return lane->send ? lane->send : lane->device_send.host;
}

/* Copies the first n_bytes of both buffers, or in place of recv alone, to the device; host memory needs no copy. */
static err_t comm_lane_push(const comm_session_t *s, const comm_lane_t *lane, size_t n_bytes, bool in_place)
{
    if (lane->by->memory != COLLECTIVE_ON_DEVICE) return ERR_OK;
    TRY(hd_buffer_push(&lane->device_recv, 0, n_bytes));
    if (!in_place) TRY(hd_buffer_push(&lane->device_send, 0, n_bytes));
    return backend_sync(s->bench->runtime.backend);
}

err_t comm_call_new(comm_session_t *session, const comm_what_t *what, int64_t count, bool in_place,
                    comm_call_t *out)
{
    const comm_test_info_t *test = &comm_tests[what->test];
    int n = session->bench->comm->size;
    *out = (comm_call_t){
        .session = session,
        .what = *what,
        .count = count,
        .n_bytes = comm_message_bytes(what->test, count, what->type, n),
        .in_place = in_place,
    };
    comm_lane_t *lane = what->lane;
    bool on_device = lane->by->memory == COLLECTIVE_ON_DEVICE;
    const collective_spec_t spec = {
        .by = lane->by,
        .kind = test->kind,
        .type = what->type,
        .op = what->op,
        .root = test->rooted ? (int)session->options->root : 0,
        .peer = what->peer,
        .count = count,
        .send = in_place    ? NULL
                : on_device ? lane->device_send.device
                            : lane->send,
        .recv = on_device ? lane->device_recv.device : comm_lane_recv(lane),
        .buffer = &lane->shared,
        .what = test->name,
    };
    return collective_new(session->bench->comm, &spec, &out->collective);
}

static err_t run_collective(void *context)
{
    return collective_run(context);
}

static err_t wait_collective(void *context)
{
    return collective_wait(context);
}

/* Calls the collective as directly as possible: short ones take about 1 µs. */
bench_work_t comm_call_work(comm_call_t *call, const char *what)
{
    bool on_device = call->what.lane->by->memory == COLLECTIVE_ON_DEVICE;
    return (bench_work_t){.what = what,
                          .context = call->collective,
                          .run = run_collective,
                          .finish = on_device ? wait_collective : NULL};
}

void comm_call_free(comm_call_t *call)
{
    collective_free(&call->collective);
}

static char *input_at(const comm_call_t *c)
{
    int64_t n_piece = c->count * (int64_t)collective_type_size(c->what.type);
    if (!c->in_place) return comm_lane_send(c->what.lane);
    const collective_kind_t kind = comm_tests[c->what.test].kind;
    bool own_place =
        kind == COLLECTIVE_ALL_GATHER || kind == COLLECTIVE_GATHER || kind == COLLECTIVE_HYPERCUBE;
    return comm_lane_recv(c->what.lane) + (own_place ? c->session->bench->comm->rank * n_piece : 0);
}

static char *result_at(const comm_call_t *c)
{
    bool is_root = c->session->bench->comm->rank == c->session->options->root;
    collective_kind_t kind = comm_tests[c->what.test].kind;
    bool own_input = (kind == COLLECTIVE_BROADCAST && is_root) ||
                     ((kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_GATHER) && !is_root);
    if (own_input) return input_at(c);
    bool on_device = c->what.lane->by->memory == COLLECTIVE_ON_DEVICE;
    bool own_place =
        c->in_place && (kind == COLLECTIVE_SCATTER || (kind == COLLECTIVE_REDUCE_SCATTER && on_device));
    int64_t n_piece = c->count * (int64_t)collective_type_size(c->what.type);
    return comm_lane_recv(c->what.lane) + (own_place ? c->session->bench->comm->rank * n_piece : 0);
}

static void fill_buffers(const comm_call_t *c, int byte)
{
    memset(comm_lane_recv(c->what.lane), byte, (size_t)c->n_bytes);
    if (!c->in_place) memset(comm_lane_send(c->what.lane), byte, (size_t)c->n_bytes);
}

/* Flips a bit of this rank's result, for tests. */
static void inject_fault(const comm_call_t *c, const comm_check_t *check, char *result)
{
    const bench_comm_options_t *o = c->session->options;
    if (o->inject_element < 0 || o->inject_rank != check->rank) return;
    if (o->inject_element >= comm_check_elements(check)) return;
    result[o->inject_element * (int64_t)collective_type_size(check->type)] ^= 1;
}

/* Collective. Prints the first wrong element of the lowest rank that has one. */
static err_t name_first_wrong(const comm_call_t *c, const comm_check_t *check, const char *result,
                              int64_t n_mine, int64_t first)
{
    comm_t *comm = c->session->bench->comm;
    char text[320] = "", values[80];
    int64_t lowest = n_mine ? comm->rank : comm->size;
    TRY(comm_allreduce(comm, &lowest, 1, DTYPE_I64, COMM_MIN, "reporting the first wrong element"));
    if (n_mine) {
        comm_check_describe(check, result, first, values, sizeof values);
        snprintf(text, sizeof text, "rank %d on %s: element %lld of %lld is %s", comm->rank,
                 comm->topo.host_name, (long long)first, (long long)comm_check_elements(check), values);
    }
    TRY(comm_broadcast(comm, text, sizeof text, (int)lowest, "reporting the first wrong element"));
    bench_print("# wrong data: %s%s of %lld bytes, %s; %s", comm_tests[c->what.test].name,
                c->in_place ? " in place" : "", (long long)c->n_bytes, collective_type_names[c->what.type],
                text);
    return ERR_OK;
}

err_t comm_call_check(comm_call_t *c, int64_t *n_wrong)
{
    comm_session_t *s = c->session;
    comm_t *comm = s->bench->comm;
    const comm_check_t check = {
        .kind = comm_tests[c->what.test].kind,
        .type = c->what.type,
        .op = c->what.op,
        .rank = comm->rank,
        .size = comm->size,
        .root = (int)s->options->root,
        .peer = c->what.peer,
        .count = c->count,
        .seed = ++s->n_checks * 0xd6e8feb86659fd93ULL,
    };
    int64_t first = -1;
    fill_buffers(c, 0xa5);
    comm_check_fill(&check, input_at(c));
    bench_work_t work = comm_call_work(c, "checking");
    TRY(comm_lane_push(s, c->what.lane, (size_t)c->n_bytes, c->in_place));
    TRY(work.run(work.context));
    if (work.finish) TRY(work.finish(work.context));
    const comm_lane_t *lane = c->what.lane;
    size_t n_bytes = (size_t)c->n_bytes;
    if (lane->by->memory == COLLECTIVE_ON_DEVICE) {
        TRY(hd_buffer_pull(&lane->device_recv, 0, n_bytes));
        if (!c->in_place) TRY(hd_buffer_pull(&lane->device_send, 0, n_bytes));
    }
    char *result = result_at(c);
    inject_fault(c, &check, result);
    int64_t n_mine = comm_check_count_wrong(&check, result, &first);
    *n_wrong = n_mine;
    TRY(bench_sum_wrong(s->bench, n_wrong));
    if (*n_wrong > 0) TRY(name_first_wrong(c, &check, result, n_mine, first));
    /* Zeros stay zeros however often they are summed in place; other values would turn into infinities or
     * denormals, which take longer. */
    fill_buffers(c, 0);
    return comm_lane_push(s, c->what.lane, (size_t)c->n_bytes, c->in_place);
}

comm_rate_t comm_rate(comm_session_t *session, const comm_call_t *call, double sec, bool remote)
{
    double algbw =
        (double)call->n_bytes * comm_algbw_factor(call->what.test, session->bench->comm->size) / sec / 1e9;
    comm_rate_t rate = {.algbw_gbs = algbw,
                        .busbw_gbs = algbw * comm_busbw_factor(call->what.test, session->bench->comm->size)};
    rate.above_line_rate = remote && session->line_rate_gbs > 0 && rate.busbw_gbs > session->line_rate_gbs;
    session->above_line_rate |= rate.above_line_rate;
    if (rate.busbw_gbs > session->busbw_max) {
        session->busbw_max = rate.busbw_gbs;
        session->busbw_max_bytes = call->n_bytes;
    }
    return rate;
}

err_t comm_record(const comm_call_t *c, const bench_result_t *result, const comm_rate_t *rate,
                  int64_t n_wrong, int a, int b)
{
    bench_t *bench = c->session->bench;
    const comm_test_info_t *test = &comm_tests[c->what.test];
    c->session->n_measured++;
    char algorithm[128];
    collective_algorithm(bench->comm, c->what.lane->by, algorithm, sizeof algorithm);
    json_t *j = bench_record_begin(bench, "comm", test->name);
    if (j) {
        json_int(j, "bytes", c->n_bytes);
        json_int(j, "count", c->count);
        json_string(j, "datatype", collective_type_names[c->what.type]);
        json_string(j, "redop", test->reduces ? collective_op_names[c->what.op] : "none");
        json_int(j, "root", test->rooted ? c->session->options->root : -1);
        json_bool(j, "in_place", c->in_place);
        json_string(j, "communicator", c->what.lane->by->name);
        json_int(j, "ranks", bench->comm->size);
        json_int(j, "hosts", bench->comm->topo.n_hosts);
        if (a >= 0) json_int(j, "rank_a", a);
        if (b >= 0) json_int(j, "rank_b", b);
    }
    bench_record_metrics(bench);
    if (j) {
        json_real(j, "algbw_gbs", rate->algbw_gbs);
        json_real(j, "busbw_gbs", rate->busbw_gbs);
        if (c->what.test == COMM_TEST_BISECTION)
            json_real(j, "bisection_gbs", rate->busbw_gbs * (bench->comm->size / 2));
        if (n_wrong >= 0)
            json_int(j, "wrong", n_wrong);
        else
            json_string(j, "wrong", NULL);
        if (c->session->line_rate_gbs > 0)
            json_real(j, "line_rate_gbs", c->session->line_rate_gbs);
        else
            json_string(j, "line_rate_gbs", NULL);
        json_bool(j, "above_line_rate", rate->above_line_rate);
        json_string(j, "algorithm", algorithm);
    }
    return bench_record_end(bench, result);
}
