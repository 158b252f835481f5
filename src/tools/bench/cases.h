/* SPDX-License-Identifier: MIT */
/* The cases of `dptrain bench`, one file each. */
#ifndef TOOLS_BENCH_CASES_H
#define TOOLS_BENCH_CASES_H

#include "tools/bench/bench.h"

extern const bench_case_t bench_comm, bench_gemm, bench_conv, bench_mem, bench_io, bench_step;

extern const bench_case_t *const bench_cases[]; /* NULL-terminated */

/* Replaces nccl-tests' short options (-b, -e, …) in argv by their long names. */
void bench_comm_long_names(int argc, char **argv);

/* Warns of options that change nothing in this run. idle.c. */
void bench_warn_idle(const bench_t *bench, const opt_group_t *groups, int n_groups,
                     const bench_choice_t *cases, int n);

#endif
