/* SPDX-License-Identifier: MIT */
/* `dptrain bench`: the options common to all cases, warnings of options that change nothing, and the run of the
 * selected cases from header to end record, which turns wrong results into the exit code. measure.c has the protocol. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "cluster/comm/device.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/signals.h"
#include "text/figure.h"
#include "text/progress.h"
#include "tools/bench/bench.h"
#include "tools/bench/cases.h"
#include "tools/bench/comm.h"
#include "tools/bench/protocol.h"

#define FIELD(name) offsetof(bench_options_t, name)
const opt_t bench_option_table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE",
     "file to append records to [runs/bench-DATE.jsonl]", OPT_COMMON},
    {"quick", OPT_FLAG, FIELD(quick), "false", 0, 0, NULL, NULL,
     "fewer points and less time per point; all cases take less than two minutes", OPT_COMMON},
    {"budget", OPT_REAL, FIELD(budget_sec), "0", 0, 86400, NULL, "SEC",
     "time per point, in seconds; 0: 2, or 0.25 with --quick", OPT_COMMON},
    {"ci", OPT_REAL, FIELD(precision), "0.01", 1e-6, 1, NULL, "X",
     "target precision of the median: relative half-width of its 95 % confidence interval", OPT_COMMON},
    {"samples", OPT_INT, FIELD(n_samples), "0", 0, BENCH_MAX_SAMPLES, NULL, "N",
     "take N samples of each point, whatever --budget and --ci say: enough on simulated hosts, where all are "
     "equal; 0: until the median is precise",
     OPT_MORE},
    {"turns", OPT_STRING, FIELD(turns), NULL, 0, 0, NULL, "FOLDER:first|second",
     "alternate with another job on this host after every batch, through FOLDER, so that both see the same "
     "machine; both jobs must measure the same points",
     OPT_MORE},
    {"clock", OPT_REAL, FIELD(clock_sec), "0", 0, 1, NULL, "SEC",
     "best time of the calibration loop on this machine, in seconds (clock_sec of earlier records); slower "
     "samples count as disturbed; 0: unknown",
     OPT_MORE},
};
const int n_bench_options = sizeof bench_option_table / sizeof bench_option_table[0];

err_t bench_options_check(const bench_options_t *options)
{
    if (options->n_samples > 0 && options->turns)
        RAISE(ERR_USAGE, "--samples and --turns exclude each other: both decide on the number of samples");
    return ERR_OK;
}

static const opt_when_t whens[] = {
    {"budget|ci", "samples", "0", "runs without --samples"},
    {"op", "reductions", "yes", "--test all_reduce, reduce_scatter or reduce"},
    {"root", "roots", "yes", "--test broadcast, reduce, gather or scatter"},
    {"stepbytes", "stepfactor", "0|1", "sizes without --stepfactor"},
    {"gemm-max", "gemm-shapes", "all|square", NULL},
    {"mem-fresh", "device", "ref|cpu", NULL},
    {"cuda-graph", "steps", "yes", "the case step"},
    {"workspace|cuda-graph|gpus|share-gpu", "device", "cuda", NULL},
    {"bucket|nccl-register|wire", "gradients", "nccl", "gradients that NCCL sums between GPUs"},
    {"allreduce", "gradients", "mpi", "gradients that MPI sums"},
    {NULL, NULL, NULL, NULL},
};

static const char *yes_or_no(bool holds)
{
    return holds ? "yes" : "no";
}

static void warn_idle(const bench_t *bench, const opt_group_t *groups, int n_groups,
                      const bench_choice_t *cases, int n)
{
    bool reduces = false, roots = false, steps = false, sums = false;
    for (int i = 0; i < n; i++) {
        const comm_plan_t *plan =
            cases[i].which == &bench_comm ? &((const bench_comm_options_t *)cases[i].options)->plan : NULL;
        for (int k = 0; plan && k < plan->n_tests; k++) {
            reduces |= comm_tests[plan->tests[k]].reduces;
            roots |= comm_tests[plan->tests[k]].rooted;
        }
        steps |= cases[i].which == &bench_step;
        sums |= plan != NULL;
    }
    /* A script for any number of ranks is right with one, too. */
    const bool alone = bench->comm->size == 1;
    const opt_fact_t facts[] = {
        {"reductions", yes_or_no(reduces)},
        {"roots", yes_or_no(roots)},
        {"steps", yes_or_no(steps)},
        {"device", bench->runtime.backend->name},
        {"gradients", alone           ? NULL
                      : steps || sums ? comm_gradients_name(bench->comm)
                                      : "none"},
        {NULL, NULL},
    };
    opt_warn_idle(groups, n_groups, whens, facts, NULL);
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

/* What was measured is valid, but less than a case's options expect: after the records. */
static err_t raise_missed(const bench_t *bench)
{
    err_t err = ERR_OK;
    if (bench->missed.n > 0) err = err_raise(ERR_GATE, __FILE__, __LINE__, "%s", bench->missed.text);
    return comm_agree(bench->comm, err, "ending the benchmark");
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
        warn_idle(&bench, groups, n_groups, cases, n);
        bench.load.best_sec = options->clock_sec;
        err = bench_log_open(&bench, groups, n_groups);
    }
    if (err == ERR_OK) err = run_bench_cases(&bench, cases, n);
    if (err == ERR_OK) err = raise_wrong_data(&bench);
    progress_clear_line();
    bench.interrupted |= err == ERR_GATE && stop_requested();
    runtime_abort_alone(&bench.runtime, err);
    if (bench.log) err = end_log(&bench, err);
    if (err == ERR_OK) err = raise_missed(&bench);
    turns_close(&bench.turns);
    progress_unwatch();
    if (!interrupt_arrived()) interrupt_release();
    return runtime_close(&bench.runtime, err);
}
