/* SPDX-License-Identifier: MIT */
/* The measuring protocol: warm-up, batches of samples on all ranks, which samples count, and the decision to stop.
 * Load is detected in foreign_load.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sim.h"
#include "base/stats.h"
#include "cluster/session/signals.h"
#include "cluster/watch/watchdog.h"
#include "text/figure.h"
#include "text/progress.h"
#include "tools/bench/bench.h"
#include "tools/bench/protocol.h"

err_t samples_new(const bench_parts_t *parts, bool keep_all, samples_t *out)
{
    *out = (samples_t){.keep_all = keep_all, .parts_of = *parts};
    ASSERT(parts->n <= BENCH_MAX_PARTS);
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->sec, "samples", &out->sec));
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->batch, "samples", &out->batch));
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->loads, "samples", &out->loads));
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->probe_sec, "samples", &out->probe_sec));
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->batch_sec, "samples", &out->batch_sec));
    for (int part = 0; part < parts->n; part++)
        TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *out->sec, "samples", &out->parts[part]));
    mem_touch(out->sec, BENCH_MAX_SAMPLES * sizeof *out->sec);
    return ERR_OK;
}

void samples_free(samples_t *s)
{
    mem_free(&s->sec);
    mem_free(&s->batch);
    mem_free(&s->loads);
    mem_free(&s->probe_sec);
    mem_free(&s->batch_sec);
    for (int part = 0; part < BENCH_MAX_PARTS; part++) mem_free(&s->parts[part]);
}

static int64_t samples_disturbed(const samples_t *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++) n += s->loads[s->batch[i]] != 0;
    return n;
}

static bool all_samples_count(const samples_t *s)
{
    return s->keep_all || s->n - samples_disturbed(s) < BENCH_MIN_SAMPLES;
}

/* Copies the samples that count to `out`, in ascending order; returns their number. */
static int64_t samples_sorted(const samples_t *s, double *out)
{
    bool all = all_samples_count(s);
    int64_t n = 0;
    for (int64_t i = 0; i < s->n; i++)
        if (all || !s->loads[s->batch[i]]) out[n++] = s->sec[i];
    stats_sort(out, n);
    return n;
}

/* Whether half the median's confidence interval is within `precision` times the median. */
static bool samples_are_precise(const double *sorted, int64_t n, double precision)
{
    double low, high, median = stats_quantile(sorted, n, 0.5);
    stats_median_interval(sorted, n, &low, &high);
    return (high - low) / 2 <= precision * median;
}

void samples_summarise(samples_t *s, double precision, double *sorted, bench_result_t *out)
{
    bool all = all_samples_count(s);
    out->n_disturbed = samples_disturbed(s);
    out->disturbed = out->n_disturbed > 0 && all;
    /* Over the batches that count. Overwrites `sorted`. */
    int64_t n_probes = 0;
    for (int i = 0; i < s->n_batches; i++)
        if (s->probe_sec[i] > 0 && (all || !s->loads[i])) sorted[n_probes++] = s->probe_sec[i];
    out->clock_sec = stats_median(sorted, n_probes);
    int64_t n = samples_sorted(s, sorted);
    /* Drops samples that do not count and moves the arrays to the result. */
    int64_t n_kept = 0;
    for (int64_t i = 0; i < s->n; i++) {
        unsigned loads = (unsigned)s->loads[s->batch[i]];
        out->loads |= loads;
        if (loads && !all) continue;
        s->sec[n_kept] = s->sec[i];
        for (int part = 0; part < s->parts_of.n; part++) s->parts[part][n_kept] = s->parts[part][i];
        s->batch[n_kept++] = s->batch[i];
    }
    out->n = n_kept;
    out->sec = s->sec;
    out->batch = s->batch;
    memcpy(out->parts, s->parts, sizeof out->parts);
    out->parts_of = s->parts_of;
    out->n_batches = s->n_batches;
    s->sec = NULL;
    s->batch = NULL;
    memset(s->parts, 0, sizeof s->parts);
    out->mean = 0;
    for (int64_t i = 0; i < n; i++) out->mean += sorted[i] / (double)n;
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (sorted[i] - out->mean) * (sorted[i] - out->mean);
    out->cv = n > 1 ? sqrt(squares / (double)(n - 1)) / out->mean : NAN;
    out->min = stats_quantile(sorted, n, 0);
    out->p50 = stats_quantile(sorted, n, 0.5);
    out->p95 = stats_quantile(sorted, n, 0.95);
    out->p99 = stats_quantile(sorted, n, 0.99);
    out->max = stats_quantile(sorted, n, 1);
    stats_median_interval(sorted, n, &out->ci_low, &out->ci_high);
    out->conclusive = n > 0 && samples_are_precise(sorted, n, precision);
}

