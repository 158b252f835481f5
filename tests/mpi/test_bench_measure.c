/* SPDX-License-Identifier: MIT */
/* RUN np=0,1,2,3
 *
 * The protocol of bench: numbers of calls, samples and statistics, ranks without work, errors, and a signal.
 * Times depend on the machine, so only relations between them are checked. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stats.h"
#include "cluster/session/signals.h"
#include "tests/mpi/everyone.h"
#include "tools/bench/bench.h"

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* A workload that counts its calls. */
typedef struct counter {
    int64_t n_runs, n_prepared, n_runs_at_prepare, n_finished, n_runs_at_finish;
    bool prepared_between; /* no two runs without a prepare in between */
    double sleep_sec;
    int64_t fail_at; /* 0: never */
    int64_t signal_at;
    int64_t stretched[2]; /* calls that take much longer, as if another process had the CPU */
} counter_t;

static err_t count_run(void *context)
{
    counter_t *c = context;
    c->n_runs++;
    if (c->fail_at && c->n_runs >= c->fail_at) RAISE(ERR_DATA, "run %d", (int)c->n_runs);
    if (c->n_runs == c->signal_at) raise(SIGTERM);
    if (c->sleep_sec > 0) clock_sleep(c->sleep_sec);
    if (c->n_runs == c->stretched[0] || c->n_runs == c->stretched[1]) clock_sleep(0.03);
    return ERR_OK;
}

static err_t count_prepare(void *context)
{
    counter_t *c = context;
    if (c->n_prepared > 0 && c->n_runs != c->n_runs_at_prepare + 1) c->prepared_between = false;
    c->n_prepared++;
    c->n_runs_at_prepare = c->n_runs;
    return ERR_OK;
}

/* Takes as long as a launch and a wait, regardless of the work launched before. */
static err_t count_finish(void *context)
{
    counter_t *c = context;
    c->n_finished++;
    c->n_runs_at_finish = c->n_runs;
    clock_sleep(50e-6);
    return ERR_OK;
}

static void check_statistics(const bench_result_t *r)
{
    double sorted[BENCH_MAX_SAMPLES];
    memcpy(sorted, r->sec, (size_t)r->n * sizeof *sorted);
    stats_sort(sorted, r->n);
    double low, high;
    stats_median_interval(sorted, r->n, &low, &high);
    OK_ALL(r->n > 0 && r->min <= r->p50 && r->p50 <= r->p95 && r->p95 <= r->p99 && r->p99 <= r->max,
           "quantiles ascend");
    OK_ALL(!(r->p50 < stats_quantile(sorted, r->n, 0.5)) && !(r->p50 > stats_quantile(sorted, r->n, 0.5)),
           "the median is that of the samples");
    OK_ALL((r->n < 6 && isinf(r->ci_high)) ||
               (low <= r->ci_low && r->ci_low <= r->p50 && r->p50 <= r->ci_high && r->ci_high <= high),
           "and is inside its interval");
    OK_ALL(r->mean >= r->min && r->mean <= r->max && (r->cv >= 0 || r->n == 1), "so does the mean");
}

static void test_short(bench_t *bench)
{
    counter_t c = {0};
    bench_work_t work = {.what = "a short work", .context = &c, .run = count_run};
    bench_result_t r;
    OK_ALL(bench_measure(bench, &work, 1, &r) == ERR_OK, "a workload of a few nanoseconds is measured");
    OK_ALL(r.per_sample > 1 && r.n >= BENCH_MIN_SAMPLES && r.n <= BENCH_MAX_SAMPLES,
           "many iterations make one sample");
    OK_ALL(c.n_runs >= r.n * r.per_sample, "the reported number was run");
    OK_ALL(r.p50 > 0 && r.p50 < 1e-3, "its time is that of one iteration");
    check_statistics(&r);
    bench_result_free(&r);
    OK_ALL(!r.sec && !r.batch, "freed");
}

/* In the warm-up: one call, or the first and one of the few that follow because it took so long. */
static void test_stretched(bench_t *bench)
{
    static const int64_t stretched[][2] = {{1, 2}, {1, 3}, {5, 0}};
    for (size_t i = 0; i < sizeof stretched / sizeof stretched[0]; i++) {
        counter_t c = {.stretched = {stretched[i][0], stretched[i][1]}};
        bench_work_t work = {.what = "stretched", .context = &c, .run = count_run};
        bench_result_t r;
        err_t err = bench_measure(bench, &work, 1, &r);
        OK_ALL(err == ERR_OK && r.per_sample > 1,
               "calls %d and %d of the warm-up are stretched: %d iterations per sample", (int)c.stretched[0],
               (int)c.stretched[1], (int)r.per_sample);
        bench_result_free(&r);
    }
}

