/* SPDX-License-Identifier: MIT */
/* What the cases of `dptrain bench` share, and what other rooms and tests use of a single case. Not collective, unless
 * they say so. */
#ifndef TOOLS_BENCH_CASES_H
#define TOOLS_BENCH_CASES_H

#include "base/fs.h"
#include "cluster/hosts/machine.h"
#include "compute/graph/measure.h"
#include "tools/bench/bench.h"

/* A single operator with its buffers, for the cases that compute. */
typedef struct bench_op {
    op_t *op;
    scratch_t scratch;
    char *saved, *workspace;
} bench_op_t;

/* Collective. Plans the operator and allocates its buffers: inputs as scratch_new fills them, outputs NaN to
 * reveal elements that are never computed. Call bench_op_free in any case.
 *
 *   wanted  as in op_plan
 *   what    for messages: "conv1_2 of vgg16" */
err_t bench_op_new(bench_t *bench, const op_desc_t *desc, bool training, const op_algorithms_t *wanted,
                   const char *what, bench_op_t *out);
void bench_op_free(bench_op_t *bench_op);

/* One pass of an operator as a work. */
typedef struct bench_pass {
    const bench_op_t *of;
    op_pass_t pass;
} bench_pass_t;
bench_work_t bench_pass_work(bench_pass_t *pass, const char *what);

/* Collective. What a rank's hardware does at most. Measured once. */
err_t bench_yardstick(bench_t *bench, dtype_t compute, const yardstick_t **out);
/* Raises its FLOP/s, if known, to those of a product that was faster: a clock rate may have risen since.
 *
 *   product  for people: "a product of 64 x 64 x 64" */
void bench_raise_peak(bench_t *bench, dtype_t compute, double flops, const char *product);

/* Says what it is, and what measured it. */
void bench_print_peak(const yardstick_t *yardstick);

/* Writes "ranks", "threads", "device" and, unless NULL, "dtype" into a record's key. Does nothing if j is
 * NULL. */
void bench_key_ranks(const bench_t *bench, const char *dtype, json_t *j);

/* Rates of products. n_flops: per iteration of a rank. bench_rate_json does nothing if j is NULL. */
typedef struct bench_rate {
    double gflops, gflops_all; /* per rank; of all ranks */
    double peak_gflops,
        share_of_peak; /* of the yardstick, and per rank / that; unknown or disturbed: 0, NAN */
} bench_rate_t;
bench_rate_t bench_rate_of(const bench_t *bench, const bench_result_t *result, double n_flops,
                           const yardstick_t *yardstick);
void bench_rate_json(const bench_rate_t *rate, json_t *j);
/* The same as table columns, after the time. */
#define BENCH_RATE_COLUMNS                                                                                   \
    {"time", .unit = "us ", .min_width = 12}, {"GFLOP/s", .min_width = 8}, {"all ranks"},                    \
    {                                                                                                        \
        "of peak"                                                                                            \
    }
void bench_rate_cells(table_t *table, const bench_result_t *result, const bench_rate_t *rate);

/* Collective. Sums *n_wrong over the ranks. If it is not 0, the command will end with ERR_GATE. */
err_t bench_sum_wrong(bench_t *bench, int64_t *n_wrong);

/* gemm: products of integer matrices. */

/* Fills `out` with integers in [-half, half], half ≤ 127, determined by the seed. bfloat16 holds them
 * exactly, and float32 holds any sum of k products of two of them while k·half² < 2^24. */
void gemm_fill(float *out, int64_t count, int half, uint64_t seed);

/* Verifies y = x·wᵀ for integer matrices, |y| ≤ 2^24, exactly and in O(mn + mk + nk): compares y·v with
 * x·(wᵀv) for a random vector v, and columns likewise (Freivalds, "Probabilistic machines can use less
 * running time", 1977). A single wrong element in a row is always detected, because v has no zeros. Several
 * cancel out with probability 2^-20, and would have to do so in their columns, too.
 *
 *   x, w, y  [m, k], [n, k], [m, n]
 *   n_wrong  number of wrong rows and columns */
