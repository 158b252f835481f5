/* SPDX-License-Identifier: MIT */
/* Memory copies of a GPU. Part of the case `mem`. */
#ifndef TOOLS_BENCH_MEM_DEVICE_H
#define TOOLS_BENCH_MEM_DEVICE_H

#include "tools/bench/bench.h"

/* Collective. Measures copies of n_bytes within the device, from and to pinned host memory, and verifies
 * each. The backend must have device memory.
 *
 *   spoil  corrupt one byte before the check, for tests */
err_t mem_device_measure(bench_t *bench, int64_t n_bytes, bool spoil);

#endif
