/* The protocol: warm-up, batches of samples, and when to stop. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/stats.h"
#include "bench/bench.h"
#include "train/stop.h"

enum { MAX_BATCH = 100, MAX_WARM_UP = 200, MAX_PER_SAMPLE = 1000, ENOUGH_SAMPLES = 20 };
static const double budget_sec = 2, quick_budget_sec = 0.25;
static const double batch_sec = 0.05, warm_up_sec = 0.02;
static const double clock_margin_sec = 20e-6;   /* a sample this long hides the clock's 50 ns */
static const double device_margin_sec = 200e-6; /* one this long hides a launch and a wait, some µs each */
static const double overrun = 5;                /* budgets that may go for the first few samples */

/* Behind the samples of a batch, in the same allreduce: what all must know. */
enum { NOTE_STOP, NOTE_LOADS, N_NOTES = NOTE_LOADS + LOAD_KINDS };

/* A work while it is measured. */
typedef struct state {
    const bench_work_t *work;
    int n_ranks;
    double *sec;
    int32_t *batch;
    int64_t n, per_sample, per_batch;
    int64_t n_slowest; /* samples whose slowest rank was this one */
    /* Of each batch: LOAD_… on any rank, this rank's probe, and how long it took. */
    int32_t *loads;
    double *probe_sec, *batch_sec;
} state_t;

typedef struct measuring {
    bench_t *bench;
    state_t states[BENCH_MAX_WORKS];
    int n, n_rounds;
    double best_sec; /* of the probe, when batches were last judged by it */
    double budget;
    double *sorted;
} measuring_t;

static err_t max_over_ranks(bench_t *bench, double *values, int64_t n)
{
    return comm_allreduce(bench->comm, values, n, DTYPE_F64, COMM_MAX, "gathering samples");
}

static bool takes_part(const bench_t *bench, const state_t *s)
{
    return bench->comm->rank < s->n_ranks;
}

/* All ranks come together; those who have nothing to do for a work wait for it without using a CPU. */
static err_t meet(bench_t *bench, const state_t *s)
{
    if (s->n_ranks < bench->comm->size) return comm_barrier_asleep(bench->comm, s->work->what);
    return comm_barrier(bench->comm, s->work->what);
}

static err_t one_sample(const state_t *s, double *sec)
{
    const bench_work_t *w = s->work;
    double start = clock_sec();
    for (int64_t i = 0; i < s->per_sample; i++) TRY(w->run(w->context));
    if (w->finish) TRY(w->finish(w->context));
    *sec = (clock_sec() - start) / (double)s->per_sample;
    return ERR_OK;
}

/* n samples by this rank's clock. */
static err_t own_samples(bench_t *bench, const state_t *s, int64_t n, double *sec)
{
    for (int64_t i = 0; i < n; i++) {
        if (s->work->prepare) {
            TRY(s->work->prepare(s->work->context));
            TRY(comm_barrier(bench->comm, s->work->what));
        }
        TRY(one_sample(s, &sec[i]));
    }
    return ERR_OK;
}

/* Of a sample, each `mean` long. */
static int64_t enough_iterations(const state_t *s, double mean)
{
    double margin_sec = s->work->finish ? device_margin_sec : clock_margin_sec;
    if (s->work->prepare || mean >= margin_sec) return 1;
    int64_t n = (int64_t)ceil(margin_sec / mean);
    return n > MAX_PER_SAMPLE ? MAX_PER_SAMPLE : n;
}

