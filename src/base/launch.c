/* SPDX-License-Identifier: MIT */
/* Reads rank and size from the launcher's environment, for messages and choices before MPI_Init. After it,
 * the communicator is the authority. */
#include "base/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sim.h"

/* From the innermost launcher outwards. A launcher's daemons may run as ranks of the next launcher, typically as a Slurm
 * step, and pass on its variables. SLURM_NTASKS proves nothing: batch scripts have it too. */
static const struct launcher {
    const char *name, *size, *rank;
    const char *instead; /* starts ranks that MPI sees, before their number; NULL: Open MPI's own mpirun */
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", NULL},
    {"torchrun", "WORLD_SIZE", "RANK", NULL},
    {"horovodrun", "HOROVOD_SIZE", "HOROVOD_RANK", NULL},
    {"mpiexec", "PMI_SIZE", "PMI_RANK", NULL}, /* MPICH, Intel MPI, PALS */
    {"mpirun_rsh", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", NULL},
    {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", NULL},
    {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux run -o pmi=pmix -n"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun --mpi=pmix -n"},
};
_Static_assert(sizeof launchers / sizeof *launchers == LAUNCHERS, "the launchers of launch_t");
enum { SLURM = LAUNCHERS - 1 };

/* A variable's value, or -1. */
static int number_of(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text || *text < '0' || *text > '9') return -1;
    long value = strtol(text, &end, 10);
    return *end == '\0' && value < 1 << 24 ? (int)value : -1;
}

/* A program started from a shell of srun --pty, of salloc or of a batch script inherits the variables of the shell's
 * step, or of an earlier one, without being one of its tasks. Only a task finds its own process in SLURM_TASK_PID. */
static bool is_in_slurm_shell(void)
{
    static const unsigned long long first_special =
        0xfffffff0; /* SLURM_INTERACTIVE_STEP, SLURM_BATCH_SCRIPT, … */
    const char *step = getenv("SLURM_STEP_ID");
    bool shell = getenv("SLURM_PTY_PORT") || (step && strtoull(step, NULL, 10) >= first_special);
    return shell && number_of("SLURM_TASK_PID") != (int)getpid();
}

launch_t launch_read(void)
{
    launch_t out = {.by = -1, .size = 1};
    if (sim_is_rank()) return out;
    for (int i = LAUNCHERS - 1; i >= 0; i--) {
        const struct launcher *by = &launchers[i];
        int size = number_of(by->size), rank = number_of(by->rank);
        if (rank < 0 || size <= rank || (i == SLURM && is_in_slurm_shell())) continue;
        out.sizes[i] = size;
        out.by = i;
        out.name = by->name;
        out.variable = by->size;
        out.rank = rank;
        out.size = size;
    }
    return out;
}

err_t launch_check(const launch_t *launch, int n_seen, const char *library)
{
    if (launch->size <= n_seen) return ERR_OK;
    /* MPI has found the launcher that agrees; the other's variables are left over. */
    for (int i = 0; n_seen > 1 && i < LAUNCHERS; i++)
        if (launch->sizes[i] == n_seen) return ERR_OK;
    const struct launcher *by = &launchers[launch->by];
    RAISE(
        ERR_USAGE,
        "MPI sees %d rank%s, but %s started %d (%s); start them as one job with '%s %d dptrain ...'%s%s, or each on "
        "its own with 'env -u %s dptrain ...'",
        n_seen, n_seen == 1 ? "" : "s", by->name, launch->size, by->size,
        by->instead ? by->instead : "mpirun -np", launch->size, by->instead ? "" : " of ",
        by->instead ? "" : library, by->size);
}

/* The rank of mpirun, or of another launcher that speaks PMIx or PMI; -1: none. */
static int mpi_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    int rank = -1;
    for (int i = 0; i < 3 && rank < 0; i++) rank = number_of(names[i]);
    return rank;
}

bool launch_present(void)
{
    return sim_is_rank() || mpi_rank() >= 0;
}

int launch_rank(void)
{
    int rank = sim_is_rank() ? sim_rank() : mpi_rank();
    return rank > 0 ? rank : 0;
}

int launch_size(void)
{
    if (sim_is_rank()) return sim_size();
    return launch_present() ? launch_read().size : 1;
}

void launch_host_name(char *out, size_t n_bytes)
{
    char name[256] = "";
    if (sim_is_rank())
        snprintf(name, sizeof name, "%s", sim_host_name());
    else if (gethostname(name, sizeof name - 1) != 0 || !name[0])
        strcpy(name, "localhost");
    snprintf(out, n_bytes, "%.*s", (int)n_bytes - 1, name);
}

bool launch_owns_process(void)
{
    return !sim_is_rank();
}
