/* SPDX-License-Identifier: MIT */
/* Gradients in host memory: shared or private buffers, the allreduce through shared memory of impl.h (barriers, mailboxes,
 * summing loops), and the measured choice between it and MPI_Allreduce. */
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/isa.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sim.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/mpi/impl.h"
#include "text/figure.h"

/* ---- MPI_Allreduce ---- */
static MPI_Datatype mpi_type(dtype_t dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return MPI_FLOAT;
    case DTYPE_F64:
        return MPI_DOUBLE;
    case DTYPE_I32:
        return MPI_INT32_T;
    case DTYPE_I64:
        return MPI_INT64_T;
    default:
        ASSERT(!"a type that is never reduced");
        return MPI_DATATYPE_NULL;
    }
}

err_t mpi_allreduce_on(MPI_Comm group, void *data, int64_t count, dtype_t dtype, MPI_Op op)
{
    int64_t n_element = (int64_t)dtype_size(dtype), per_call = MPI_CHUNK_BYTES / n_element;
    for (int64_t at = 0; at < count; at += per_call) {
        int n = narrow_int(count - at < per_call ? count - at : per_call);
        E_MPI(MPI_Allreduce(MPI_IN_PLACE, (char *)data + at * n_element, n, mpi_type(dtype), op, group),
              "MPI_Allreduce");
    }
    return ERR_OK;
}

/* ---- The allreduce through shared memory ---- */
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
        set_sum(sum, parts[0] + at, parts[1] + at, n_block);
        for (int r = 2; r < host->size; r++) add_to(sum, parts[r] + at, n_block);
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

/* Collective over all ranks of the job. Sums the first `count` floats of parts[0 … size - 1], the 64-byte
 * aligned arrays of the ranks, into all of them. The deadline is the watchdog's. */
static err_t host_allreduce(host_t *host, float *const *parts, int64_t count)
{
    static const double judge_sec = 0.05; /* between two looks at whether this rank competes for its CPU */
    if (clock_sec() - host->contention.since_sec >= judge_sec)
        atomic_store_explicit(&host->slots[host->rank].competes, contention_update(&host->contention),
                              memory_order_relaxed);
    if (host->n_hosts > 1 || count > HOST_MAIL_FLOATS) return reduce_slices(host, parts, count);
    exchange_mail(host, parts[host->rank], count);
    return ERR_OK;
}

/* ---- Buffers ---- */
/* A shared buffer's `owner`. */
typedef struct shared_buffer {
    shared_window_t window;
    float **piece;  /* of a sum: the same floats of all parts */
    float *parts[]; /* of the ranks of this host, in this process's address space; twice, for `piece` */
} shared_buffer_t;

static err_t sum_by(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count, bool by_host)
{
    mpi_impl_t *impl = comm->impl;
    shared_buffer_t *shared = buffer->owner;
    if (!by_host)
        return mpi_allreduce_on(impl->ranks.world, (float *)buffer->data + offset, count, DTYPE_F32, MPI_SUM);
    for (int r = 0; r < comm->topo.local_size; r++) shared->piece[r] = shared->parts[r] + offset;
    return host_allreduce(&impl->host, shared->piece, count);
}

/* Seconds of one call of each algorithm. A zeroed buffer stays zero. */
static err_t time_both(comm_t *comm, comm_buffer_t *buffer, int64_t count, double *host_sec, double *mpi_sec)
{
    double start = clock_sec();
    TRY(sum_by(comm, buffer, 0, count, true));
    *host_sec = clock_sec() - start;
    start = clock_sec();
    TRY(sum_by(comm, buffer, 0, count, false));
    *mpi_sec = clock_sec() - start;
    return ERR_OK;
}

/* Alternates after a warm-up; rank 0's clock decides. */
static err_t host_choose(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    enum { MIN_CALLS = 5, MAX_CALLS = 50 };
    static const double budget_sec = 0.3;
    mpi_impl_t *impl = comm->impl;
    const shared_buffer_t *shared = buffer->owner;
    double host_sec[MAX_CALLS], mpi_sec[MAX_CALLS], start = clock_sec();
    int n = 0, more = true;
    if (!impl->host.slots || !shared || count == 0 || strcmp(impl->choice, "auto") != 0) return ERR_OK;
    for (int i = 0; i < sim_warm_ups(1); i++) TRY(time_both(comm, buffer, count, host_sec, mpi_sec));
    for (; more; n++) {
        TRY(time_both(comm, buffer, count, &host_sec[n], &mpi_sec[n]));
        more = n + 1 < sim_repeats(MIN_CALLS) ||
               (n + 1 < sim_repeats(MAX_CALLS) && clock_sec() - start < budget_sec);
        E_MPI(MPI_Bcast(&more, 1, MPI_INT, 0, impl->ranks.world), "MPI_Bcast");
    }
    comm_timing_t *t = &buffer->timing;
    *t = (comm_timing_t){count * (int64_t)sizeof(float), host_sec[0], mpi_sec[0]};
    for (int i = 1; i < n; i++) {
        if (host_sec[i] < t->host_sec) t->host_sec = host_sec[i];
        if (mpi_sec[i] < t->mpi_sec) t->mpi_sec = mpi_sec[i];
    }
    buffer->by_host = comm_prefers_host(host_sec, mpi_sec, n);
    E_MPI(MPI_Bcast(t, sizeof *t, MPI_BYTE, 0, impl->ranks.world), "MPI_Bcast");
    E_MPI(MPI_Bcast(&buffer->by_host, sizeof buffer->by_host, MPI_BYTE, 0, impl->ranks.world), "MPI_Bcast");
    return ERR_OK;
}