enum { MAX_BATCH = 100, MIN_WARM_UP = 3, MAX_WARM_UP = 200, MAX_PER_SAMPLE = 1000, ENOUGH_SAMPLES = 20 };
enum { MIN_TURNS = 4, MAX_TURNS = 200, SETTLE_SAMPLES = 2 };
static const double budget_sec = 2, quick_budget_sec = 0.25;
static const double batch_sec = 0.05, warm_up_sec = 0.02;
static const double turn_sec = 0.015;           /* of a batch with --turns: keeps neighbours close */
static const double handover_sec = 0.002;       /* estimate, between batches with --turns */
static const double clock_margin_sec = 20e-6;   /* a sample this long hides the 50 ns of reading the clock */
static const double device_margin_sec = 200e-6; /* hides a launch and a wait, some µs each */
static const int64_t busy_batches = 3; /* times as long, of works in parts on a busy machine with --turns */
static const double overrun = 5;       /* times the budget, if the first few samples take longer */

/* Appended to the samples of a batch in its allreduce, so that all ranks know. */
enum { NOTE_STOP, NOTE_LOADS, N_NOTES = NOTE_LOADS + LOAD_KINDS };

/* The state of a work during its measurement. */
typedef struct work_state {
    const bench_work_t *work;
    int n_ranks;
    samples_t samples;
    double sample_sec; /* estimate */
    bool disturbed;    /* with --turns: other load during the warm-up, on any rank */
    int64_t per_sample, per_batch;
    int64_t n_slowest; /* samples in which this rank was the slowest */
} work_state_t;

typedef struct measurement {
    bench_t *bench;
    work_state_t states[BENCH_MAX_WORKS];
    int n, n_rounds;
    int n_rounds_agreed; /* with the other job, with --turns */
    double best_sec;     /* best probe time when batches were last judged */
    double budget;
    double *sorted;
} measurement_t;

static err_t max_over_ranks(bench_t *bench, double *values, int64_t n)
{
    return comm_allreduce(bench->comm, values, n, DTYPE_F64, COMM_MAX, "gathering samples");
}

static bool is_participant(const bench_t *bench, const work_state_t *s)
{
    return bench->comm->rank < s->n_ranks;
}

/* A barrier of all ranks. If some do not participate in the work, they wait without using a CPU. */
static err_t wait_for_ranks(bench_t *bench, const work_state_t *s)
{
    if (s->n_ranks < bench->comm->size) return comm_barrier_asleep(bench->comm, s->work->what);
    return comm_barrier(bench->comm, s->work->what);
}

static err_t run_sample(const bench_t *bench, const work_state_t *s, double *sec)
{
    const bench_work_t *w = s->work;
    double start = clock_sec();
    for (int64_t i = 0; i < s->per_sample; i++) TRY(w->run(w->context));
    if (w->finish) TRY(w->finish(w->context));
    if (bench->runtime.slowdown.phase)
        slowdown_now(&bench->runtime.slowdown, bench->case_name, clock_sec() - start);
    *sec = (clock_sec() - start) / (double)s->per_sample;
    return ERR_OK;
}

