/* SPDX-License-Identifier: MIT */
/* The check `speed`: matrix products and copies of memory on every rank. All hosts measure at once; those that look slow measure
 * again while the others sleep, because other work is temporary and a slow host is not. Rank 0 compares the values (facts.c).
 * --level 2 also measures every CPU, --level 3 also computes for minutes. */
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stats.h"
#include "cluster/hosts/machine.h"
#include "cluster/watch/watchdog.h"
#include "compute/ops/hd_buffer.h"
#include "compute/tensor/float16.h"
#include "text/figure.h"
#include "text/progress.h"
#include "tools/bench/cases.h"
#include "tools/check/cases.h"
#include "tools/check/host.h"

/* ---- Judging ---- */
static const char wrong_advice[] =
    "a faulty CPU, GPU or memory: exclude the host, then look for machine checks and ECC errors (dmesg, nvidia-smi -q)";

int speed_suspects(const double *values, const uint64_t *kinds, int n, double *scratch, bool *suspect)
{
    int n_suspects = 0;
    double median = NAN;
    for (int i = 0; i < n; i++) {
        int64_t n_equal = 0;
        for (int k = 0; k < n && (i == 0 || kinds[i] != kinds[i - 1]); k++)
            if (kinds[k] == kinds[i] && !isnan(values[k])) scratch[n_equal++] = values[k];
        if (i == 0 || kinds[i] != kinds[i - 1]) median = stats_upper_median(scratch, n_equal);
        suspect[i] = values[i] < (1 - CHECK_SLOW) * median;
        n_suspects += suspect[i];
    }
    return n_suspects;
}

static bool is_slow(double rate, double median)
{
    return rate < (1 - CHECK_SLOWER) * median;
}

void speed_judge_cpus(check_t *check, const speed_cpu_t *cpus, int n, double *scratch)
{
    static const char advice[] =
        "a lower clock rate or other work: look at that CPU's governor and frequency (cpupower -c N "
        "frequency-info) and at /proc/interrupts, or exclude the host; if the CPU has cores of several kinds, bind "
        "the ranks to those of one kind";
    static const char name[] = "slowest CPU";
    int n_slow = 0, slowest = 0;
    for (int i = 0; i < n; i++) scratch[i] = cpus[i].rate;
    const double median = stats_upper_median(scratch, n);
    for (int i = 0; i < n; i++) {
        n_slow += is_slow(cpus[i].rate, median);
        if (cpus[i].rate < cpus[slowest].rate) slowest = i;
    }
    const double worst = cpus[slowest].rate;
    if (n_slow == 0) {
        check_measured(check, check_rank(check), name, CHECK_OK, NULL, check_more(worst), "%s",
                       figure_rate(worst / 1e9, "GFLOP/s").text);
        return;
    }
    char others[32] = "";
    if (n_slow > 1) snprintf(others, sizeof others, "; %d are slow", n_slow);
    const bool several = n >= 4 && 4 * n_slow > n; /* kinds of cores */
    check_line(check, check_rank(check), name, several ? CHECK_WARN : CHECK_FAIL, advice,
               "CPU %d: %s, %.0f %% below the others%s", cpus[slowest].cpu,
               figure_rate(worst / 1e9, "GFLOP/s").text, 100 * (1 - worst / median), others);
}

/* Below this the last third of a burn-in is slower than the first. */
static const double throttled = 0.9;

void speed_judge_burn(check_t *check, const speed_burn_t *burn)
{
    static const char name[] = "burn-in";
    const double first = burn->first, last = burn->last;
    const check_where_t where = check_rank(check);
    if (burn->n_wrong > 0)
        check_line(check, where, name, CHECK_FAIL, wrong_advice,
                   "computes wrong results: %lld of %lld products", (long long)burn->n_wrong,
                   (long long)burn->n_products);
    else if (last < throttled * first)
        check_line(
            check, where, name, CHECK_WARN,
            "it throttles: look at temperature, fans, and power limits (sensors, nvidia-smi -q -d PERFORMANCE), or "
            "exclude the host",
            "%.0f %% slower at its end than at its beginning", 100 * (1 - last / first));
    else
        check_measured(check, where, name, CHECK_OK, NULL, check_more(last), "%s",
                       figure_rate(last / 1e9, "GFLOP/s").text);
}

