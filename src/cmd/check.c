/* SPDX-License-Identifier: MIT */
/* `dptrain check`: parses options. The checks are in tools/check. */
#include "tools/check/check.h"

#include "base/log.h"
#include "cmd/cmd.h"

static const char usage[] =
    "usage: mpirun -np N dptrain check [options]\n"
    "\n"
    "Checks hosts, GPUs, network and folders before a job starts. Launch it with the\n"
    "mpirun options of the job. Exit code 1: a check failed; the table shows what to\n"
    "do.\n";

err_t cmd_check(const cmd_context_t *context)
{
    check_options_t options;
    opt_group_t groups[CHECK_N_GROUPS];
    err_t err = check_options_bind(&options, groups);
    if (err == ERR_OK && cmd_wants_help(context, usage, groups, CHECK_N_GROUPS, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, CHECK_N_GROUPS, context->argc, context->argv, NULL, 0, NULL);
    if (err == ERR_OK) err = check_options_check(&options);
    if (err != ERR_OK) return cmd_fail(err);
    check_options_warn_idle(&options, groups);
    if (cmd_only_checks()) return ERR_OK;
    if (options.reach) {
        err = check_reach_alone(&options);
        return err == ERR_GATE ? err : cmd_fail(err);
    }
    if (!options.list) return check_run(&options, context->abort_job);
    return cmd_fail(log_speaks() ? check_print_list() : ERR_OK);
}
