/* SPDX-License-Identifier: MIT */
/* Options common to all cases, and helpers for them: the memory check, output lines, the mark of a doubtful
 * figure. The measuring protocol is in measure.c. */
#include "tools/bench/bench.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/figure.h"
#include "base/log.h"
#include "base/progress.h"
#include "cluster/hosts/machine.h"

#define FIELD(name) offsetof(bench_options_t, name)
const opt_t bench_option_table[] = {
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "FILE",
     "add the records to this file; default: runs/bench-DATE.jsonl", false},
    {"quick", OPT_FLAG, FIELD(quick), "false", 0, 0, NULL, NULL,
     "fewer points and less time for each: `all` within two minutes", false},
    {"budget", OPT_REAL, FIELD(budget_sec), "0", 0, 86400, NULL, "SEC",
     "time for a point; 0: 2, and 0.25 with --quick", false},
    {"precision", OPT_REAL, FIELD(precision), "0.01", 1e-6, 1, NULL, "X",
     "a point ends when its median is known within ±X of itself (95 % confidence)", false},
    {"turns", OPT_STRING, FIELD(turns), NULL, 0, 0, NULL, "FOLDER:first|second",
     "take turns with another job, batch by batch, so that both meet the same machine; both use the same "
     "folder, on this host, and measure the same",
     false},
    {"clock", OPT_REAL, FIELD(clock_sec), "0", 0, 1, NULL, "SEC",
     "the fixed loop's best time on this machine (clock_sec of earlier records); slower ones count as "
     "disturbed from the start",
     false},
};
const int n_bench_options = sizeof bench_option_table / sizeof bench_option_table[0];

err_t bench_check_memory(bench_t *bench, int64_t n_bytes, const char *what)
{
    const topo_t *topo = &bench->comm->topo;
    /* Ranks of a host look at the same memory; each has its even share. */
    int64_t share = machine_free_bytes() / topo->local_size;
    err_t err = ERR_OK;
    if (n_bytes > share)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__,
                        "%s needs %s on each rank, but %s has %s left for each of its %d; choose "
                        "smaller sizes, or fewer ranks a host",
                        what, figure_bytes((double)n_bytes).text, topo->host_name,
                        figure_bytes((double)share).text, topo->local_size);
    return comm_agree(bench->comm, err, "looking for memory");
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
