/* SPDX-License-Identifier: MIT */
/* The shared-memory allreduce of host.h: barriers, mailboxes and summing loops. Whether it is faster than MPI
 * is measured by buffer.c. */
#include "cluster/comm/mpi/host.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/isa.h"
#include "base/sim.h"
#include "cluster/comm/mpi/call.h"

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters are shared between processes");
_Static_assert(sizeof(host_slot_t) % HOST_LINE == 0, "slots follow each other on lines of their own");

enum {
    LINE_FLOATS = 64 / sizeof(float),   /* slices end on cache lines */
    BLOCK_FLOATS = 4096 / sizeof(float) /* stays in L1 between summing and writing */
};

/* A simulated rank sleeps between its looks, which advances its time: after the first ones for longer and longer. */
enum { SIM_LOOKS = 100 };
static const double sim_growth = 1.05;

static void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* The half of a counter that changes with every step, which is all that the kernel compares. */
static uint32_t *futex_word(host_counter_t *counter)
{
    uint32_t *halves = (uint32_t *)(void *)&counter->value;
    return halves + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* Returns once the counter differs from `seen`, and after 1 ms in any case. */
static void sleep_on(host_counter_t *counter, unsigned long long seen)
{
    const struct timespec at_most = {.tv_nsec = 1000000};
    atomic_fetch_add(&counter->n_sleepers, 1);
    if (atomic_load(&counter->value) == seen)
        syscall(SYS_futex, futex_word(counter), FUTEX_WAIT, (uint32_t)seen, &at_most, NULL, 0);
    atomic_fetch_sub(&counter->n_sleepers, 1);
}

/* The store and the load are sequentially consistent, as are those of sleep_on: either the sleeper sees the
 * value, or it is seen and woken. */
static void post(host_counter_t *counter, unsigned long long value)
{
    atomic_store(&counter->value, value);
    if (atomic_load(&counter->n_sleepers) > 0)
        syscall(SYS_futex, futex_word(counter), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool competes(const host_t *host, int rank)
{
    return atomic_load_explicit(&host->slots[rank].competes, memory_order_relaxed);
}

/* A rank that competes for its CPU may get the core of one that waits for it. */
static int spin_limit(const host_t *host, int peer)
{
    if (host->shares_cores) return HOST_SPINS_SHARED;
    return competes(host, host->rank) || competes(host, peer) ? HOST_SPINS_CONTENDED : HOST_SPINS;
}

/* Spins, then sleeps: the scheduler favors ranks that did not spend their share of a CPU waiting. A long wait
 * also drives MPI progress: a message of this rank may still be in flight, and a peer waiting for it will not
 * get here before it arrives. */
static void wait_for(const host_t *host, int peer, host_counter_t *counter, unsigned long long value)
{
    unsigned long long seen;
    double nap_sec = 1e-6;
    for (int n = 0; (seen = atomic_load_explicit(&counter->value, memory_order_acquire)) < value; n++) {
        if (sim_is_rank()) {
            clock_sleep(nap_sec);
            if (n >= SIM_LOOKS) nap_sec *= sim_growth;
            continue;
        }
        if (n < HOST_SPINS_SHARED || n < spin_limit(host, peer)) {
            spin_pause();
            continue;
        }
        int found;
        sleep_on(counter, seen);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, host->ranks, &found, MPI_STATUS_IGNORE);
    }
}

static void host_barrier(host_t *host)
{
    unsigned long long number = ++host->n_barriers;
    post(&host->slots[host->rank].arrived, number);
    for (int r = 0; r < host->size; r++)
        if (r != host->rank) wait_for(host, r, &host->slots[r].arrived, number);
}

/* Requests ownership of cache lines before they are read: one transfer from another core's cache instead of
 * two. */
static void own_lines(const float *a, int64_t n)
{
#if defined(__x86_64__)
    for (int64_t i = 0; i < n; i += LINE_FLOATS) __asm__ __volatile__("prefetchw %0" : : "m"(a[i]));
#else
    for (int64_t i = 0; i < n; i += LINE_FLOATS) __builtin_prefetch(a + i, 1);
#endif
}

LOOP_CLONES(sum_both, (float *restrict a, float *restrict b, int64_t n), (a, b, n))
{
    for (int64_t i = 0; i < n; i++) {
        float sum = a[i] + b[i];
        a[i] = sum;
        b[i] = sum;
    }
}

/* `far` is the other rank's part. */
static void sum_two(float *restrict near, float *restrict far, int64_t n)
{
    enum { STEP = 4 * LINE_FLOATS, AHEAD = 8 * STEP };
    for (int64_t i = 0; i < n; i += STEP) {
        own_lines(far + i + AHEAD, n - i - AHEAD < STEP ? n - i - AHEAD : STEP);
        sum_both(near + i, far + i, n - i < STEP ? n - i : STEP);
    }
}

LOOP_CLONES(set_sum, (float *restrict out, const float *restrict a, const float *restrict b, int64_t n),
            (out, a, b, n))
{
    for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];
}

LOOP_CLONES(add_to, (float *restrict out, const float *restrict a, int64_t n), (out, a, n))
{
    for (int64_t i = 0; i < n; i++) out[i] += a[i];
}

/* Sums elements first … first + n - 1 of all parts into `sum`. */
static void sum_block(const host_t *host, float *const *parts, int64_t first, int64_t n, float *sum)
{
    set_sum(sum, parts[0] + first, parts[1] + first, n);
    for (int r = 2; r < host->size; r++) add_to(sum, parts[r] + first, n);
}

/* Sums a slice and writes it into all parts or, if `own`, only into this rank's. */
static void sum_slice(const host_t *host, float *const *parts, int64_t first, int64_t n, bool own)
{
    float sum[BLOCK_FLOATS];
    if (host->size == 1) return;
    if (host->size == 2 && !own) {
        sum_two(parts[host->rank] + first, parts[1 - host->rank] + first, n);
        return;
    }
    for (int64_t at = first; at < first + n; at += BLOCK_FLOATS) {
        int64_t n_block = first + n - at < BLOCK_FLOATS ? first + n - at : BLOCK_FLOATS;
        sum_block(host, parts, at, n_block, sum);
        for (int r = 0; r < host->size; r++)
            if (!own || r == host->rank) memcpy(parts[r] + at, sum, (size_t)n_block * sizeof *sum);
    }
}

/* This rank's part holds its host's sum of the slice: adds up the hosts and copies the result to all parts of
 * the host. */
static err_t add_hosts(const host_t *host, float *const *parts, int64_t first, int64_t n)
{
    float *own = parts[host->rank] + first;
    TRY(mpi_allreduce_on(host->peers, own, n, DTYPE_F32, MPI_SUM));
    for (int r = 0; r < host->size; r++)
        if (r != host->rank) memcpy(parts[r] + first, own, (size_t)n * sizeof *own);
    return ERR_OK;
}

static err_t reduce_slices(host_t *host, float *const *parts, int64_t count)
{
    bool several = host->n_hosts > 1;
    host_barrier(host);
    if (host->rank < host->n_slices) {
        int64_t n_lines = (count + LINE_FLOATS - 1) / LINE_FLOATS;
        int64_t first = n_lines * host->rank / host->n_slices * LINE_FLOATS;
        int64_t end = n_lines * (host->rank + 1) / host->n_slices * LINE_FLOATS;
        int64_t n = (end < count ? end : count) - first;
        if (n > 0) {
            sum_slice(host, parts, first, n, several);
            if (several) TRY(add_hosts(host, parts, first, n));
        }
    }
    host_barrier(host);
    return ERR_OK;
}

static void exchange_mail(host_t *host, float *own, int64_t count)
{
    unsigned long long number = ++host->n_messages;
    int box = (int)(number & 1);
    host_mail_t *mine = &host->slots[host->rank].mail[box];
    memcpy(mine->values, own, (size_t)count * sizeof *own);
    post(&mine->number, number);
    for (int r = 0; r < host->size; r++)
        if (r != host->rank) wait_for(host, r, &host->slots[r].mail[box].number, number);
    set_sum(own, host->slots[0].mail[box].values, host->slots[1].mail[box].values, count);
    for (int r = 2; r < host->size; r++) add_to(own, host->slots[r].mail[box].values, count);
}

/* Judges every 50 ms whether this rank competes for its CPU. */
static void watch_contention(host_t *host)
{
    static const double interval_sec = 0.05;
    if (clock_sec() - host->contention.since_sec < interval_sec) return;
    atomic_store_explicit(&host->slots[host->rank].competes, contention_update(&host->contention),
                          memory_order_relaxed);
}

err_t host_allreduce(host_t *host, float *const *parts, int64_t count)
{
    watch_contention(host);
    if (host->n_hosts > 1 || count > HOST_MAIL_FLOATS) return reduce_slices(host, parts, count);
    exchange_mail(host, parts[host->rank], count);
    return ERR_OK;
}
