/* The least that measures MPI_Allreduce: a loop of calls between two readings of the clock. Prints the median
 * of the slowest rank's time per call, in seconds. What `dptrain bench comm` is compared with by
 * scripts/bench_comm.sh: mpirun -np N bare_loop BYTES SECONDS. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_SAMPLES = 2000, MAX_PER_SAMPLE = 1000, ALIGN = 64 };
static const double sample_sec = 20e-6, batch_sec = 0.05, warm_up_sec = 0.1;

static double mine[MAX_SAMPLES], slowest[MAX_SAMPLES];

static double now_sec(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static float *new_buffer(size_t n_bytes)
{
    float *data = aligned_alloc(ALIGN, (n_bytes + ALIGN - 1) / ALIGN * ALIGN);
    if (!data) MPI_Abort(MPI_COMM_WORLD, 4);
    memset(data, 0, n_bytes);
    return data;
}

/* Mean seconds of n calls. */
static double calls(const float *send, float *recv, int count, long n)
{
    double start = now_sec();
    for (long i = 0; i < n; i++) MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (now_sec() - start) / (double)n;
}

/* Rank 0's word, so that all make the same calls. */
static double agreed(double value)
{
    MPI_Bcast(&value, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return value;
}

static long at_least_one(double n, long most)
{
    return n < 1 ? 1 : n > (double)most ? most : (long)n + (n > (double)(long)n);
}

int main(int argc, char **argv)
{
    /* As every program with a thread must: Open MPI's small messages are faster under MPI_Init, which
     * promises that there is none. */
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    long n_bytes = argc == 3 ? atol(argv[1]) : 0, n = 0;
    double budget_sec = argc == 3 ? atof(argv[2]) : 0;
    if (n_bytes < 4 || n_bytes > 1 << 30 || budget_sec <= 0) {
        fprintf(stderr, "usage: mpirun -np N bare_loop BYTES SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    float *send = new_buffer((size_t)n_bytes), *recv = new_buffer((size_t)n_bytes);
    int count = (int)(n_bytes / 4), rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double call_sec = agreed(calls(send, recv, count, 2));
    call_sec = agreed(calls(send, recv, count, at_least_one(warm_up_sec / call_sec, 1000000)));
    long per_sample = at_least_one(sample_sec / call_sec, MAX_PER_SAMPLE);
    long per_batch = at_least_one(batch_sec / (call_sec * (double)per_sample), 100);
    double start = now_sec();
    while (n + per_batch <= MAX_SAMPLES && agreed(now_sec() - start) < budget_sec) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (long i = 0; i < per_batch; i++) mine[n + i] = calls(send, recv, count, per_sample);
        n += per_batch;
    }
    MPI_Reduce(mine, slowest, (int)n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        qsort(slowest, (size_t)n, sizeof slowest[0], by_size);
        printf("%.6g\n", (slowest[(n - 1) / 2] + slowest[n / 2]) / 2);
    }
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
