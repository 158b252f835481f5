/* SPDX-License-Identifier: MIT */
/* The check `transport`: sends data through MPI and NCCL while watching port counters (fabric.c) and library
 * logs. transport_judge.c reports findings. */
#include "tools/check/transport.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/collective.h"
#include "cluster/comm/device.h"
#include "tools/check/cases.h"

static const char net_folder[] = "/sys/class/net";
static const char what[] = "detecting the transport";

/* Messages grow until the total stands out from other traffic, or enough time has passed. */
enum { FIRST_BYTES = 256 << 10, LAST_BYTES = 8 << 20, ENOUGH_BYTES = 64 << 20 };
static const double enough_sec = 0.3;
/* Some drivers update their counters once a second. */
static const double counters_sec = 2.5;

enum { BUFFER_BYTES = 32 << 20, N_SUMS = 4 };

typedef struct ring {
    comm_t *comm;
    char *send, *recv;
    int n_out; /* ranks of this host that send to another host */
    int64_t sent;
} ring_t;

static int count_out(const check_t *check)
{
    int n = 0, size = check->comm->size;
    for (int r = 0; r < size; r++)
        n += check->ranks[r].host == check->host && check->ranks[(r + 1) % size].host != check->host;
    return n;
}

/* Collective. */
static err_t send_once(ring_t *ring, int64_t n_bytes)
{
    collective_t *call = NULL;
    const collective_spec_t spec = {.kind = COLLECTIVE_SENDRECV,
                                    .type = COLLECTIVE_INT8,
                                    .count = n_bytes,
                                    .send = ring->send,
                                    .recv = ring->recv,
                                    .what = what};
    TRY(comm_agree(ring->comm, collective_new(ring->comm, &spec, &call), what));
    err_t err = collective_run(call);
    collective_free(&call);
    ring->sent += ring->n_out * n_bytes;
    return err;
}

/* Collective. */
static err_t send_round(ring_t *ring)
{
    double start = clock_sec(), took = 0;
    int64_t n_bytes = FIRST_BYTES, total = 0;
    while (total < ENOUGH_BYTES && took < enough_sec) {
        TRY(send_once(ring, n_bytes));
        total += n_bytes;
        if (n_bytes < LAST_BYTES) n_bytes *= 2;
        took = clock_sec() - start;
        TRY(comm_allreduce(ring->comm, &took, 1, DTYPE_F64, COMM_MAX, what));
    }
    return ERR_OK;
}

static void read_fabric(const check_t *check, fabric_t *out)
{
    fabric_read(check->options->infiniband, net_folder, out);
}

/* Waits until a counter shows which ports sent n_bytes since `before`. */
static fabric_use_t find_use(const check_t *check, const fabric_t *before, int64_t n_bytes, bool sockets)
{
    fabric_t after;
    double deadline = clock_sec() + counters_sec;
    fabric_use_t use;
    do {
        read_fabric(check, &after);
        use = fabric_compare(before, &after, n_bytes, sockets);
        if (!use.known) clock_sleep(0.05);
    } while (!use.known && clock_sec() < deadline);
    return use;
}

/* Collective. */
static err_t watch_mpi(check_t *check, const fabric_t *before)
{
    ring_t ring = {.comm = check->comm, .n_out = count_out(check)};
    char reported[64];
    err_t err = mem_new(LAST_BYTES, "a message to the next rank", &ring.send);
    if (err == ERR_OK) err = mem_new(LAST_BYTES, "a message from the previous rank", &ring.recv);
    err = comm_agree(check->comm, err, what);
    if (err == ERR_OK) err = send_round(&ring);
    if (err == ERR_OK && check_host(check).speaks) {
        collective_transport(check->comm, reported, sizeof reported);
        bool sockets = strstr(reported, "tcp") != NULL;
        transport_judge(check, &(transport_facts_t){.name = "MPI",
                                                    .reported = reported,
                                                    .use = find_use(check, before, ring.sent, sockets),
                                                    .fabric = before,
                                                    .expected = check->options->expect_transport});
    }
    mem_free(&ring.send);
    mem_free(&ring.recv);
    return err;
}

/* Collective. */
static err_t sum_on_gpus(check_t *check)
{
    comm_t *comm = check->comm;
    comm_buffer_t buffer = {0};
    int64_t count = BUFFER_BYTES / (int64_t)sizeof(float);
    TRY(comm_buffer_new(comm, BUFFER_BYTES, &buffer));
    err_t err = ERR_OK;
    for (int i = 0; err == ERR_OK && i < N_SUMS; i++) err = comm_buffer_allreduce(comm, &buffer, count, what);
    if (err == ERR_OK) err = comm_agree(comm, check->backend->memory->sync(), what);
    comm_buffer_free(comm, &buffer);
    return err;
}

/* The kind of port in rank 0's NCCL log, shared by all ranks. */
typedef struct log_kind {
    int32_t known, kind;
} log_kind_t;

static err_t share_log(check_t *check, log_kind_t *out)
{
    debug_facts_t facts;
    fabric_kind_t kind = FABRIC_TCP;
    debug_log_read(&facts);
    *out = (log_kind_t){.known = transport_of_log(&facts, &kind)};
    out->kind = (int32_t)kind;
    return comm_broadcast(check->comm, out, sizeof *out, 0, what);
}

/* Collective, where all ranks have GPUs. */
static err_t watch_nccl(check_t *check)
{
    char reported[160];
    fabric_t before;
    log_kind_t log;
    TRY(runtime_use_device(check->comm, check->backend));
    if (!comm_on_device(check->comm)) {
        check_line(check, check_job(check), "NCCL", CHECK_SKIP, NULL, "gradients go through MPI");
        return ERR_OK;
    }
    read_fabric(check, &before);
    TRY(sum_on_gpus(check));
    TRY(share_log(check, &log));
    if (!check_host(check).speaks) return ERR_OK;
    comm_describe_gradients(check->comm, reported, sizeof reported);
    /* With any algorithm, each host sends the summed data at least once; half of it leaves a margin. */
    bool sockets = log.known && log.kind == FABRIC_TCP;
    fabric_use_t use = find_use(check, &before, (int64_t)N_SUMS * BUFFER_BYTES / 2, sockets);
    if (!use.known && log.known) use = (fabric_use_t){.known = true, .kind = (fabric_kind_t)log.kind};
    transport_judge(check, &(transport_facts_t){.name = "NCCL",
                                                .reported = reported,
                                                .use = use,
                                                .fabric = &before,
                                                .expected = check->options->expect_transport});
    return ERR_OK;
}

static err_t transport_run(check_t *check)
{
    fabric_t before;
    read_fabric(check, &before);
    transport_judge_devices(check, &before, check->options->expect_transport);
    if (check->n_hosts == 1) {
        check_line(check, check_job(check), "MPI", CHECK_SKIP, NULL, "one host");
        return ERR_OK;
    }
    TRY(watch_mpi(check, &before));
    return check->n_devices == check->comm->size ? watch_nccl(check) : ERR_OK;
}

const check_case_t check_transport = {"transport", "transport of MPI and NCCL between hosts", true,
                                      transport_run};