/* Takes n samples by this rank's clock.
 *
 *   parts  [n, parts of the work]: seconds of each part; NULL: not wanted */
static err_t run_samples(bench_t *bench, const work_state_t *s, int64_t n, double *sec, double *parts)
{
    const bench_parts_t *of = &s->work->parts;
    double before[BENCH_MAX_PARTS];
    if (of->n > 0) of->take(s->work->context, before);
    for (int64_t i = 0; i < n; i++) {
        if (s->work->prepare) {
            TRY(s->work->prepare(s->work->context));
            TRY(comm_barrier(bench->comm, s->work->what));
        }
        TRY(run_sample(bench, s, &sec[i]));
        if (!parts || of->n == 0) continue;
        of->take(s->work->context, &parts[i * of->n]);
        for (int part = 0; part < of->n; part++) parts[i * of->n + part] /= (double)s->per_sample;
    }
    return ERR_OK;
}

/* Iterations per sample, if one takes `sec` seconds. */
static int64_t enough_iterations(const work_state_t *s, double sec)
{
    double margin_sec = s->work->finish ? device_margin_sec : clock_margin_sec;
    if (s->work->prepare || sec >= margin_sec) return 1;
    const double n = fmin(ceil(margin_sec / sec), MAX_PER_SAMPLE);
    return sim_repeats((int)n);
}

/* Estimates the time of an iteration, as the median of the slowest ranks' samples, which one that other load has stretched
 * does not move; sets per_sample and per_batch, the same on all ranks. */
static err_t warm_up(bench_t *bench, work_state_t *s)
{
    double sec[MAX_WARM_UP + 1] = {0}, median = 0, unused;
    int64_t n = 1;
    s->per_sample = 1;
    if (bench->turns) load_begin(&bench->load);
    /* A sample of one iteration would mostly show the wait of `finish`, so later rounds use more. */
    for (int i = 0; i < sim_repeats(s->work->finish ? 4 : 3); i++) {
        if (i >= 2) s->per_sample = enough_iterations(s, median);
        TRY(wait_for_ranks(bench, s));
        if (is_participant(bench, s)) TRY(run_samples(bench, s, n, sec, NULL));
        TRY(wait_for_ranks(bench, s));
        sec[n] = stop_requested();
        TRY(max_over_ranks(bench, sec, n + 1));
        if (sec[n] > 0) return bench_raise_interrupted(bench);
        median = fmax(stats_median(sec, n), 1e-9);
        /* The first round may include cold caches and library start-up: only a very long one counts. */
        if (median >= (i == 0 ? 10 : 1) * warm_up_sec) break;
        const int64_t n_before = n;
        n = (int64_t)(warm_up_sec / (median * (double)(i < 1 ? 1 : enough_iterations(s, median))));
        n = n < MIN_WARM_UP ? MIN_WARM_UP : n > MAX_WARM_UP ? MAX_WARM_UP : n;
        /* Otherwise the first round was stretched, and left too few samples for this one. */
        if (i > 0 && !s->work->finish && n < 2 * n_before) break;
        memset(sec, 0, sizeof sec);
    }
    if (bench->turns) {
        double disturbed = load_end(&bench->load, bench->n_cpus, bench->cpus_are_shared, &unused) != 0;
        TRY(max_over_ranks(bench, &disturbed, 1));
        s->disturbed = disturbed > 0;
    }
    s->per_sample = enough_iterations(s, median);
    s->sample_sec = median * (double)s->per_sample;
    s->per_batch = (int64_t)((bench->turns ? turn_sec : batch_sec) / s->sample_sec);
    /* With --turns at least three: a single outlier does not move their median. */
    int64_t least = bench->turns && s->sample_sec < batch_sec ? 3 : 1;
    s->per_batch = s->per_batch < least ? least : s->per_batch > MAX_BATCH ? MAX_BATCH : s->per_batch;
    return ERR_OK;
}

