/* SPDX-License-Identifier: MIT */
/* The row kernels of resize.c for AVX-512BW: rows_steps.h with four 128-bit lanes. NULL on other
 * architectures; rows.c chooses at run time. */
#define ROWS_LANES 4
#include "data/image/rows_steps.h"

const rows_ops_t *const rows_avx512 = ROWS_TABLE;
