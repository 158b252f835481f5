#include "kernels/cpu/direct/direct.h"

#ifdef __AVX512F__
#define DIRECT_LANES 16
#define DIRECT_NAME  "avx512"
#include "kernels/cpu/direct/tile.h"
const direct_isa_t *const direct_avx512 = &table;
#else
const direct_isa_t *const direct_avx512 = NULL;
#endif