/* Reduces the samples to those of the slowest rank, and with them the detected load. */
static err_t gather_samples(bench_t *bench, work_state_t *s, int round, int64_t n, const double *mine,
                            double *all)
{
    double *probe_sec = &s->samples.probe_sec[round];
    unsigned loads = load_end(&bench->load, bench->n_cpus, bench->cpus_are_shared, probe_sec);
    if (load_clock_was_slow(&bench->load, *probe_sec)) loads |= LOAD_CLOCK;
    double *notes = all + n;
    memcpy(all, mine, (size_t)n * sizeof *all);
    notes[NOTE_STOP] = stop_requested();
    for (int i = 0; i < LOAD_KINDS; i++) notes[NOTE_LOADS + i] = loads >> i & 1;
    TRY(max_over_ranks(bench, all, n + N_NOTES));
    for (int64_t i = 0; i < n && is_participant(bench, s); i++) s->n_slowest += mine[i] >= all[i];
    for (int i = 0; i < LOAD_KINDS; i++) s->samples.loads[round] |= notes[NOTE_LOADS + i] > 0 ? 1 << i : 0;
    bench->interrupted |= notes[NOTE_STOP] > 0;
    return ERR_OK;
}

/* Means over the participating ranks. */
static err_t gather_parts(bench_t *bench, work_state_t *s, int64_t n, double *parts)
{
    int n_parts = s->work->parts.n;
    if (n_parts == 0) return ERR_OK;
    TRY(comm_allreduce(bench->comm, parts, n * n_parts, DTYPE_F64, COMM_SUM, "gathering samples"));
    for (int64_t i = 0; i < n; i++)
        for (int part = 0; part < n_parts; part++)
            s->samples.parts[part][s->samples.n + i] = parts[i * n_parts + part] / s->n_ranks;
    return ERR_OK;
}

static int64_t max_samples(const bench_t *bench)
{
    return bench->options->n_samples > 0 ? bench->options->n_samples : BENCH_MAX_SAMPLES;
}

/* With --turns, the other job has filled the caches with its own data. */
static err_t refill_caches(bench_t *bench, const work_state_t *s)
{
    if (!bench->turns || s->work->prepare || !is_participant(bench, s)) return ERR_OK;
    double sec[SETTLE_SAMPLES];
    return run_samples(bench, s, SETTLE_SAMPLES, sec, NULL);
}

static err_t measure_batch(measurement_t *m, work_state_t *s)
{
    double mine[MAX_BATCH] = {0}, all[MAX_BATCH + N_NOTES], parts[MAX_BATCH * BENCH_MAX_PARTS] = {0};
    samples_t *samples = &s->samples;
    int64_t left = max_samples(m->bench) - samples->n, n = left < s->per_batch ? left : s->per_batch;
    if (n == 0) return ERR_OK;
    double start = clock_sec();
    TRY(refill_caches(m->bench, s));
    TRY(wait_for_ranks(m->bench, s));
    load_begin(&m->bench->load);
    if (is_participant(m->bench, s)) TRY(run_samples(m->bench, s, n, mine, parts));
    TRY(wait_for_ranks(m->bench, s));
    TRY(gather_samples(m->bench, s, m->n_rounds, n, mine, all));
    TRY(gather_parts(m->bench, s, n, parts));
    samples->batch_sec[m->n_rounds] = clock_sec() - start;
    for (int64_t i = 0; i < n; i++) {
        samples->sec[samples->n] = all[i];
        samples->batch[samples->n++] = m->n_rounds;
    }
    return m->bench->turns && !m->bench->interrupted ? turns_end_batch(m->bench->turns) : ERR_OK;
}

