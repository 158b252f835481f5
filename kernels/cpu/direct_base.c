/* For the build's own instruction set. */
#define DIRECT_LANES 4
#define DIRECT_NAME  "base"
#include "kernels/cpu/direct_tile.h"

const direct_isa_t *const direct_base = &table;
