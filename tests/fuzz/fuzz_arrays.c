/* SPDX-License-Identifier: MIT */
/* Files of arrays: .safetensors. Mutations that no longer look like one are read as .npz. */
#include <string.h>

#include "base/mem.h"
#include "store/checkpoint/arrays.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_VALUES = 1 << 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static float values[MAX_VALUES];
    arrays_t *arrays = NULL;
    err_t err = arrays_open(fuzz_file(data, n), &arrays);
    MUST(err == ERR_OK || err == ERR_DATA);
    SEED_MUST(err == ERR_OK && arrays_count(arrays) > 1);
    for (int64_t i = 0; err == ERR_OK && i < arrays_count(arrays); i++) {
        const char *name = arrays_name(arrays, i);
        array_info_t info;
        MUST(strlen(name) < ARRAY_NAME_MAX && arrays_has(arrays, name) == (name[0] != '\0'));
        if (!name[0]) continue;
        err_t described = arrays_describe(arrays, name, &info);
        MUST(described == ERR_OK || described == ERR_DATA);
        if (described != ERR_OK || shape_count(info.shape) > MAX_VALUES) continue;
        err_t read = arrays_read(arrays, name, &info, values);
        MUST(read == ERR_OK || read == ERR_DATA);
        SEED_MUST(read == ERR_OK);
    }
    arrays_close(&arrays);
    MUST(mem_live() == 0);
    return 0;
}