/* ---- Products and copies ---- */
typedef enum probe { GEMM, MEMORY_COPY, H2D, GPU_COPY, D2H, N_PROBES } probe_t;

static const char what[] = "measuring speed", gemm_name[] = "GEMM";
static const char
    gpu_advice[] =
        "throttling or other work (nvidia-smi -q -d CLOCK,PERFORMANCE,POWER), otherwise exclude the host",
    link_advice[] =
        "a PCIe link with fewer lanes (nvidia-smi -q: Link Width), a rank that is not bound near its "
        "GPU, or other work; otherwise exclude the host";
static const struct {
    const char *name, *advice;
    double n_moved; /* bytes of memory per byte copied */
} probes[N_PROBES] = {
    {gemm_name,
     "if nothing else runs there: frequency governor (cpupower frequency-info), throttling (temperature, power limit), "
     "BIOS profile; otherwise exclude the host",
     0},
    {"memory copy",
     "if nothing else runs there: a missing or slow DIMM (dmidecode -t memory), memory of another NUMA node, BIOS "
     "profile; otherwise exclude the host",
     2},
    {"H2D", link_advice, 1},
    {"GPU copy", gpu_advice, 2},
    {"D2H", link_advice, 1},
};

enum { CPU_SIDE = 256, GPU_SIDE_MIN = 512, GPU_SIDE_MAX = 4096, MAX_CALLS = 256 };
enum { PIECE_BYTES = 4 << 20, COPY_BYTES_MIN = 32 << 20, COPY_BYTES_MAX = 256 << 20, GPU_BYTES = 64 << 20 };

typedef struct speed {
    check_t *check;
    const backend_t *backend;
    bool gpu;
    char item[ERR_MESSAGE_MAX]; /* the kind of hardware */
    uint64_t kind;              /* its hash */
    int64_t side;               /* of the square matrices */
    op_t *op;
    void *workspace;
    float *integers;          /* [3][side²]: x, w, y */
    hd_buffer_t x, y, w, w16; /* w16: of GPUs */
    uint64_t right;           /* hash of the product */
    int64_t n_products, n_wrong;
    hd_buffer_t from, to; /* of copies */
    size_t at;
    int n_calls[N_PROBES];
    double best[N_PROBES]; /* FLOP/s, bytes/s; NAN: not measured here */
    bool busy[N_PROBES];   /* other work ran on the host during the last measurement */
    bool left_out;         /* of the comparison of copies */
} speed_t;

static err_t multiply(const speed_t *s, const hd_buffer_t *y)
{
    op_args_t args = op_args(s->op);
    args.x[0].data = s->x.device, args.param[0].data = s->w.device, args.y[0].data = y->device;
    args.param_bf16[0] = s->w16.device;
    args.workspace = s->workspace;
    return op_forward(s->op, &args);
}

static void free_products(speed_t *s)
{
    hd_buffer_free(&s->x);
    hd_buffer_free(&s->y);
    hd_buffer_free(&s->w);
    hd_buffer_free(&s->w16);
    backend_release(s->backend, &s->workspace);
    op_free(&s->op);
    mem_free(&s->integers);
}

/* Sets both matrices to integers up to `half`; every second of x is 0 if `sparse`. */
static err_t fill_matrices(speed_t *s, int half, bool sparse)
{
    const int64_t n = s->side * s->side;
    float *x = s->integers, *w = x + n;
    gemm_fill(x, n, half, 1);
    gemm_fill(w, n, half, 2);
    for (int64_t i = 1; sparse && i < n; i += 2) x[i] = 0;
    memcpy(s->w.host, w, (size_t)n * sizeof *w);
    if (s->gpu) {
        bf16_narrow(s->x.host, x, n);
        bf16_narrow(s->w16.host, w, n);
        TRY(hd_buffer_push_all(&s->w16));
    } else {
        memcpy(s->x.host, x, (size_t)n * sizeof *x);
    }
    TRY(hd_buffer_push_all(&s->x));
    TRY(hd_buffer_push_all(&s->w));
    return backend_sync(s->backend);
}

