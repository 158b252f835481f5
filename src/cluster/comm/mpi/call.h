/* SPDX-License-Identifier: MIT */
/* The wrapper around every MPI call: E_MPI(MPI_Barrier(comm), "MPI_Barrier") returns from the caller with a
 * message if the call failed. MPI_ERRORS_RETURN must be set on the communicator or window. */
#ifndef CLUSTER_COMM_MPI_CALL_H
#define CLUSTER_COMM_MPI_CALL_H

#include <mpi.h>

#include "base/err.h"
#include "cluster/comm/comm.h"

/* Errors without a specific class come from the transport: a peer or the path to it is gone. They are
 * ERR_PEER: a restart may help. Specific errors (memory, arguments, windows) would occur again:
 * ERR_SYSTEM. */
static inline err_t mpi_check(int status, const char *what)
{
    if (status == MPI_SUCCESS) return ERR_OK;
    int error_class = MPI_ERR_UNKNOWN, n = 0;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    MPI_Error_class(status, &error_class);
    MPI_Error_string(status, text, &n);
    switch (error_class) {
    case MPI_ERR_OTHER:
    case MPI_ERR_INTERN:
    case MPI_ERR_UNKNOWN:
    case MPI_ERR_IN_STATUS:
        RAISE(ERR_PEER, "%s failed: %s; a peer or the network to it was lost", what, text);
    default:
        RAISE(ERR_SYSTEM, "%s failed: %s", what, text);
    }
}

#define E_MPI(call, what) TRY(mpi_check((call), (what)))

/* MPI_Allreduce in place, in as many calls as needed. */
err_t mpi_allreduce_on(MPI_Comm group, void *data, int64_t count, dtype_t dtype, MPI_Op op);

#endif
