#include "kernels/cpu/direct/tile.h"

const direct_isa_t *const direct_base = &table;
