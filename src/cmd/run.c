/* SPDX-License-Identifier: MIT */
/* `dptrain run`: starts a job by mpirun or srun and supervises it. Runs without MPI, on the machine where the job is typed.
 * scripts/run.sh starts this command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "cmd/cmd.h"
#include "launch/launch.h"

static const char usage[] =
    "usage: dptrain run [options] [--] [dptrain's arguments]\n"
    "       dptrain run [options] NUM_GPUS BATCH_PER_GPU HOSTFILE [train options]\n"
    "\n"
    "Starts dptrain under mpirun with flags that suit this machine or the given hosts,\n"
    "and returns its exit code. SIGTERM, Ctrl-C or SIGUSR1 makes the job write a\n"
    "checkpoint and stop; a second SIGTERM or Ctrl-C stops it at once.\n"
    "\f\n"
    "Options of mpirun, torchrun, horovodrun, deepspeed and accelerate work as they are\n"
    "spelled there, such as -np and -hostfile, also behind the name of that launcher.\n"
    "\n"
    "Inside an allocation of Slurm, PBS or LSF the job runs on the allocated hosts\n"
    "(Slurm: scripts/dptrain.sbatch is a batch script); in the launcher of a Kubernetes\n"
    "MPIJob it runs on the workers (scripts/mpijob.sh prints such a job).\n"
    "\n"
    "A host without slots in the hostfile gets one per GPU if the job uses GPUs,\n"
    "otherwise one per core. Several lines for one host add up.\n"
    "\n"
    "Ranks inherit LD_LIBRARY_PATH and variables whose names begin with NCCL_, OMPI_,\n"
    "OMP_, UCX_, FI_, CUDA_ or DPTRAIN_; on other hosts all of these but\n"
    "CUDA_VISIBLE_DEVICES. ~/.dptrain_env and ./.dptrain_env (ignored unless you own it\n"
    "and nobody else can write it) set more. Names with TOKEN, SECRET, PASS, PWD,\n"
    "CREDENTIAL, AUTH, ACCESS, PRIVATE or KEY, or matching DPTRAIN_SECRET_PATTERN, are\n"
    "never passed on. A host's shared_envs and env_file in the specification take\n"
    "precedence.\n"
    "\n"
    "With --restarts the job resumes in the same --out, where job.jsonl records starts\n"
    "and faults. If the launcher itself is killed, run the same command again to go on\n"
    "with the job (docs/cluster.md#run-for-a-week).\n"
    "\n"
    "Exit codes are dptrain's. 130, 143: stopped by Ctrl-C or SIGTERM; the last line is\n"
    "the command that continues (0 after SIGUSR1). 5: a rank was killed by a signal, a\n"
    "host was lost, or a deadline passed. 4: the job did not start, or a host cannot\n"
    "take part.\n"
    "\n"
    "Environment: DPTRAIN_BIN is the program, DPTRAIN_BIND=none disables binding,\n"
    "DPTRAIN_ASK_SECONDS is the time that hosts have to answer a probe [20]. Supports\n"
    "OpenMPI 4.1 and 5.\n";

/* Options with one dash, for the completion; the tables have only two. */
static const char *const short_options[][2] = {
    {"-np", "N"},   {"-n", "N"},           {"-N", "N"}, {"-hostfile", "FILE"}, {"-machinefile", "FILE"},
    {"-H", "LIST"}, {"-x", "NAME[=VALUE]"}};

err_t cmd_run(const cmd_context_t *context)
{
    /* --help among the launcher's own words; behind them it is the program's. */
    cmd_context_t help = *context;
    const int n_own = launch_count_own(context->argc, context->argv);
    help.argc -= n_own;
    help.argv += n_own;
    if (help.argc > 0 && cmd_is_help(help.argv[0])) {
        int n_groups;
        const opt_group_t *groups = launch_options(&n_groups);
        err_t err = ERR_OK;
        for (size_t i = 0; i < sizeof short_options / sizeof *short_options; i++)
            cmd_tell_word(&help, "switch", short_options[i][0], short_options[i][1]);
        cmd_wants_help(&help, usage, groups, n_groups, &err);
        return err;
    }
    const err_t err = cmd_refuse_ranks(context->name[0]);
    if (err != ERR_OK) return cmd_fail(err);
    /* The script names itself by $CALLED_AS, which is not for the ranks. */
    char called_as[FS_PATH_MAX] = "dptrain run";
    const char *script = getenv("CALLED_AS");
    const size_t n = script ? strlen(script) : 0;
    if (n >= 6 && strcmp(script + n - 6, "run.sh") == 0) snprintf(called_as, sizeof called_as, "%s", script);
    unsetenv("CALLED_AS");
    return (err_t)launch_run(context->argc, context->argv, called_as);
}
