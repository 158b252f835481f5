/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3,4
 *
 * Every collective that `bench comm` measures, of every type and with every operation, is correct out of
 * place and in place, in one call and in several. One flipped bit on any rank is detected. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "cluster/watch/watchdog.h"
#include "tests/mpi/everyone.h"
#include "tools/bench/comm.h"

enum { MAX_COUNT = 1000, GUARD = 16 };
#define N_TYPES COLLECTIVE_TYPES

static const char *const kind_names[COLLECTIVE_KINDS] = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",   "gather",
    "scatter",    "hypercube",  "alltoall",       "alltoallv", "sendrecv", "exchange",
};

static comm_t *comm;
static char *send, *recv; /* size × MAX_COUNT elements of 8 bytes, followed by GUARD */
static size_t n_room;
static uint64_t n_calls;

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static bool reduces(collective_kind_t kind)
{
    return kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_REDUCE;
}

/* Addresses of this rank's input and result, by collective.h's table. */
static char *input_of(const comm_check_t *c, bool in_place)
{
    bool own_place =
        c->kind == COLLECTIVE_ALL_GATHER || c->kind == COLLECTIVE_GATHER || c->kind == COLLECTIVE_HYPERCUBE;
    if (!in_place) return send;
    return recv + (own_place ? c->rank * c->count * (int64_t)collective_type_size(c->type) : 0);
}

static char *result_of(const comm_check_t *c, bool in_place)
{
    bool own_input = (c->kind == COLLECTIVE_BROADCAST && c->rank == c->root) ||
                     ((c->kind == COLLECTIVE_REDUCE || c->kind == COLLECTIVE_GATHER) && c->rank != c->root);
    bool own_place = c->kind == COLLECTIVE_SCATTER && in_place;
    if (own_input) return input_of(c, in_place);
    return recv + (own_place ? c->rank * c->count * (int64_t)collective_type_size(c->type) : 0);
}

static bool guard_is_whole(size_t n_used)
{
    bool whole = true;
    for (int i = 0; i < GUARD; i++) whole &= recv[n_used + (size_t)i] == 0x5a;
    return whole;
}

/* Checks one call; then flips one bit of one rank's result, which only that rank must detect. */
static bool call_is_right(const comm_check_t *check, bool in_place, int64_t chunk_bytes)
{
    comm_check_t c = *check;
    collective_t *collective = NULL;
    int64_t first, n_element = (int64_t)collective_type_size(c.type), n_piece = c.count * n_element;
    const collective_spec_t spec = {.kind = c.kind,
                                    .type = c.type,
                                    .op = c.op,
                                    .root = c.root,
                                    .peer = c.peer,
                                    .count = c.count,
                                    .send = in_place ? NULL : send,
                                    .recv = recv,
                                    .chunk_bytes = chunk_bytes,
                                    .what = "a test's collective"};
    c.seed = ++n_calls * 1234567891;
    memset(send, 0x5a, n_room);
    memset(recv, 0x5a, n_room);
    comm_check_fill(&c, input_of(&c, in_place));
    if (collective_new(comm, &spec, &collective) != ERR_OK) return false;
    bool right = collective_run(collective) == ERR_OK;
    collective_free(&collective);
    char *result = result_of(&c, in_place);
    int64_t n = comm_check_elements(&c);
    right &= comm_check_count_wrong(&c, result, &first) == 0;
    right &= guard_is_whole((size_t)n_piece * (size_t)c.size);
    if (n == 0) return right;
    int64_t at = (int64_t)(n_calls * 7919 % (uint64_t)n),
            bit = (int64_t)(n_calls % (uint64_t)(8 * n_element));
    if (c.rank == (int)(n_calls % (uint64_t)c.size)) {
        result[at * n_element + bit / 8] ^= (char)(1 << bit % 8);
        right &= comm_check_count_wrong(&c, result, &first) == 1 && first == at;
    } else {
        right &= comm_check_count_wrong(&c, result, &first) == 0;
    }
    return right;
}

/* The other end of an exchange; of an odd number of ranks, the one in the middle exchanges nothing. */
static int peer_of(int rank, int size)
{
    return size - 1 - rank;
}

static bool is_offered(collective_kind_t kind, bool in_place)
{
    if (kind == COLLECTIVE_HYPERCUBE && (comm->size & (comm->size - 1)) != 0) return false;
    return kind != COLLECTIVE_ALLTOALLV || !in_place;
}

static bool all_calls_are_right(collective_kind_t kind, collective_type_t type, collective_op_t op)
{
    static const int64_t counts[] = {0, 1, 23, MAX_COUNT};
    comm_check_t c = {.kind = kind, .type = type, .op = op, .rank = comm->rank, .size = comm->size};
    c.peer = peer_of(comm->rank, comm->size);
    bool right = true;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i += 1 + UNDER_SANITIZER)
        for (int in_place = 0; in_place < 2; in_place++)
            for (c.root = 0; c.root<comm->size; c.root += comm->size> 1 ? comm->size - 1 : 1) {
                if (!is_offered(kind, in_place)) continue;
                c.count = counts[i];
                right &= call_is_right(&c, in_place, 0);
                /* Neither 23 nor 1000 is a multiple of the calls' lengths: the last call is shorter. */
                right &= call_is_right(&c, in_place, 5 * (int64_t)collective_type_size(type));
            }
    return right;
}

