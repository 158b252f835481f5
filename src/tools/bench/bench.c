/* SPDX-License-Identifier: MIT */
/* Options and helpers common to all cases: the memory check, output lines, marks. The measuring protocol
 * is in measure.c. */
#include "tools/bench/bench.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/figure.h"
#include "base/log.h"
#include "base/progress.h"
#include "cluster/hosts/machine.h"
#include "cluster/session/signals.h"

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

err_t bench_check_memory(bench_t *bench, int64_t n_bytes, const char *what)
{
    const topo_t *topo = &bench->comm->topo;
    /* The ranks of a host share its memory evenly. */
    int64_t share = machine_free_bytes() / topo->local_size;
    err_t err = ERR_OK;
    if (n_bytes > share)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__,
                        "%s needs %s on each rank, but %s has only %s free for each of its %d ranks; use "
                        "smaller sizes or fewer ranks per host",
                        what, figure_bytes((double)n_bytes).text, topo->host_name,
                        figure_bytes((double)share).text, topo->local_size);
    return comm_agree(bench->comm, err, "checking free memory");
}

err_t bench_raise_interrupted(bench_t *bench)
{
    bench->interrupted = true;
    return comm_agree(bench->comm, err_raise(ERR_GATE, __FILE__, __LINE__, "interrupted by a signal"),
                      "ending the benchmark");
}

err_t bench_check_stop(bench_t *bench)
{
    int32_t asked = stop_requested();
    TRY(comm_allreduce(bench->comm, &asked, 1, DTYPE_I32, COMM_MAX, "looking for signals"));
    return asked ? bench_raise_interrupted(bench) : ERR_OK;
}

void bench_print(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    progress_clear_line();
    log_info("%s", line);
}

const char *bench_mark(const bench_result_t *result)
{
    return result->disturbed ? "!" : result->conclusive ? "" : "~";
}
