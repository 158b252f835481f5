/* SPDX-License-Identifier: MIT */
/* A GPU's memory: copies by its backend. Part of the case `mem`. */
#ifndef TOOLS_BENCH_MEM_DEVICE_H
#define TOOLS_BENCH_MEM_DEVICE_H

#include "tools/bench/bench.h"

/* Collective. Copies of n_bytes within the device, from pinned host memory and to it; each is compared
 * afterwards. spoil: one byte is changed before, for tests. The backend has memory of its own. */
err_t mem_device_measure(bench_t *bench, int64_t n_bytes, bool spoil);

#endif
