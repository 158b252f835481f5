/* SPDX-License-Identifier: MIT */
/* Gradients in host memory: shared or private buffers, the allreduce through shared memory of impl.h (barriers, mailboxes,
 * summing loops), the measured choice between it and MPI_Allreduce, and the halves of an allreduce of buffers that are
 * shared out. */
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
    if (host->size == 2) {
        float *near = parts[host->rank] + first, *far = parts[1 - host->rank] + first;
        if (own)
            add_to(near, far, n);
        else
            sum_two(near, far, n);
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

static void judge_contention(host_t *host)
{
    static const double judge_sec = 0.05; /* between two looks at whether this rank competes for its CPU */
    if (clock_sec() - host->contention.since_sec >= judge_sec)
        atomic_store_explicit(&host->slots[host->rank].competes, contention_update(&host->contention),
                              memory_order_relaxed);
}

/* Collective over all ranks of the job. Sums the first `count` floats of parts[0 … size - 1], the 64-byte
 * aligned arrays of the ranks, into all of them. The deadline is the watchdog's. */
static err_t host_allreduce(host_t *host, float *const *parts, int64_t count)
{
    judge_contention(host);
    if (host->n_hosts > 1 || count > HOST_MAIL_FLOATS) return reduce_slices(host, parts, count);
    exchange_mail(host, parts[host->rank], count);
    return ERR_OK;
}

/* ---- Buffers ---- */
/* How the ranks exchange what is shared out. Ranks that sum through shared memory form a group, others are groups of their
 * own. In every other group a slice has a carrier, who sums it there for its owner, and receives it after the update:
 * the member with the owner's index, modulo their number. */
typedef struct exchange {
    int n_groups;
    int *group, *index; /* [size]: of a rank; its index within the group */
    int *n_members;     /* [n_groups] */
    int64_t n_chunk;    /* floats of a message */
    float *received;    /* [n_groups][n_chunk] */
    MPI_Request *requests;
} exchange_t;

/* A buffer's `owner`. */
typedef struct host_buffer {
    shared_window_t window; /* of shared memory */
    exchange_t exchange;    /* of buffers that are shared out */
    float **piece;          /* of a sum: the same floats of all parts */
    float *parts[]; /* of the ranks of this host, in this process's address space; twice, for `piece` */
} host_buffer_t;

static err_t sum_by(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count, bool by_host)
{
    mpi_impl_t *impl = comm->impl;
    host_buffer_t *own = buffer->owner;
    if (!by_host)
        return mpi_allreduce_on(impl->ranks.world, (float *)buffer->data + offset, count, DTYPE_F32, MPI_SUM);
    for (int r = 0; r < comm->topo.local_size; r++) own->piece[r] = own->parts[r] + offset;
    return host_allreduce(&impl->host, own->piece, count);
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
    double host_sec[MAX_CALLS], mpi_sec[MAX_CALLS], start = clock_sec();
    int n = 0, more = true;
    if (!impl->host.slots || !buffer->shared || count == 0 || strcmp(impl->choice, "auto") != 0)
        return ERR_OK;
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

static err_t private_new(size_t n_bytes, comm_buffer_t *out)
{
    host_buffer_t *own = NULL;
    void *data = NULL;
    TRY(mem_new(sizeof *own, "the gradient buffer", &own));
    err_t err = mem_new(n_bytes, "the gradient buffer", &data);
    if (err != ERR_OK) mem_free(&own);
    if (err == ERR_OK)
        *out = (comm_buffer_t){.ops = &gradients_host, .data = data, .n_bytes = n_bytes, .owner = own};
    return err;
}

/* Collective over the job. */
static err_t host_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out)
{
    mpi_impl_t *impl = comm->impl;
    const int n = comm->topo.local_size;
    /* No host has two ranks. */
    if (comm->topo.max_local_size == 1) return private_new(n_bytes, out);
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
        return private_new(n_bytes, out);
    }
    host_buffer_t *own = NULL;
    TRY(mem_new(sizeof *own + 2 * (size_t)n * sizeof own->parts[0], "a shared gradient buffer", &own));
    own->window = window;
    own->piece = own->parts + n;
    *out = (comm_buffer_t){
        .ops = &gradients_host, .data = window.own, .n_bytes = n_bytes, .shared = true, .owner = own};
    if (!impl->host.slots) return ERR_OK;
    for (int r = 0; r < n; r++) {
        char *part;
        TRY(shared_window_part(&window, r, &part));
        own->parts[r] = (float *)(void *)part;
    }
    out->by_host = strcmp(impl->choice, "mpi") != 0;
    return ERR_OK;
}

