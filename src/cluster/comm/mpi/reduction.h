/* SPDX-License-Identifier: MIT */
/* Reductions of every collective_type_t over MPI, which knows neither half nor bfloat16 nor an average. */
#ifndef CLUSTER_COMM_MPI_REDUCTION_H
#define CLUSTER_COMM_MPI_REDUCTION_H

#include <mpi.h>

#include "cluster/comm/collective.h"

/* MPI's operation, or one for elements of MPI_UINT16_T that hold half or bfloat16; every step rounds to the type.
 * COLLECTIVE_AVG is a sum, to be divided by mpi_reduction_divide. Free it with the same type. */
err_t mpi_reduction_new(collective_type_t type, collective_op_t op, MPI_Op *out);
void mpi_reduction_free(collective_type_t type, MPI_Op *op);

void mpi_reduction_divide(collective_type_t type, void *data, int64_t n, int by);

#endif
