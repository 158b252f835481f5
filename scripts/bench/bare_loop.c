/* SPDX-License-Identifier: MIT */
/* `bench comm`'s way of measuring MPI_Allreduce (collective_run under bench_measure) beside the least there
 * is: a loop of calls between two readings of the clock. Both in one process, on the same buffers, in turn,
 * so that they meet the same machine. Prints a row of a Markdown table for each size: mpirun -np N bare_loop
 * PAIRS. Exit code 1: a median is more than 2 % above the bare loop's. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stats.h"
#include "cluster/comm/collective.h"
#include "cluster/comm/mpi/impl.h"
#include "tools/bench/bench.h"

enum { MAX_PAIRS = 1001, BATCH = 100 };
static const int64_t sizes[] = {8, 1 << 10, 1 << 16, 1 << 20, 16 << 20};
static const double bar = 1.02;

typedef struct pairing {
    bench_t bench;
    collective_t *collective;
    float *send, *recv;
    int count;
    double ratio[MAX_PAIRS], bench_sec[MAX_PAIRS], bare_sec[MAX_PAIRS];
} pairing_t;

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static err_t run_collective(void *context)
{
    return collective_run(((pairing_t *)context)->collective);
}

static err_t by_bench(pairing_t *p, double *sec, int64_t *per_sample, int64_t *per_batch)
{
    bench_work_t work = {.what = "bench", .context = p, .run = run_collective};
    bench_result_t result;
    TRY(bench_measure(&p->bench, &work, 1, &result));
    *sec = result.p50;
    *per_sample = result.per_sample;
    *per_batch = result.n < BATCH ? result.n : BATCH;
    bench_result_free(&result);
    return ERR_OK;
}

/* As many samples of as many calls. */
static err_t by_loop(pairing_t *p, int64_t per_sample, int64_t per_batch, double *sec)
{
    double mine[BATCH], slowest[BATCH];
    E_MPI(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    for (int64_t i = 0; i < per_batch; i++) {
        double start = clock_sec();
        for (int64_t k = 0; k < per_sample; k++)
            MPI_Allreduce(p->send, p->recv, p->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        mine[i] = (clock_sec() - start) / (double)per_sample;
    }
    E_MPI(MPI_Allreduce(mine, slowest, (int)per_batch, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    *sec = stats_median(slowest, per_batch);
    return ERR_OK;
}

static err_t measure(pairing_t *p, int n_pairs)
{
    int64_t per_sample = 1, per_batch = 1;
    double unused;
    TRY(by_bench(p, &unused, &per_sample, &per_batch));
    for (int i = 0; i < n_pairs; i++) {
        int64_t s, b;
        /* A B, B A: a drift of the machine meets both alike. */
        if (i % 2) TRY(by_loop(p, per_sample, per_batch, &p->bare_sec[i]));
        TRY(by_bench(p, &p->bench_sec[i], &s, &b));
        if (i % 2 == 0) TRY(by_loop(p, per_sample, per_batch, &p->bare_sec[i]));
        p->ratio[i] = p->bench_sec[i] / p->bare_sec[i];
    }
    return ERR_OK;
}

/* *missed: the bar, on rank 0. */
static err_t size_row(pairing_t *p, int64_t n_bytes, int n_pairs, bool *missed)
{
    p->count = narrow_int(n_bytes / 4);
    collective_spec_t spec = {.kind = COLLECTIVE_ALL_REDUCE,
                              .type = COLLECTIVE_FLOAT,
                              .op = COLLECTIVE_SUM,
                              .count = p->count,
                              .send = p->send,
                              .recv = p->recv,
                              .what = "allreduce"};
    TRY(collective_new(p->bench.comm, &spec, &p->collective));
    err_t err = measure(p, n_pairs);
    collective_free(&p->collective);
    TRY(err);
    double median = stats_median(p->ratio, n_pairs);
    *missed |= median > bar;
    if (p->bench.comm->rank == 0)
        printf("| %lld | %.2f µs | %.2f µs | **%.3f** | %.3f to %.3f |\n", (long long)n_bytes,
               1e6 * stats_median(p->bench_sec, n_pairs), 1e6 * stats_median(p->bare_sec, n_pairs), median,
               stats_quantile(p->ratio, n_pairs, 0.25), stats_quantile(p->ratio, n_pairs, 0.75));
    return ERR_OK;
}

static err_t run(pairing_t *p, int n_pairs, bool *missed)
{
    size_t n_bytes = (size_t)sizes[sizeof sizes / sizeof sizes[0] - 1];
    TRY(mem_new(n_bytes, "a buffer", &p->send));
    TRY(mem_new(n_bytes, "a buffer", &p->recv));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) TRY(size_row(p, sizes[i], n_pairs, missed));
    return ERR_OK;
}

int main(int argc, char **argv)
{
    static pairing_t p;
    /* A batch or two of samples each time; never precise enough to end sooner. */
    bench_options_t options = {.budget_sec = 0.05, .precision = 1e-9};
    comm_options_t comm = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    int n_pairs = argc == 2 ? atoi(argv[1]) : 0;
    bool missed = false;
    if (n_pairs < 3 || n_pairs > MAX_PAIRS) {
        fprintf(stderr, "usage: mpirun -np N bare_loop PAIRS (3 to %d)\n", MAX_PAIRS);
        return ERR_USAGE;
    }
    err_t err = comm_open(&comm, &p.bench.comm);
    if (err == ERR_OK) {
        p.bench.options = &options;
        p.bench.runtime.comm = p.bench.comm;
        p.bench.n_cpus = 1;
        err = run(&p, n_pairs, &missed);
    }
    if (err != ERR_OK) {
        fprintf(stderr, "bare_loop: error: %s\n", err_message());
        abort_job(err);
    }
    mem_free(&p.send);
    mem_free(&p.recv);
    comm_close(&p.bench.comm);
    return missed ? ERR_GATE : ERR_OK;
}
