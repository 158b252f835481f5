/* SPDX-License-Identifier: MIT */
/* Allocates, fills, runs and verifies the arrays of STREAM's four loops, with threads and the CPU's widest
 * vectors. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "base/isa.h"
#include "tools/bench/cases.h"

enum { LINE = 8, RUN_BYTES = 8 << 20, PERIOD_1 = 1013, PERIOD_2 = 509 };
static const double q = 3;

const char *const mem_kernel_names[MEM_KERNEL_COUNT] = {"copy", "scale", "add", "triad"};

/* Operands of each kernel: 0, 1, 2 for a, b, c. second is -1 if the kernel reads only one. */
static const struct {
    int out, first, second;
} roles[MEM_KERNEL_COUNT] = {{2, 0, -1}, {1, 2, -1}, {2, 0, 1}, {0, 1, 2}};

int64_t mem_kernel_bytes(mem_kernel_t kernel, int64_t n_elements)
{
    return (roles[kernel].second < 0 ? 2 : 3) * n_elements * (int64_t)sizeof(double);
}

LOOP_CLONES(copy, (double *restrict out, const double *restrict x, const double *y, int64_t n),
            (out, x, y, n))
{
    (void)y;
    for (int64_t i = 0; i < n; i++) out[i] = x[i];
}

LOOP_CLONES(scale, (double *restrict out, const double *restrict x, const double *y, int64_t n),
            (out, x, y, n))
{
    (void)y;
    for (int64_t i = 0; i < n; i++) out[i] = q * x[i];
}

LOOP_CLONES(add, (double *restrict out, const double *restrict x, const double *restrict y, int64_t n),
            (out, x, y, n))
{
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + y[i];
}

LOOP_CLONES(triad, (double *restrict out, const double *restrict x, const double *restrict y, int64_t n),
            (out, x, y, n))
{
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + q * y[i];
}

typedef void (*kernel_t)(double *restrict, const double *restrict, const double *restrict, int64_t);

static kernel_t kernel_of(mem_kernel_t kernel)
{
    switch (kernel) {
    case MEM_COPY:
        return copy;
    case MEM_SCALE:
        return scale;
    case MEM_ADD:
        return add;
    default:
        return triad;
    }
}

err_t mem_arrays_new(int64_t n_bytes, int n_threads, mem_arrays_t *out)
{
    int64_t unit = (int64_t)LINE * n_threads, n = n_bytes / 3 / (int64_t)sizeof(double) / unit * unit;
    *out = (mem_arrays_t){.n = n > 0 ? n : unit, .n_threads = n_threads};
    out->n_block_bytes = 3 * out->n * (int64_t)sizeof(double);
    out->repeat = (RUN_BYTES + out->n_block_bytes - 1) / out->n_block_bytes;
    /* base/mem.h would touch every page in one thread. */
    void *block =
        mmap(NULL, (size_t)out->n_block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        RAISE(ERR_SYSTEM, "out of memory: %lld bytes for measuring memory: %s", (long long)out->n_block_bytes,
              strerror(errno));
    out->block = block;
    for (int i = 0; i < 3; i++) out->array[i] = (double *)block + i * out->n;
    return ERR_OK;
}

void mem_arrays_free(mem_arrays_t *arrays)
{
    if (arrays->block) munmap(arrays->block, (size_t)arrays->n_block_bytes);
    *arrays = (mem_arrays_t){.n = 0};
}

static double x_value(int64_t i)
{
    return 1 + (double)(i % PERIOD_1);
}

static double y_value(int64_t i)
{
    return 2 + (double)(i % PERIOD_2);
}

void mem_arrays_fill(mem_arrays_t *arrays, mem_kernel_t kernel)
{
    int64_t n = arrays->n;
    double *out = arrays->array[roles[kernel].out], *x = arrays->array[roles[kernel].first];
    double *y = arrays->array[roles[kernel].second < 0 ? 3 - roles[kernel].out - roles[kernel].first
                                                       : roles[kernel].second];
#pragma omp parallel for schedule(static) num_threads(arrays->n_threads)
    for (int64_t i = 0; i < n; i++) {
        out[i] = NAN;
        x[i] = x_value(i);
        y[i] = y_value(i);
    }
}

void mem_arrays_run(const mem_arrays_t *arrays, mem_kernel_t kernel)
{
    kernel_t run = kernel_of(kernel);
    double *out = arrays->array[roles[kernel].out], *x = arrays->array[roles[kernel].first];
    double *y = roles[kernel].second < 0 ? x : arrays->array[roles[kernel].second];
    int64_t part = arrays->n / arrays->n_threads;
    /* The same parts as schedule(static) in mem_arrays_fill: n is a multiple of n_threads. */
#pragma omp parallel for schedule(static) num_threads(arrays->n_threads)
    for (int t = 0; t < arrays->n_threads; t++)
        for (int64_t r = 0; r < arrays->repeat; r++) run(out + t * part, x + t * part, y + t * part, part);
}

int64_t mem_arrays_wrong(const mem_arrays_t *arrays, mem_kernel_t kernel)
{
    const double *got = mem_arrays_result(arrays, kernel);
    int64_t n_wrong = 0;
    for (int64_t i = 0; i < arrays->n; i++) {
        double x = x_value(i), y = y_value(i);
        double want = kernel == MEM_COPY    ? x
                      : kernel == MEM_SCALE ? q * x
                      : kernel == MEM_ADD   ? x + y
                                            : x + q * y;
        n_wrong += !(got[i] == want);
    }
    return n_wrong;
}

double *mem_arrays_result(const mem_arrays_t *arrays, mem_kernel_t kernel)
{
    return arrays->array[roles[kernel].out];
}
