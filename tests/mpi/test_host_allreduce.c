/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3,4
 *
 * The allreduce of gradient buffers, through shared memory and through MPI, on integers whose sums are exact
 * in any order. The ranks are split into hosts of one and of two ranks. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cluster/comm/buffer.h"
#include "cluster/watch/watchdog.h"
#include "tests/mpi/everyone.h"

enum { MAX_COUNT = 1 << 20, N_GUARD = 16, N_CHANGES = 300 };

/* Around a cache line, around the size of a mailbox, beyond the inner caches. */
static const int64_t counts[] = {0, 1, 2, 15, 16, 17, 509, 510, 511, 512, 1000, 4097, 65537, MAX_COUNT};
enum { N_COUNTS = sizeof counts / sizeof counts[0], N_SHORT = N_COUNTS - 2 };

static const char what[] = "a test's allreduce";

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* Different for each rank, round and element; at most 16 in magnitude. */
static float value(int rank, int64_t round, int64_t i)
{
    return (float)((i * 7 + rank * 5 + round * 11) % 32 - 16);
}

static void fill(const comm_t *comm, comm_buffer_t *buffer, int64_t count, int64_t round)
{
    float *data = buffer->data;
    for (int64_t i = 0; i < count; i++) data[i] = value(comm->rank, round, i);
    for (int64_t i = count; i < count + N_GUARD; i++) data[i] = (float)(1000 + comm->rank);
}

static int64_t count_wrong(const comm_t *comm, const comm_buffer_t *buffer, int64_t count, int64_t round)
{
    const float *data = buffer->data;
    int64_t n_wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < comm->size; r++) sum += value(r, round, i);
        n_wrong += data[i] < sum || data[i] > sum || isnan(data[i]);
    }
    for (int64_t i = count; i < count + N_GUARD; i++)
        n_wrong += data[i] < (float)(1000 + comm->rank) || data[i] > (float)(1000 + comm->rank);
    return n_wrong;
}

static bool is_right(comm_t *comm, comm_buffer_t *buffer, int64_t count, int64_t round)
{
    fill(comm, buffer, count, round);
    err_t err = comm_buffer_allreduce(comm, buffer, count, what);
    return err == ERR_OK && count_wrong(comm, buffer, count, round) == 0;
}

/* Data and lengths change quickly, and ranks are late at random: a missing barrier would mix rounds. All
 * ranks draw the same lengths; each draws its own delays. */
static bool rounds_stay_apart(comm_t *comm, comm_buffer_t *buffer)
{
    rng_t same = rng_new(7, 0, 0), own = rng_new(8, 0, (uint64_t)comm->rank);
    bool right = true;
    for (int round = 0; round < N_CHANGES; round++) {
        int64_t count = counts[rng_below(&same, N_SHORT)];
        if (rng_below(&own, 16) == 0) clock_sleep(2e-4);
        right &= is_right(comm, buffer, count, round);
    }
    return right;
}