/* Collective over the job. */
static err_t host_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    mpi_impl_t *impl = comm->impl;
    const int n = comm->topo.local_size;
    /* No host has two ranks. */
    if (comm->topo.max_local_size == 1) return gradients_private.buffer_new(comm, n_bytes, out);
    shared_room_t room;
    shared_window_t window;
    bool ok;
    TRY(shared_window_new(&impl->ranks, n_bytes ? n_bytes : 1, &window, &ok, &room));
    if (!ok && strcmp(impl->choice, "host") == 0)
        RAISE(ERR_SYSTEM,
              "--allreduce host is not available: %s on %s has no room for the gradient buffers of its ranks "
              "(docker: --shm-size); make room, or use --allreduce auto",
              room.folder, room.host);
    if (!ok) {
        const char *slower = "gradient buffers are private, which makes the gradient exchange slower";
        if (!impl->warned && room.enough)
            log_warn("%s: MPI could not allocate shared memory in %s on every host", slower, room.folder);
        else if (!impl->warned)
            log_warn("%s: %s on %s lacks %s of the %s that its ranks need (docker: --shm-size)", slower,
                     room.folder, room.host, figure_bytes((double)(room.need_bytes - room.free_bytes)).text,
                     figure_bytes((double)room.need_bytes).text);
        impl->warned = true;
        return gradients_private.buffer_new(comm, n_bytes, out);
    }
    shared_buffer_t *shared = NULL;
    TRY(mem_new(sizeof *shared + 2 * (size_t)n * sizeof shared->parts[0], "a shared gradient buffer",
                &shared));
    shared->window = window;
    shared->piece = shared->parts + n;
    *out = (comm_buffer_t){
        .ops = &gradients_host, .data = window.own, .n_bytes = n_bytes, .shared = true, .owner = shared};
    if (!impl->host.slots) return ERR_OK;
    for (int r = 0; r < n; r++) {
        char *part;
        TRY(shared_window_part(&window, r, n_bytes, &part));
        shared->parts[r] = (float *)(void *)part;
    }
    out->by_host = strcmp(impl->choice, "mpi") != 0;
    return ERR_OK;
}

static err_t host_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    return sum_by(comm, buffer, offset, count, buffer->by_host);
}

static void host_free(comm_t *comm, comm_buffer_t *buffer)
{
    (void)comm;
    shared_buffer_t *shared = buffer->owner;
    if (shared_window_free(&shared->window) != ERR_OK)
        log_warn("cannot free a gradient buffer: %s", err_message());
    mem_free(&shared);
    *buffer = (comm_buffer_t){0};
}

static void host_describe(const comm_t *comm, char *out, size_t n_bytes)
{
    if (comm->size == 1)
        gradients_private.describe(comm, out, n_bytes);
    else
        snprintf(out, n_bytes, "MPI %s host memory", comm->gpus ? "through pinned" : "in");
}

/* ---- The host allreduce by itself, for benchmarks ---- */
static err_t single_open(comm_t *comm, int64_t n_bytes, comm_buffer_t *buffer)
{
    const char *why = NULL;
    TRY(comm_buffer_new_by(comm, &gradients_host, (size_t)n_bytes, buffer));
    if (!buffer->shared)
        why = "no two ranks share memory (each rank is on a separate host, or /dev/shm is full)";
    else if (!buffer->by_host)
        why = "--allreduce mpi rules it out";
    if (!why) return ERR_OK;
    err_raise(ERR_USAGE, __FILE__, __LINE__, "--communicator host is not available: %s", why);
    return comm_agree(comm, ERR_USAGE, "allocating the shared buffer");
}

static err_t single_run(comm_t *comm, const collective_spec_t *spec, void *own)
{
    (void)own;
    return spec->count ? spec->buffer->ops->buffer_begin(comm, spec->buffer, 0, spec->count) : ERR_OK;
}

static void single_algorithm(const comm_t *comm, char *out, size_t n_bytes)
{
    char transport[96];
    bool several = comm->topo.n_hosts > 1;
    collective_transport(comm, transport, sizeof transport);
    snprintf(out, n_bytes, "host, shared buffer%s%s", several ? " + " : "", several ? transport : "");
}

static const collective_ops_t collective_host = {
    .name = "host",
    .title = "the host communicator",
    .limits = "the host communicator supports only in-place all_reduce of float with sum; drop the option or "
              "use --communicator mpi",
    .memory = COLLECTIVE_IN_BUFFER,
    .in_place = 1 << COLLECTIVE_ALL_REDUCE,
    .types = 1 << COLLECTIVE_FLOAT,
    .ops = 1 << COLLECTIVE_SUM,
    .open = single_open,
    .run = single_run,
    .algorithm = single_algorithm,
};

static const collective_ops_t *const singles[] = {&collective_mpi, &collective_host, NULL};

const gradient_ops_t gradients_host = {
    .name = "mpi",
    .buffer_new = host_new,
    .buffer_choose = host_choose,
    .buffer_begin = host_begin,
    .buffer_free = host_free,
    .singles = singles,
    .describe = host_describe,
};