static err_t prepare_products(speed_t *s, int64_t side)
{
    const size_t n = (size_t)(side * side), narrow = n * sizeof(uint16_t), wide = n * sizeof(float);
    op_desc_t desc = {.kind = OP_LINEAR, .n_inputs = 1, .x = {shape_2d(side, side)}};
    s->side = side;
    desc.attr.linear = (linear_attr_t){.out_features = side};
    if (s->gpu) desc.compute = desc.x_dtype[0] = desc.y_dtype[0] = DTYPE_BF16;
    TRY(op_infer(&desc));
    TRY(op_plan(s->backend, &desc, false, NULL, &s->op));
    TRY(backend_alloc(s->backend, s->op->n_workspace_bytes, what, &s->workspace));
    TRY(mem_new(3 * wide, what, &s->integers));
    TRY(hd_buffer_new(s->backend, s->gpu ? narrow : wide, what, &s->x));
    TRY(hd_buffer_new(s->backend, s->gpu ? narrow : wide, what, &s->y));
    TRY(hd_buffer_new(s->backend, wide, what, &s->w));
    if (s->gpu) TRY(hd_buffer_new(s->backend, narrow, what, &s->w16));
    return ERR_OK;
}

/* A product is exact where its sums are small enough for bfloat16; then one that gives the hardware more to do has to be
 * the same every time. */
static err_t verify_product(speed_t *s)
{
    const int64_t n = s->side * s->side;
    float *x = s->integers, *y = x + 2 * n;
    int64_t n_wrong;
    TRY(fill_matrices(s, 1, true));
    TRY(multiply(s, &s->y));
    TRY(hd_buffer_pull_all(&s->y));
    if (s->gpu)
        bf16_widen(y, s->y.host, n);
    else
        memcpy(y, s->y.host, (size_t)n * sizeof *y);
    TRY(gemm_check(x, x + n, y, s->side, s->side, s->side, &n_wrong));
    s->n_products++;
    s->n_wrong += n_wrong > 0;
    TRY(fill_matrices(s, 127, false));
    TRY(multiply(s, &s->y));
    return hd_buffer_hash(&s->y, 0, &s->right);
}

static err_t compare_product(speed_t *s)
{
    uint64_t hash;
    TRY(hd_buffer_hash(&s->y, 0, &hash));
    s->n_products++;
    s->n_wrong += hash != s->right;
    return ERR_OK;
}

/* Runs a probe n_calls times; *rate: FLOP/s or bytes/s. Compares every product, of a GPU the last one. */
static err_t speed_sample(speed_t *s, probe_t p, double *rate)
{
    const backend_memory_t *memory = s->backend->memory;
    const double side = (double)s->side, n_bytes = p == MEMORY_COPY ? PIECE_BYTES : (double)s->from.n_bytes;
    double sec = 0, start = clock_sec();
    for (int i = 0; i < s->n_calls[p]; i++) {
        if (p == MEMORY_COPY) {
            memcpy((char *)s->to.host + s->at, (char *)s->from.host + s->at, PIECE_BYTES);
            s->at = (s->at + PIECE_BYTES) % s->from.n_bytes;
        } else if (p == H2D) {
            TRY(memory->upload(s->from.device, s->from.host, s->from.n_bytes));
        } else if (p == D2H) {
            TRY(memory->download(s->to.host, s->to.device, s->to.n_bytes));
        } else if (p == GPU_COPY) {
            TRY(memory->copy(s->to.device, s->from.device, s->from.n_bytes));
        } else {
            TRY(multiply(s, &s->y));
            if (s->gpu && i < s->n_calls[p] - 1) continue;
            TRY(backend_sync(s->backend));
            sec += clock_sec() - start;
            TRY(compare_product(s));
            start = clock_sec();
        }
    }
    TRY(backend_sync(s->backend));
    sec += clock_sec() - start;
    *rate = s->n_calls[p] * (p == GEMM ? 2 * side * side * side : probes[p].n_moved * n_bytes) / sec;
    return ERR_OK;
}

/* How long samples are taken: at least, at most; in between until the best of them stays the best. */
typedef struct speed_time {
    double least_sec, most_sec;
} speed_time_t;

