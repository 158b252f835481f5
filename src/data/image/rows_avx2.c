#define ROWS_LANES 2
#include "data/image/rows_steps.h"

const rows_ops_t *const rows_avx2 = ROWS_TABLE;
