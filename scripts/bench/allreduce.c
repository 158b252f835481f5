/* SPDX-License-Identifier: MIT */
/* Measures the allreduce of a shared gradient buffer through the host's memory against MPI_Allreduce in place
 * on the same buffer, and against an in-place add; prints a Markdown table. Run by
 * scripts/bench/allreduce.sh: mpirun -np N allreduce PAIRS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/isa.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stats.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/mpi/impl.h"

/* Seconds that one sample lasts, at least: longer than a clock tick and than a wake-up. */
static const double sample_sec = 2e-4;

enum { MAX_PAIRS = 1000, MIN_BYTES = 4, MAX_BYTES = 64 << 20, ADD_FROM = 1 << 16, ROW_FLOATS = 1 << 10 };

typedef enum way { HOST, MPI, ADD, N_WAYS } way_t;

typedef struct bench {
    comm_t *comm;
    comm_buffer_t buffer;
    int n_pairs;
    double sec[N_WAYS][MAX_PAIRS], ratio[MAX_PAIRS], floor[MAX_PAIRS];
} bench_t;

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* The second half of this rank's part onto the first, as many bytes as the rank's slice of the sum is. */
LOOP_CLONES(add_in_place, (float *restrict a, const float *restrict b, int64_t n), (a, b, n))
{
    for (int64_t i = 0; i < n; i++) a[i] += b[i];
}

static err_t call(bench_t *b, way_t way, int64_t count)
{
    float *data = b->buffer.data;
    switch (way) {
    case HOST:
        return comm_buffer_allreduce(b->comm, &b->buffer, count, "measuring the host's allreduce");
    case MPI:
        return mpi_check(MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
                         "MPI_Allreduce");
    default:
        add_in_place(data, data + count / 2, count / b->comm->size);
        return ERR_OK;
    }
}

/* Other values in the whole part, as a backward pass leaves them: they lie in this core's cache. */
static void refill(const bench_t *b, int64_t count)
{
    float *data = b->buffer.data;
    for (int64_t i = 0; i < count; i++) data[i] = (float)(i & 15);
}

/* Mean seconds of a call, of the slowest rank: of n in a row where a call takes less than a barrier's blur,
 * otherwise of n that each follow new data and a barrier. */
static err_t sample(bench_t *b, way_t way, int64_t count, int n, double *sec)
{
    *sec = 0;
    int n_rows = count < ROW_FLOATS ? 1 : n, n_calls = n / n_rows;
    for (int row = 0; row < n_rows; row++) {
        refill(b, count);
        TRY(comm_barrier(b->comm, "before a measurement"));
        double start = clock_sec();
        for (int i = 0; i < n_calls; i++) TRY(call(b, way, count));
        *sec += (clock_sec() - start) / n;
    }
    return mpi_check(MPI_Allreduce(MPI_IN_PLACE, sec, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD),
                     "MPI_Allreduce");
}

static void print_time(double sec)
{
    if (sec < 1e-5)
        printf(" %.2f µs |", 1e6 * sec);
    else if (sec < 1e-3)
        printf(" %.1f µs |", 1e6 * sec);
    else
        printf(" %.2f ms |", 1e3 * sec);
}

static void print_row(bench_t *b, int64_t n_bytes)
{
    int n = b->n_pairs, size = b->comm->size;
    bool with_add = n_bytes >= ADD_FROM;
    if (n_bytes < 1 << 10)
        printf("| %lld B |", (long long)n_bytes);
    else if (n_bytes < 1 << 20)
        printf("| %lld KB |", (long long)n_bytes >> 10);
    else
        printf("| %lld MB |", (long long)n_bytes >> 20);
    stats_sort(b->ratio, n);
    stats_sort(b->floor, n);
    double host = stats_median(b->sec[HOST], n), add = stats_median(b->sec[ADD], n);
    print_time(host);
    print_time(stats_median(b->sec[MPI], n));
    printf(" **%.2f** | %.2f to %.2f |", stats_median(b->ratio, n), stats_quantile(b->ratio, n, 0.25),
           stats_quantile(b->ratio, n, 0.75));
    double slice = (double)n_bytes / size;
    if (with_add)
        printf(" %.1f GB/s | %.1f GB/s | **%.2f** | %.2f to %.2f |\n", 2 * size * slice / host / 1e9,
               3 * slice / add / 1e9, stats_median(b->floor, n), stats_quantile(b->floor, n, 0.25),
               stats_quantile(b->floor, n, 0.75));
    else
        printf(" | | | |\n");
    fflush(stdout);
}

/* Pairs in the order A B, B A, so that a drift of the machine meets both alike. */
static err_t compare(bench_t *b, int64_t n_bytes)
{
    int64_t count = n_bytes / (int64_t)sizeof(float);
    int repeats[N_WAYS], size = b->comm->size;
    double sec;
    memset(b->buffer.data, 0, (size_t)n_bytes);
    for (way_t way = HOST; way < N_WAYS; way++) {
        TRY(sample(b, way, count, 10, &sec));
        if (n_bytes <= 1 << 20) TRY(sample(b, way, count, 10, &sec));
        double wanted = sample_sec / (sec > 1e-9 ? sec : 1e-9);
        repeats[way] = wanted < 1 ? 1 : wanted > 10000 ? 10000 : (int)wanted;
    }
    for (int i = 0; i < b->n_pairs; i++) {
        for (int k = 0; k < N_WAYS; k++) {
            way_t way = (way_t)(i % 2 ? N_WAYS - 1 - k : k);
            TRY(sample(b, way, count, repeats[way], &b->sec[way][i]));
        }
        b->ratio[i] = b->sec[MPI][i] / b->sec[HOST][i];
        b->floor[i] = 2.0 * size / 3.0 * b->sec[ADD][i] / b->sec[HOST][i];
    }
    if (log_speaks()) print_row(b, n_bytes);
    return ERR_OK;
}

static err_t run(bench_t *b)
{
    TRY(comm_buffer_new(b->comm, MAX_BYTES, &b->buffer));
    if (log_speaks())
        printf(
            "| size | host | MPI | ratio | middle half | host moves | an add moves | ratio | middle half |\n"
            "|---|---|---|---|---|---|---|---|---|\n");
    for (int64_t n_bytes = MIN_BYTES; n_bytes <= MAX_BYTES; n_bytes *= 4) TRY(compare(b, n_bytes));
    comm_buffer_free(b->comm, &b->buffer);
    return ERR_OK;
}

int main(int argc, char **argv)
{
    static bench_t b;
    if (argc != 2 || atoi(argv[1]) < 1 || atoi(argv[1]) > MAX_PAIRS) {
        fprintf(stderr, "usage: mpirun -np N allreduce PAIRS\n");
        return ERR_USAGE;
    }
    b.n_pairs = atoi(argv[1]);
    comm_options_t options = {.name = "mpi", .timeout_sec = 300, .allreduce = "host", .abort_job = abort_job};
    err_t err = comm_open(&options, &b.comm);
    if (err == ERR_OK) err = run(&b);
    if (err != ERR_OK) {
        fprintf(stderr, "allreduce: error: %s\n", err_message());
        abort_job(err);
    }
    comm_close(&b.comm);
    return ERR_OK;
}
