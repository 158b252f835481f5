/* SPDX-License-Identifier: MIT */
/* The cases of `dptrain bench`, in the order in which `all` runs them. */
#include "tools/bench/cases.h"

const bench_case_t *const bench_cases[] = {&bench_comm, &bench_gemm, &bench_conv, &bench_mem,
                                           &bench_io,   &bench_step, NULL};
