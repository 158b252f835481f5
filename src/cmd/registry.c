/* SPDX-License-Identifier: MIT */
/* The table of subcommands, in the order that --help lists them. */
#include "cmd/cmd.h"

const cmd_t cmds[] = {
    {"train", "train a model (the default)", .run = cmd_train},
    {"eval", "evaluate a checkpoint: accuracy, loss, worst mistakes", .run = cmd_eval},
    {"predict", "print the classes of image files", .run = cmd_predict},
    {"checkpoint", "show, verify or compare checkpoints, export weights", .run = cmd_checkpoint,
     .local = true, .verbs = "show|verify|compare|export"},
    {"replay", "compute steps of a run again: which host computed wrongly", .run = cmd_replay},
    {"bench", "measure collectives, kernels, memory, I/O and training steps", .run = cmd_bench},
    {"report", "print or compare the records of train and bench", .run = cmd_report, .local = true,
     .verbs = "compare|history|html"},
    {"data", "create, pack, verify or show datasets", .run = cmd_data, .local = true,
     .verbs = "synth|pack|verify|show"},
    {"check", "check hosts, GPUs, network and folders before a job starts", .run = cmd_check},
    {"hosts", "show or convert a hostfile, list or resource spec (YAML)", .run = cmd_hosts, .local = true,
     .verbs = "show|hostfile|ssh-config"},
    {"info", "show build, devices and models, or the layers of a model", .run = cmd_info, .local = true},
    {"run", "start a job on this or several hosts", .run = cmd_run, .local = true},
    {"ssh-setup", "set up ssh between hosts (scripts/setup_ssh.sh)", .run = cmd_script, .local = true},
    {"health", "check hosts before a job (scripts/cluster_health.sh)", .run = cmd_script, .local = true},
    {"nccl-bw", "measure collectives as nccl-tests do (scripts/nccl_bw.sh)", .run = cmd_script,
     .local = true},
    {"regress", "find out if an update made it slower (scripts/regress.sh)", .run = cmd_script,
     .local = true},
    {.name = NULL},
};
