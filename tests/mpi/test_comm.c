/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3,4
 *
 * The communicator over MPI, or the one named by the first argument, on exactly representable data. */
#include <string.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/device.h"
#include "cluster/watch/watchdog.h"
#include "tests/mpi/everyone.h"

/* Larger than one internal MPI call (32 MiB), and not a multiple of it. */
enum { LARGE_BYTES = (32 << 20) + 12 };

static const int64_t counts[] = {0, 1, 2, 3, 7, 1000, 4097, 1000003};
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* Integers between -8 and 8, different on each rank. */
static int64_t value(int rank, int64_t i)
{
    return (i * 7 + rank * 5) % 16 - 8;
}

static void store(void *data, dtype_t dtype, int64_t i, int64_t v)
{
    switch (dtype) {
    case DTYPE_F32:
        ((float *)data)[i] = (float)v;
        break;
    case DTYPE_F64:
        ((double *)data)[i] = (double)v;
        break;
    case DTYPE_I32:
        ((int32_t *)data)[i] = (int32_t)v;
        break;
    default:
        ((int64_t *)data)[i] = v;
    }
}

static double load(const void *data, dtype_t dtype, int64_t i)
{
    switch (dtype) {
    case DTYPE_F32:
        return (double)((const float *)data)[i];
    case DTYPE_F64:
        return ((const double *)data)[i];
    case DTYPE_I32:
        return ((const int32_t *)data)[i];
    default:
        return (double)((const int64_t *)data)[i];
    }
}

static double expected(comm_op_t op, int size, int64_t i)
{
    int64_t result = value(0, i);
    for (int r = 1; r < size; r++) {
        int64_t v = value(r, i);
        if (op == COMM_SUM) result += v;
        if (op == COMM_MAX && v > result) result = v;
        if (op == COMM_MIN && v < result) result = v;
    }
    return (double)result;
}

/* One allreduce of `count` in place; the element after the end must keep its value. */
static bool allreduce_is_right(comm_t *comm, void *data, int64_t count, dtype_t dtype, comm_op_t op)
{
    for (int64_t i = 0; i < count; i++) store(data, dtype, i, value(comm->rank, i));
    store(data, dtype, count, 99);
    if (comm_allreduce(comm, data, count, dtype, op, "a test's allreduce") != ERR_OK) return false;
    int64_t n_wrong = load(data, dtype, count) != 99;
    for (int64_t i = 0; i < count; i++) n_wrong += load(data, dtype, i) != expected(op, comm->size, i);
    return n_wrong == 0;
}

static void test_allreduce(comm_t *comm, char *data)
{
    static const char *const op_names[] = {"sum", "max", "min"};
    for (dtype_t dtype = DTYPE_F32; dtype <= DTYPE_I64; dtype++)
        for (comm_op_t op = COMM_SUM; op <= COMM_MIN; op++) {
            bool right = true;
            for (int k = 0; k < N_COUNTS; k++) right &= allreduce_is_right(comm, data, counts[k], dtype, op);
            OK_ALL(right, "allreduce %s of %s, every length", op_names[op], dtype_name(dtype));
        }
    OK_ALL(allreduce_is_right(comm, data, LARGE_BYTES / 4, DTYPE_F32, COMM_SUM),
           "allreduce longer than one MPI call");
}

static bool broadcast_is_right(comm_t *comm, char *data, int64_t n_bytes, int root)
{
    for (int64_t i = 0; i <= n_bytes; i++) data[i] = (char)(i % 251 + comm->rank);
    char behind = data[n_bytes];
    if (comm_broadcast(comm, data, n_bytes, root, "a test's broadcast") != ERR_OK) return false;
    int64_t n_wrong = data[n_bytes] != behind;
    for (int64_t i = 0; i < n_bytes; i++) n_wrong += data[i] != (char)(i % 251 + root);
    return n_wrong == 0;
}

static void test_broadcast(comm_t *comm, char *data)
{
    bool right = true;
    for (int root = 0; root < comm->size; root++)
        for (int k = 0; k < N_COUNTS; k++) right &= broadcast_is_right(comm, data, counts[k], root);
    OK_ALL(right, "broadcast from each rank, every length");
    OK_ALL(broadcast_is_right(comm, data, LARGE_BYTES, comm->size - 1), "broadcast longer than one MPI call");
}

