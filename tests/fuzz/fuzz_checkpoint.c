/* SPDX-License-Identifier: MIT */
/* Checkpoints as they are: the seal stands before HDF5. With DPTRAIN_FUZZ_HDF5 set the right seal is written
 * around them, so that HDF5 sees the bytes: what that finds is libhdf5's. */
#include <fcntl.h>

#include "base/mem.h"
#include "store/checkpoint/file.h"
#include "store/h5/seal.h"
#include "tests/fuzz/fuzz.h"

static void reseal(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    seal_t seal = {.schema = CKPT_SCHEMA};
    MUST(fd >= 0 && seal_write(&(seal_file_t){fd, path, "checkpoint"}, NULL, 0, &seal) == ERR_OK);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    checkpoint_t *checkpoint = NULL;
    const char *path = fuzz_file(data, n);
    if (getenv("DPTRAIN_FUZZ_HDF5") && n > SEAL_BYTES) reseal(path);
    err_t err = checkpoint_open(path, &checkpoint);
    MUST(err == ERR_OK || err == ERR_DATA || err == ERR_SYSTEM);
    MUST((err == ERR_OK) == (checkpoint != NULL));
    for (int i = 0; checkpoint && i < checkpoint_array_count(checkpoint); i++)
        MUST(checkpoint_array(checkpoint, i)->name[0] == '/');
    checkpoint_close(&checkpoint);
    MUST(mem_live() == 0);
    return 0;
}