/* CPU time of everything on this host; 0: unknown. */
static double host_cpu_sec(void)
{
    long long user, nice, system, irq = 0, soft = 0;
    FILE *file = fopen("/proc/stat", "re");
    int n =
        file ? fscanf(file, "cpu %lld %lld %lld %*d %*d %lld %lld", &user, &nice, &system, &irq, &soft) : 0;
    if (file) fclose(file);
    return n < 3 ? 0 : (double)(user + nice + system + irq + soft) / (double)sysconf(_SC_CLK_TCK);
}

/* Other work takes memory bandwidth all the time, and a CPU only in turns. */
static const double busy_cpus = 0.5, least_share = 0.9;

/* Raises *best. Samples are shorter than the time for which the kernel gives a CPU to a process, so that some are whole even on
 * a busy host. */
static err_t speed_measure(speed_t *s, probe_t p, speed_time_t time, double *best)
{
    static const double sample_sec = 1e-3, gain = 1.002;
    enum { STALE = 30 };
    const double start = clock_sec(), used = clock_thread_sec(), all = host_cpu_sec();
    int n_stale = 0;
    for (bool first = true;; first = false) {
        double rate;
        const double before = clock_sec();
        TRY(speed_sample(s, p, &rate));
        const double now = clock_sec(), calls = s->n_calls[p] * sample_sec / (now - before);
        if (first) s->n_calls[p] = calls > MAX_CALLS ? MAX_CALLS : calls < 1 ? 1 : (int)calls;
        n_stale = rate > gain * *best || isnan(*best) ? 0 : n_stale + 1;
        if (!(rate <= *best)) *best = rate;
        if (now - start < time.most_sec && (now - start < time.least_sec || n_stale <= STALE)) continue;
        const double others = (host_cpu_sec() - all) / (now - start) - s->check->comm->topo.local_size;
        s->busy[p] = others > busy_cpus || clock_thread_sec() - used < least_share * (now - start);
        return ERR_OK;
    }
}

/* Collective. The largest matrices, up to a limit, of which a product takes a moment on the fastest GPU of the slowest kind. */
static err_t choose_side(speed_t *s)
{
    static const double long_sec = 5e-4;
    enum { TRIES = 3 };
    int32_t side = s->gpu ? GPU_SIDE_MIN : CPU_SIDE, least;
    err_t err = s->backend ? prepare_products(s, side) : ERR_OK;
    while (err == ERR_OK && s->gpu && side < GPU_SIDE_MAX) {
        double sec = INFINITY;
        for (int i = 0; i < TRIES && err == ERR_OK; i++) {
            const double start = clock_sec();
            err = multiply(s, &s->y);
            if (err == ERR_OK) err = backend_sync(s->backend);
            if (clock_sec() - start < sec) sec = clock_sec() - start;
        }
        if (sec > long_sec || err != ERR_OK) break;
        free_products(s);
        err = prepare_products(s, side *= 2);
    }
    least = s->gpu ? side : GPU_SIDE_MAX;
    TRY(comm_agree(s->check->comm, err, what));
    TRY(comm_allreduce(s->check->comm, &least, 1, DTYPE_I32, COMM_MIN, what));
    if (s->gpu && least != side) {
        free_products(s);
        err = prepare_products(s, least);
    }
    return comm_agree(s->check->comm, err, what);
}

static err_t prepare_copies(speed_t *s)
{
    const int n_local = s->check->comm->topo.local_size;
    int64_t n = machine_cache_bytes(1, n_local), most = machine_free_bytes() / n_local / 8;
    if (n < COPY_BYTES_MIN) n = COPY_BYTES_MIN;
    if (most > COPY_BYTES_MAX) most = COPY_BYTES_MAX;
    if (n > most) n = most;
    if (s->gpu) n = GPU_BYTES;
    n = n < PIECE_BYTES ? PIECE_BYTES : n - n % PIECE_BYTES;
    TRY(hd_buffer_new(s->backend, (size_t)n, what, &s->from));
    TRY(hd_buffer_new(s->backend, (size_t)n, what, &s->to));
    uint8_t *bytes = s->from.host;
    for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 7 + i / 4093 + 1);
    return ERR_OK;
}

