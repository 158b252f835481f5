/* SPDX-License-Identifier: MIT */
/* `dptrain bench mem`: STREAM's loops in each cache level and in DRAM, and the cost of fresh pages. On a GPU: copies within its
 * memory, to and from the host. Each is verified. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/isa.h"
#include "compute/ops/hd_buffer.h"
#include "tools/bench/bench.h"
#include "tools/bench/cases.h"

/* ---- STREAM's loops and their arrays ---- */
enum { LINE = 8, RUN_BYTES = 8 << 20, PERIOD_1 = 1013, PERIOD_2 = 509 };
static const double q = 3;

static const char *const mem_kernel_names[MEM_KERNEL_COUNT] = {"copy", "scale", "add", "triad"};

/* Operands of each kernel: 0, 1, 2 for a, b, c. second is -1 if the kernel reads only one. */
static const struct {
    int out, first, second;
} roles[MEM_KERNEL_COUNT] = {{2, 0, -1}, {1, 2, -1}, {2, 0, 1}, {0, 1, 2}};

int64_t mem_kernel_bytes(mem_kernel_t kernel, int64_t n_elements)
{
    return (roles[kernel].second < 0 ? 2 : 3) * n_elements * (int64_t)sizeof(double);
}

/* The widest vectors and four of them per turn: with two bytes loaded per byte stored, fewer leave L1's ports idle. Parts of
 * arrays are whole cache lines. The Makefile keeps `copy` from becoming memcpy, which bypasses caches. */
WIDE_CLONES(copy, (double *restrict out, const double *restrict x, const double *y, int64_t n),
            (out, x, y, n))
{
    (void)y;
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i++) out[i] = x[i];
}

WIDE_CLONES(scale, (double *restrict out, const double *restrict x, const double *y, int64_t n),
            (out, x, y, n))
{
    (void)y;
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i++) out[i] = q * x[i];
}

WIDE_CLONES(add, (double *restrict out, const double *restrict x, const double *restrict y, int64_t n),
            (out, x, y, n))
{
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i++) out[i] = x[i] + y[i];
}

