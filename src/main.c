/* SPDX-License-Identifier: MIT */
/* Entry point: sets up the main thread, dispatches to cmd/, and returns its error code as exit code. Contains
 * the only MPI_Abort; MPI_Init and MPI_Finalize are in cluster/comm/mpi. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/denormals.h"
#include "base/log.h"
#include "base/thread.h"
#include "cmd/cmd.h"

/* Ends the job, from the watchdog's thread, or from the main thread if its rank failed alone. */
static void abort_job(err_t code)
{
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, (int)code);
    _exit((int)code);
}

int main(int argc, char **argv)
{
    thread_receive_signals();
    denormals_flush(); /* before other threads start */
    err_t code = cmd_dispatch(argc, argv, abort_job);
    int initialized = 0;
    MPI_Initialized(&initialized);
    /* If a rank fails before MPI_Init, mpirun ends all ranks at once: give rank 0 time to print its message.
     */
    if (code != ERR_OK && !initialized && !log_speaks()) clock_sleep(0.5);
    return (int)code;
}