/* Collective. Ranks that have measured sleep until the others have. */
static err_t meet(const speed_t *s, err_t mine)
{
    TRY(comm_barrier_asleep(s->check->comm, what));
    return comm_agree(s->check->comm, mine, what);
}

/* ---- Hosts that look slow measure again ---- */
/* What ranks exchange. */
typedef struct speed_rank {
    uint64_t kind;
    bool busy; /* of copies */
    double best[N_PROBES];
} speed_rank_t;

typedef struct speed_job {
    speed_rank_t *ranks; /* [comm->size], as are all */
    double *values, *scratch;
    uint64_t *kinds;
    bool *suspect, *probe_on_host; /* probe_on_host: [n_hosts][N_PROBES] */
} speed_job_t;

enum { FEW_HOSTS = 8, STALE_PASSES = 3 };

/* Collective. Marks the hosts and probes to measure again, or `all`; returns their number in *n. The same on all ranks.
 *
 *   leaves_out  copies that are slow on busy hosts are left out, which may make others slow */
static err_t find_suspects(speed_t *s, speed_job_t *job, bool all, bool leaves_out, int *n, double *sum)
{
    const check_t *check = s->check;
    speed_rank_t mine = {.kind = s->kind, .busy = s->busy[MEMORY_COPY]};
    memcpy(mine.best, s->best, sizeof mine.best);
    TRY(comm_allgather(check->comm, &mine, sizeof mine, job->ranks, what));
    memset(job->probe_on_host, 0, (size_t)check->n_hosts * N_PROBES);
    *n = 0, *sum = 0;
    for (int p = 0; p < N_PROBES; p++) {
        for (int r = 0; r < check->comm->size; r++) {
            job->values[r] = job->ranks[r].best[p];
            job->kinds[r] = job->ranks[r].kind;
        }
        for (int n_out = 1; n_out > 0;) {
            n_out = 0;
            speed_suspects(job->values, job->kinds, check->comm->size, job->scratch, job->suspect);
            for (int r = 0; leaves_out && p == MEMORY_COPY && r < check->comm->size; r++) {
                if (!job->suspect[r] || !job->ranks[r].busy) continue;
                job->values[r] = NAN;
                n_out++;
            }
        }
        if (p == MEMORY_COPY) s->left_out = s->best[p] > 0 && isnan(job->values[check->comm->rank]);
        for (int r = 0; r < check->comm->size; r++) {
            if (!job->suspect[r] && (!all || isnan(job->values[r]))) continue;
            bool *marked = &job->probe_on_host[check->ranks[r].host * N_PROBES + p];
            *n += !*marked;
            *marked = true;
            *sum += job->values[r];
        }
    }
    return ERR_OK;
}

/* Collective. All ranks of a host measure together, as they did the first time: they share its memory and power. */
static err_t measure_suspects(speed_t *s, speed_job_t *job)
{
    static const speed_time_t times[] = {{0.1, 0.3}, {0.3, 1}, {0.3, 1}};
    static const int max_passes[] = {6, 12, 12};
    const check_t *check = s->check;
    const int64_t level = check->options->level - 1;
    double before = 0;
    for (int pass = 0, n_stale = 0;; pass++) {
        int n, turn = 0;
        double sum;
        /* For longer measurements, hosts are first treated alike. */
        TRY(find_suspects(s, job, level > 0 && pass == 0, pass >= STALE_PASSES, &n, &sum));
        n_stale =
            sum > before * 1.001 || sum < before ? 0 : n_stale + 1; /* less: some are no longer suspects */
        before = sum;
        if (n == 0 || n_stale >= STALE_PASSES || pass == max_passes[level]) break;
        for (; turn < n && turn < FEW_HOSTS; turn++) {
            err_t err = ERR_OK;
            for (int i = 0, k = 0; i < check->n_hosts * N_PROBES; i++) {
                if (!job->probe_on_host[i] || k++ % FEW_HOSTS != turn || i / N_PROBES != check->host)
                    continue;
                const probe_t p = (probe_t)(i % N_PROBES);
                if (!isnan(s->best[p]) && err == ERR_OK) err = speed_measure(s, p, times[level], &s->best[p]);
            }
            TRY(meet(s, err));
        }
    }
    return ERR_OK;
}

