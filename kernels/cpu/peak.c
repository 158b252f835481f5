/* SPDX-License-Identifier: MIT */
/* What the threads of this rank can do at most: multiply-adds in registers, and bytes beyond the caches. The best of
 * many rounds counts, by the wall clock. A round is so short that other processes on these CPUs leave some alone, even
 * those that yield all the time; the CPU time of a short round can be 3 % too small. A thread goes on until it has had a
 * given CPU time. When to measure, and what to keep, is left to cluster/session/yardstick.c. */
#include <errno.h>
#include <math.h>
#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "base/clock.h"
#include "base/isa.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/cpu.h"

/* Sums hide the latency of two instructions per cycle, and leave room for the operands in 16 registers. */
enum { SUMS = 12, TURNS = 1 << 13, ROUNDS = 16, TILE_TURNS = 1 << 10, PART_BYTES = 1 << 20 };
/* CPU time of a thread, and wall time, which ends the measurement on CPUs that many share. */
static const double products_sec = 0.02, bytes_sec = 0.015, most_sec = 0.2;

/* A loop of independent sums of products, in registers. The compiler has to believe that the sums are used. */
#if defined __x86_64__
#define IN_REGISTER "v"
#elif defined __aarch64__
#define IN_REGISTER "w"
#else
#define IN_REGISTER "m"
#endif
#define SPIN(name, target, vector, add_product)                                                              \
    target static void name(void)                                                                            \
    {                                                                                                        \
        vector sum[SUMS], a, b;                                                                              \
        memset(&a, 0x3f, sizeof a); /* 0.747, also as bfloat16 */                                            \
        memset(&b, 0x3c, sizeof b); /* 0.0115 */                                                             \
        for (int i = 0; i < SUMS; i++) sum[i] = b;                                                           \
        for (int turn = 0; turn < TURNS; turn++) {                                                           \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) add_product(sum[i], a, b);               \
        }                                                                                                    \
        for (int i = 0; i < SUMS; i++) __asm__ volatile("" : "+" IN_REGISTER(sum[i]));                       \
    }

/* The copy of a operand keeps the product in the loop. With -ffp-contract=fast it is one instruction where the build's
 * target has it. */
typedef float float4_t __attribute__((vector_size(16)));
#define ADD_BASE(sum, a, b)                                                                                  \
    do {                                                                                                     \
        float4_t copy = (a);                                                                                 \
        __asm__ volatile("" : "+" IN_REGISTER(copy));                                                        \
        (sum) += copy * (b);                                                                                 \
    } while (0)
SPIN(spin_base, , float4_t, ADD_BASE)

#ifdef __x86_64__
#define ADD_AVX2(sum, a, b)   (sum) = _mm256_fmadd_ps((a), (b), (sum))
#define ADD_AVX512(sum, a, b) (sum) = _mm512_fmadd_ps((a), (b), (sum))
#define ADD_DOT(sum, a, b)    (sum) = _mm512_dpbf16_ps((sum), (__m512bh)(a), (__m512bh)(b))
SPIN(spin_avx2, __attribute__((target("avx2,fma"))), __m256, ADD_AVX2)
SPIN(spin_avx512, __attribute__((target("avx512f,avx512vl"))), __m512, ADD_AVX512)
SPIN(spin_dot, __attribute__((target("avx512f,avx512vl,avx512bf16"))), __m512, ADD_DOT)

static void spin_tiles(void)
{
    amx_here()->spin(TILE_TURNS);
}
#endif

#if defined __x86_64__ && !defined __FMA__
#define BASE_NAME "mulps and addps"
#else
#define BASE_NAME "4-lane FMA"
#endif

typedef struct spin {
    const char *name;
    void (*run)(void);
    double n_flops; /* of a run */
} spin_t;

/* How this CPU multiplies fastest. */
static spin_t best_spin(dtype_t compute)
{
    const double n = 2.0 * SUMS * TURNS;
#ifdef __x86_64__
    const isa_t isa = isa_best();
    if (compute == DTYPE_BF16 && amx_here())
        return (spin_t){"tdpbf16ps", spin_tiles, (double)TILE_TURNS * AMX_SPIN_FLOPS};
    if (compute == DTYPE_BF16 && isa >= ISA_AVX512_BF16) return (spin_t){"vdpbf16ps", spin_dot, 32 * n};
    if (isa >= ISA_AVX512) return (spin_t){"AVX-512 FMA", spin_avx512, 16 * n};
    if (isa >= ISA_AVX2) return (spin_t){"AVX2 FMA", spin_avx2, 8 * n};
#else
    (void)compute;
#endif
    return (spin_t){BASE_NAME, spin_base, 4 * n};
}

/* FLOP/s of this thread: in the best round, or in all of them by CPU time, should each have been disturbed. */
static double spin_flops(const spin_t *spin, double end)
{
    const double begin = clock_thread_sec();
    double least = INFINITY, at = clock_sec(), used;
    int n = 0;
    do {
        for (int i = 0; i < ROUNDS; i++) {
            spin->run();
            const double now = clock_sec();
            least = fmin(least, now - at);
            at = now;
        }
        used = clock_thread_sec() - begin;
        n += ROUNDS;
    } while (at < end && used < products_sec);
    return spin->n_flops * fmax(1 / least, n / used);
}

