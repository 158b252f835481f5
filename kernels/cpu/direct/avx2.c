#include "kernels/cpu/direct/direct.h"

#ifdef __AVX2__
#define DIRECT_LANES 8
#define DIRECT_NAME  "avx2"
#include "kernels/cpu/direct/tile.h"
const direct_isa_t *const direct_avx2 = &table;
#else
const direct_isa_t *const direct_avx2 = NULL;
#endif