/* Parts of an alltoallv: in proportion to the distance, as many received as sent, none to itself. */
static void test_parts(void)
{
    bool right = true;
    for (int size = 1; size <= 9; size++)
        for (int rank = 0; rank < size; rank++) {
            int64_t sent = 0, received = 0;
            for (int r = 0; r < size; r++) {
                sent += collective_part(4096, COLLECTIVE_FLOAT, rank, r, size);
                received += collective_part(4096, COLLECTIVE_FLOAT, r, rank, size);
            }
            right &= sent == received && sent <= 4096 * size && sent > 4096 * size - 4 * size;
            right &= size == 1 || collective_part(4096, COLLECTIVE_FLOAT, rank, rank, size) == 0;
        }
    OK_ALL(right, "every rank sends and receives as much, and all but a rest of 16 bytes each");
    OK_ALL(collective_part(100, COLLECTIVE_INT8, 3, 0, 4) == 64 &&
               collective_part(100, COLLECTIVE_INT8, 0, 3, 4) == 192 &&
               collective_part(100, COLLECTIVE_INT8, 0, 2, 4) == 128 &&
               collective_part(100, COLLECTIVE_INT8, 0, 0, 1) == 96,
           "400 bytes to distances 1, 2 and 3: sixths of them, rounded down to 16 bytes");
}

static void test_all(void)
{
    for (collective_kind_t kind = 0; kind < COLLECTIVE_KINDS; kind++)
        for (collective_type_t type = 0; type < N_TYPES; type++)
            for (collective_op_t op = 0; op < (reduces(kind) ? COLLECTIVE_OPS : 1); op++)
                OK_ALL(all_calls_are_right(kind, type, op), "%s of %s%s%s", kind_names[kind],
                       collective_type_names[type], reduces(kind) ? ", " : "",
                       reduces(kind) ? collective_op_names[op] : "");
}

/* A result that belongs to another rank. */
static void test_wrong_rank(void)
{
    comm_check_t c = {.kind = COLLECTIVE_ALL_GATHER,
                      .type = COLLECTIVE_INT32,
                      .rank = comm->rank,
                      .size = comm->size,
                      .count = 100,
                      .seed = 5};
    int64_t first, n_bytes = 100 * 4 * comm->size;
    for (int r = 0; r < comm->size; r++) {
        c.rank = comm->size - 1 - r;
        comm_check_fill(&c, recv + r * 400);
    }
    c.rank = comm->rank;
    bool is_other = comm->size > 1;
    OK_ALL((comm_check_count_wrong(&c, recv, &first) > 0) == is_other && n_bytes > 0,
           "pieces in the wrong order are detected");
}

/* What a benchmark finds: MPI, and the allreduce of gradient buffers where ranks share memory. */
static void test_offered(void)
{
    const collective_ops_t *offered[COLLECTIVE_MAX_OPS], *host;
    int n = collective_list(comm, offered);
    bool right = n == 2 && strcmp(offered[0]->name, "mpi") == 0 && strcmp(offered[1]->name, "host") == 0;
    OK_ALL(right && collective_find("mpi") == offered[0] && collective_find("host") == offered[1] &&
               !collective_find("smoke signals"),
           "the communicator lists what it offers");
    if (!right) return;
    host = offered[1];
    comm_buffer_t buffer = {0};
    collective_t *collective = NULL;
    comm_check_t c = {.kind = COLLECTIVE_ALL_REDUCE,
                      .type = COLLECTIVE_FLOAT,
                      .rank = comm->rank,
                      .size = comm->size,
                      .count = MAX_COUNT,
                      .seed = 7};
    int64_t first;
    err_t err = collective_open(comm, host, MAX_COUNT * sizeof(float), &buffer);
    if (comm->topo.max_local_size == 1) {
        OK_ALL(err == ERR_USAGE && strstr(err_message(), "no two ranks share memory"), "one rank: refused");
        comm_buffer_free(comm, &buffer);
        return;
    }
    const collective_spec_t spec = {.by = host,
                                    .count = MAX_COUNT,
                                    .type = COLLECTIVE_FLOAT,
                                    .buffer = &buffer,
                                    .recv = buffer.data,
                                    .what = "a test"};
    bool ok = err == ERR_OK && collective_new(comm, &spec, &collective) == ERR_OK;
    if (ok) comm_check_fill(&c, buffer.data);
    ok = ok && collective_run(collective) == ERR_OK && collective_wait(collective) == ERR_OK &&
         comm_check_count_wrong(&c, buffer.data, &first) == 0;
    OK_ALL(ok, "the sum of a gradient buffer as a single collective");
    collective_free(&collective);
    comm_buffer_free(comm, &buffer);
}

static void test_transport(void)
{
    char text[96] = "";
    collective_transport(comm, text, sizeof text);
    bool named = comm->size == 1 ? strcmp(text, "none") == 0 : text[0] != '\0';
    OK_ALL(named, "the transport has a name");
}

int main(void)
{
    comm_options_t options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    err_t err = comm_open(&options, &comm);
    tap_quiet = !log_speaks();
    tap_plan(3 * N_TYPES * COLLECTIVE_OPS + (COLLECTIVE_KINDS - 3) * N_TYPES + 8);
    if (err != ERR_OK) return 1;
    n_room = (size_t)comm->size * MAX_COUNT * 8 + GUARD;
    OK_ALL(mem_new(n_room, "test", &send) == ERR_OK && mem_new(n_room, "test", &recv) == ERR_OK, "memory");
    test_parts();
    test_all();
    test_wrong_rank();
    test_transport();
    test_offered();
    mem_free(&send);
    mem_free(&recv);
    comm_close(&comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
