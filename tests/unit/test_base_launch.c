/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * What the variables of launchers say about a rank, alone and within each other, and when MPI contradicts them. */
#include "tests/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"

static const char *const launchers[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                           {"WORLD_SIZE", "RANK"},
                                           {"HOROVOD_SIZE", "HOROVOD_RANK"},
                                           {"PMI_SIZE", "PMI_RANK"},
                                           {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                           {"JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
                                           {"FLUX_JOB_SIZE", "FLUX_TASK_RANK"},
                                           {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
enum { N_LAUNCHERS = sizeof launchers / sizeof *launchers };

static void clear(void)
{
    static const char *const others[] = {"PMIX_RANK",      "SLURM_NTASKS",  "SLURM_JOB_ID",
                                         "SLURM_PTY_PORT", "SLURM_STEP_ID", "SLURM_TASK_PID"};
    for (int i = 0; i < N_LAUNCHERS; i++) unsetenv(launchers[i][0]), unsetenv(launchers[i][1]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) unsetenv(others[i]);
}

/* A rank with these variables, "NAME=VALUE NAME=VALUE …". */
static launch_t rank_with(const char *variables)
{
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", variables);
    clear();
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *value = strchr(word, '=');
        *value = '\0';
        setenv(word, value + 1, 1);
    }
    return launch_read();
}

static bool is(const char *variables, int rank, int size)
{
    launch_t launch = rank_with(variables);
    return launch.rank == rank && launch.size == size;
}

/* Whether MPI that sees n_seen ranks is contradicted by a variable; NULL: by none. */
static bool contradicts(const char *variables, int n_seen, const char *by)
{
    launch_t launch = rank_with(variables);
    err_t err = launch_check(&launch, n_seen, "Open MPI v0");
    return by ? err == ERR_USAGE && strstr(err_message(), by) : err == ERR_OK;
}

static void test_each(void)
{
    for (int i = 0; i < N_LAUNCHERS; i++) {
        char variables[128], advice[64];
        snprintf(variables, sizeof variables, "%s=3 %s=2", launchers[i][0], launchers[i][1]);
        snprintf(advice, sizeof advice, "env -u %s ", launchers[i][0]);
        OK(is(variables, 2, 3) && contradicts(variables, 1, advice) && contradicts(variables, 2, advice) &&
               contradicts(variables, 3, NULL),
           "%s", variables);
    }
    OK(contradicts("SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0", 1, "srun --mpi=pmix -n 3 "),
       "Slurm: what to type");
    OK(contradicts("OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0", 1,
                   "'mpirun -np 3 dptrain ...' of Open MPI v0"),
       "another Open MPI's mpirun: what to type");
}

/* Commands without MPI speak on every process that another launcher started, and on mpirun's rank 0. */
static void test_of_mpi(void)
{
    rank_with("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 WORLD_SIZE=8 RANK=5");
    OK(!launch_present() && launch_rank() == 0 && launch_size() == 1, "a launcher that MPI does not see");
    rank_with("PMIX_RANK=3 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3");
    OK(launch_present() && launch_rank() == 3 && launch_size() == 4, "srun --mpi=pmix");
    rank_with("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3");
    OK(launch_present() && launch_rank() == 1 && launch_size() == 2, "mpirun");
}

static void test_no_launcher(void)
{
    OK(is("", 0, 1) && !launch_present(), "no launcher");
    OK(is("SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_JOB_ID=7", 0, 1), "a batch script");
    OK(is("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=4294967291", 0, 1), "a batch step");
    OK(is("SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_PTY_PORT=5 SLURM_TASK_PID=1", 0, 1),
       "a shell of srun --pty");
    OK(is("SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0", 0, 1) && is("WORLD_SIZE=4", 0, 1),
       "a size without a rank");
    OK(is("WORLD_SIZE=x RANK=0", 0, 1) && is("WORLD_SIZE=4.0 RANK=0", 0, 1) &&
           is("WORLD_SIZE=-4 RANK=0", 0, 1) && is("WORLD_SIZE= RANK=", 0, 1) &&
           is("WORLD_SIZE=99999999999 RANK=0", 0, 1),
       "values that are not whole numbers");
    OK(is("WORLD_SIZE=2 RANK=2", 0, 1), "a rank beyond the size");
}

static void test_nested(void)
{
    char task[128];
    snprintf(task, sizeof task, "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 SLURM_PTY_PORT=5 SLURM_TASK_PID=%d",
             (int)getpid());
    OK(is(task, 1, 4), "srun within a shell of srun --pty");
    OK(is("OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3", 1, 2),
       "mpirun whose daemons are a step of Slurm");
    OK(contradicts("OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 WORLD_SIZE=8 RANK=0", 1, NULL),
       "mpirun -np 1 where another job's variables are left over");
    OK(is("FLUX_JOB_SIZE=1 FLUX_TASK_RANK=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3", 0, 1),
       "Flux within Slurm");
    OK(is("WORLD_SIZE=16 RANK=9 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1", 9, 16), "torchrun within Slurm");
    OK(contradicts("WORLD_SIZE=8 RANK=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3", 4, NULL),
       "MPI agrees with one launcher; another's variables are left over");
    OK(contradicts("WORLD_SIZE=8 RANK=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", 1, "WORLD_SIZE"),
       "torchrun in a step of one task");
}

int main(void)
{
    tap_plan(N_LAUNCHERS + 19);
    test_each();
    test_of_mpi();
    test_no_launcher();
    test_nested();
    clear();
    return tap_done();
}
