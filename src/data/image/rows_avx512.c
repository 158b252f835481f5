#define ROWS_LANES 4
#include "data/image/rows_steps.h"

const rows_ops_t *const rows_avx512 = ROWS_TABLE;