static void test_slowest(bench_t *bench)
{
    int last = bench->comm->size - 1;
    counter_t c = {.sleep_sec = bench->comm->rank == last ? 0.004 : 0};
    bench_work_t work = {.what = "a workload with a slow rank", .context = &c, .run = count_run};
    bench_result_t r;
    OK_ALL(bench_measure(bench, &work, 1, &r) == ERR_OK, "a workload that is slow on one rank");
    OK_ALL(r.min >= 0.004, "every sample has the slow rank's time");
    OK_ALL(r.slowest_rank == last && r.slowest_share > 0.5, "and names it");
    OK_ALL(r.per_sample == 1, "a long iteration is a sample of its own");
    bench_result_free(&r);
}

static void test_prepare(bench_t *bench)
{
    counter_t c = {.prepared_between = true};
    bench_work_t work = {.what = "prepared", .context = &c, .run = count_run, .prepare = count_prepare};
    bench_result_t r;
    OK_ALL(bench_measure(bench, &work, 1, &r) == ERR_OK, "a workload with preparation");
    OK_ALL(c.prepared_between && c.n_prepared == c.n_runs && r.per_sample == 1,
           "prepare runs before every run");
    bench_result_free(&r);
}

/* Work that is only launched on a device: many iterations share one wait, which their time includes. */
static void test_finish(bench_t *bench)
{
    counter_t c = {0};
    bench_work_t work = {.what = "asynchronous", .context = &c, .run = count_run, .finish = count_finish};
    bench_result_t r;
    OK_ALL(bench_measure(bench, &work, 1, &r) == ERR_OK, "a workload with a wait");
    OK_ALL(c.n_finished >= r.n && c.n_runs_at_finish == c.n_runs, "every sample ends with one wait");
    /* Their number depends on the speed of this machine, and may have been larger in the estimates. */
    OK_ALL(c.n_runs >= r.n * r.per_sample && (r.per_sample == 1 || c.n_finished < c.n_runs),
           "a sample has several iterations, or a long one");
    OK_ALL(r.min * (double)r.per_sample >= 50e-6, "and includes the wait");
    bench_result_free(&r);
}

/* Two workloads, one of them on rank 0 only. */
static void test_turns(bench_t *bench)
{
    counter_t c[2] = {{.sleep_sec = 0.002}, {.sleep_sec = 0.002}};
    bench_work_t works[2] = {{.what = "rank 0 alone", .context = &c[0], .run = count_run, .n_ranks = 1},
                             {.what = "all ranks", .context = &c[1], .run = count_run}};
    bench_result_t r[2];
    OK_ALL(bench_measure(bench, works, 2, r) == ERR_OK, "two workloads alternate");
    OK_ALL((c[0].n_runs > 0) == (bench->comm->rank == 0) && c[1].n_runs > 0,
           "one of them runs on rank 0 only");
    OK_ALL(r[0].n > 0 && r[1].n > 0 && r[0].slowest_rank == 0, "both have samples on all ranks");
    int last[2] = {r[0].batch[r[0].n - 1], r[1].batch[r[1].n - 1]};
    bool rising = true;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 1; i < r[k].n; i++) rising &= r[k].batch[i] >= r[k].batch[i - 1];
    OK_ALL(rising && last[0] >= 0 && last[1] >= 0, "and the batches are counted");
    bench_result_free(&r[0]);
    bench_result_free(&r[1]);
}

static void test_errors(bench_t *bench)
{
    counter_t c = {.fail_at = 1};
    bench_work_t work = {.what = "failing", .context = &c, .run = count_run};
    bench_result_t r;
    OK_ALL(bench_measure(bench, &work, 1, &r) == ERR_DATA && strcmp(err_message(), "run 1") == 0,
           "errors are returned");
    bench_result_free(&r);
    c = (counter_t){.signal_at = bench->comm->rank == bench->comm->size - 1 ? 5 : 0, .sleep_sec = 0.001};
    stop_catch(SIGTERM);
    OK_ALL(bench_measure(bench, &work, 1, &r) == ERR_GATE && bench->interrupted &&
               bench->comm->agreed == ERR_GATE,
           "a signal on one rank ends the measurement on all");
    bench_result_free(&r);
}

static void test_memory(bench_t *bench)
{
    OK_ALL(bench_check_memory(bench, 1 << 10, "a little") == ERR_OK, "a KiB fits");
    OK_ALL(bench_check_memory(bench, INT64_C(1) << 60, "too much") == ERR_USAGE &&
               strstr(err_message(), "too much") && strstr(err_message(), "GiB"),
           "an EiB does not: %s", err_message());
}

int main(void)
{
    bench_options_t options = {.budget_sec = 0.05, .precision = 0.5};
    bench_t bench = {.options = &options, .n_cpus = 2};
    comm_options_t comm = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    if (comm_open(&comm, &bench.comm) != ERR_OK) return 1;
    tap_quiet = bench.comm->rank != 0;
    tap_plan(31);
    bench.runtime.comm = bench.comm;
    test_short(&bench);
    test_stretched(&bench);
    test_slowest(&bench);
    test_prepare(&bench);
    test_finish(&bench);
    test_turns(&bench);
    test_memory(&bench);
    test_errors(&bench); /* last: the signal stays set */
    comm_close(&bench.comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
