/* SPDX-License-Identifier: MIT */
/* Working sets for memory bandwidth, derived from the machine's caches. Not collective. */
#ifndef TOOLS_BENCH_MEM_LEVELS_H
#define TOOLS_BENCH_MEM_LEVELS_H

#include <stdbool.h>
#include <stdint.h>

enum { MEM_MAX_CACHES = 4, MEM_MAX_LEVELS = MEM_MAX_CACHES + 1 };

/* A data or unified cache of a CPU. */
typedef struct mem_cache {
    int level;
    int64_t n_bytes;
    int n_sharers; /* CPUs that share it */
} mem_cache_t;

/* Reads FOLDER/index0, index1, … ("/sys/devices/system/cpu/cpu0/cache"), the nearest cache first;
 * returns their number. If there are none, returns unshared caches of 32 KiB, 1 MiB and 32 MiB, with
 * *guessed set. */
int mem_caches_read(const char *folder, mem_cache_t out[MEM_MAX_CACHES], bool *guessed);

typedef struct mem_level {
    char name[8];    /* "L1", "DRAM" */
    int64_t n_bytes; /* of a rank's three arrays together */
} mem_level_t;

/* Chooses a working set per level; returns the number of levels. For a cache: half of the threads' share of
 * it, or twice their share of the previous level if that is more; skipped if that does not fit. For DRAM:
 * each array, summed over the host's ranks, four times as large as all last-level caches (STREAM's rule).
 *
 *   n_threads  of a rank, each on its own CPU
 *   n_local    ranks that run concurrently on the host
 *   n_cpus     of the host */
int mem_levels(const mem_cache_t *caches, int n_caches, int n_threads, int n_local, int n_cpus,
               mem_level_t out[MEM_MAX_LEVELS]);

#endif