static bool gathered_is_right(const comm_t *comm, const char *recv, int64_t n_bytes)
{
    int64_t n_wrong = 0;
    for (int r = 0; r < comm->size; r++)
        for (int64_t i = 0; i < n_bytes; i++) n_wrong += recv[r * n_bytes + i] != (char)(i % 127 + 3 * r);
    return n_wrong == 0;
}

static bool allgather_is_right(comm_t *comm, int64_t n_bytes, bool in_place)
{
    char *recv = NULL, *send = NULL;
    if (mem_new((size_t)(comm->size * n_bytes), "test", &recv) != ERR_OK) return false;
    if (!in_place && mem_new((size_t)n_bytes, "test", &send) != ERR_OK) return false;
    char *from = in_place ? recv + comm->rank * n_bytes : send;
    for (int64_t i = 0; i < n_bytes; i++) from[i] = (char)(i % 127 + 3 * comm->rank);
    bool right = comm_allgather(comm, from, n_bytes, recv, "a test's allgather") == ERR_OK &&
                 gathered_is_right(comm, recv, n_bytes);
    mem_free(&send);
    mem_free(&recv);
    return right;
}

static void test_allgather(comm_t *comm)
{
    bool right = true, in_place = true;
    for (int k = 0; k < N_COUNTS; k++) {
        right &= allgather_is_right(comm, counts[k], false);
        in_place &= allgather_is_right(comm, counts[k], true);
    }
    OK_ALL(right, "allgather in rank order, every length");
    OK_ALL(in_place, "allgather in place");
    OK_ALL(allgather_is_right(comm, LARGE_BYTES, false), "allgather longer than one MPI call");
}

/* Bytes of a rank's piece: different on all ranks, and none on the one in the middle. */
static int64_t piece_bytes(const comm_t *comm, int rank, int64_t n)
{
    return comm->size > 2 && rank == comm->size / 2 ? 0 : n * (rank + 1) / comm->size + rank % 2;
}

static bool allgatherv_is_right(comm_t *comm, int64_t n, bool in_place)
{
    int64_t n_bytes[4], total = 0, own = 0, n_wrong = 0;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank) own = total;
        n_bytes[r] = piece_bytes(comm, r, n);
        total += n_bytes[r];
    }
    char *recv = NULL, *send = NULL;
    if (mem_new((size_t)total + 1, "test", &recv) != ERR_OK) return false;
    if (!in_place && mem_new((size_t)n_bytes[comm->rank], "test", &send) != ERR_OK) return false;
    char *from = in_place ? recv + own : send;
    for (int64_t i = 0; i < n_bytes[comm->rank]; i++) from[i] = (char)(i % 127 + 3 * comm->rank);
    recv[total] = 99;
    long long sequence = watchdog_sequence();
    bool right = comm_allgatherv(comm, from, n_bytes, recv, "a test's allgatherv") == ERR_OK &&
                 recv[total] == 99 && watchdog_sequence() == sequence + 1;
    const char *piece = recv;
    for (int r = 0; r < comm->size; piece += n_bytes[r++])
        for (int64_t i = 0; i < n_bytes[r]; i++) n_wrong += piece[i] != (char)(i % 127 + 3 * r);
    mem_free(&send);
    mem_free(&recv);
    return right && n_wrong == 0;
}

static void test_allgatherv(comm_t *comm)
{
    bool right = true, in_place = true;
    for (int k = 0; k < N_COUNTS; k++) {
        right &= allgatherv_is_right(comm, counts[k], false);
        in_place &= allgatherv_is_right(comm, counts[k], true);
    }
    OK_ALL(right, "allgatherv: pieces of different sizes, each one wait of the watchdog");
    OK_ALL(in_place, "allgatherv in place");
    OK_ALL(allgatherv_is_right(comm, 2 * (int64_t)LARGE_BYTES, false) &&
               allgatherv_is_right(comm, 2 * (int64_t)LARGE_BYTES, true),
           "allgatherv longer than one MPI call");
}

