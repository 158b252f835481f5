/* SPDX-License-Identifier: MIT */
/* RUN np=0 : the choice between the two allreduces from disturbed measurements: the same at every start. */
#include <math.h>

#include "base/rng.h"
#include "cluster/comm/buffer.h"
#include "tests/tap.h"

enum { N_STARTS = 1000, N_CALLS = 15 };

/* A call on a machine where every other one is interrupted, some for long. */
static double disturbed(rng_t *rng, double sec)
{
    const double late = (double)rng_below(rng, 1000) / 1000;
    return rng_below(rng, 2) ? sec * (1 + 0.02 * late) : sec * (1 + 10 * late * late);
}

/* The share of starts, in percent, that choose the host's allreduce. */
static int host_percent(double host, double mpi, int n_calls)
{
    rng_t rng = rng_new(5, 0, 0);
    int n = 0;
    for (int start = 0; start < N_STARTS; start++) {
        double host_sec[N_CALLS], mpi_sec[N_CALLS];
        for (int i = 0; i < n_calls; i++) {
            host_sec[i] = disturbed(&rng, host);
            mpi_sec[i] = disturbed(&rng, mpi);
        }
        n += comm_prefers_host(host_sec, mpi_sec, n_calls);
    }
    return 100 * n / N_STARTS;
}

int main(void)
{
    tap_plan(4);
    int tie = host_percent(1e-3, 1e-3, N_CALLS), slower = host_percent(1.1e-3, 1e-3, N_CALLS);
    OK(tie >= 99 && slower >= 99, "near a tie: the host's (%d and %d %%)", tie, slower);
    int worse = host_percent(2e-3, 1e-3, N_CALLS);
    OK(worse <= 1, "MPI's if it is clearly faster (%d %% host)", worse);
    int faster = host_percent(1e-3, 4e-3, N_CALLS);
    OK(faster == 100, "the host's if that is (%d %%)", faster);
    int few = host_percent(1e-3, 1e-3, 5), few_worse = host_percent(4e-3, 1e-3, 5);
    OK(few >= 90 && few_worse <= 5, "hardly less with few calls (%d and %d %%)", few, few_worse);
    return tap_done();
}
