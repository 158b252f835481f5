/* SPDX-License-Identifier: MIT */
/* RUN np=0 isa=avx2,avx512 : the quantities that bench counts (layers, FLOPs, bytes, working sets), and its checks, which
 * must detect wrong results. */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compute/ops/backend.h"
#include "tests/op_util.h"
#include "tests/tap.h"
#include "tools/bench/cases.h"

static op_desc_t desc_of(const conv_layer_t *l, int64_t batch)
{
    op_desc_t desc = CONV(batch, l->side, l->side, l->in, l->out, l->kernel, l->kernel, l->stride, l->stride,
                          l->pad, l->pad, 1, 1, 1, l->bias);
    must(op_infer(&desc), l->name);
    return desc;
}

static void check_layers(void)
{
    static const struct {
        const char *net;
        int n_layers;
        int64_t n_macs; /* of all convolutions, one image */
    } nets[] = {
        {"lenet5", 2, 288000 + 1600000},
        {"vgg16", 13, 15346630656},
        {"resnet50", 53, 4087136256},
    };
    bool agree = true, quick[3] = {false};
    for (int k = 0; k < 3; k++) {
        int64_t n_macs = 0;
        int n_layers = 0;
        for (int i = 0; i < n_conv_layers; i++) {
            const conv_layer_t *l = &conv_layers[i];
            if (strcmp(l->net, nets[k].net) != 0) continue;
            n_layers += l->repeat;
            n_macs += l->repeat * conv_layer_macs(l);
            quick[k] |= l->quick;
            op_desc_t desc = desc_of(l, 3);
            agree = agree && op_macs(&desc) == 3 * conv_layer_macs(l) &&
                    desc.y[0].dim[1] == conv_layer_out_side(l);
        }
        OK(n_layers == nets[k].n_layers && n_macs == nets[k].n_macs,
           "%s: %d convolutions, %lld multiply-adds", nets[k].net, n_layers, (long long)n_macs);
    }
    OK(agree, "the table counts as the operators do");
    OK(quick[0] && quick[1] && quick[2], "--quick leaves something of each network");
    bool distinct = true;
    for (int i = 0; i < n_conv_layers; i++)
        for (int k = 0; k < i; k++) {
            char a[OP_KEY_MAX], b[OP_KEY_MAX];
            op_desc_t first = desc_of(&conv_layers[i], 1), second = desc_of(&conv_layers[k], 1);
            op_key(&first, a);
            op_key(&second, b);
            distinct = distinct && (strcmp(conv_layers[i].net, conv_layers[k].net) != 0 || strcmp(a, b) != 0);
        }
    OK(distinct, "each shape of a network is listed once");
}

static void check_rates(void)
{
    comm_t comm = {.size = 3};
    bench_t bench = {.comm = &comm};
    bench_result_t result = {.p50 = 0.5};
    yardstick_t known = {.flops = 16e9}, unknown = {0};
    bench_rate_t rate = bench_rate_of(&bench, &result, 4e9, &known);
    OK(rate.gflops == 8 && rate.gflops_all == 24 && rate.peak_gflops == 16 && rate.share_of_peak == 0.5,
       "FLOP/s: of a rank, of all, of the peak");
    rate = bench_rate_of(&bench, &result, 4e9, &unknown);
    OK(rate.gflops == 8 && isnan(rate.share_of_peak), "an unknown peak");
    const yardstick_t *y;
    bench.has_yardstick[DTYPE_F32] = bench.has_yardstick[DTYPE_BF16] = true;
    bench.yardstick[DTYPE_F32] = (yardstick_t){.flops = 6e9, .flops_from = "a loop"};
    bench_raise_peak(&bench, DTYPE_F32, 5e9, "a product");
    OK(bench_yardstick(&bench, DTYPE_F32, &y) == ERR_OK && y->flops == 6e9 &&
           strcmp(y->flops_from, "a loop") == 0,
       "a slower product leaves the peak");
    bench_raise_peak(&bench, DTYPE_F32, 8e9, "a product");
    OK(bench_yardstick(&bench, DTYPE_F32, &y) == ERR_OK && strcmp(y->flops_from, "a product") == 0 &&
           bench_rate_of(&bench, &result, 4e9, y).share_of_peak == 1,
       "a faster one raises it, and is named");
    bench_raise_peak(&bench, DTYPE_BF16, 8e9, "a product");
    OK(bench.yardstick[DTYPE_BF16].flops == 0, "but not one that is unknown");
    OK(mem_kernel_bytes(MEM_COPY, 10) == 160 && mem_kernel_bytes(MEM_SCALE, 10) == 160 &&
           mem_kernel_bytes(MEM_ADD, 10) == 240 && mem_kernel_bytes(MEM_TRIAD, 10) == 240,
       "bytes as STREAM counts them");
}

/* x [5, 9], w [7, 9], y [5, 7] */
enum { M = 5, N = 7, K = 9 };

