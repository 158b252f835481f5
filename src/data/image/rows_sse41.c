/* SPDX-License-Identifier: MIT */
/* The row kernels of resize.c for SSE4.1: rows_steps.h with one 128-bit lane. NULL on other architectures;
 * rows.c chooses at run time. */
#define ROWS_LANES 1
#include "data/image/rows_steps.h"

const rows_ops_t *const rows_sse41 = ROWS_TABLE;