WIDE_CLONES(triad, (double *restrict out, const double *restrict x, const double *restrict y, int64_t n),
            (out, x, y, n))
{
#pragma GCC unroll 4
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

/* ---- The benchmark ---- */
enum { N_ARRAYS = 3, STREAM_FACTOR = 4 };

int mem_levels(const machine_cache_t *caches, int n_caches, int n_threads, int n_local, int n_cpus,
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
    const machine_cache_t *last = &caches[n_caches - 1];
    int64_t n_last = (n_cpus + last->n_sharers - 1) / last->n_sharers;
    snprintf(out[n].name, sizeof out[n].name, "DRAM");
    out[n++].n_bytes = N_ARRAYS * STREAM_FACTOR * last->n_bytes * n_last / n_local;
    return n;
}

typedef enum copy_kind { COPY_WITHIN, COPY_TO, COPY_FROM, COPY_KINDS } copy_kind_t;

static const struct {
    const char *test, *what;
    int n_moved; /* bytes that device memory moves per byte copied */
} kinds[COPY_KINDS] = {
    {"device_copy", "a copy within the GPU", 2},
    {"host_to_device", "a copy from pinned host memory", 1},
    {"device_to_host", "a copy to pinned host memory", 1},
};

typedef struct copy {
    const backend_t *backend;
    copy_kind_t kind;
    hd_buffer_t from, to;
    table_t *table;
} copy_t;

static err_t run_copy(void *context)
{
    const copy_t *c = context;
    const backend_memory_t *memory = c->backend->memory;
    if (c->kind == COPY_WITHIN) return memory->copy(c->to.device, c->from.device, c->from.n_bytes);
    if (c->kind == COPY_TO) return memory->upload(c->to.device, c->from.host, c->from.n_bytes);
    return memory->download(c->to.host, c->from.device, c->from.n_bytes);
}

static err_t finish_copy(void *context)
{
    const copy_t *c = context;
    return backend_sync(c->backend);
}

/* Different bytes for each kind, so that data left by an earlier copy is wrong. */
static err_t fill_source(const copy_t *c)
{
    uint8_t *bytes = c->from.host;
    for (size_t i = 0; i < c->from.n_bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 4093 + (size_t)c->kind * 85 + 1);
    TRY(hd_buffer_push_all(&c->from));
    return backend_sync(c->backend);
}

static err_t count_wrong_bytes(const copy_t *c, bool spoil, int64_t *n_wrong)
{
    if (c->kind != COPY_FROM) TRY(hd_buffer_pull_all(&c->to));
    const uint8_t *is = c->to.host, *wanted = c->from.host;
    if (spoil) ((uint8_t *)c->to.host)[c->to.n_bytes / 2] ^= 1;
    *n_wrong = 0;
    for (size_t i = 0; i < c->from.n_bytes; i++) *n_wrong += is[i] != wanted[i];
    return ERR_OK;
}

static err_t mem_device_report(bench_t *bench, const copy_t *c, const bench_result_t *result, int64_t n_wrong)
{
    double n_bytes = (double)c->from.n_bytes * kinds[c->kind].n_moved;
    double gbs = result->p50 > 0 ? n_bytes / result->p50 / 1e9 : 0;
    table_cell(c->table, "%s", kinds[c->kind].test);
    table_cell(c->table, "%.1f", (double)c->from.n_bytes / 1024);
    table_cell(c->table, "%.2f%-1s", 1e6 * result->p50, bench_mark(result));
    table_cell(c->table, "%.2f", gbs);
    table_cell(c->table, "%.2f", gbs * bench->comm->size);
    table_cell(c->table, "%lld", (long long)n_wrong);
    table_log(c->table);
    bench_print_best(result, 1, gbs, "GB/s");
    json_t *j = bench_record_begin(bench, "mem", kinds[c->kind].test);
    if (j) {
        json_string(j, "level", "GPU");
        json_int(j, "bytes", (int64_t)c->from.n_bytes);
        bench_key_ranks(bench, NULL, j);
    }
    bench_record_metrics(bench);
    if (j) {
        json_real(j, "gbs", gbs);
        json_real(j, "gbs_all", gbs * bench->comm->size);
        json_int(j, "wrong", n_wrong);
    }
    return bench_record_end(bench, result);
}

static err_t mem_device_measure_copy(bench_t *bench, copy_t *c, bool spoil)
{
    const char *what = kinds[c->kind].what;
    bench_work_t work = {.what = what, .context = c, .run = run_copy, .finish = finish_copy};
    bench_result_t result = {0};
    int64_t n_wrong = 0;
    TRY(comm_agree(bench->comm, fill_source(c), what));
    err_t err = bench_measure(bench, &work, 1, &result);
    if (err == ERR_OK) err = comm_agree(bench->comm, count_wrong_bytes(c, spoil, &n_wrong), what);
    if (err == ERR_OK) err = bench_sum_wrong(bench, &n_wrong);
    if (err == ERR_OK) err = mem_device_report(bench, c, &result, n_wrong);
    bench_result_free(&result);
    return err;
}

/* Collective. Measures copies of n_bytes within the device, from and to pinned host memory, and verifies
 * each. The backend must have device memory.
 *
 *   spoil  corrupt one byte before the check, for tests */
static err_t mem_device_measure(bench_t *bench, int64_t n_bytes, bool spoil)
{
    table_t table = {.columns = {{"GPU", true, .min_width = 16},
                                 {"KiB per rank", .min_width = 12},
                                 {"time", .unit = "us ", .min_width = 12},
                                 {"GB/s", .min_width = 8},
                                 {"all ranks"},
                                 {"wrong"}},
                     .n_columns = 6,
                     .indent = 2};
    copy_t c = {.backend = bench->runtime.backend, .table = &table};
    TRY(bench_check_memory(bench, 2 * n_bytes, "bench mem (--mem-bytes)"));
    err_t err = hd_buffer_new(c.backend, (size_t)n_bytes, "memory copies (--mem-bytes)", &c.from);
    if (err == ERR_OK) err = hd_buffer_new(c.backend, (size_t)n_bytes, "memory copies (--mem-bytes)", &c.to);
    err = comm_agree(bench->comm, err, "measuring the GPU's memory");
    if (err == ERR_OK) table_log(&table); /* the headings */
    for (int kind = 0; kind < COPY_KINDS && err == ERR_OK; kind++) {
        c.kind = (copy_kind_t)kind;
        err = mem_device_measure_copy(bench, &c, spoil);
    }
    hd_buffer_free(&c.from);
    hd_buffer_free(&c.to);
    table_free(&table);
    return err;
}

enum { DEVICE_COPY = 256 << 20, DEVICE_COPY_QUICK = 64 << 20 };
enum { FRESH = 64 << 20, FRESH_QUICK = 16 << 20, FRESH_MIN = 4 << 20, WHAT_MAX = 96 };

typedef struct mem_options {
    int64_t n_bytes;
    bool fresh, fault;
} mem_options_t;

#define FIELD(name) offsetof(mem_options_t, name)
static const opt_t mem_table[] = {
    {"mem-bytes", OPT_SIZE, FIELD(n_bytes), "0", 0, 1e15, NULL, "BYTES",
     "size of the working set per rank (three arrays together; on a GPU the array copied); 0: one per cache "
     "level, and DRAM",
     OPT_MORE},
    {"mem-fresh", OPT_FLAG, FIELD(fresh), "true", 0, 0, NULL, NULL, "also measure the cost of fresh pages",
     OPT_MORE},
    {"mem-fault", OPT_FLAG, FIELD(fault), NULL, 0, 0, NULL, NULL, "corrupt one element before the check",
     OPT_HIDDEN},
};

static err_t mem_check_options(void *values)
{
    enum { LEAST = 1024 };
    const mem_options_t *o = values;
    if (o->n_bytes > 0 && o->n_bytes < LEAST)
        RAISE(ERR_USAGE, "invalid --mem-bytes %lld: expected %d or more", (long long)o->n_bytes, LEAST);
    return ERR_OK;
}

typedef struct loop {
    const mem_arrays_t *arrays;
    mem_kernel_t kernel;
    table_t *table;
} loop_t;

static err_t run_loop(void *context)
{
    const loop_t *loop = context;
    mem_arrays_run(loop->arrays, loop->kernel);
    return ERR_OK;
}

static err_t report_loop(bench_t *bench, const mem_level_t *level, const loop_t *loop,
                         const bench_result_t *result, int64_t n_wrong)
{
    const mem_arrays_t *a = loop->arrays;
    const char *name = mem_kernel_names[loop->kernel];
    double n_bytes = (double)(mem_kernel_bytes(loop->kernel, a->n) * a->repeat);
    double gbs = result->p50 > 0 ? n_bytes / result->p50 / 1e9 : 0;
    table_cell(loop->table, "%s", level->name);
    table_cell(loop->table, "%.1f", (double)a->n_block_bytes / 1024);
    table_cell(loop->table, "%s", name);
    table_cell(loop->table, "%.2f%-1s", 1e6 * result->p50 / (double)a->repeat, bench_mark(result));
    table_cell(loop->table, "%.2f", gbs);
    table_cell(loop->table, "%.2f", gbs * bench->comm->size);
    table_cell(loop->table, "%lld", (long long)n_wrong);
    table_log(loop->table);
    bench_print_best(result, (double)a->repeat, gbs, "GB/s");
    json_t *j = bench_record_begin(bench, "mem", name);
    if (j) {
        json_string(j, "level", level->name);
        json_int(j, "bytes", a->n_block_bytes);
        bench_key_ranks(bench, dtype_name(DTYPE_F64), j);
    }
    bench_record_metrics(bench);
    if (j) {
        json_real(j, "gbs", gbs);
        json_real(j, "gbs_all", gbs * bench->comm->size);
        json_int(j, "passes_per_iteration", a->repeat);
        json_int(j, "wrong", n_wrong);
    }
    return bench_record_end(bench, result);
}

static err_t measure_loop(bench_t *bench, const mem_options_t *options, const mem_level_t *level,
                          mem_arrays_t *arrays, mem_kernel_t kernel, table_t *table)
{
    char what[WHAT_MAX];
    loop_t loop = {arrays, kernel, table};
    bench_work_t work = {.what = what, .context = &loop, .run = run_loop};
    bench_result_t result = {0};
    snprintf(what, sizeof what, "%s in %s", mem_kernel_names[kernel], level->name);
    mem_arrays_fill(arrays, kernel);
    err_t err = bench_measure(bench, &work, 1, &result);
    int64_t n_wrong = 0;
    if (err == ERR_OK) {
        if (options->fault) mem_arrays_result(arrays, kernel)[arrays->n / 2] *= 2;
        n_wrong = mem_arrays_wrong(arrays, kernel);
        err = bench_sum_wrong(bench, &n_wrong);
    }
    if (err == ERR_OK) err = report_loop(bench, level, &loop, &result, n_wrong);
    bench_result_free(&result);
    return err;
}

static err_t measure_level(bench_t *bench, const mem_options_t *options, const mem_level_t *level,
                           table_t *table)
{
    mem_arrays_t arrays = {.n = 0};
    TRY(bench_check_memory(bench, level->n_bytes,
                           options->n_bytes ? "--mem-bytes" : "bench mem (--mem-bytes)"));
    err_t err = comm_agree(bench->comm, mem_arrays_new(level->n_bytes, bench->runtime.n_threads, &arrays),
                           "measuring memory");
    for (int kernel = 0; kernel < MEM_KERNEL_COUNT && err == ERR_OK; kernel++)
        if (!bench->options->quick || kernel == MEM_COPY || kernel == MEM_TRIAD)
            err = measure_loop(bench, options, level, &arrays, (mem_kernel_t)kernel, table);
    mem_arrays_free(&arrays);
    return err;
}

/* Hosts may differ, so all ranks use rank 0's levels. */
static err_t find_levels(bench_t *bench, const mem_options_t *options, mem_level_t levels[MEM_MAX_LEVELS],
                         int *n)
{
    static const char what[] = "choosing working sets";
    machine_cache_t caches[MACHINE_MAX_CACHES] = {{1, 32 << 10, 1}, {2, 1 << 20, 1}, {3, 32 << 20, 1}};
    *n = 1;
    levels[0] = (mem_level_t){"given", options->n_bytes};
    if (options->n_bytes > 0) return ERR_OK;
    int n_caches = machine_caches(NULL, caches);
    if (n_caches == 0) {
        bench_print("  the kernel does not report cache sizes; assuming 32 KiB, 1 MiB and 32 MiB");
        n_caches = 3;
    }
    *n = mem_levels(caches, n_caches, bench->runtime.n_threads, bench->comm->topo.max_local_size,
                    (int)sysconf(_SC_NPROCESSORS_ONLN), levels);
    TRY(comm_broadcast(bench->comm, n, sizeof *n, 0, what));
    return comm_broadcast(bench->comm, levels, MEM_MAX_LEVELS * (int64_t)sizeof *levels, 0, what);
}

typedef struct fresh {
    size_t n_bytes, n_page;
    int advice;
    bool refused;    /* the kernel refused the advice */
    int64_t n_wrong; /* pages that were not zero or lost what was written */
} fresh_t;

static err_t map_fresh(fresh_t *f, char **out)
{
    void *block = mmap(NULL, f->n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        RAISE(ERR_SYSTEM, "out of memory: %zu bytes for fresh pages: %s", f->n_bytes, strerror(errno));
    f->refused = madvise(block, f->n_bytes, f->advice) != 0;
    *out = block;
    return ERR_OK;
}

static err_t run_fresh(void *context)
{
    fresh_t *f = context;
    char *block = NULL;
    TRY(map_fresh(f, &block));
    for (size_t i = 0; i < f->n_bytes; i += f->n_page) ((volatile char *)block)[i] = 1;
    munmap(block, f->n_bytes);
    return ERR_OK;
}

/* Untimed: counts the faults of one round, and verifies that pages start as zeros and keep what is
 * written. */
static err_t inspect_fresh(fresh_t *f, double *n_faults)
{
    char *block = NULL;
    struct rusage before, after;
    TRY(map_fresh(f, &block));
    getrusage(RUSAGE_SELF, &before);
    /* Write before reading: reading first would map the kernel's shared zero page, and fault again. */
    for (size_t i = 0; i < f->n_bytes; i += f->n_page) ((volatile char *)block)[i] = (char)(i / f->n_page);
    getrusage(RUSAGE_SELF, &after);
    for (size_t i = 0; i < f->n_bytes; i += f->n_page)
        f->n_wrong += block[i] != (char)(i / f->n_page) || block[i + f->n_page / 2] != 0;
    *n_faults = (double)(after.ru_minflt - before.ru_minflt);
    munmap(block, f->n_bytes);
    return ERR_OK;
}

static err_t report_fresh(bench_t *bench, const fresh_t *f, const char *pages, double n_faults,
                          const bench_result_t *result, table_t *table)
{
    double n_pages = (double)(f->n_bytes / f->n_page), us = 1e6 * result->p50 / n_pages;
    double gbs = result->p50 > 0 ? (double)f->n_bytes / result->p50 / 1e9 : 0;
    table_cell(table, "%s", pages);
    table_cell(table, "%.1f", (double)f->n_bytes / 1024);
    table_cell(table, "%.3f%-1s", us, bench_mark(result));
    table_cell(table, "%.2f", gbs);
    table_cell(table, "%.2f", gbs * bench->comm->size);
    table_cell(table, "%.4f", n_faults / n_pages);
    table_cell(table, "%lld", (long long)f->n_wrong);
    table_log(table);
    bench_print_best(result, n_pages, gbs, "GB/s");
    json_t *j = bench_record_begin(bench, "mem", "fresh_pages");
    if (j) {
        json_string(j, "advice", pages);
        json_int(j, "bytes", (int64_t)f->n_bytes);
        bench_key_ranks(bench, NULL, j);
    }
    bench_record_metrics(bench);
    if (j) {
        json_real(j, "us_per_page", us);
        json_int(j, "page_bytes", (int64_t)f->n_page);
        json_real(j, "gbs", gbs);
        json_real(j, "gbs_all", gbs * bench->comm->size);
        json_real(j, "faults_per_page", n_faults / n_pages);
        json_int(j, "wrong", f->n_wrong);
    }
    return bench_record_end(bench, result);
}

/* Measures small and huge pages alternately. Faults are per small page, so huge pages show few. */
static err_t measure_fresh(bench_t *bench, int64_t n_bytes)
{
    static const char *const pages[] = {"small pages", "MADV_HUGEPAGE"};
    size_t n_page = (size_t)sysconf(_SC_PAGESIZE);
    n_bytes = n_bytes / (int64_t)n_page * (int64_t)n_page;
    fresh_t fresh[2] = {{(size_t)n_bytes, n_page, MADV_NOHUGEPAGE, false, 0},
                        {(size_t)n_bytes, n_page, MADV_HUGEPAGE, false, 0}};
    bench_work_t works[2];
    bench_result_t results[2] = {{0}};
    table_t table = {.columns = {{"fresh pages", true, .min_width = 18},
                                 {"KiB", .min_width = 12},
                                 {"us per page ", .min_width = 12},
                                 {"GB/s", .min_width = 8},
                                 {"all ranks"},
                                 {"faults per page"},
                                 {"wrong"}},
                     .n_columns = 7,
                     .indent = 2};
    for (int i = 0; i < 2; i++)
        works[i] = (bench_work_t){.what = pages[i], .context = &fresh[i], .run = run_fresh};
    TRY(bench_check_memory(bench, n_bytes, "bench mem (fresh pages)"));
    err_t err = bench_measure(bench, works, 2, results);
    if (err == ERR_OK) table_log(&table); /* the headings */
    for (int i = 0; i < 2 && err == ERR_OK; i++) {
        double n_faults = 0;
        err = comm_agree(bench->comm, inspect_fresh(&fresh[i], &n_faults), "checking fresh pages");
        if (err == ERR_OK) err = bench_sum_wrong(bench, &fresh[i].n_wrong);
        if (err == ERR_OK) err = report_fresh(bench, &fresh[i], pages[i], n_faults, &results[i], &table);
        if (err == ERR_OK && fresh[i].refused && i == 1) bench_print("  (the kernel refused huge pages)");
    }
    for (int i = 0; i < 2; i++) bench_result_free(&results[i]);
    table_free(&table);
    return err;
}

static err_t mem_run(bench_t *bench, const void *values)
{
    const mem_options_t *o = values;
    mem_level_t levels[MEM_MAX_LEVELS];
    int n_levels = 0;
    table_t table = {.columns = {{"level", true, .min_width = 6},
                                 {"KiB per rank", .min_width = 12},
                                 {"loop", true, .min_width = 6},
                                 {"time", .unit = "us ", .min_width = 12},
                                 {"GB/s", .min_width = 8},
                                 {"all ranks"},
                                 {"wrong"}},
                     .n_columns = 7,
                     .indent = 2};
    if (bench->runtime.backend->memory) {
        int64_t n_bytes = o->n_bytes ? o->n_bytes : bench->options->quick ? DEVICE_COPY_QUICK : DEVICE_COPY;
        bench_print("mem: GPU memory copies, %d rank%s concurrently; --device cpu measures host memory",
                    bench->comm->size, bench->comm->size > 1 ? "s" : "");
        return mem_device_measure(bench, n_bytes, o->fault);
    }
    int64_t fresh = o->n_bytes ? o->n_bytes : bench->options->quick ? FRESH_QUICK : FRESH;
    bench_print("mem: STREAM's loops, %d thread%s per rank, %d rank%s concurrently", bench->runtime.n_threads,
                bench->runtime.n_threads > 1 ? "s" : "", bench->comm->size, bench->comm->size > 1 ? "s" : "");
    TRY(find_levels(bench, o, levels, &n_levels));
    table_log(&table); /* the headings */
    err_t err = ERR_OK;
    for (int i = 0; i < n_levels && err == ERR_OK; i++) err = measure_level(bench, o, &levels[i], &table);
    table_free(&table);
    if (err != ERR_OK || !o->fresh) return err;
    return measure_fresh(bench, fresh > FRESH_MIN ? fresh : FRESH_MIN);
}

const bench_case_t bench_mem = {.name = "mem",
                                .summary = "memory bandwidth of each cache and of DRAM, cost of fresh pages",
                                .table = mem_table,
                                .n_options = sizeof mem_table / sizeof mem_table[0],
                                .n_options_bytes = sizeof(mem_options_t),
                                .check = mem_check_options,
                                .run = mem_run};
