/* SPDX-License-Identifier: MIT */
/* The peak of a benchmark's resident memory. */
#ifndef SCRIPTS_BENCH_PEAK_MEMORY_H
#define SCRIPTS_BENCH_PEAK_MEMORY_H

#include <stdio.h>

/* In KiB; -1: unknown. VmHWM: ru_maxrss would also count what the process was before it became this program. */
static inline long peak_kib(void)
{
    char line[256];
    long peak = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &peak) == 1) break;
    if (file) fclose(file);
    return peak;
}

#endif