/* What one iteration takes, roughly, and from that the numbers of iterations. The same on all ranks. */
static err_t warm_up(bench_t *bench, state_t *s)
{
    double sec[MAX_WARM_UP] = {0}, mean = 0;
    int64_t n = 1;
    s->per_sample = 1;
    /* With a wait in every sample one iteration seems to take as long as the wait: only several tell. */
    for (int i = 0; i < (s->work->finish ? 4 : 2); i++) {
        if (i >= 2) s->per_sample = enough_iterations(s, mean);
        TRY(meet(bench, s));
        if (takes_part(bench, s)) TRY(own_samples(bench, s, n, sec));
        TRY(meet(bench, s));
        mean = 0;
        for (int64_t k = 0; k < n; k++) mean += sec[k] / (double)n;
        TRY(max_over_ranks(bench, &mean, 1));
        mean = fmax(mean, 1e-9);
        if (mean >= warm_up_sec) break;
        n = (int64_t)(warm_up_sec / (mean * (double)(i < 1 ? 1 : enough_iterations(s, mean))));
        n = n < 2 ? 2 : n > MAX_WARM_UP ? MAX_WARM_UP : n;
    }
    s->per_sample = enough_iterations(s, mean);
    s->per_batch = (int64_t)(batch_sec / (mean * (double)s->per_sample));
    s->per_batch = s->per_batch < 1 ? 1 : s->per_batch > MAX_BATCH ? MAX_BATCH : s->per_batch;
    return ERR_OK;
}

/* This rank's samples become those of the slowest; what was found of foreign load goes with them. */
static err_t gather(bench_t *bench, state_t *s, int round, int64_t n, const double *mine, double *all)
{
    unsigned loads = load_end(&bench->load, bench->n_cpus, bench->cpus_are_shared, &s->probe_sec[round]);
    if (load_clock_was_slow(&bench->load, s->probe_sec[round])) loads |= LOAD_CLOCK;
    double *notes = all + n;
    memcpy(all, mine, (size_t)n * sizeof *all);
    notes[NOTE_STOP] = stop_requested();
    for (int i = 0; i < LOAD_KINDS; i++) notes[NOTE_LOADS + i] = loads >> i & 1;
    TRY(max_over_ranks(bench, all, n + N_NOTES));
    for (int64_t i = 0; i < n && takes_part(bench, s); i++) s->n_slowest += mine[i] >= all[i];
    for (int i = 0; i < LOAD_KINDS; i++) s->loads[round] |= notes[NOTE_LOADS + i] > 0 ? 1 << i : 0;
    bench->interrupted |= notes[NOTE_STOP] > 0;
    return ERR_OK;
}

static err_t batch(measuring_t *m, state_t *s)
{
    double mine[MAX_BATCH] = {0}, all[MAX_BATCH + N_NOTES];
    int64_t left = BENCH_MAX_SAMPLES - s->n, n = left < s->per_batch ? left : s->per_batch;
    if (n == 0) return ERR_OK;
    double start = clock_sec();
    TRY(meet(m->bench, s));
    load_begin(&m->bench->load);
    if (takes_part(m->bench, s)) TRY(own_samples(m->bench, s, n, mine));
    TRY(meet(m->bench, s));
    TRY(gather(m->bench, s, m->n_rounds, n, mine, all));
    s->batch_sec[m->n_rounds] = clock_sec() - start;
    for (int64_t i = 0; i < n; i++) {
        s->sec[s->n] = all[i];
        s->batch[s->n++] = m->n_rounds;
    }
    return ERR_OK;
}

/* A probe much better than all before makes earlier batches slow ones. */
static err_t judge_again(measuring_t *m)
{
    const load_t *load = &m->bench->load;
    double better = load->best_sec < 0.98 * m->best_sec;
    TRY(max_over_ranks(m->bench, &better, 1));
    if (better <= 0) return ERR_OK;
    m->best_sec = load->best_sec;
    for (int i = 0; i < m->n; i++) {
        state_t *s = &m->states[i];
        for (int k = 0; k < m->n_rounds; k++)
            if (load_clock_was_slow(load, s->probe_sec[k])) s->loads[k] |= LOAD_CLOCK;
        TRY(comm_allreduce(m->bench->comm, s->loads, m->n_rounds, DTYPE_I32, COMM_MAX, "gathering samples"));
    }
    return ERR_OK;
}

