/* SPDX-License-Identifier: MIT */
/* Reads cache sizes from sysfs and chooses a working set for each level and for DRAM. */
#include "tools/bench/mem_levels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"

enum { TEXT_MAX = 256, N_ARRAYS = 3, STREAM_FACTOR = 4 };

/* Reads a one-line file; "" if it is missing. */
static void read_cache_file(const char *folder, int index, const char *name, char out[TEXT_MAX])
{
    char path[TEXT_MAX];
    snprintf(path, sizeof path, "%s/index%d/%s", folder, index, name);
    fs_read_line(path, out, TEXT_MAX);
}

/* "32K", "36608K", "1M" */
static int64_t parse_size(const char *text)
{
    char *end;
    int64_t n = strtoll(text, &end, 10);
    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : n;
}

/* Number of CPUs in a list such as "0-3,8"; at least one. */
static int count_cpus(const char *list)
{
    int n = 0;
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list) break;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        n += (int)(last - first + 1);
        list = *end == ',' ? end + 1 : end;
        if (*end != ',') break;
    }
    return n > 0 ? n : 1;
}

int mem_caches_read(const char *folder, mem_cache_t out[MEM_MAX_CACHES], bool *guessed)
{
    static const mem_cache_t usual[] = {{1, 32 << 10, 1}, {2, 1 << 20, 1}, {3, 32 << 20, 1}};
    char type[TEXT_MAX], level[TEXT_MAX], size[TEXT_MAX], sharers[TEXT_MAX];
    int n = 0;
    for (int index = 0; n < MEM_MAX_CACHES; index++) {
        read_cache_file(folder, index, "type", type);
        if (!type[0]) break;
        read_cache_file(folder, index, "level", level);
        read_cache_file(folder, index, "size", size);
        read_cache_file(folder, index, "shared_cpu_list", sharers);
        mem_cache_t cache = {atoi(level), parse_size(size), count_cpus(sharers)};
        if (strcmp(type, "Instruction") != 0 && cache.level > 0 && cache.n_bytes > 0) out[n++] = cache;
    }
    *guessed = n == 0;
    if (n > 0) return n;
    memcpy(out, usual, sizeof usual);
    return (int)(sizeof usual / sizeof usual[0]);
}

int mem_levels(const mem_cache_t *caches, int n_caches, int n_threads, int n_local, int n_cpus,
               mem_level_t out[MEM_MAX_LEVELS])
{
    int64_t before = 0;
    int n = 0;
    for (int i = 0; i < n_caches; i++) {
        int64_t share = caches[i].n_bytes / caches[i].n_sharers * n_threads;
        int64_t n_bytes = share / 2 > 2 * before ? share / 2 : 2 * before;
        /* An exclusive cache adds to the previous level, so together they hold at most this much. */
        if (n_bytes <= share + before) {
            snprintf(out[n].name, sizeof out[n].name, "L%d", caches[i].level % 100);
            out[n++].n_bytes = n_bytes;
        }
        before = share;
    }
    const mem_cache_t *last = &caches[n_caches - 1];
    int64_t n_last = (n_cpus + last->n_sharers - 1) / last->n_sharers;
    snprintf(out[n].name, sizeof out[n].name, "DRAM");
    out[n++].n_bytes = N_ARRAYS * STREAM_FACTOR * last->n_bytes * n_last / n_local;
    return n;
}
