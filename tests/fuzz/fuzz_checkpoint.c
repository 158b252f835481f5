/* SPDX-License-Identifier: MIT */
/* Checkpoints as they are: the seal stands before everything else. With DPTRAIN_FUZZ_HDF5 set the checksums of
 * HDF5's metadata are mended and the right seal is written around them, so that all bytes reach the reader.
 * Then every array is read. */
#include <fcntl.h>

#include "base/mem.h"
#include "store/checkpoint/file.h"
#include "store/h5/seal.h"
#include "store/h5/tree.h"
#include "tests/fuzz/fuzz.h"

static void reseal(const char *path, size_t n)
{
    const seal_file_t file = {open(path, O_RDWR | O_CLOEXEC), path, "checkpoint"};
    seal_t seal = {.schema = CKPT_SCHEMA};
    MUST(file.fd >= 0);
    (void)h5_tree_mend(&file, (int64_t)n);
    MUST(seal_write(&file, NULL, 0, &seal) == ERR_OK);
    close(file.fd);
}

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
    const char *path = fuzz_file(data, n);
    if (getenv("DPTRAIN_FUZZ_HDF5") && n > SEAL_BYTES) reseal(path, n);
    err_t err = checkpoint_open(path, &checkpoint);
    MUST(err == ERR_OK || err == ERR_DATA || err == ERR_SYSTEM);
    MUST((err == ERR_OK) == (checkpoint != NULL));
    for (int i = 0; checkpoint && i < checkpoint_array_count(checkpoint); i++)
        read_array(checkpoint, checkpoint_array(checkpoint, i));
    checkpoint_close(&checkpoint);
    MUST(mem_live() == 0);
    return 0;
}
