/* SPDX-License-Identifier: MIT */
/* The cases of `dptrain bench`, one file each. */
#ifndef TOOLS_BENCH_CASES_H
#define TOOLS_BENCH_CASES_H

#include "tools/bench/bench.h"

extern const bench_case_t bench_comm, bench_gemm, bench_conv, bench_mem, bench_io, bench_step;

extern const bench_case_t *const bench_cases[]; /* NULL-terminated */

/* Replaces nccl-tests' short options (-b, -e, …) in argv by their long names. */
void bench_comm_long_names(int argc, char **argv);

#endif
