/* SPDX-License-Identifier: MIT */
/* The row kernels of resize.c for AVX-512BW: rows.h with four 128-bit lanes. NULL on other
 * architectures; resize.c chooses at run time. */
#define ROWS_LANES 4
#include "data/image/rows.h"

const rows_ops_t *const rows_avx512 = ROWS_TABLE;