/* The peak of threads that reach `sum` one by one: those that share CPUs do no more together than these. */
static backend_peak_t peak_of(double sum, int n_threads)
{
    const int n_cpus = omp_get_num_procs(), n_at_once = n_threads < n_cpus ? n_threads : n_cpus;
    return (backend_peak_t){.per_sec = sum * n_at_once / n_threads, .n_threads = n_at_once};
}

/* Two threads of a core, or cores of one memory, do more when they are alone: all begin together, and go on until the last
 * is done. */
err_t cpu_peak_flops(dtype_t compute, backend_peak_t *out)
{
    const spin_t spin = best_spin(compute);
    const double end = clock_sec() + most_sec;
    double flops = 0;
    int n_threads = 1;
    atomic_int n_busy = 1;
#pragma omp parallel reduction(+ : flops)
    {
#pragma omp single
        atomic_store(&n_busy, n_threads = omp_get_num_threads());
        flops += spin_flops(&spin, end);
        atomic_fetch_sub(&n_busy, 1);
        while (atomic_load(&n_busy) > 0 && clock_sec() < end) spin.run();
    }
    *out = peak_of(flops, n_threads);
    snprintf(out->from, sizeof out->from, "%s", spin.name);
    return ERR_OK;
}

/* Reads x; the sum keeps the compiler from leaving that out. */
WIDE_CLONES(read_words, (const uint64_t *x, int64_t n, uint64_t *sum), (x, n, sum))
{
    uint64_t sums[16] = {0};
    for (int64_t i = 0; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) sums[k] += x[i + k];
    for (int k = 0; k < 16; k++) *sum += sums[k];
}

/* Past the caches where that can be said: a cached store would first read what it overwrites. */
static void copy_words(uint64_t *to, const uint64_t *from, int64_t n)
{
#ifdef __x86_64__
    for (int64_t i = 0; i + 2 <= n; i += 2)
        _mm_stream_si128((__m128i *)(void *)(to + i),
                         _mm_load_si128((const __m128i *)(const void *)(from + i)));
    _mm_sfence();
#else
    memcpy(to, from, (size_t)n * sizeof *to);
#endif
}

/* The most bytes per second of this thread, in parts of an array: it reads both halves, then copies the first to the
 * second. Then the halves change places, so that what it reads next has left the caches, or never was there. */
static double stream(uint64_t *x, int64_t n, double end)
{
    const int64_t most = PART_BYTES / sizeof *x, half = n / 2 / 16 * 16, part = half < most ? half : most;
    const int64_t n_parts = half / part;
    const double begin = clock_thread_sec();
    double best = 0, at = clock_sec();
    for (int64_t i = 0; i < 3 * n_parts || (at < end && clock_thread_sec() - begin < bytes_sec); i++) {
        const int64_t turn = i / n_parts, offset = i % n_parts * part;
        const bool swapped = turn / 3 % 2 == 1, copies = turn % 3 == 2;
        uint64_t *first = (swapped ? x + half : x) + offset, *second = (swapped ? x : x + half) + offset,
                 sum = 0;
        if (copies)
            copy_words(second, first, part);
        else
            read_words(turn % 3 == 0 ? first : second, part, &sum);
        __asm__ volatile("" : : "r"(sum) : "memory");
        const double now = clock_sec();
        best = fmax(best, (double)((copies ? 2 : 1) * part) * sizeof *x / (now - at));
        at = now;
    }
    return best;
}

err_t cpu_peak_bytes(int64_t n_bytes, backend_peak_t *out)
{
    enum { PAGE = 4096, WORDS = PAGE / sizeof(uint64_t) };
    double rate = 0;
    int n_threads = 1;
    atomic_int n_busy = 1;
    /* Not by base/mem.h, which would touch every page in one thread. */
    uint64_t *x = mmap(NULL, (size_t)n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED)
        RAISE(ERR_SYSTEM, "out of memory: %lld bytes for measuring memory: %s", (long long)n_bytes,
              strerror(errno));
    madvise(x, (size_t)n_bytes, MADV_HUGEPAGE);
    const double end = clock_sec() + most_sec;
#pragma omp parallel reduction(+ : rate)
    {
        const int64_t n = n_bytes / PAGE / omp_get_num_threads() * WORDS;
        uint64_t *mine = x + n * omp_get_thread_num();
        for (int64_t i = 0; i < n; i += WORDS) mine[i] = 1;
#pragma omp single
        atomic_store(&n_busy, n_threads = omp_get_num_threads());
        rate += stream(mine, n, end);
        uint64_t sum = 0;
        atomic_fetch_sub(&n_busy, 1);
        while (atomic_load(&n_busy) > 0 && clock_sec() < end) read_words(mine, n, &sum);
        __asm__ volatile("" : : "r"(sum));
    }
    munmap(x, (size_t)n_bytes);
    *out = peak_of(rate, n_threads);
    return ERR_OK;
}
