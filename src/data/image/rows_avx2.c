/* SPDX-License-Identifier: MIT */
/* The row kernels of resize.c for AVX2: rows.h with two 128-bit lanes. NULL on other architectures;
 * resize.c chooses at run time. */
#define ROWS_LANES 2
#include "data/image/rows.h"

const rows_ops_t *const rows_avx2 = ROWS_TABLE;
