/* SPDX-License-Identifier: MIT */
/* Three arrays of doubles and the four loops over them that STREAM defines (McCalpin, "Memory bandwidth and
 * machine balance in current high performance computers", 1995), by some threads. Not collective. */
#ifndef TOOLS_BENCH_MEM_ARRAYS_H
#define TOOLS_BENCH_MEM_ARRAYS_H

#include <stdint.h>

#include "base/err.h"

/* copy c = a, scale b = q·c, add c = a + b, triad a = b + q·c */
typedef enum mem_kernel { MEM_COPY, MEM_SCALE, MEM_ADD, MEM_TRIAD, MEM_KERNEL_COUNT } mem_kernel_t;

extern const char *const mem_kernel_names[MEM_KERNEL_COUNT];

/* As STREAM counts: 8 bytes for each element read or written by the program; the line that a cache reads
 * before it is written to is not counted. */
int64_t mem_kernel_bytes(mem_kernel_t kernel, int64_t n_elements);

typedef struct mem_arrays {
    double *array[3]; /* a, b, c */
    int64_t n;        /* elements of each */
    int n_threads;
    int64_t repeat; /* of one run; each thread does them over its own part without waiting for the others */
    void *block;
    int64_t n_block_bytes;
} mem_arrays_t;

/* About n_bytes in all. Each page is touched first by the thread that works on it, and so lies in that
 * thread's memory where a host has several. ERR_SYSTEM when there is no memory. */
err_t mem_arrays_new(int64_t n_bytes, int n_threads, mem_arrays_t *out);
void mem_arrays_free(mem_arrays_t *arrays);

/* What the kernel reads becomes known numbers, what it writes NaN. */
void mem_arrays_fill(mem_arrays_t *arrays, mem_kernel_t kernel);
void mem_arrays_run(const mem_arrays_t *arrays, mem_kernel_t kernel);
/* Elements that are not what the kernel makes of mem_arrays_fill's numbers; every one is looked at, exactly.
 */
int64_t mem_arrays_wrong(const mem_arrays_t *arrays, mem_kernel_t kernel);
/* What the kernel wrote. */
double *mem_arrays_result(const mem_arrays_t *arrays, mem_kernel_t kernel);

#endif
