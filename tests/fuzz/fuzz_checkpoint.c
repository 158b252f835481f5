/* SPDX-License-Identifier: MIT */
/* Checkpoints; the first byte chooses. As they are: the seal stands before everything else. Or a table of contents, after
 * some data and under the right seal. Then every array is read. */
#include "base/mem.h"
#include "store/checkpoint/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/sealed.h"

static void read_array(checkpoint_t *checkpoint, const ckpt_array_t *array)
{
    int64_t n_bytes;
    void *data = NULL;
    MUST(array->name[0] == '/');
    err_t err = checkpoint_read_new(checkpoint, array, &n_bytes, &data);
    MUST(err == ERR_OK || err == ERR_DATA);
    mem_free(&data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    checkpoint_t *checkpoint = NULL;
    if (n == 0) return 0;
    const bool table = data[0] % 2;
    const char *path = table ? fuzz_file_without_table() : fuzz_file(data + 1, n - 1);
    if (table)
        sealed_end(path, "checkpoint", FUZZ_DATA_BYTES, data + 1, n - 1, (seal_t){.schema = CKPT_SCHEMA});
    err_t err = checkpoint_open(path, &checkpoint);
    MUST(err == ERR_OK || err == ERR_DATA || err == ERR_SYSTEM);
    MUST((err == ERR_OK) == (checkpoint != NULL));
    SEED_MUST(err == ERR_OK || !table);
    for (int i = 0; checkpoint && i < checkpoint_array_count(checkpoint); i++)
        read_array(checkpoint, checkpoint_array(checkpoint, i));
    checkpoint_close(&checkpoint);
    MUST(mem_live() == 0);
    return 0;
}