static bool alltoall_is_right(comm_t *comm, int64_t n_bytes)
{
    char *send = NULL, *recv = NULL;
    size_t n_all = (size_t)(comm->size * n_bytes);
    if (mem_new(n_all, "test", &send) != ERR_OK || mem_new(n_all, "test", &recv) != ERR_OK) return false;
    for (int r = 0; r < comm->size; r++)
        for (int64_t i = 0; i < n_bytes; i++)
            send[r * n_bytes + i] = (char)(i % 127 + 3 * comm->rank + 7 * r);
    bool right = comm_alltoall(comm, send, n_bytes, recv, "a test's alltoall") == ERR_OK;
    for (int r = 0; r < comm->size; r++)
        for (int64_t i = 0; i < n_bytes; i++)
            right &= recv[r * n_bytes + i] == (char)(i % 127 + 3 * r + 7 * comm->rank);
    mem_free(&send);
    mem_free(&recv);
    return right;
}

static void test_alltoall(comm_t *comm)
{
    bool right = true;
    for (int k = 0; k < N_COUNTS; k++) right &= alltoall_is_right(comm, counts[k]);
    OK_ALL(right, "alltoall, every length");
}

/* Ranks from `first` on fail, with ascending codes. */
static err_t some_fail(const comm_t *comm, int first)
{
    if (comm->rank < first) return ERR_OK;
    return err_raise(comm->rank == comm->size - 1 ? ERR_SYSTEM : ERR_DATA, __FILE__, __LINE__,
                     "trouble at %d", comm->rank);
}

static void test_agree(comm_t *comm)
{
    OK_ALL(comm_agree(comm, ERR_OK, "agreeing") == ERR_OK, "agree: no rank failed");
    bool codes = true, messages = true;
    for (int first = 0; first < comm->size; first++) {
        err_t agreed = comm_agree(comm, some_fail(comm, first), "agreeing");
        char wanted[128];
        snprintf(wanted, sizeof wanted, "rank %d on %s: trouble at %d", first, comm->topo.host_name, first);
        if (comm->size == 1) strcpy(wanted, "trouble at 0");
        codes &= agreed == ERR_SYSTEM;
        messages &= strcmp(err_message(), wanted) == 0;
    }
    OK_ALL(codes, "agree: one or more failed: all return the worst code");
    OK_ALL(messages, "agree: all get the lowest failing rank's message, with rank and host");

    int middle = comm->size / 2;
    err_t mine = comm->rank == middle ? err_raise(ERR_DATA, __FILE__, __LINE__, "only here") : ERR_OK;
    err_t agreed = comm_agree(comm, mine, "agreeing");
    OK_ALL(agreed == ERR_DATA && strstr(err_message(), "only here"), "agree: a rank in the middle failed");

    mine = err_raise(ERR_DATA, __FILE__, __LINE__, "no data in /nowhere");
    agreed = comm_agree(comm, mine, "agreeing");
    OK_ALL(agreed == ERR_DATA && strcmp(err_message(), "no data in /nowhere") == 0,
           "agree: the same failure on all ranks keeps its message");
    OK_ALL(comm_agree(comm, ERR_OK, "agreeing") == ERR_OK, "agree: an earlier failure is not repeated");
}

static void test_decide(comm_t *comm)
{
    char text[64], wanted[160];
    long long sequence = watchdog_sequence();
    snprintf(text, sizeof text, "of rank %d", comm->rank);
    err_t err = comm_decide(comm, ERR_OK, text, sizeof text, "deciding");
    OK_ALL(err == ERR_OK && strcmp(text, "of rank 0") == 0 && watchdog_sequence() == sequence + 1,
           "decide: all get rank 0's data, in one wait");

    err = comm->rank == 0 ? err_raise(ERR_DATA, __FILE__, __LINE__, "no data in /nowhere") : ERR_OK;
    err = comm_decide(comm, err, text, sizeof text, "deciding");
    snprintf(wanted, sizeof wanted, "rank 0 on %s: no data in /nowhere", comm->places[0].host);
    if (comm->size == 1) strcpy(wanted, "no data in /nowhere");
    OK_ALL(err == ERR_DATA && comm->agreed == ERR_DATA && strcmp(err_message(), wanted) == 0,
           "decide: all fail with rank 0's message, with rank and host");
}

