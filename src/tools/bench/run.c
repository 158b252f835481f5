/* SPDX-License-Identifier: MIT */
/* Runs the selected cases from header to end record, and turns wrong results into the exit code. */
#include <signal.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/version.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/signals.h"
#include "tools/bench/cases.h"
#include "tools/bench/log.h"

static void print_header(const bench_t *bench)
{
    char cpu[96];
    const topo_t *topo = &bench->comm->topo;
    const runtime_t *r = &bench->runtime;
    machine_cpu_name(cpu, sizeof cpu);
    log_note("dptrain %s bench", version_number);
    log_note("  ranks   %d on %d host%s, %d thread%s each, %s (%s), communicator %s", bench->comm->size,
             topo->n_hosts, topo->n_hosts > 1 ? "s" : "", r->n_threads, r->n_threads > 1 ? "s" : "",
             r->backend->name, r->device, bench->comm->ops->name);
    log_note("  host    %s, %d CPUs, %s, %s", topo->host_name, machine_cpus(),
             figure_bytes((double)machine_memory_bytes()).text, cpu);
    if (bench->cpus_are_shared)
        log_warn("more threads than CPUs: results show how threads share them, not what the machine can do");
}

static err_t run_bench_case(bench_t *bench, const bench_choice_t *choice, bool alone)
{
    const bench_case_t *c = choice->which;
    if (bench->comm->size < c->min_ranks && alone)
        RAISE(
            ERR_USAGE,
            "bench %s needs %d ranks or more, but this is a single process; start it with mpirun -np %d (if "
            "you did, that mpirun belongs to a different MPI than the one this program was built with)",
            c->name, c->min_ranks, c->min_ranks);
    log_info("%s", "");
    if (bench->comm->size < c->min_ranks) {
        log_info("%s: skipped; it needs %d ranks or more", c->name, c->min_ranks);
        return ERR_OK;
    }
    bench->case_name = c->name;
    return c->run(bench, choice->options);
}

static err_t run_bench_cases(bench_t *bench, const bench_choice_t *cases, int n)
{
    for (int i = 0; i < n; i++) TRY(run_bench_case(bench, &cases[i], n == 1));
    return ERR_OK;
}

/* failed_check is the same on all ranks. */
static err_t raise_wrong_data(const bench_t *bench)
{
    if (!bench->failed_check) return ERR_OK;
    return comm_agree(bench->comm,
                      err_raise(ERR_GATE, __FILE__, __LINE__, "some results are wrong; see the table"),
                      "ending the benchmark");
}

/* An error of the cases takes precedence over one of the record file. */
static err_t end_log(bench_t *bench, err_t err)
{
    err_info_t first;
    err_take(err, &first);
    err_t closed = bench_log_close(bench, err == ERR_OK        ? "finished"
                                          : bench->interrupted ? "interrupted"
                                                               : "failed");
    return comm_agree(bench->comm, err == ERR_OK ? closed : err_put(&first), "ending the benchmark");
}

/* A request to stop is met between two measurements. One that takes longer is not waited for. */
static void ask_to_stop(int number, double end_sec)
{
    static const double patience_sec = 2.5;
    const double start = clock_sec();
    stop_request();
    while (clock_sec() < end_sec && (stop_was_noticed() || clock_sec() < start + patience_sec))
        clock_sleep(0.02);
    log_last_words();
    progress_clear_line();
    log_info("interrupted by %s in the middle of a measurement", interrupt_name(number));
}

err_t bench_run(const bench_options_t *options, const opt_group_t *groups, int n_groups,
                const bench_choice_t *cases, int n, void (*abort_job)(err_t code))
{
    static const double limit_sec = 60;
    bench_t bench = {.options = options};
    stop_catch(SIGINT); /* even if it is ignored, as in a shell's background */
    stop_catch(SIGTERM);
    stop_catch(SIGUSR1); /* scripts/run.sh sends it on Ctrl-C */
    err_t err = interrupt_catch(ask_to_stop, limit_sec);
    if (err == ERR_OK) err = progress_watch();
    if (err == ERR_OK) err = runtime_open(&options->runtime, abort_job, &bench.runtime);
    bench.comm = bench.runtime.comm;
    if (err == ERR_OK) {
        bench.n_cpus = machine_cpus();
        bench.cpus_are_shared = bench.comm->topo.local_size * bench.runtime.n_threads > bench.n_cpus;
        print_header(&bench);
        bench_warn_idle(&bench, groups, n_groups, cases, n);
        bench.load.best_sec = options->clock_sec;
        err = bench_log_open(&bench, groups, n_groups);
    }
    if (err == ERR_OK) err = run_bench_cases(&bench, cases, n);
    if (err == ERR_OK) err = raise_wrong_data(&bench);
    progress_clear_line();
    bench.interrupted |= err == ERR_GATE && stop_requested();
    runtime_abort_alone(&bench.runtime, err);
    if (bench.log) err = end_log(&bench, err);
    turns_close(&bench.turns);
    progress_unwatch();
    if (!interrupt_arrived()) interrupt_release();
    return runtime_close(&bench.runtime, err);
}
