/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3
 * The worst mistakes are the same list however the samples are shared out and in whatever order they come. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "tests/mpi/everyone.h"
#include "train/task/one_label.h"

enum { N = 1000, MAX = 40 };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* Losses with many ties, two NaN, one infinite. */
static worst_sample_t sample_at(int64_t index)
{
    float loss = (float)(index * 7919 % 97) / 8;
    if (index == 500 || index == 20) loss = NAN;
    if (index == 300) loss = INFINITY;
    return (worst_sample_t){index, (int32_t)(index % 10), 3, loss, 0.25f};
}

/* Each entry is what a search through all samples finds: the highest loss, of equals the lowest index. */
static bool is_right(const worst_t *worst, int64_t n_samples)
{
    bool taken[N] = {false};
    if (worst->n != (n_samples < worst->max ? n_samples : worst->max)) return false;
    for (int i = 0; i < worst->n; i++) {
        int64_t best = -1;
        double best_loss = 0;
        for (int64_t k = 0; k < n_samples; k++) {
            double loss = isnan(sample_at(k).loss) ? INFINITY : sample_at(k).loss;
            if (taken[k] || (best >= 0 && loss <= best_loss)) continue;
            best = k;
            best_loss = loss;
        }
        taken[best] = true;
        worst_sample_t want = sample_at(best);
        if (memcmp(&worst->samples[i], &want, sizeof want) != 0) return false;
    }
    return true;
}

/* The first n samples; each rank offers a part of its own kind: every size-th, or a range, upwards or
 * downwards. */
static bool gathers(worst_t *worst, int64_t n, bool strided, bool downwards)
{
    const comm_t *comm = worst->comm;
    worst_clear(worst);
    for (int64_t i = 0; i < n; i++) {
        int64_t index = downwards ? n - 1 - i : i;
        int64_t owner = strided ? index % comm->size : index * comm->size / n;
        worst_sample_t sample = sample_at(index);
        if (owner == comm->rank) worst_offer(worst, &sample);
    }
    return worst_gather(worst) == ERR_OK && is_right(worst, n);
}

int main(void)
{
    comm_t *comm = NULL;
    comm_options_t options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    err_t err = comm_open(&options, &comm);
    tap_quiet = !log_speaks();
    tap_plan(10);
    OK_CALL(err, "open");
    if (err != ERR_OK) return 1;
    worst_t worst, one;
    OK_ALL(worst_new(comm, MAX, &worst) == ERR_OK && worst_new(comm, 1, &one) == ERR_OK,
           "lists of 40 and of 1");
    int64_t n_blocks = mem_count();
    OK_ALL(gathers(&worst, N, false, false), "ranges");
    OK_ALL(gathers(&worst, N, true, false), "every size-th sample, with the list used again");
    OK_ALL(gathers(&worst, N, true, true), "in the opposite order");
    OK_ALL(gathers(&one, N, false, true), "the single worst");
    OK_ALL(gathers(&worst, 2, false, false), "fewer samples than ranks and places");
    OK_ALL(gathers(&worst, 0, false, false), "no mistakes");
    OK_ALL(mem_count() == n_blocks, "nothing was allocated");
    worst_free(&worst);
    worst_free(&one);
    comm_close(&comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