/* Sums whose last bit depends on the order: all ranks must get the same one. */
static bool same_bits(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    rng_t rng = rng_new(9, 0, (uint64_t)comm->rank);
    float *data = buffer->data, *first = NULL;
    for (int64_t i = 0; i < count; i++) data[i] = (float)(int64_t)rng_below(&rng, 1 << 24) * 1.7e-6f;
    if (comm_buffer_allreduce(comm, buffer, count, what) != ERR_OK ||
        mem_new_array(count, sizeof *first, "test", &first) != ERR_OK)
        return false;
    memcpy(first, data, (size_t)count * sizeof *first);
    MPI_Bcast(first, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    bool same = memcmp(first, data, (size_t)count * sizeof *first) == 0;
    mem_free(&first);
    return same;
}

/* A NaN of one rank, at the ends of the array and of slices, reaches all ranks. */
static bool nan_spreads(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    const int64_t places[] = {0, count / 2, count - 1};
    float *data = buffer->data;
    bool right = true;
    for (int k = 0; k < 3; k++) {
        fill(comm, buffer, count, k);
        if (comm->rank == k % comm->size) data[places[k]] = NAN;
        right &= comm_buffer_allreduce(comm, buffer, count, what) == ERR_OK && isnan(data[places[k]]);
        data[places[k]] = 0;
        for (int64_t i = 0; i < count; i++) right &= !isnan(data[i]);
    }
    return right;
}

/* An allreduce does not allocate. */
static bool allocates_nothing(comm_t *comm, comm_buffer_t *buffer)
{
    int64_t before = mem_count();
    bool right = true;
    for (int i = 0; i < 20; i++) right &= is_right(comm, buffer, counts[i % N_SHORT], i);
    return right && mem_count() == before;
}

static void check_buffer(comm_t *comm, comm_buffer_t *buffer, const char *label)
{
    bool right = true;
    for (int k = 0; k < N_COUNTS; k++) right &= is_right(comm, buffer, counts[k], k);
    OK_ALL(right, "%s: every length", label);
    OK_ALL(rounds_stay_apart(comm, buffer), "%s: rounds of changing length and data do not mix", label);
    OK_ALL(same_bits(comm, buffer, 200) && same_bits(comm, buffer, 65537), "%s: the same bits on all ranks",
           label);
    OK_ALL(nan_spreads(comm, buffer, 100) && nan_spreads(comm, buffer, 5000), "%s: NaN reaches all ranks",
           label);
    OK_ALL(allocates_nothing(comm, buffer), "%s: it does not allocate", label);
}

static bool timing_is_sound(const comm_buffer_t *buffer)
{
    const comm_timing_t *t = &buffer->timing;
    bool right = t->n_bytes == (int64_t)(MAX_COUNT * sizeof(float)) && t->host_sec > 0 && t->mpi_sec > 0;
    right &= comm_buffer_sec(buffer) == (buffer->by_host ? t->host_sec : t->mpi_sec);
    const float *data = buffer->data;
    for (int64_t i = 0; i < MAX_COUNT; i++) right &= !(data[i] < 0 || data[i] > 0);
    return right;
}

/* One communicator, opened and closed again. */
static void check_choice(const char *choice, int ranks_per_host)
{
    comm_t *comm = NULL;
    comm_buffer_t buffer, small;
    comm_options_t options = {.name = "mpi",
                              .timeout_sec = 60,
                              .allreduce = choice,
                              .ranks_per_host = ranks_per_host,
                              .abort_job = abort_job};
    char label[64];
    snprintf(label, sizeof label, "%s, %d ranks per host", choice, ranks_per_host);
    bool fine = comm_open(&options, &comm) == ERR_OK &&
                comm_buffer_new(comm, (MAX_COUNT + N_GUARD) * sizeof(float), &buffer) == ERR_OK &&
                comm_buffer_new(comm, (1000 + N_GUARD) * sizeof(float), &small) == ERR_OK;
    OK_ALL(fine, "%s: open", label);
    if (!fine) abort_job(ERR_SYSTEM);
    OK_ALL(comm_buffer_choose(comm, &buffer, MAX_COUNT) == ERR_OK, "%s: choose", label);
    bool can = comm->topo.max_local_size > 1;
    OK_ALL(strcmp(choice, "auto") != 0 || !can || timing_is_sound(&buffer),
           "%s: measured if there is a choice, and still zero", label);
    OK_ALL(strcmp(choice, "auto") == 0 || buffer.by_host == (can && strcmp(choice, "host") == 0),
           "%s: the requested algorithm is used", label);
    check_buffer(comm, &buffer, label);
    OK_ALL(is_right(comm, &small, 1000, 0) && is_right(comm, &buffer, 65537, 1) &&
               is_right(comm, &small, 16, 2),
           "%s: two buffers alternate", label);
    comm_buffer_free(comm, &small);
    comm_buffer_free(comm, &buffer);
    comm_close(&comm);
}

/* With one rank per host, --allreduce host is refused. */
static void check_refusal(void)
{
    comm_t *comm = NULL;
    comm_options_t options = {
        .name = "mpi", .timeout_sec = 60, .allreduce = "host", .ranks_per_host = 1, .abort_job = abort_job};
    OK_ALL(comm_open(&options, &comm) == ERR_USAGE && !comm && strstr(err_message(), "--allreduce host"),
           "--allreduce host with one rank per host is refused");
}

int main(int argc, char **argv)
{
    enum { PER_CHOICE = 10 };
    int size, level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    tap_quiet = !log_speaks();
    tap_plan(PER_CHOICE * (size > 1 ? 6 : 3) + 2);
    check_choice("auto", 0);
    check_choice("mpi", 0);
    check_choice("auto", 1);
    if (size > 1) {
        check_choice("host", 0);
        check_choice("auto", 2);
        check_choice("host", 2);
    }
    check_refusal();
    OK_ALL(mem_live() == 0, "all memory was freed");
    MPI_Finalize();
    return tap_done();
}