/* ---- Every CPU ---- */
/* What a rank may use: its affinity, which ranks of the host with the same affinity divide among themselves. */
typedef struct speed_cpus {
    speed_cpu_t *cpu;
    int n;
} speed_cpus_t;

static err_t find_cpus(const check_t *check, speed_cpus_t *out)
{
    const check_rank_t *me = &check->ranks[check->comm->rank];
    int n_same = 0, before = 0, n = 0;
    TRY(mem_new_array(CPU_SETSIZE, sizeof *out->cpu, what, &out->cpu));
    for (int r = 0; r < check->comm->size; r++) {
        if (check->ranks[r].host != me->host || !CPU_EQUAL(&check->ranks[r].cpus, &me->cpus)) continue;
        before += r < check->comm->rank;
        n_same++;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &me->cpus) && n++ % n_same == before) out->cpu[out->n++].cpu = cpu;
    return ERR_OK;
}

static void pin(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void unpin(const check_t *check)
{
    const cpu_set_t *all = &check->ranks[check->comm->rank].cpus;
    sched_setaffinity(0, sizeof *all, all);
}

/* Measures each CPU, then again those that look slow. */
static err_t measure_cpus(speed_t *s, speed_cpus_t *cpus)
{
    static const double all_sec = 6;
    enum { PASSES = 8 };
    double *scratch = NULL;
    TRY(mem_new_array(cpus->n, sizeof *scratch, what, &scratch));
    err_t err = ERR_OK;
    double median = 0;
    double sec = all_sec / (cpus->n ? cpus->n : 1);
    sec = sec > 0.3 ? 0.3 : sec < 0.02 ? 0.02 : sec;
    for (int i = 0; i < cpus->n; i++) cpus->cpu[i].rate = NAN;
    for (int pass = 0; pass < PASSES; pass++) {
        for (int i = 0; i < cpus->n && err == ERR_OK; i++) {
            speed_cpu_t *cpu = &cpus->cpu[i];
            if (pass > 0 && !is_slow(cpu->rate, median)) continue;
            pin(cpu->cpu);
            err = speed_measure(s, GEMM, (speed_time_t){sec, 3 * sec}, &cpu->rate);
        }
        for (int i = 0; i < cpus->n; i++) scratch[i] = cpus->cpu[i].rate;
        median = stats_upper_median(scratch, cpus->n);
    }
    unpin(s->check);
    if (err == ERR_OK && cpus->n > 0) speed_judge_cpus(s->check, cpus->cpu, cpus->n, scratch);
    mem_free(&scratch);
    return err;
}

/* ---- The burn-in ---- */
static const char burn_what[] = "burn-in";

/* Computes for a second on all CPUs of this rank, or on its GPU. *rate: FLOP/s of a thread while it has a CPU. */
static err_t burn_second(speed_t *s, const speed_cpus_t *cpus, hd_buffer_t *y, int n_threads, double *rate)
{
    const double end = clock_sec() + 1, side = (double)s->side;
    double sec = 0, n = 0;
    err_t err = ERR_OK;
    err_info_t first = {0};
#pragma omp parallel num_threads(n_threads) reduction(+ : sec, n)
    {
        const int t = omp_get_thread_num();
        int64_t n_done = 0, n_wrong = 0;
        err_t mine = ERR_OK;
        if (cpus->n > 0 && !s->gpu) pin(cpus->cpu[t].cpu);
        const double start = s->gpu ? clock_sec() : clock_thread_sec();
        while (mine == ERR_OK && clock_sec() < end) {
            uint64_t hash = 0;
            mine = multiply(s, &y[t]);
            if (mine == ERR_OK) mine = hd_buffer_hash(&y[t], 0, &hash);
            n_wrong += hash != s->right;
            n_done++;
        }
        sec += (s->gpu ? clock_sec() : clock_thread_sec()) - start;
        n += (double)n_done;
        if (cpus->n > 0 && !s->gpu) unpin(s->check);
#pragma omp critical
        {
            s->n_products += n_done;
            s->n_wrong += n_wrong;
            if (mine != ERR_OK && err == ERR_OK) err_take(err = mine, &first);
        }
    }
    *rate = 2 * side * side * side * n / sec;
    return err == ERR_OK ? ERR_OK : err_put(&first);
}

/* Collective. Ranks meet every second, which the watchdog and the progress line need. */
static err_t speed_burn(speed_t *s, const speed_cpus_t *cpus)
{
    static const double line_sec = 4;
    const double total_sec = s->check->options->burn_in_sec, start = clock_sec();
    const int n_threads = s->gpu || cpus->n == 0 ? 1 : cpus->n;
    comm_t *comm = s->check->comm;
    double told_sec = start, *rates = NULL;
    hd_buffer_t *y = NULL;
    int64_t n = 0, now[2] = {0};
    const int64_t n_products = s->n_products, n_wrong = s->n_wrong;
    err_t err = mem_new_array(n_threads, sizeof *y, burn_what, &y);
    for (int t = 0; t < n_threads && err == ERR_OK; t++)
        err = hd_buffer_new(s->backend, s->y.n_bytes, burn_what, &y[t]);
    TRY_OUT(err, comm_agree(comm, err, burn_what));
    progress_unwatch(); /* it shows progress itself */
    watchdog_phase("%s", burn_what);
    do {
        double rate = NAN;
        err_t mine = mem_grow(n + 1, sizeof *rates, burn_what, &rates);
        if (mine == ERR_OK && s->op) mine = burn_second(s, cpus, y, n_threads, &rate);
        TRY_OUT(err, meet(s, mine));
        rates[n++] = rate;
        now[0] = comm->rank == 0 ? (int64_t)(clock_sec() - start) : 0;
        now[1] = s->n_wrong;
        TRY_OUT(err, comm_allreduce(comm, now, 2, DTYPE_I64, COMM_SUM, burn_what));
        char text[48] = "";
        if (now[1] > 0) snprintf(text, sizeof text, "%lld wrong results", (long long)now[1]);
        progress_draw(burn_what, now[0], (int64_t)total_sec, text);
        if (!progress_wants_lines() || clock_sec() - told_sec < line_sec) continue;
        log_note("%s: %lld of %.0f s%s%s", burn_what, (long long)now[0], total_sec, text[0] ? ", " : "",
                 text);
        told_sec = clock_sec();
    } while (now[0] < (int64_t)total_sec);
    progress_clear_line();
    if (s->op) {
        const int64_t third = n > 2 ? n / 3 : 1;
        const speed_burn_t burn = {.n_products = s->n_products - n_products,
                                   .n_wrong = s->n_wrong - n_wrong,
                                   .first = stats_median(rates, third),
                                   .last = stats_median(rates + n - third, third)};
        speed_judge_burn(s->check, &burn);
    }
out:
    for (int t = 0; y && t < n_threads; t++) hd_buffer_free(&y[t]);
    mem_free(&y);
    mem_free(&rates);
    return err;
}

/* ---- The check ---- */
static void report_speed(speed_t *s)
{
    check_t *check = s->check;
    const bool lost = s->gpu && memcmp(s->from.host, s->to.host, s->from.n_bytes) != 0;
    for (int p = 0; p < N_PROBES; p++) {
        const check_fact_t fact = {.name = probes[p].name,
                                   .advice = p == GEMM && s->gpu ? gpu_advice : probes[p].advice,
                                   .item = s->item,
                                   .rule = CHECK_SPEED,
                                   .value = s->best[p],
                                   .tolerance = CHECK_SLOWER};
        const figure_t text = p != GEMM           ? figure_bandwidth(s->best[p])
                              : s->best[p] > 1e13 ? figure_rate(s->best[p] / 1e12, "TFLOP/s")
                                                  : figure_rate(s->best[p] / 1e9, "GFLOP/s");
        if (p == MEMORY_COPY && s->left_out)
            check_line(check, check_rank(check), fact.name, CHECK_SKIP, NULL,
                       "%s, not compared: the host is busy", text.text);
        else if (!isnan(s->best[p]))
            check_fact(check, check_rank(check), &fact, "%s", text.text);
    }
    if (s->n_wrong > 0)
        check_line(check, check_rank(check), "results", CHECK_FAIL, wrong_advice,
                   "computes wrong results: %lld of %lld products", (long long)s->n_wrong,
                   (long long)s->n_products);
    else if (lost)
        check_line(check, check_rank(check), "results", CHECK_FAIL, wrong_advice,
                   "copies come back with other bytes");
    else
        check_line(check, check_rank(check), "results", CHECK_OK, NULL, "products%s are exact",
                   s->gpu ? " and copies" : "");
}

static err_t open_speed(speed_t *s)
{
    machine_cpu_t cpu;
    s->backend = s->check->backend;
    s->gpu = s->backend && s->backend->memory;
    machine_cpu(&cpu);
    if (s->gpu)
        snprintf(s->item, sizeof s->item, "%s", s->check->device->name);
    else
        snprintf(s->item, sizeof s->item, "%s, %s, 1 thread", cpu.name, cpu.type);
    s->kind = XXH3_64bits(s->item, strlen(s->item));
    for (int p = 0; p < N_PROBES; p++) {
        s->n_calls[p] = 1;
        s->best[p] = NAN;
    }
    if (!s->backend) return ERR_OK;
    return prepare_copies(s);
}

static err_t alloc_job(const check_t *check, speed_job_t *job)
{
    const int64_t n = check->comm->size;
    TRY(mem_new_array(n, sizeof *job->ranks, what, &job->ranks));
    TRY(mem_new_array(n, sizeof *job->values, what, &job->values));
    TRY(mem_new_array(n, sizeof *job->scratch, what, &job->scratch));
    TRY(mem_new_array(n, sizeof *job->kinds, what, &job->kinds));
    TRY(mem_new_array(n, sizeof *job->suspect, what, &job->suspect));
    return mem_new_array((int64_t)check->n_hosts * N_PROBES, sizeof *job->probe_on_host, what,
                         &job->probe_on_host);
}

static err_t measure_all(speed_t *s, speed_job_t *job, speed_cpus_t *cpus)
{
    static const speed_time_t times[] = {{0.15, 0.4}, {1, 3}, {1, 3}};
    check_t *check = s->check;
    const int64_t level = check->options->level;
    TRY(choose_side(s));
    TRY(comm_agree(check->comm, s->backend ? verify_product(s) : ERR_OK, what));
    for (int p = 0; p < N_PROBES; p++) {
        const bool mine = s->backend && (p == GEMM || s->gpu != (p == MEMORY_COPY));
        err_t err = mine ? speed_measure(s, (probe_t)p, times[level - 1], &s->best[p]) : ERR_OK;
        TRY(meet(s, err));
    }
    TRY(measure_suspects(s, job));
    if (level > 1) {
        watchdog_phase("measuring every CPU");
        TRY(meet(s, s->gpu || !s->backend ? ERR_OK : measure_cpus(s, cpus)));
    }
    if (s->backend)
        report_speed(s);
    else
        check_line(check, check_rank(check), gemm_name, CHECK_SKIP, NULL, "not measured: %s",
                   check->why_no_backend);
    return level > 2 ? speed_burn(s, cpus) : ERR_OK;
}

static err_t speed_run(check_t *check)
{
    speed_t s = {.check = check};
    speed_job_t job = {0};
    speed_cpus_t cpus = {.n = 0};
    if (check->comm->topo.simulated) {
        check_line(check, check_job(check), gemm_name, CHECK_SKIP, NULL, "hosts are simulated");
        return ERR_OK;
    }
    err_t err = check->options->level > 1 ? progress_watch() : ERR_OK;
    if (err == ERR_OK) err = open_speed(&s);
    if (err == ERR_OK) err = alloc_job(check, &job);
    if (err == ERR_OK) err = find_cpus(check, &cpus);
    err = comm_agree(check->comm, err, what);
    if (err == ERR_OK) err = measure_all(&s, &job, &cpus);
    progress_unwatch();
    free_products(&s);
    hd_buffer_free(&s.from);
    hd_buffer_free(&s.to);
    mem_free(&cpus.cpu);
    mem_free(&job.ranks);
    mem_free(&job.values);
    mem_free(&job.scratch);
    mem_free(&job.kinds);
    mem_free(&job.suspect);
    mem_free(&job.probe_on_host);
    return err;
}

const check_case_t check_speed = {"speed", "compute and memory of every rank, compared between hosts", true,
                                  speed_run};