static int64_t count_disturbed(const state_t *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) n += s->loads[s->batch[i]] != 0;
    return n;
}

/* Time used so far, disturbed batches at a third; the same on all ranks. */
static err_t elapsed(measuring_t *m, double *out)
{
    *out = 0;
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->n_rounds; k++)
            *out += m->states[i].batch_sec[k] * (m->states[i].loads[k] ? 1.0 / 3 : 1);
    return max_over_ranks(m->bench, out, 1);
}

/* The samples that count, into `out` in ascending order; how many. */
static int64_t sorted_samples(const state_t *s, double *out)
{
    bool all = s->n - count_disturbed(s) < BENCH_MIN_SAMPLES;
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (all || !s->loads[s->batch[i]]) out[n++] = s->sec[i];
    stats_sort(out, n);
    return n;
}

static bool is_precise(const measuring_t *m, const double *sorted, int64_t n)
{
    double low, high, median = stats_quantile(sorted, n, 0.5);
    stats_median_interval(sorted, n, &low, &high);
    return (high - low) / 2 <= m->bench->options->precision * median;
}

/* Whether one more batch of s is wanted. */
static bool wants_more(const measuring_t *m, const state_t *s, double sec)
{
    if (s->n >= BENCH_MAX_SAMPLES) return false;
    if (sec > m->budget) return s->n == 0 || (s->n < BENCH_MIN_SAMPLES && sec < overrun * m->budget);
    int64_t n = sorted_samples(s, m->sorted);
    return n < ENOUGH_SAMPLES || !is_precise(m, m->sorted, n);
}

/* How far the time is gone, and how well the first work's median is known. */
static void show(const measuring_t *m, double sec)
{
    char text[64];
    double low, high;
    if (!progress_active()) return;
    int64_t n = sorted_samples(&m->states[0], m->sorted);
    stats_median_interval(m->sorted, n, &low, &high);
    double percent = 50 * (high - low) / stats_quantile(m->sorted, n, 0.5);
    if (isfinite(percent))
        snprintf(text, sizeof text, "%lld samples, median ± %.1f %%", (long long)n, percent);
    else
        snprintf(text, sizeof text, "%lld samples", (long long)n);
    progress_draw(m->states[0].work->what, (int64_t)(1e3 * fmin(sec, m->budget)), (int64_t)(1e3 * m->budget),
                  text);
}

static err_t rounds(measuring_t *m)
{
    bool more = true;
    while (more && m->n_rounds < BENCH_MAX_SAMPLES) {
        for (int i = 0; i < m->n; i++) {
            TRY(batch(m, &m->states[i]));
            if (m->bench->interrupted) return ERR_OK;
        }
        m->n_rounds++;
        double sec;
        TRY(judge_again(m));
        TRY(elapsed(m, &sec));
        show(m, sec);
        more = false;
        for (int i = 0; i < m->n; i++) more |= wants_more(m, &m->states[i], sec);
    }
    return ERR_OK;
}

static err_t find_slowest(bench_t *bench, const state_t *s, bench_result_t *out)
{
    int64_t *counts;
    TRY(mem_new_array(bench->comm->size, sizeof *counts, "counts of slow samples", &counts));
    err_t err =
        comm_allgather(bench->comm, &s->n_slowest, sizeof *counts, counts, "finding the slowest rank");
    for (int r = 1; r < bench->comm->size; r++)
        if (counts[r] > counts[out->slowest_rank]) out->slowest_rank = r;
    out->slowest_share = s->n > 0 ? (double)counts[out->slowest_rank] / (double)s->n : 0;
    mem_free(&counts);
    return err;
}

