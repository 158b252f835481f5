/* The cases, one file each. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include "bench/bench.h"

extern const bench_case_t bench_gemm, bench_conv, bench_mem, bench_io, bench_step;

#endif
