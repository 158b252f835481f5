/* dptrain: dispatch, start and stop order, and the only MPI_Abort. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/cmd.h"

/* Ends the job from any thread: the watchdog's, or the main one when its rank failed alone. */
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
    return (int)cmd_dispatch(argc, argv, abort_job);
}