/* ---- Buffers that are shared out ---- */
static err_t host_share(comm_t *comm, comm_buffer_t *buffer)
{
    enum {
        CHUNK_FLOATS = 1 << 20,
        MIN_FLOATS = 4096
    }; /* of all messages that a rank receives at once; of one */
    static const char what[] = "sharing out the gradients";
    exchange_t *e = &((host_buffer_t *)buffer->owner)->exchange;
    const int size = comm->size;
    if (!buffer->weights->shared) buffer->by_host = false;
    TRY(mem_new_array(3 * size, sizeof *e->group, what, &e->group));
    TRY(mem_new_array(2 * size, sizeof *e->requests, what, &e->requests));
    e->index = e->group + size;
    e->n_members = e->index + size;
    for (int r = 0; r < size; r++) {
        e->group[r] = buffer->by_host ? comm->places[r].host_index : r;
        e->index[r] = e->n_members[e->group[r]]++;
        if (e->group[r] >= e->n_groups) e->n_groups = e->group[r] + 1;
    }
    if (e->n_groups == 1) return ERR_OK;
    e->n_chunk = CHUNK_FLOATS / (e->n_groups - 1);
    if (e->n_chunk < MIN_FLOATS) e->n_chunk = MIN_FLOATS;
    return mem_new_array(e->n_groups * e->n_chunk, sizeof *e->received, what, &e->received);
}

static bool carries(const exchange_t *e, int rank, int owner)
{
    return e->group[rank] != e->group[owner] &&
           e->index[owner] % e->n_members[e->group[rank]] == e->index[rank];
}

static int64_t slice_of(const comm_buffer_t *buffer, int rank, int64_t *first)
{
    return comm_slice(&buffer->slices, 0, rank, first);
}

/* The floats of a rank's slice from the one numbered `at` on, at most n_chunk. */
static int chunk_of(const comm_buffer_t *buffer, int rank, int64_t at, int64_t n_chunk, int64_t *first)
{
    const int64_t n = slice_of(buffer, rank, first) - at;
    *first += at;
    return n <= 0 ? 0 : narrow_int(n < n_chunk ? n : n_chunk);
}

/* Adds up a chunk of this rank's slice: what its own group has, and what was received from the others, in the order of
 * groups. */
static void add_groups(const exchange_t *e, int own_group, float *own, int64_t n)
{
    float sum[BLOCK_FLOATS];
    for (int64_t at = 0; at < n; at += BLOCK_FLOATS) {
        const int64_t n_block = n - at < BLOCK_FLOATS ? n - at : BLOCK_FLOATS;
        for (int g = 0; g < e->n_groups; g++) {
            const float *from = g == own_group ? own + at : e->received + g * e->n_chunk + at;
            if (g == 0)
                memcpy(sum, from, (size_t)n_block * sizeof *sum);
            else
                add_to(sum, from, n_block);
        }
        memcpy(own + at, sum, (size_t)n_block * sizeof *sum);
    }
}

static err_t start_message(const comm_t *comm, bool sends, float *data, int n, int peer, MPI_Request *request)
{
    const MPI_Comm world = ((const mpi_impl_t *)comm->impl)->ranks.world;
    if (sends)
        E_MPI(MPI_Isend(data, n, MPI_FLOAT, peer, 0, world, request), "MPI_Isend");
    else
        E_MPI(MPI_Irecv(data, n, MPI_FLOAT, peer, 0, world, request), "MPI_Irecv");
    return ERR_OK;
}

/* Passes a chunk of every slice of `data` between owners and carriers. An owner receives those of all carriers. */
static err_t pass_chunks(comm_t *comm, const comm_buffer_t *buffer, float *data, int64_t at, int64_t n_chunk,
                         bool to_owner)
{
    const exchange_t *e = &((const host_buffer_t *)buffer->owner)->exchange;
    int n_requests = 0;
    int64_t own, first;
    const int n_own = chunk_of(buffer, comm->rank, at, n_chunk, &own);
    for (int r = 0; r < comm->size; r++) {
        const int n = chunk_of(buffer, r, at, n_chunk, &first);
        float *mine = to_owner ? e->received + e->group[r] * e->n_chunk : data + own;
        if (n > 0 && carries(e, comm->rank, r))
            TRY(start_message(comm, to_owner, data + first, n, r, &e->requests[n_requests++]));
        if (n_own > 0 && carries(e, r, comm->rank))
            TRY(start_message(comm, !to_owner, mine, n_own, r, &e->requests[n_requests++]));
    }
    E_MPI(MPI_Waitall(n_requests, e->requests, MPI_STATUSES_IGNORE), "MPI_Waitall");
    return ERR_OK;
}

