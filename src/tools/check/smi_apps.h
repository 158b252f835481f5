/* SPDX-License-Identifier: MIT */
/* Other work on the GPUs of a job, from nvidia-smi. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_SMI_APPS_H
#define TOOLS_CHECK_SMI_APPS_H

#include "tools/check/smi.h"

enum { SMI_MAX_APPS = 256 };

/* A process with a context on a GPU. */
typedef struct smi_app {
    char uuid[48]; /* as in smi_gpu_t */
    int pid;       /* within a container, possibly the number outside */
    bool visible;  /* a process of this number exists here */
    double memory; /* bytes; -1: not reported */
    char name[64];
} smi_app_t;

/* A rank on this host. */
typedef struct smi_rank {
    char uuid[48]; /* of its GPU; "": none */
    int pid;
} smi_rank_t;

/* Parses the output of the query (csv, noheader, nounits). ERR_DATA quotes an unexpected line. */
err_t smi_apps_parse(const char *text, smi_app_t apps[SMI_MAX_APPS], int *n);

/* Runs nvidia-smi; errors as smi_query. */
err_t smi_apps_query(double timeout_sec, smi_app_t apps[SMI_MAX_APPS], int *n);

/* Adds a line for each of the ranks' GPUs with other processes, computations or memory in use, or one CHECK_OK
 * line. In a container, processes of unknown numbers count only beyond the number of ranks on the GPU.
 *
 *   n_apps  -1: unknown */
typedef struct smi_use {
    const smi_gpu_t *gpus;
    const smi_app_t *apps;
    const smi_rank_t *ranks;
    int n_gpus, n_apps, n_ranks;
} smi_use_t;
void smi_judge_use(check_t *check, const smi_use_t *use);

#endif