static bool needs_more(const measurement_t *m, const samples_t *s, double sec)
{
    if (m->bench->turns) return m->n_rounds < m->n_rounds_agreed;
    if (s->n >= max_samples(m->bench)) return false;
    if (m->bench->options->n_samples > 0) return true;
    if (sec > m->budget) return s->n == 0 || (s->n < BENCH_MIN_SAMPLES && sec < overrun * m->budget);
    int64_t n = samples_sorted(s, m->sorted);
    return n < ENOUGH_SAMPLES || !samples_are_precise(m->sorted, n, m->bench->options->precision);
}

/* Shows the time used and the precision of the first work's median. */
static void show_progress(const measurement_t *m, double sec)
{
    char text[96];
    double low, high;
    if (!progress_active()) return;
    int64_t n = samples_sorted(&m->states[0].samples, m->sorted);
    stats_median_interval(m->sorted, n, &low, &high);
    double percent = 50 * (high - low) / stats_quantile(m->sorted, n, 0.5);
    if (isfinite(percent))
        snprintf(text, sizeof text, "%lld samples, median ± %s", (long long)n,
                 figure_percent(percent / 100).text);
    else
        snprintf(text, sizeof text, "%lld samples", (long long)n);
    progress_draw(m->states[0].work->what, (int64_t)(1e3 * fmin(sec, m->budget)), (int64_t)(1e3 * m->budget),
                  text);
}

/* With --turns both jobs take the same number of batches, so that each has a neighbour in the other. On a busy machine
 * those of steps are longer: in few steps all ranks are undisturbed at once. */
static err_t agree_on_rounds(measurement_t *m)
{
    double round_sec = 0;
    if (!m->bench->turns) return ERR_OK;
    for (int i = 0; i < m->n; i++) {
        work_state_t *s = &m->states[i];
        round_sec += (double)(s->per_batch + SETTLE_SAMPLES) * s->sample_sec + handover_sec;
        if (s->disturbed && s->work->parts.n > 0 && s->per_batch * busy_batches <= MAX_BATCH)
            s->per_batch *= busy_batches;
    }
    int n = (int)fmin(fmax(m->budget / round_sec, MIN_TURNS), MAX_TURNS);
    TRY(turns_begin_point(m->bench->turns, m->states[0].work->what, n, &m->n_rounds_agreed));
    int64_t most = BENCH_MAX_SAMPLES / m->n_rounds_agreed;
    for (int i = 0; i < m->n; i++)
        if (m->states[i].per_batch > most) m->states[i].per_batch = most;
    return ERR_OK;
}

/* After a much better probe, earlier batches may count as slow. */
static err_t judge_batches_again(measurement_t *m)
{
    const load_t *load = &m->bench->load;
    double better = load->best_sec < 0.98 * m->best_sec;
    TRY(max_over_ranks(m->bench, &better, 1));
    if (better <= 0) return ERR_OK;
    m->best_sec = load->best_sec;
    for (int i = 0; i < m->n; i++) {
        samples_t *s = &m->states[i].samples;
        for (int k = 0; k < m->n_rounds; k++)
            if (load_clock_was_slow(load, s->probe_sec[k])) s->loads[k] |= LOAD_CLOCK;
        TRY(comm_allreduce(m->bench->comm, s->loads, m->n_rounds, DTYPE_I32, COMM_MAX, "gathering samples"));
    }
    return ERR_OK;
}

/* Time used so far, disturbed batches weighted by a third; the same on all ranks. */
static err_t elapsed_sec(measurement_t *m, double *out)
{
    *out = 0;
    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->n_rounds; k++)
            *out += m->states[i].samples.batch_sec[k] * (m->states[i].samples.loads[k] ? 1.0 / 3 : 1);
    return max_over_ranks(m->bench, out, 1);
}

static err_t measure_rounds(measurement_t *m)
{
    bool more = true;
    while (more && m->n_rounds < BENCH_MAX_SAMPLES) {
        for (int i = 0; i < m->n; i++) {
            TRY(measure_batch(m, &m->states[i]));
            if (m->bench->interrupted) return ERR_OK;
        }
        m->n_rounds++;
        double sec;
        TRY(judge_batches_again(m));
        TRY(elapsed_sec(m, &sec));
        show_progress(m, sec);
        more = false;
        for (int i = 0; i < m->n; i++) more |= needs_more(m, &m->states[i].samples, sec);
    }
    return ERR_OK;
}

