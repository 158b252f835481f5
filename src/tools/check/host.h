/* SPDX-License-Identifier: MIT */
/* What a host must have for a job. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_HOST_H
#define TOOLS_CHECK_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/check/check.h"

/* Bytes; -1: not known. */
typedef struct host_facts {
    int n_ranks; /* on this host */
    int size;    /* ranks in all */
    bool rdma;   /* InfiniBand or EFA devices are there */
    int64_t memory_free, memory_total, swap_used;
    int64_t memlock; /* INT64_MAX: unlimited */
    int64_t n_files; /* open ones allowed */
    int64_t shm_total, shm_free;
    int64_t out_free, temp_free;
    bool out_hangs; /* the folder's file system gives no answer */
    bool out_writable, temp_writable;
    char governor[32]; /* "" where the kernel has none (virtual machines) */
} host_facts_t;

/* Of this host; out: the folder of --out, which need not exist. */
void host_facts_read(const check_t *check, const char *out, host_facts_t *facts);

/* Says a line about each. */
void host_judge(check_t *check, const host_facts_t *facts);

#endif
