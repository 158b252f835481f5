/* SPDX-License-Identifier: MIT */
/* The least program that times MPI_Allreduce: a loop of calls between two readings of the clock, with nothing of dptrain.
 * scripts/bench/comm.sh compares `dptrain bench comm` with it: the same number of calls per sample, samples in batches after
 * a barrier, a sample is the slowest rank's. Prints the median and the least sample, in microseconds:
 * mpirun -np N bare_loop single|funneled BYTES CALLS_PER_SAMPLE */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 600, BATCH = 100, ALIGN = 64 };
static const double warm_up_sec = 0.02, batch_sec = 0.05; /* of a batch at most, as dptrain's */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds per call, by this rank's clock. */
static double sample(const float *send, float *recv, int count, long calls)
{
    const double start = now();
    for (long i = 0; i < calls; i++) MPI_Allreduce(send, recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (now() - start) / (double)calls;
}

int main(int argc, char **argv)
{
    if (argc != 4 || (strcmp(argv[1], "single") != 0 && strcmp(argv[1], "funneled") != 0)) {
        fprintf(stderr, "usage: mpirun -np N bare_loop single|funneled BYTES CALLS_PER_SAMPLE\n");
        return 2;
    }
    const int level = strcmp(argv[1], "single") == 0 ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED;
    const long n_bytes = strtol(argv[2], NULL, 10), calls = strtol(argv[3], NULL, 10);
    const int count = (int)(n_bytes / (long)sizeof(float));
    double mine[SAMPLES], slowest[SAMPLES], spent = 0, sec = 0;
    int rank, got, taken = 0;
    MPI_Init_thread(&argc, &argv, level, &got);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const size_t room = ((size_t)count * sizeof(float) + ALIGN) / ALIGN * ALIGN; /* aligned as dptrain's */
    float *send = aligned_alloc(ALIGN, room), *recv = aligned_alloc(ALIGN, room);
    if (got < level || count < 1 || calls < 1 || !send || !recv) MPI_Abort(MPI_COMM_WORLD, 4);
    memset(send, 0, (size_t)count * sizeof *send);
    memset(recv, 0, (size_t)count * sizeof *recv);
    for (int go = 1; go;) { /* the same number on all ranks */
        sec = (double)calls * sample(send, recv, count, calls);
        spent += sec;
        go = spent < warm_up_sec;
        MPI_Allreduce(MPI_IN_PLACE, &go, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &sec, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    const int n = sec * BATCH < batch_sec ? BATCH : sec < batch_sec ? (int)(batch_sec / sec) : 1;
    for (int batch = 0; batch < SAMPLES / BATCH; batch++) {
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) mine[taken++] = sample(send, recv, count, calls);
    }
    MPI_Allreduce(mine, slowest, taken, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(slowest, (size_t)taken, sizeof *slowest, compare);
    if (rank == 0) printf("%.4f %.4f\n", 1e6 * slowest[taken / 2], 1e6 * slowest[0]);
    free(send);
    free(recv);
    MPI_Finalize();
    return 0;
}
