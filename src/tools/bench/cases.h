/* SPDX-License-Identifier: MIT */
/* The cases, one file each, and registry.c, which lists them. */
#ifndef TOOLS_BENCH_CASES_H
#define TOOLS_BENCH_CASES_H

#include "tools/bench/bench.h"

extern const bench_case_t bench_comm, bench_gemm, bench_conv, bench_mem, bench_io, bench_step;

extern const bench_case_t *const bench_cases[]; /* ended by NULL */

/* nccl-tests' short options, -b and its like, become our long ones, in place. */
void bench_comm_long_names(int argc, char **argv);

#endif
