/* SPDX-License-Identifier: MIT */
/* What this GPU does at most: products of large matrices by cuBLASLt, of operands that are stored in the type of the
 * products and need no conversion, and copies in its memory. Sizes ascend while time allows, which is the first ones
 * on an emulated GPU, and while memory does: a model may fill it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "compute/tensor/float16.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/gemm.h"

static const int64_t sizes[] = {128, 256, 512, 1024, 4096, 8192};
enum { N_SIZES = sizeof sizes / sizeof sizes[0], RUNS = 5, REPEAT = 4 };
static const double budget_sec = 0.2;

typedef struct matrices {
    void *a, *b, *d;
} matrices_t;

static void free_matrices(matrices_t *m)
{
    cuda_memory.release(m->a);
    cuda_memory.release(m->b);
    cuda_memory.release(m->d);
}

/* Values as of activations: a GPU that multiplies zeros takes less power, and clocks higher. */
static err_t fill(void *to, size_t n_bytes, bool narrow)
{
    enum { N = 4096 };
    static float wide[N];
    static uint16_t rounded[N];
    uint32_t state = 1;
    for (int i = 0; i < N; i++) {
        state = 1664525 * state + 1013904223;
        wide[i] = (float)(int32_t)state / 2147483648.0F;
        rounded[i] = bf16_from_float(wide[i]);
    }
    size_t n = narrow ? sizeof rounded : sizeof wide;
    TRY(cuda_memory.upload(to, narrow ? (void *)rounded : (void *)wide, n < n_bytes ? n : n_bytes));
    for (; n < n_bytes; n *= 2) TRY(cuda_memory.copy((char *)to + n, to, n < n_bytes - n ? n : n_bytes - n));
    return cuda_memory.sync();
}

static err_t new_matrices(int64_t n, bool narrow, matrices_t *out)
{
    static const char what[] = "the peak's matrices";
    const size_t n_bytes = (size_t)(n * n) * (narrow ? sizeof(uint16_t) : sizeof(float));
    TRY(cuda_memory.alloc(n_bytes, what, &out->a));
    TRY(cuda_memory.alloc(n_bytes, what, &out->b));
    TRY(cuda_memory.alloc(n_bytes, what, &out->d));
    TRY(fill(out->a, n_bytes, narrow));
    return fill(out->b, n_bytes, narrow);
}

/* The fastest of several runs. A run is several launches, which hide what a launch and a wait cost. */
static err_t time_runs(gemm_t *gemm, const gemm_call_t *call, double deadline, double *least)
{
    for (int i = 0; i < RUNS && (i == 0 || clock_sec() + REPEAT * *least < deadline); i++) {
        const int n = i == 0 ? 1 : REPEAT; /* the first also loads the kernel */
        const double start = clock_sec();
        for (int k = 0; k < n; k++) TRY(gemm_run(gemm, call));
        TRY(cuda_memory.sync());
        const double sec = (clock_sec() - start) / n;
        if (i == 0 || sec < *least) *least = sec;
    }
    return ERR_OK;
}

static err_t time_product(const gemm_spec_t *spec, const matrices_t *m, double deadline, double *least)
{
    gemm_t *gemm;
    gemm_call_t call = {.a = m->a, .b = m->b, .d = m->d};
    TRY(gemm_new(spec, &gemm));
    err_t err = cuda_memory.alloc(gemm_workspace_bytes(gemm), "the peak's workspace", &call.workspace);
    if (err == ERR_OK) err = time_runs(gemm, &call, deadline, least);
    cuda_memory.release(call.workspace);
    gemm_free(&gemm);
    return err;
}

/* Raises *best to the FLOP/s of a size, by any of the library's algorithms. */
static err_t measure_size(dtype_t compute, int64_t n, double deadline, double *best)
{
    const bool narrow = compute == DTYPE_BF16;
    const gemm_matrix_t rows = {.row = n, .alignment = 16},
                        columns = {.row = n, .alignment = 16, .transposed = true};
    gemm_spec_t spec = {.what = "the peak",
                        .compute = compute,
                        .result = narrow ? DTYPE_BF16 : DTYPE_F32,
                        .m = n,
                        .n = n,
                        .k = n,
                        .batch = 1,
                        .a = rows,
                        .b = columns,
                        .d = rows,
                        .n_workspace_bytes = (size_t)cuda_workspace_bytes()};
    const double n_flops = 2.0 * (double)(n * n) * (double)n;
    const int n_proposals = gemm_count(&spec);
    matrices_t m = {0};
    err_t err = new_matrices(n, narrow, &m);
    for (int i = 0;
         err == ERR_OK && (i == 0 || (i < n_proposals && clock_sec() + n_flops / *best < deadline)); i++) {
        double sec = 0;
        spec.proposal = i;
        err = time_product(&spec, &m, deadline, &sec);
        if (err == ERR_OK && n_flops / sec > *best) *best = n_flops / sec;
    }
    free_matrices(&m);
    return err;
}

err_t cuda_peak_flops(dtype_t compute, backend_peak_t *out)
{
    const double deadline = clock_sec() + budget_sec;
    double best = 0;
    *out = (backend_peak_t){0};
    for (int i = 0; i < N_SIZES; i++) {
        const double n = (double)sizes[i];
        /* Skipped unless it would run twice at the speed so far. */
        if (best > 0 && clock_sec() + 4 * n * n * n / best > deadline) break;
        const double before = best;
        err_t err = measure_size(compute, sizes[i], deadline, &best);
        if (best > before)
            snprintf(out->from, sizeof out->from, "a product of %" PRId64 " x %" PRId64 " x %" PRId64,
                     sizes[i], sizes[i], sizes[i]);
        if (err != ERR_OK && best <= 0) return err;
        if (err != ERR_OK) break;
    }
    out->per_sec = best;
    return ERR_OK;
}

err_t cuda_peak_bytes(int64_t n_bytes, backend_peak_t *out)
{
    enum { LEAST = 8 << 20 };
    const size_t n = (size_t)(2 * cuda_l2_bytes() > LEAST ? 2 * cuda_l2_bytes() : LEAST);
    void *from = NULL, *to = NULL;
    double best = 0;
    (void)n_bytes; /* of the host's caches */
    err_t err = cuda_memory.alloc(n, "a copy", &from);
    if (err == ERR_OK) err = cuda_memory.alloc(n, "a copy", &to);
    if (err == ERR_OK) err = fill(from, n, false);
    for (int i = 0; i < RUNS && err == ERR_OK; i++) {
        const double start = clock_sec();
        for (int k = 0; k < REPEAT && err == ERR_OK; k++) err = cuda_memory.copy(to, from, n);
        if (err == ERR_OK) err = cuda_memory.sync();
        const double rate = 2.0 * REPEAT * (double)n / (clock_sec() - start);
        if (err == ERR_OK && rate > best) best = rate;
    }
    cuda_memory.release(from);
    cuda_memory.release(to);
    *out = (backend_peak_t){.per_sec = best, .cache_bytes = cuda_l2_bytes()};
    return err;
}
