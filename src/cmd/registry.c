/* SPDX-License-Identifier: MIT */
/* The table of subcommands, in the order that --help lists them. */
#include "cmd/cmd.h"

const cmd_t cmds[] = {
    {"train", "train a model (also without a subcommand)", cmd_train},
    {"eval", "accuracy, loss and the worst mistakes of a checkpoint", cmd_eval},
    {"checkpoint", "look into checkpoints, export weights: show, verify, export", cmd_checkpoint},
    {"bench", "measure the cluster", cmd_bench},
    {"report", "records of train and bench as tables, CSV or Markdown", cmd_report},
    {"data", "pictures: synth, pack into shards, verify, show", cmd_data},
    {"check", "prove hosts, GPUs, network and folders before a job starts", cmd_check},
    {"hosts", "hostfile, list or YAML of hosts: show, hostfile, ssh-config", cmd_hosts},
    {"info", "what this build has; the layers of a model", cmd_info},
    {NULL, NULL, NULL},
};
