/* SPDX-License-Identifier: MIT */
/* A collective call of `bench comm`: runs it, verifies the result (comm_check.c), computes bandwidths
 * and writes the record. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tools/bench/comm_case.h"

const char *const comm_by_names[COMM_BYS] = {"mpi", "host", "nccl"};

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
    if (what->by == COMM_BY_HOST) return ERR_OK;
    bool on_device = what->by == COMM_BY_NCCL;
    const collective_spec_t spec = {
        .kind = test->kind,
        .type = what->type,
        .op = what->op,
        .root = test->rooted ? (int)session->options->root : 0,
        .peer = what->peer,
        .count = count,
        .send = in_place    ? NULL
                : on_device ? session->device_send.device
                            : session->send,
        .recv = on_device ? session->device_recv.device : session->recv,
        .on_device = on_device,
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

static err_t run_host(void *context)
{
    const comm_call_t *c = context;
    return comm_buffer_allreduce(c->session->bench->comm, &c->session->shared, c->count, "all_reduce");
}

/* Calls the collective as directly as possible: short ones take about 1 µs. */
bench_work_t comm_call_work(comm_call_t *call, const char *what)
{
    if (call->collective)
        return (bench_work_t){.what = what,
                              .context = call->collective,
                              .run = run_collective,
                              .finish = call->what.by == COMM_BY_NCCL ? wait_collective : NULL};
    return (bench_work_t){.what = what, .context = call, .run = run_host};
}

void comm_call_free(comm_call_t *call)
{
    collective_free(&call->collective);
}

/* The host side of the buffers: inputs are generated and results compared there. */
static char *host_recv(const comm_call_t *c)
{
    const comm_session_t *s = c->session;
    return c->what.by == COMM_BY_HOST   ? s->shared.data
           : c->what.by == COMM_BY_NCCL ? s->device_recv.host
                                        : s->recv;
}

static char *host_send(const comm_call_t *c)
{
    return c->what.by == COMM_BY_NCCL ? c->session->device_send.host : c->session->send;
}

/* Copy the buffers to the GPU and back, for NCCL. */
static err_t push_buffers(const comm_call_t *c)
{
    const comm_session_t *s = c->session;
    if (c->what.by != COMM_BY_NCCL) return ERR_OK;
    TRY(hd_buffer_push(&s->device_recv, 0, (size_t)c->n_bytes));
    if (!c->in_place) TRY(hd_buffer_push(&s->device_send, 0, (size_t)c->n_bytes));
    return backend_sync(s->bench->runtime.backend);
}

static err_t pull_buffers(const comm_call_t *c)
{
    const comm_session_t *s = c->session;
    if (c->what.by != COMM_BY_NCCL) return ERR_OK;
    TRY(hd_buffer_pull(&s->device_recv, 0, (size_t)c->n_bytes));
    return c->in_place ? ERR_OK : hd_buffer_pull(&s->device_send, 0, (size_t)c->n_bytes);
}

static char *input_at(const comm_call_t *c)
{
    int64_t n_piece = c->count * (int64_t)collective_type_size(c->what.type);
    if (!c->in_place) return host_send(c);
    bool own_place = comm_tests[c->what.test].kind == COLLECTIVE_ALL_GATHER;
    return host_recv(c) + (own_place ? c->session->bench->comm->rank * n_piece : 0);
}

static char *result_at(const comm_call_t *c)
{
    bool is_root = c->session->bench->comm->rank == c->session->options->root;
    collective_kind_t kind = comm_tests[c->what.test].kind;
    bool own_input = (kind == COLLECTIVE_BROADCAST && is_root) || (kind == COLLECTIVE_REDUCE && !is_root);
    if (own_input && !c->in_place) return host_send(c);
    bool own_place = c->what.by == COMM_BY_NCCL && kind == COLLECTIVE_REDUCE_SCATTER && c->in_place;
    int64_t n_piece = c->count * (int64_t)collective_type_size(c->what.type);
    return host_recv(c) + (own_place ? c->session->bench->comm->rank * n_piece : 0);
}

static void fill_buffers(const comm_call_t *c, int byte)
{
    memset(host_recv(c), byte, (size_t)c->n_bytes);
    if (!c->in_place) memset(host_send(c), byte, (size_t)c->n_bytes);
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
    TRY(push_buffers(c));
    TRY(work.run(work.context));
    if (work.finish) TRY(work.finish(work.context));
    TRY(pull_buffers(c));
    char *result = result_at(c);
    inject_fault(c, &check, result);
    int64_t n_mine = comm_check_count_wrong(&check, result, &first);
    *n_wrong = n_mine;
    TRY(comm_allreduce(comm, n_wrong, 1, DTYPE_I64, COMM_SUM, "counting wrong elements"));
    if (*n_wrong > 0) {
        s->bench->failed_check = true;
        TRY(name_first_wrong(c, &check, result, n_mine, first));
    }
    /* Zeros stay zeros however often they are summed in place; other values would turn into infinities or
     * denormals, which take longer. */
    fill_buffers(c, 0);
    return push_buffers(c);
}

comm_rate_t comm_rate(comm_session_t *session, const comm_call_t *call, double sec, bool remote)
{
    double algbw = (double)call->n_bytes / sec / 1e9;
    comm_rate_t rate = {.algbw_gbs = algbw,
                        .busbw_gbs = algbw * comm_busbw_factor(call->what.test, session->bench->comm->size)};
    rate.above_line_rate = remote && session->line_rate_gbs > 0 && rate.busbw_gbs > session->line_rate_gbs;
    session->above_line_rate |= rate.above_line_rate;
    return rate;
}

void comm_algorithm_text(const comm_session_t *s, comm_by_t by, char *out, size_t n_bytes)
{
    if (by == COMM_BY_NCCL)
        collective_device_transport(s->bench->comm, out, n_bytes);
    else if (by == COMM_BY_MPI)
        snprintf(out, n_bytes, "mpi, %s", s->transport);
    else
        snprintf(out, n_bytes, "host, shared buffer%s%s", s->bench->comm->topo.n_hosts > 1 ? " + " : "",
                 s->bench->comm->topo.n_hosts > 1 ? s->transport : "");
}

err_t comm_record(const comm_call_t *c, const bench_result_t *result, const comm_rate_t *rate,
                  int64_t n_wrong, int a, int b)
{
    bench_t *bench = c->session->bench;
    const comm_test_info_t *test = &comm_tests[c->what.test];
    c->session->n_measured++;
    char algorithm[128];
    comm_algorithm_text(c->session, c->what.by, algorithm, sizeof algorithm);
    json_t *j = bench_record_begin(bench, "comm", test->name);
    if (j) {
        json_int(j, "bytes", c->n_bytes);
        json_int(j, "count", c->count);
        json_string(j, "datatype", collective_type_names[c->what.type]);
        json_string(j, "redop", test->reduces ? collective_op_names[c->what.op] : "none");
        json_int(j, "root", test->rooted ? c->session->options->root : -1);
        json_bool(j, "in_place", c->in_place);
        json_string(j, "communicator", comm_by_names[c->what.by]);
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
