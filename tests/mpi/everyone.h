/* SPDX-License-Identifier: MIT */
/* A check on every rank, which passes if it passes on all of them. Rank 0 prints the result; a rank that
 * failed prints where. Only between MPI_Init and MPI_Finalize. It calls MPI directly, to be independent of
 * the code under test. */
#ifndef TESTS_MPI_EVERYONE_H
#define TESTS_MPI_EVERYONE_H

#include <mpi.h>

#include "tests/tap.h"

static inline bool everyone(bool mine, const char *file, int line)
{
    int all = mine, rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!mine) fprintf(stderr, "# rank %d failed at %s:%d: %s\n", rank, file, line, err_message());
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

#define OK_ALL(pass, ...) OK(everyone((pass), __FILE__, __LINE__), __VA_ARGS__)

#endif
