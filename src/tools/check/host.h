/* SPDX-License-Identifier: MIT */
/* Resources that a host must have for a job. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_HOST_H
#define TOOLS_CHECK_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/process.h"
#include "tools/check/check.h"

/* In bytes; -1: unknown. */
typedef struct host_facts {
    int n_ranks; /* on this host */
    int size;    /* ranks of the job */
    bool rdma;   /* the host has InfiniBand or EFA devices */
    int64_t memory_free, memory_total, swap_used;
    int64_t memlock; /* INT64_MAX: unlimited */
    int64_t n_files; /* limit of open files */
    int64_t shm_total, shm_free;
    int64_t out_free, temp_free;
    bool out_hangs; /* the file system of --out does not respond */
    bool out_writable, temp_writable;
    peer_memory_t copies;
    char governor[32]; /* "": not reported, as in virtual machines */
} host_facts_t;

/* Reads the facts of this host.
 *
 *   out  the folder of --out, which need not exist */
void host_facts_read(const check_t *check, const char *out, host_facts_t *facts);

/* Adds a line about each fact. */
void host_judge(check_t *check, const host_facts_t *facts);

#endif