static void summarise(measuring_t *m, state_t *s, bench_result_t *out)
{
    int64_t n = sorted_samples(s, m->sorted), n_kept = 0;
    const double *sorted = m->sorted;
    out->n_disturbed = count_disturbed(s);
    out->disturbed = out->n_disturbed > 0 && n == s->n;
    out->per_sample = s->per_sample;
    for (int64_t i = 0; i < s->n; i++) {
        unsigned loads = (unsigned)s->loads[s->batch[i]];
        out->loads |= loads;
        if (loads && !out->disturbed) continue;
        s->sec[n_kept] = s->sec[i];
        s->batch[n_kept++] = s->batch[i];
        out->mean += s->sec[i] / (double)n;
    }
    out->n = n;
    out->sec = s->sec;
    out->batch = s->batch;
    s->sec = NULL;
    s->batch = NULL;
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (sorted[i] - out->mean) * (sorted[i] - out->mean);
    out->cv = n > 1 ? sqrt(squares / (double)(n - 1)) / out->mean : NAN;
    out->min = stats_quantile(sorted, n, 0);
    out->p50 = stats_quantile(sorted, n, 0.5);
    out->p95 = stats_quantile(sorted, n, 0.95);
    out->p99 = stats_quantile(sorted, n, 0.99);
    out->max = stats_quantile(sorted, n, 1);
    stats_median_interval(sorted, n, &out->ci_low, &out->ci_high);
    out->conclusive = n > 0 && is_precise(m, sorted, n);
}

static err_t prepare_states(measuring_t *m, const bench_work_t *works)
{
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *m->sorted, "samples", &m->sorted));
    for (int i = 0; i < m->n; i++) {
        state_t *s = &m->states[i];
        s->work = &works[i];
        s->n_ranks = works[i].n_ranks ? works[i].n_ranks : m->bench->comm->size;
        ASSERT(!works[i].prepare || s->n_ranks == m->bench->comm->size);
        TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *s->sec, "samples", &s->sec));
        TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *s->batch, "samples", &s->batch));
        TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *s->loads, "samples", &s->loads));
        TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *s->probe_sec, "samples", &s->probe_sec));
        TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *s->batch_sec, "samples", &s->batch_sec));
        mem_touch(s->sec, BENCH_MAX_SAMPLES * sizeof *s->sec);
    }
    return ERR_OK;
}

static err_t measure(measuring_t *m, bench_result_t *results)
{
    for (int i = 0; i < m->n; i++) TRY(warm_up(m->bench, &m->states[i]));
    m->best_sec = INFINITY;
    TRY(rounds(m));
    progress_clear_line();
    if (m->bench->interrupted)
        return comm_agree(m->bench->comm, err_raise(ERR_GATE, __FILE__, __LINE__, "interrupted by a signal"),
                          "ending");
    for (int i = 0; i < m->n; i++) {
        TRY(find_slowest(m->bench, &m->states[i], &results[i]));
        summarise(m, &m->states[i], &results[i]);
    }
    return ERR_OK;
}

static void state_free(state_t *s)
{
    mem_free(&s->sec);
    mem_free(&s->batch);
    mem_free(&s->loads);
    mem_free(&s->probe_sec);
    mem_free(&s->batch_sec);
}

err_t bench_measure(bench_t *bench, const bench_work_t *works, int n, bench_result_t *results)
{
    const bench_options_t *o = bench->options;
    double each = o->budget_sec > 0 ? o->budget_sec : o->quick ? quick_budget_sec : budget_sec;
    ASSERT(n > 0 && n <= BENCH_MAX_WORKS);
    measuring_t *m = NULL;
    memset(results, 0, (size_t)n * sizeof *results);
    err_t err = mem_new(sizeof *m, "a measurement", &m);
    if (err == ERR_OK) {
        m->bench = bench;
        m->n = n;
        m->budget = each * n;
        err = prepare_states(m, works);
    }
    err = comm_agree(bench->comm, err, "preparing a measurement");
    if (err == ERR_OK) err = measure(m, results);
    for (int i = 0; m && i < n; i++) state_free(&m->states[i]);
    if (m) mem_free(&m->sorted);
    mem_free(&m);
    return err;
}

void bench_result_free(bench_result_t *result)
{
    mem_free(&result->sec);
    mem_free(&result->batch);
}