static bool is_zero(const comm_buffer_t *buffer)
{
    const char *bytes = buffer->data;
    size_t n_wrong = 0;
    for (size_t i = 0; i < buffer->n_bytes; i++) n_wrong += bytes[i] != 0;
    return n_wrong == 0;
}

/* In pieces, in any order, on other cache lines than the whole; what is not summed keeps its value. */
static void test_pieces(comm_t *comm)
{
    enum { N = 5003 };
    static const int64_t at[] = {3001, 17, 2}, lengths[] = {2001, 2984, 15};
    comm_buffer_t buffer = {0};
    bool ok = comm_buffer_new(comm, N * sizeof(float), &buffer) == ERR_OK;
    float *values = buffer.data;
    for (int64_t i = 0; ok && i < N; i++) values[i] = (float)value(comm->rank, i);
    for (int p = 0; ok && p < 3; p++) ok = comm_buffer_begin(comm, &buffer, at[p], lengths[p]) == ERR_OK;
    OK_ALL(ok && comm_buffer_finish(comm, &buffer) == ERR_OK, "sums of pieces of a buffer");
    int64_t n_wrong = 0;
    for (int64_t i = 0; ok && i < N; i++) {
        bool summed = (i >= 2 && i < 3001) || (i >= 3001 && i < 5002);
        n_wrong +=
            (double)values[i] != (summed ? expected(COMM_SUM, comm->size, i) : (double)value(comm->rank, i));
    }
    OK_ALL(n_wrong == 0, "are right");
    comm_buffer_free(comm, &buffer);
}

/* Two at once, of different odd sizes, to detect overlapping parts. */
static void test_buffers(comm_t *comm)
{
    enum { N_A = 100003, N_B = 7 };
    comm_buffer_t a = {0}, b = {0};
    OK_ALL(comm_buffer_new(comm, (N_A + 1) * sizeof(float), &a) == ERR_OK, "a buffer");
    OK_ALL(comm_buffer_new(comm, (N_B + 1) * sizeof(double), &b) == ERR_OK, "a second one");
    OK_ALL((uintptr_t)a.data % MEM_ALIGN == 0 && (uintptr_t)b.data % MEM_ALIGN == 0, "both are aligned");
    OK_ALL(is_zero(&a) && is_zero(&b), "both are zero");
    int shared = a.shared, first = shared;
    MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);
    OK_ALL(shared == first && (!a.shared || comm->topo.max_local_size > 1), "all ranks share or none does");
    struct statvfs fs;
    bool room = statvfs("/dev/shm", &fs) == 0 && fs.f_bavail * fs.f_frsize > 256 << 20;
    bool library = comm->gradients != comm->ops->gradients;
    OK_ALL(a.shared || comm->topo.max_local_size == 1 || !room || library,
           "shared where a host has several ranks and room");

    memset(b.data, comm->rank + 1, b.n_bytes);
    OK_ALL(allreduce_is_right(comm, a.data, N_A, DTYPE_F32, COMM_SUM), "allreduce inside the first");
    bool kept = true;
    for (size_t i = 0; i < b.n_bytes; i++) kept &= ((char *)b.data)[i] == (char)(comm->rank + 1);
    OK_ALL(kept, "the second kept this rank's own values");
    OK_ALL(allreduce_is_right(comm, b.data, N_B, DTYPE_F64, COMM_MAX), "allreduce inside the second");
    comm_buffer_free(comm, &a);
    comm_buffer_free(comm, &b);
    comm_buffer_free(comm, &b);
    OK_ALL(!a.data && !b.data, "both are freed");
}

/* The collectives of a training step do not allocate. */
static void test_no_allocation(comm_t *comm, char *data)
{
    int64_t before = mem_count();
    err_t err = ERR_OK;
    for (int i = 0; i < 20; i++) {
        watchdog_phase("step %d", i);
        err |= comm_allreduce(comm, data, 5000, DTYPE_F32, COMM_SUM, "a test's allreduce");
        err |= comm_agree(comm, ERR_OK, "agreeing");
    }
    OK_ALL(err == ERR_OK && mem_count() == before, "a step allocates nothing");
}