static err_t prepare_states(measurement_t *m, const bench_work_t *works)
{
    TRY(mem_new_array(BENCH_MAX_SAMPLES, sizeof *m->sorted, "samples", &m->sorted));
    for (int i = 0; i < m->n; i++) {
        work_state_t *s = &m->states[i];
        s->work = &works[i];
        s->n_ranks = works[i].n_ranks ? works[i].n_ranks : m->bench->comm->size;
        ASSERT(!works[i].prepare || s->n_ranks == m->bench->comm->size);
        TRY(samples_new(&works[i].parts, m->bench->turns || m->bench->options->n_samples > 0, &s->samples));
    }
    return ERR_OK;
}

static err_t find_slowest(bench_t *bench, const work_state_t *s, bench_result_t *out)
{
    int64_t *counts;
    TRY(mem_new_array(bench->comm->size, sizeof *counts, "counts of slow samples", &counts));
    err_t err =
        comm_allgather(bench->comm, &s->n_slowest, sizeof *counts, counts, "finding the slowest rank");
    for (int r = 1; r < bench->comm->size; r++)
        if (counts[r] > counts[out->slowest_rank]) out->slowest_rank = r;
    int64_t n = s->samples.n;
    out->slowest_share = n > 0 ? (double)counts[out->slowest_rank] / (double)n : 0;
    mem_free(&counts);
    return err;
}

static err_t measure_works(measurement_t *m, bench_result_t *results)
{
    for (int i = 0; i < m->n; i++) {
        watchdog_phase("warming up: %s", m->states[i].work->what);
        TRY(warm_up(m->bench, &m->states[i]));
    }
    watchdog_phase("measuring: %s", m->states[0].work->what);
    m->best_sec = INFINITY;
    TRY(agree_on_rounds(m));
    TRY(measure_rounds(m));
    progress_clear_line();
    if (m->bench->interrupted) return bench_raise_interrupted(m->bench);
    for (int i = 0; i < m->n; i++) {
        samples_t *samples = &m->states[i].samples;
        samples->n_batches = m->n_rounds;
        TRY(max_over_ranks(m->bench, samples->probe_sec, m->n_rounds));
        results[i].per_sample = m->states[i].per_sample;
        TRY(find_slowest(m->bench, &m->states[i], &results[i]));
        samples_summarise(samples, m->bench->options->precision, m->sorted, &results[i]);
    }
    return ERR_OK;
}

err_t bench_measure(bench_t *bench, const bench_work_t *works, int n, bench_result_t *results)
{
    const bench_options_t *o = bench->options;
    double each = o->budget_sec > 0 ? o->budget_sec : o->quick ? quick_budget_sec : budget_sec;
    ASSERT(n > 0 && n <= BENCH_MAX_WORKS);
    measurement_t *m = NULL;
    memset(results, 0, (size_t)n * sizeof *results);
    err_t err = mem_new(sizeof *m, "a measurement", &m);
    if (err == ERR_OK) {
        m->bench = bench;
        m->n = n;
        for (int i = 0; i < n; i++) m->budget += works[i].budget_sec > 0 ? works[i].budget_sec : each;
        err = prepare_states(m, works);
    }
    err = comm_agree(bench->comm, err, "preparing a measurement");
    if (err == ERR_OK) err = measure_works(m, results);
    for (int i = 0; m && i < n; i++) samples_free(&m->states[i].samples);
    if (m) mem_free(&m->sorted);
    mem_free(&m);
    return err;
}

void bench_result_free(bench_result_t *result)
{
    mem_free(&result->sec);
    mem_free(&result->batch);
    for (int part = 0; part < BENCH_MAX_PARTS; part++) mem_free(&result->parts[part]);
}