static int64_t wrong_with(const float *x, const float *w, const float *y, int at, float value, int at2,
                          float value2)
{
    float changed[M * N];
    int64_t n_wrong = -1;
    memcpy(changed, y, sizeof changed);
    if (at >= 0) changed[at] = value;
    if (at2 >= 0) changed[at2] = value2;
    must(gemm_check(x, w, changed, M, N, K, &n_wrong), "gemm_check");
    return n_wrong;
}

static void check_gemm(void)
{
    float x[M * K], w[N * K], y[M * N];
    int lowest = 0, highest = 0;
    gemm_fill(x, M * K, 3, 1);
    gemm_fill(w, N * K, 2, 2);
    for (int i = 0; i < M * K; i++) {
        lowest = x[i] < (float)lowest ? (int)x[i] : lowest;
        highest = x[i] > (float)highest ? (int)x[i] : highest;
    }
    OK(lowest == -3 && highest == 3, "numbers from -3 to 3: %d to %d", lowest, highest);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            y[i * N + j] = 0;
            for (int k = 0; k < K; k++) y[i * N + j] += x[i * K + k] * w[j * K + k];
        }
    OK(wrong_with(x, w, y, -1, 0, -1, 0) == 0, "a right product");
    bool seen = true;
    for (int at = 0; at < M * N; at++) {
        static const float wrong[] = {NAN, INFINITY, -INFINITY, 1e30f, 0.5f};
        seen = seen && wrong_with(x, w, y, at, y[at] + 1, -1, 0) == 2;
        for (int i = 0; i < 5; i++) seen = seen && wrong_with(x, w, y, at, wrong[i], -1, 0) == 2;
    }
    OK(seen, "one wrong element, in its row and its column");
    OK(wrong_with(x, w, y, 1, y[1] + 1, 2, y[2] - 1) == 3, "two in the same row that cancel out");
    OK(wrong_with(x, w, y, 1, y[1] + 1, 1 + N, y[1 + N] - 1) == 3, "two in the same column");
}

/* Runs a pass of a convolution, adds `value` to spot `spoiled` (-1: none), and returns the number of wrong
 * spots. */
static int wrong_spots(const backend_t *backend, op_desc_t desc, op_pass_t pass, int spoiled, float value)
{
    scratch_t s;
    op_t *op = NULL;
    char *saved = NULL, *workspace = NULL;
    shape_t shape;
    must(op_infer(&desc), "infer");
    must(op_plan(backend, &desc, true, NULL, &op), "plan");
    must(scratch_new(&desc, backend, true, "a test", &s), "scratch");
    must(mem_new(op->n_saved_bytes, "saved", &saved), "memory");
    must(mem_new(op->n_workspace_bytes, "workspace", &workspace), "memory");
    must(scratch_run(&s, op, pass, saved, workspace), "run");
    float *result = conv_result(&s, &desc, pass, &shape);
    if (spoiled >= 0) result[conv_spot(shape_count(shape), spoiled)] += value;
    int n_wrong = conv_check(&s, &desc, pass, op->algorithms.name[pass]);
    mem_free(&saved);
    mem_free(&workspace);
    scratch_free(&s);
    op_free(&op);
    return n_wrong;
}

static void check_conv(const backend_t *backend)
{
    static const op_desc_t cases[] = {
        CONV(2, 9, 11, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
        CONV(3, 13, 13, 3, 8, 7, 7, 2, 2, 3, 3, 1, 1, 1, false),
        CONV(2, 8, 8, 16, 32, 1, 1, 2, 2, 0, 0, 1, 1, 1, false),
        CONV(2, 14, 14, 64, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1, true),
    };
    for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
        bool right = true, seen = true;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            right = right && wrong_spots(backend, cases[i], (op_pass_t)pass, -1, 0) == 0;
            seen = seen && wrong_spots(backend, cases[i], (op_pass_t)pass, 0, NAN) >= 1 &&
                   wrong_spots(backend, cases[i], (op_pass_t)pass, 1, 0.1f) >= 1 &&
                   wrong_spots(backend, cases[i], (op_pass_t)pass, CONV_SPOTS - 1, -0.1f) >= 1;
        }
        OK(right, "%s on %s is correct", op_pass_names[pass], backend->name);
        OK(seen, "%s on %s: a wrong element is detected", op_pass_names[pass], backend->name);
    }
    bool inside = true;
    for (int i = 0; i < CONV_SPOTS; i++) inside = inside && conv_spot(3, i) >= 0 && conv_spot(3, i) < 3;
    OK(inside && conv_spot(1000, 0) == 0 && conv_spot(1000, 1) == 999, "the first, the last, and within");
}