/* Between groups: each owner receives its slice from all carriers. */
static err_t collect_sums(comm_t *comm, comm_buffer_t *buffer)
{
    const exchange_t *e = &((const host_buffer_t *)buffer->owner)->exchange;
    float *data = buffer->data;
    int64_t own;
    for (int64_t at = 0; at < comm_slices_length(&buffer->slices, 0); at += e->n_chunk) {
        TRY(pass_chunks(comm, buffer, data, at, e->n_chunk, true));
        const int n_own = chunk_of(buffer, comm->rank, at, e->n_chunk, &own);
        add_groups(e, e->group[comm->rank], data + own, n_own);
    }
    return ERR_OK;
}

/* The reduce-scatter of a buffer that is shared out; floats behind it are summed into all. */
static err_t scatter_sums(comm_t *comm, comm_buffer_t *buffer, int64_t count)
{
    mpi_impl_t *impl = comm->impl;
    host_t *host = &impl->host;
    const host_buffer_t *own = buffer->owner;
    const exchange_t *e = &own->exchange;
    const int64_t n_padded = comm_slices_padded(&buffer->slices), n_tail = count - n_padded;
    float *tail = (float *)buffer->data + n_padded;
    /* A message to all ranks is also a barrier: before it, a rank has filled its part. */
    const bool by_mail = buffer->by_host && e->n_groups == 1 && n_tail > 0 && n_tail <= HOST_MAIL_FLOATS;
    ASSERT(n_tail >= 0);
    if (buffer->by_host) judge_contention(host);
    if (by_mail)
        exchange_mail(host, tail, n_tail);
    else if (buffer->by_host)
        host_barrier(host);
    for (int r = 0; r < comm->size && buffer->by_host; r++) {
        int64_t first, n = slice_of(buffer, r, &first);
        if (n > 0 && (r == comm->rank || carries(e, comm->rank, r)))
            sum_slice(host, own->parts, first, n, true);
    }
    if (e->n_groups > 1) TRY(collect_sums(comm, buffer));
    return by_mail || n_tail == 0 ? ERR_OK
                                  : mpi_allreduce_on(impl->ranks.world, tail, n_tail, DTYPE_F32, MPI_SUM);
}

/* Each owner sends its slice to the carriers of the other groups. From an owner or a carrier the others of the group copy it.
 * Then they may still read it, but the next collective keeps it from being changed. */
static err_t host_gather(comm_t *comm, comm_buffer_t *buffer)
{
    enum { CHUNK = MPI_CHUNK_BYTES / sizeof(float) };
    mpi_impl_t *impl = comm->impl;
    const exchange_t *e = &((const host_buffer_t *)buffer->owner)->exchange;
    const host_buffer_t *weights = buffer->weights->owner;
    float *data = buffer->weights->data;
    int64_t first;
    for (int64_t at = 0; e->n_groups > 1 && at < comm_slices_length(&buffer->slices, 0); at += CHUNK)
        TRY(pass_chunks(comm, buffer, data, at, CHUNK, false));
    if (!buffer->by_host) return ERR_OK;
    host_barrier(&impl->host);
    for (int r = 0; r < comm->size; r++) {
        const int64_t n = slice_of(buffer, r, &first);
        const float *part = weights->parts[e->index[r] % impl->host.size];
        if (part != weights->parts[impl->host.rank] && n > 0)
            memcpy(data + first, part + first, (size_t)n * sizeof *data);
    }
    return ERR_OK;
}

static err_t host_begin(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count)
{
    if (!buffer->slices.size) return sum_by(comm, buffer, offset, count, buffer->by_host);
    ASSERT(offset == 0);
    return scatter_sums(comm, buffer, count);
}

static void host_free(comm_t *comm, comm_buffer_t *buffer)
{
    (void)comm;
    host_buffer_t *own = buffer->owner;
    if (!buffer->shared)
        mem_free(&buffer->data);
    else if (shared_window_free(&own->window) != ERR_OK)
        log_warn("cannot free a gradient buffer: %s", err_message());
    mem_free(&own->exchange.group);
    mem_free(&own->exchange.requests);
    mem_free(&own->exchange.received);
    mem_free(&own);
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
    .buffer_share = host_share,
    .buffer_gather = host_gather,
    .buffer_free = host_free,
    .singles = singles,
    .describe = host_describe,
};
