/* SPDX-License-Identifier: MIT */
/* RUN np=2,3,4
 *
 * Buffers that are shared out: slices, the reduce-scatter into them, and the allgather, through shared memory and by messages, on
 * one host and several. Sums are of integers, so that they are exact. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "tests/mpi/everyone.h"

enum { GRAIN = 64, TAIL = 5 };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* The slices of all ranks cover the floats once, in order, and begin at multiples of the grain. */
static bool covers(const comm_slices_t *s)
{
    int64_t at = 0;
    bool right = comm_slices_padded(s) >= s->n;
    for (int64_t b = 0; b < comm_slices_buckets(s); b++)
        for (int rank = 0; rank < s->size; rank++) {
            int64_t first, end, n = comm_slice(s, b, rank, &first);
            right &= n == 0 || (first == at && first % s->grain == 0);
            for (int64_t i = 0; i < n; i += GRAIN / 2)
                right &= comm_slices_owner(s, first + i, &end) == rank && end == first + n;
            at += n;
        }
    return right && at == s->n;
}

static float value_of(int rank, int64_t i, int round)
{
    return (float)((i * 7 + rank * 13 + round * 3) % 101);
}

/* A buffer for weights; private: as where shared memory has room for gradients alone. */
static err_t new_weights(comm_t *comm, int64_t n, bool private, comm_buffer_t *out)
{
    if (!private) return comm_buffer_new(comm, (size_t)n * sizeof(float), out);
    *out = (comm_buffer_t){0};
    return mem_new_array(n, sizeof(float), "a test", &out->data);
}

/* A sum and a gather of n floats. */
static bool exchange(comm_t *comm, int64_t n, int round, bool private)
{
    const comm_slices_t s = comm_slices(comm, n, GRAIN, 4 * GRAIN);
    const int64_t padded = comm_slices_padded(&s), n_all = padded + TAIL;
    comm_buffer_t buffer, kept;
    bool right = covers(&s) && comm_buffer_new(comm, (size_t)n_all * sizeof(float), &buffer) == ERR_OK &&
                 new_weights(comm, n, private, &kept) == ERR_OK &&
                 comm_buffer_share(comm, &buffer, &kept, &s) == ERR_OK;
    if (!right) return false;
    float *data = buffer.data, *weights = kept.data;
    for (int again = 0; again < 3; again++) {
        int64_t first, k = comm_slice(&s, 0, comm->rank, &first);
        for (int64_t i = 0; i < n_all; i++)
            data[i] = i < n || i >= padded ? value_of(comm->rank, i, round + again) : 0;
        right &= comm_buffer_allreduce(comm, &buffer, n_all, "a test's sum") == ERR_OK;
        for (int64_t i = 0; i < n_all; i++) {
            float sum = 0;
            if (!((i >= first && i < first + k) || i >= padded)) continue;
            for (int rank = 0; rank < comm->size; rank++) sum += value_of(rank, i, round + again);
            right &= data[i] >= sum && data[i] <= sum;
        }
        for (int64_t i = 0; i < n; i++)
            weights[i] = i >= first && i < first + k ? 1000.0f + (float)(i + again) : -1;
        right &= comm_buffer_gather(comm, &buffer, "a test's gather") == ERR_OK;
        for (int64_t i = 0; i < n; i++)
            right &= memcmp(&weights[i], &(float){1000.0f + (float)(i + again)}, sizeof *weights) == 0;
    }
    comm_buffer_free(comm, &buffer);
    if (private) mem_free(&kept.data);
    comm_buffer_free(comm, &kept);
    return right;
}

int main(void)
{
    static const struct {
        const char *allreduce;
        int per_host;
        bool private;
    } ways[] = {{"auto", 0, false}, {"mpi", 0, false}, {"auto", 2, false},
                {"auto", 1, false}, {"auto", 0, true}, {"auto", 2, true}};
    static const int64_t lengths[] = {GRAIN, 5 * GRAIN, 1000, 100000, 3000001};
    enum { N_WAYS = sizeof ways / sizeof ways[0], N_LENGTHS = sizeof lengths / sizeof lengths[0] };
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    tap_quiet = !log_speaks();
    tap_plan(N_WAYS * N_LENGTHS + 2);
    bool right = true;
    for (int size = 1; size <= 5; size++)
        for (int64_t n = 1; n < 40 * GRAIN; n += 29)
            right &=
                covers(&(comm_slices_t){.n = n, .n_bucket = 2 * GRAIN * size, .grain = GRAIN, .size = size});
    OK_ALL(right, "slices of several buckets");
    for (int w = 0; w < N_WAYS; w++) {
        comm_t *comm = NULL;
        comm_options_t options = {.name = "mpi",
                                  .timeout_sec = 60,
                                  .allreduce = ways[w].allreduce,
                                  .ranks_per_host = ways[w].per_host,
                                  .abort_job = abort_job};
        err_t err = comm_open(&options, &comm);
        for (int i = 0; i < N_LENGTHS; i++)
            OK_ALL(err == ERR_OK && exchange(comm, lengths[i], i, ways[w].private),
                   "%lld floats, %s, %d per host%s", (long long)lengths[i], ways[w].allreduce,
                   ways[w].per_host, ways[w].private ? ", private weights" : "");
        comm_close(&comm);
    }
    OK_ALL(mem_live() == 0, "all memory was freed");
    MPI_Finalize();
    return tap_done();
}
