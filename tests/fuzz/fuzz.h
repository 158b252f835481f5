/* SPDX-License-Identifier: MIT */
/* What the fuzz targets share. A target is tests/fuzz/fuzz_NAME.c with libFuzzer's LLVMFuzzerTestOneInput,
 * which ends the process (abort) where a promise of a header is broken; sanitizers end it where memory is. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define MUST(promise)                                                                                        \
    do {                                                                                                     \
        if (!(promise)) {                                                                                    \
            fprintf(stderr, "%s:%d: broken: %s; last message: %s\n", __FILE__, __LINE__, #promise,           \
                    err_message());                                                                          \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* Of a seed as it is, which mutate.c gives a target first: it gets as far as it is meant to. */
#define SEED_MUST(promise) MUST((promise) || !getenv("DPTRAIN_FUZZ_SEED"))

/* For readers that take paths: the same memory file again and again, under a path. */
static inline const char *fuzz_file(const uint8_t *data, size_t n)
{
    static char path[64];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    MUST(fd >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    MUST(write(fd, data, n) == (ssize_t)n);
    return path;
}

/* Room for the arrays of the seeds, and the line break that begins a table of contents. */
enum { FUZZ_DATA_BYTES = 1 << 16 };
static inline const char *fuzz_file_without_table(void)
{
    static uint8_t data[FUZZ_DATA_BYTES];
    data[FUZZ_DATA_BYTES - 1] = '\n';
    return fuzz_file(data, sizeof data);
}

#endif
