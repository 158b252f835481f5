/* SPDX-License-Identifier: MIT */
/* Three arrays of doubles and STREAM's four loops over them (McCalpin, "Memory bandwidth and machine
 * balance in current high performance computers", 1995), multithreaded. Not collective. */
#ifndef TOOLS_BENCH_MEM_ARRAYS_H
#define TOOLS_BENCH_MEM_ARRAYS_H

#include <stdint.h>

#include "base/err.h"

/* copy c = a, scale b = q·c, add c = a + b, triad a = b + q·c */
typedef enum mem_kernel { MEM_COPY, MEM_SCALE, MEM_ADD, MEM_TRIAD, MEM_KERNEL_COUNT } mem_kernel_t;

extern const char *const mem_kernel_names[MEM_KERNEL_COUNT];

/* As STREAM counts: 8 bytes per element that the program reads or writes. The line that a cache reads before
 * writing to it (write-allocate) does not count. */
int64_t mem_kernel_bytes(mem_kernel_t kernel, int64_t n_elements);

typedef struct mem_arrays {
    double *array[3]; /* a, b, c */
    int64_t n;        /* elements of each */
    int n_threads;
    int64_t repeat; /* passes per run; each thread runs them over its part without synchronising */
    void *block;
    int64_t n_block_bytes;
} mem_arrays_t;

/* Allocates about n_bytes in total. Each page is first touched by the thread that works on it, which
 * places it on that thread's NUMA node. ERR_SYSTEM: out of memory. */
err_t mem_arrays_new(int64_t n_bytes, int n_threads, mem_arrays_t *out);
void mem_arrays_free(mem_arrays_t *arrays);

/* Fills the kernel's inputs with known numbers and its output with NaN. */
void mem_arrays_fill(mem_arrays_t *arrays, mem_kernel_t kernel);
void mem_arrays_run(const mem_arrays_t *arrays, mem_kernel_t kernel);
/* Number of output elements that are wrong; all are compared, exactly. */
int64_t mem_arrays_wrong(const mem_arrays_t *arrays, mem_kernel_t kernel);
/* The kernel's output. */
double *mem_arrays_result(const mem_arrays_t *arrays, mem_kernel_t kernel);

#endif
