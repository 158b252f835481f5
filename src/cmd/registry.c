/* SPDX-License-Identifier: MIT */
/* The table of subcommands, in the order that --help lists them. */
#include "cmd/cmd.h"

const cmd_t cmds[] = {
    {"train", "train a model (the default)", cmd_train},
    {"eval", "evaluate a checkpoint: accuracy, loss, worst mistakes", cmd_eval},
    {"predict", "print the classes of image files", cmd_predict},
    {"checkpoint", "show or verify checkpoints, or export their weights", cmd_checkpoint},
    {"bench", "measure collectives, kernels, memory, I/O and training steps", cmd_bench},
    {"report", "print or compare the records of train and bench", cmd_report},
    {"data", "create, pack, verify or show datasets", cmd_data},
    {"check", "check hosts, GPUs, network and folders before a job starts", cmd_check},
    {"hosts", "show or convert a hostfile, list or resource spec (YAML)", cmd_hosts},
    {"info", "show build, devices and models, or the layers of a model", cmd_info},
    {NULL, NULL, NULL},
};

const char *const cmds_local[] = {"checkpoint", "report", "data", "hosts", "info", NULL};