/* A communicator of the first ranks works like the whole one, while the others sleep. */
static void test_subsets(comm_t *comm)
{
    for (int n = 1; n <= 4; n++) {
        comm_t *part = NULL;
        comm_buffer_t buffer = {0};
        int k = n < comm->size ? n : comm->size;
        bool mine = comm_subset(comm, k, &part) == ERR_OK && (part != NULL) == (comm->rank < k);
        int64_t sum = comm->rank + 1;
        if (mine && part) {
            mine = part->rank == comm->rank && part->size == k &&
                   comm_allreduce(part, &sum, 1, DTYPE_I64, COMM_SUM, "a test") == ERR_OK &&
                   sum == k * (k + 1) / 2 && comm_buffer_new(part, 40000, &buffer) == ERR_OK;
            float *values = buffer.data;
            for (int i = 0; mine && i < 10000; i++) values[i] = (float)(comm->rank + i);
            mine = mine && comm_buffer_allreduce(part, &buffer, 10000, "a test") == ERR_OK;
            for (int i = 0; mine && i < 10000; i++)
                mine = !(values[i] > (float)(k * i + k * (k - 1) / 2)) &&
                       !(values[i] < (float)(k * i + k * (k - 1) / 2));
            comm_buffer_free(part, &buffer);
        }
        comm_close(&part);
        OK_ALL(mine && !part && comm_barrier_asleep(comm, "a test") == ERR_OK, "a subset of %d ranks", n);
    }
    comm_t *alone = NULL;
    OK_ALL(comm_alone(&alone) == ERR_OK && alone->size == 1 && alone->rank == 0, "a rank alone");
    comm_close(&alone);
    /* Ranks that waited different numbers of times have equal sequence numbers again. */
    long long all[4] = {0}, sequence = watchdog_sequence();
    OK_ALL(comm_allgather(comm, &sequence, sizeof sequence, all, "a test") == ERR_OK && all[0] > 0,
           "sequences");
    bool same = true;
    for (int r = 1; r < comm->size; r++) same &= all[r] == all[0];
    OK_ALL(same, "are the same on all ranks");
}

static bool places_are_right(comm_t *comm)
{
    int32_t hosts[4] = {0}, mine = comm->topo.host;
    bool right = comm_allgather(comm, &mine, sizeof mine, hosts, "a test") == ERR_OK;
    for (int r = 0; r < comm->size; r++) right &= comm->places[r].host_index == hosts[r];
    return right && strcmp(comm->places[comm->rank].host, comm->topo.host_name) == 0;
}

int main(int argc, char **argv)
{
    comm_t *comm = NULL;
    comm_options_t options = {.name = argc > 1 ? argv[1] : "mpi", .timeout_sec = 60, .abort_job = abort_job};
    err_t err = comm_open(&options, &comm);
    tap_quiet = !log_speaks();
    tap_plan(58);
    OK_CALL(err, "open");
    if (err != ERR_OK) return 1;
    int size;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    OK_ALL(comm->size == size && comm->topo.size == size && comm->rank == comm->topo.rank, "rank and size");
    OK_ALL(places_are_right(comm), "the places of all ranks");
    OK_ALL(strcmp(comm->ops->name, "mpi") == 0 && strcmp(comm_gradients_name(comm), options.name) == 0,
           "it describes itself");
    OK_ALL(comm_barrier(comm, "a test's barrier") == ERR_OK, "barrier");
    char *data = NULL;
    OK_ALL(mem_new(LARGE_BYTES + 64, "test", &data) == ERR_OK, "memory");
    test_allreduce(comm, data);
    test_broadcast(comm, data);
    test_allgather(comm);
    test_allgatherv(comm);
    test_alltoall(comm);
    test_agree(comm);
    test_decide(comm);
    test_buffers(comm);
    test_pieces(comm);
    test_subsets(comm);
    test_no_allocation(comm, data);
    mem_free(&data);
    comm_close(&comm);
    comm_close(&comm);
    int ended;
    MPI_Finalized(&ended);
    OK(!comm && ended, "closed, and MPI with it");
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
