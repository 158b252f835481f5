/* SPDX-License-Identifier: MIT */
/* The row kernels of resize.c for SSE4.1: rows.h with one 128-bit lane. NULL on other architectures;
 * resize.c chooses at run time. */
#define ROWS_LANES 1
#include "data/image/rows.h"

const rows_ops_t *const rows_sse41 = ROWS_TABLE;
