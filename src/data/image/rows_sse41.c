#define ROWS_LANES 1
#include "data/image/rows_steps.h"

const rows_ops_t *const rows_sse41 = ROWS_TABLE;
