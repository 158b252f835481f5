/* SPDX-License-Identifier: MIT */
/* Working sets for memory bandwidth, from the machine's caches. Not collective. */
#ifndef TOOLS_BENCH_MEM_LEVELS_H
#define TOOLS_BENCH_MEM_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

enum { MEM_MAX_CACHES = 4, MEM_MAX_LEVELS = MEM_MAX_CACHES + 1 };

/* The data and unified caches that a CPU sees, the nearest first. */
typedef struct mem_cache {
    int level;
    int64_t n_bytes; /* of one */
    int n_sharers;   /* CPUs that share it */
} mem_cache_t;

/* Reads FOLDER/index0, index1, … ("/sys/devices/system/cpu/cpu0/cache"); how many there are. None: 32 KiB,
 * 1 MiB and 32 MiB of one CPU each are taken instead, and *guessed says so. */
int mem_caches_read(const char *folder, mem_cache_t out[MEM_MAX_CACHES], bool *guessed);

typedef struct mem_level {
    char name[8];    /* "L1", "DRAM" */
    int64_t n_bytes; /* of the three arrays of a rank together */
} mem_level_t;

/* For a rank of n_threads, each alone on its CPU, and n_local ranks of the host at once, on n_cpus CPUs. In a
 * cache: half of the threads' share, or twice what the threads have of the one before, where that is more; a
 * cache that has no room for this beside the one before is left out. DRAM: each array of the host's ranks
 * together four times as large as all caches of the last level (the rule of STREAM). */
int mem_levels(const mem_cache_t *caches, int n_caches, int n_threads, int n_local, int n_cpus,
               mem_level_t out[MEM_MAX_LEVELS]);

#endif
