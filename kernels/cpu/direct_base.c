#include "kernels/cpu/direct_tile.h"

const direct_isa_t *const direct_base = &table;
