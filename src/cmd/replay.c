/* SPDX-License-Identifier: MIT */
/* `dptrain replay`: options of a replay. The steps, and who computed them wrongly, are left to train/replay. */
#include "train/replay/replay.h"

#include "cmd/cmd.h"
#include "data/dataset/dataset.h"
#include "text/progress.h"

typedef struct options {
    replay_options_t replay;
    console_options_t console;
} options_t;

#define FIELD(name) offsetof(options_t, name)
static const opt_t table[] = {
    {"step", OPT_INT, FIELD(replay.step), "-1", -1, 1e15, NULL, "S",
     "compute the steps from the newest checkpoint at or before step S up to the next bits that the record knows; -1: up to "
     "the last disagreement of replicas, or without one the last steps",
     OPT_COMMON},
    {"data", OPT_STRING, FIELD(replay.data), NULL, 0, 0, NULL, "DIR", "dataset [what it was trained on]",
     OPT_COMMON},
};

static const char usage[] =
    "usage: [mpirun -np N] dptrain replay DIR [options]\n"
    "\n"
    "Computes steps of the run in DIR again, which was made with --reproducible V,\n"
    "and compares them bit by bit with its record and its checkpoints: which host\n"
    "computed wrongly. N divides V. DIR is only read; the run may still be going on.\n"
    "\n"
    "Exit codes: 0 the bits agree; 1 they do not: says who computed others; 2 they\n"
    "cannot be compared here, and why.\n";

enum { GROUP_REPLAY, GROUP_RUNTIME, GROUP_GPU, GROUP_OUTPUT, N_GROUPS };

/* Bits depend on these. */
static err_t refuse_given(const opt_group_t *groups)
{
    static const char *const taken[] = {"device", "threads"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (opt_given(groups, N_GROUPS, taken[i]))
            RAISE(ERR_USAGE, "--%s: a replay takes it from the record of the run; omit it", taken[i]);
    return ERR_OK;
}

err_t cmd_replay(const cmd_context_t *context)
{
    options_t options = {.replay = {.folder = NULL}};
    opt_group_t groups[N_GROUPS] = {
        {"Replay", table, sizeof table / sizeof table[0], &options, 0},
        {"Runtime", runtime_option_table, n_runtime_options, &options.replay.runtime, 0},
        {"GPU", gpu_option_table, n_gpu_options, &options.replay.runtime, 0},
        {"Output", console_option_table, n_console_options, &options.console, 0},
    };
    err_t err = opt_defaults(groups, N_GROUPS);
    if (cmd_wants_help(context, usage, groups, N_GROUPS, &err)) return err;
    if (err == ERR_OK)
        err = opt_parse(groups, N_GROUPS, context->argc, context->argv, &options.replay.folder, 1, NULL);
    if (err == ERR_OK) err = console_apply(&options.console);
    if (err == ERR_OK) err = dataset_check_name(options.replay.data);
    if (err == ERR_OK) err = refuse_given(groups);
    if (err == ERR_OK && !options.replay.folder)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "dptrain replay: expected the folder of a run");
    if (err != ERR_OK || cmd_only_checks()) return cmd_fail(err);
    return replay_run(&options.replay, context->abort_job);
}