static void check_mem(void)
{
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        mem_arrays_t arrays;
        must(mem_arrays_new(100000, n_threads, &arrays), "arrays");
        bool right = true, untouched = true, seen = true;
        for (int kernel = 0; kernel < MEM_KERNEL_COUNT; kernel++) {
            mem_arrays_fill(&arrays, (mem_kernel_t)kernel);
            untouched = untouched && mem_arrays_wrong(&arrays, (mem_kernel_t)kernel) == arrays.n;
            mem_arrays_run(&arrays, (mem_kernel_t)kernel);
            right = right && mem_arrays_wrong(&arrays, (mem_kernel_t)kernel) == 0;
            mem_arrays_result(&arrays, (mem_kernel_t)kernel)[arrays.n - 1] *= 1 + 1e-15;
            seen = seen && mem_arrays_wrong(&arrays, (mem_kernel_t)kernel) == 1;
        }
        OK(right && untouched && seen, "the loops with %d threads: right, not yet run, one bit wrong",
           n_threads);
        OK(arrays.n % n_threads == 0 && arrays.n_block_bytes <= 100000 && arrays.n_block_bytes > 99000,
           "%lld bytes of 100000", (long long)arrays.n_block_bytes);
        mem_arrays_free(&arrays);
    }
}

static bool level_is(const mem_level_t *level, const char *name, int64_t n_bytes)
{
    bool same = strcmp(level->name, name) == 0 && level->n_bytes == n_bytes;
    if (!same) printf("# %s: %lld\n", level->name, (long long)level->n_bytes);
    return same;
}

static void check_levels(void)
{
    enum { K_ = 1 << 10, M_ = 1 << 20 };
    mem_level_t out[MEM_MAX_LEVELS];
    const machine_cache_t usual[] = {{1, 32 * K_, 1}, {2, M_, 1}, {3, 32 * M_, 8}};
    int n = mem_levels(usual, 3, 1, 1, 16, out);
    OK(n == 4 && level_is(&out[0], "L1", 16 * K_) && level_is(&out[1], "L2", M_ / 2) &&
           level_is(&out[2], "L3", 2 * M_) && level_is(&out[3], "DRAM", 3LL * 4 * 64 * M_),
       "one thread; the last level twice on 16 CPUs");
    n = mem_levels(usual, 3, 4, 2, 8, out);
    OK(n == 4 && level_is(&out[0], "L1", 64 * K_) && level_is(&out[1], "L2", 2 * M_) &&
           level_is(&out[2], "L3", 8 * M_) && level_is(&out[3], "DRAM", 3LL * 4 * 32 * M_ / 2),
       "four threads, two ranks");
    const machine_cache_t small[] = {{1, 32 * K_, 1}, {2, M_, 1}, {3, M_ / 2, 1}};
    n = mem_levels(small, 3, 1, 1, 1, out);
    OK(n == 3 && strcmp(out[2].name, "DRAM") == 0, "a cache smaller than the previous level is skipped");
}

static void check_files(void)
{
    char folder[] = "/tmp/dptrain-test-XXXXXX", temp[FS_PATH_MAX], path[FS_PATH_MAX];
    uint8_t out[5000] = {0}, bytes[5000];
    int64_t n_left = -1;
    int fd = -1;
    ASSERT(mkdtemp(folder));
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7);
    must(io_temp_new(folder, temp), "a folder");
    must(fs_join(path, temp, "file"), "a path");
    OK_CALL(io_write(path, bytes, sizeof bytes, &fd), "a file is written");
    OK_CALL(io_flush(fd, path), "and flushed");
    close(fd);
    OK_CALL(io_drop(path, &n_left), "and dropped: %lld pages are left", (long long)n_left);
    OK(n_left >= 0 && n_left <= 2, "of its two pages %lld stay", (long long)n_left);
    OK(io_read(path, out, sizeof out) == ERR_OK && memcmp(out, bytes, sizeof out) == 0, "and read");
    OK(io_read(path, out, sizeof out - 1) == ERR_OK, "a part of it");
    OK(truncate(path, 100) == 0 && io_read(path, out, sizeof out) == ERR_SYSTEM &&
           strstr(err_message(), "is truncated"),
       "a file that ends early: %s", err_message());
    OK(io_write(path, bytes, sizeof bytes, &fd) == ERR_SYSTEM, "an existing file is not overwritten: %s",
       err_message());
    OK(io_check_folder(folder, 1000) == ERR_OK, "room for a little");
    OK(io_check_folder(folder, INT64_MAX / 2) == ERR_USAGE && strstr(err_message(), "too little"), "%s",
       err_message());
    OK(io_check_folder(path, 1000) == ERR_USAGE && strstr(err_message(), "is a file"), "%s", err_message());
    io_temp_remove(temp);
    OK(!fs_exists(temp) && rmdir(folder) == 0, "nothing is left behind");
}

int main(void)
{
    tap_plan(6 + 6 + 5 + 2 * 7 + 6 + 3 + 12 + 1);
    check_layers();
    check_rates();
    check_gemm();
    must(backend_open(&backend_cpu, 1), "opening the cpu backend");
    check_conv(&backend_ref);
    check_conv(&backend_cpu);
    backend_cpu.close();
    check_mem();
    check_levels();
    check_files();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
