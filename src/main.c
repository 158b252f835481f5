/* SPDX-License-Identifier: MIT */
/* Entry point: sets up the main thread, dispatches to cmd/, and returns its error code as exit code. Contains
 * the only MPI_Abort; MPI_Init and MPI_Finalize are in cluster/comm/mpi. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/isa.h"
#include "base/process.h"
#include "base/sim.h"
#include "cluster/watch/deadline.h"
#include "cmd/cmd.h"

/* Ends simulated ranks, as mpirun ends a job if a rank ends early. */
static void end_simulation(err_t code)
{
    int finalized = 0;
    if (!sim_is_rank()) return;
    MPI_Finalized(&finalized);
    if (code != ERR_OK && !finalized) sim_end((int)code);
}

/* Ends the job, from any thread. MPI_Abort does not return if mpirun or its daemon is stopped. */
static void abort_job(err_t code)
{
    int initialized = 0, finalized = 0;
    if (sim_is_rank()) sim_end((int)code);
    deadline_leave(code, DEADLINE_LEAVE_SEC);
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    last_phase_close();
    if (initialized && !finalized) MPI_Abort(MPI_COMM_WORLD, (int)code);
    _exit((int)code);
}

int main(int argc, char **argv)
{
    fs_hold_standard();
    if (sim_is_rank()) sim_command_line(&argc, &argv);
    thread_receive_signals();
    denormals_flush(); /* before other threads start */
    last_phase_open();
    deadline_open(abort_job);
    signal(SIGXFSZ, SIG_IGN); /* the write fails with EFBIG, and its error names the file */
    err_t code = cmd_dispatch(argc, argv, abort_job);
    last_phase_close();
    end_simulation(code);
    deadline_exit(code);
    return (int)code;
}