err_t gemm_check(const float *x, const float *w, const float *y, int64_t m, int64_t n, int64_t k,
                 int64_t *n_wrong);

/* conv: the convolutions of three networks on 224×224 images (LeNet-5: 28×28), each shape once.
 *
 *   LeNet-5    as dptrain trains it (src/compute/models)
 *   VGG-16     Simonyan & Zisserman, "Very Deep Convolutional Networks", 2014, column D; 15.3 G multiply-adds
 *              per image
 *   ResNet-50  He et al., "Deep Residual Learning", 2015, version 1.5 (stride in the 3×3); 4.1 G */
typedef struct conv_layer {
    const char *net, *name; /* of the first layer with this shape */
    int side, in, out;      /* input images of side × side pixels; channels */
    int kernel, stride, pad;
    bool bias;
    int repeat; /* number of layers with this shape */
    bool quick; /* included in --quick */
} conv_layer_t;

extern const conv_layer_t conv_layers[];
extern const int n_conv_layers;

/* Pixels per side of the output. */
int64_t conv_layer_out_side(const conv_layer_t *layer);
/* Multiply-adds of one pass over one image, including those with padding. */
int64_t conv_layer_macs(const conv_layer_t *layer);

enum { CONV_SPOTS = 48 };

/* Index of spot 0 … CONV_SPOTS - 1 among `count` elements: the first, the last, then random ones. */
int64_t conv_spot(int64_t count, int spot);

/* The output of a pass: y, dx or the weight gradient. *shape receives its shape. */
float *conv_result(const scratch_t *scratch, const op_desc_t *desc, op_pass_t pass, shape_t *shape);

/* Counts the wrong ones among the CONV_SPOTS elements. For dense convolutions only (no groups, dilation
 * or epilogue), on standard normal data. A sum of K products may deviate by 4·FLT_EPSILON·√K·scale,
 * where scale is the largest spot or √K; Winograd may deviate four times as much
 * (tests/unit/test_op_backends.c). */
int conv_check(const scratch_t *scratch, const op_desc_t *desc, op_pass_t pass, const char *algorithm);

/* mem: working sets derived from the machine's caches. */

enum { MEM_MAX_LEVELS = MACHINE_MAX_CACHES + 1 };

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
int mem_levels(const machine_cache_t *caches, int n_caches, int n_threads, int n_local, int n_cpus,
               mem_level_t out[MEM_MAX_LEVELS]);

/* Three arrays of doubles and STREAM's four loops over them (McCalpin, "Memory bandwidth and machine
 * balance in current high performance computers", 1995), multithreaded. */
/* copy c = a, scale b = q·c, add c = a + b, triad a = b + q·c */
typedef enum mem_kernel { MEM_COPY, MEM_SCALE, MEM_ADD, MEM_TRIAD, MEM_KERNEL_COUNT } mem_kernel_t;

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

/* io: plain files. */

/* Checks that files of n_bytes in total can be written to the folder. ERR_USAGE or ERR_SYSTEM if it is
 * missing, read-only or too small, or if n_bytes exceeds the process's file size limit. */
err_t io_check_folder(const char *folder, int64_t n_bytes);

/* "ext4", "tmpfs", …; the kernel's magic number in hexadecimal if the name is unknown. */
void io_filesystem(const char *folder, char *out, size_t n_bytes);

/* Creates a new folder inside `folder`; removes it with all its files. */
err_t io_temp_new(const char *folder, char out[FS_PATH_MAX]);
void io_temp_remove(const char *temp);

/* Write a new file, flush it, read a file; in chunks of IO_PART bytes. Reads and writes stop early when the
 * program is asked to end.
 *
 *   fd  stays open; close it */
enum { IO_PART = 1 << 20 };
err_t io_write(const char *path, const uint8_t *bytes, int64_t n, int *fd);
err_t io_flush(int fd, const char *path);
err_t io_read(const char *path, uint8_t *out, int64_t n);

/* Flushes the file and asks the kernel to evict it from the page cache. *n_left: pages still cached; tmpfs
 * keeps all. */
err_t io_drop(const char *path, int64_t *n_left);

#endif
