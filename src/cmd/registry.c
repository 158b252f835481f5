/* SPDX-License-Identifier: MIT */
/* The table of subcommands, in the order that --help lists them. */
#include "cmd/cmd.h"

const cmd_t cmds[] = {
    {"train", "train a model (the default)", cmd_train},
    {"eval", "accuracy, loss and the worst mistakes of a checkpoint", cmd_eval},
    {"checkpoint", "show or verify checkpoints, export weights", cmd_checkpoint},
    {"bench", "measure a cluster", cmd_bench},
    {"report", "records of train and bench as tables, CSV or Markdown", cmd_report},
    {"data", "datasets: synth, pack into shards, verify, show", cmd_data},
    {"check", "check hosts, GPUs, network and folders before a job", cmd_check},
    {"hosts", "hostfile, list or YAML of hosts: show, hostfile, ssh-config", cmd_hosts},
    {"info", "build, devices and models; layers of a model", cmd_info},
    {NULL, NULL, NULL},
};
