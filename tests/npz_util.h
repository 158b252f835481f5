/* SPDX-License-Identifier: MIT */
/* Archives of arrays as others may write them: any type, order, compression and damage. */
#ifndef TESTS_NPZ_UTIL_H
#define TESTS_NPZ_UTIL_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zip.h>

enum { NPZ_UTIL_BYTES = 1 << 16 };

/* An .npy of version 1 with this dictionary and data, in out[NPZ_UTIL_BYTES]; its length. */
static inline size_t npy_bytes(const char *dictionary, const void *data, size_t n_data, char *out)
{
    size_t n = strlen(dictionary), length = (10 + n + 1 + 63) / 64 * 64 - 10;
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(length & 255), out[9] = (char)(length >> 8);
    memset(out + 10, ' ', length);
    memcpy(out + 10, dictionary, n);
    out[10 + length - 1] = '\n';
    if (n_data > 0) memcpy(out + 10 + length, data, n_data);
    return 10 + length + n_data;
}

/* Adds a member to the archive, making it where it is not there; false: libzip would not. */
static inline int npz_add(const char *path, const char *member, const char *bytes, size_t n_bytes,
                          int deflate)
{
    zip_t *archive = zip_open(path, ZIP_CREATE, NULL);
    if (!archive) return 0;
    zip_source_t *source = zip_source_buffer(archive, bytes, n_bytes, 0);
    zip_int64_t i = source ? zip_file_add(archive, member, source, ZIP_FL_ENC_UTF_8) : -1;
    if (i < 0 ||
        zip_set_file_compression(archive, (zip_uint64_t)i, deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) != 0) {
        zip_discard(archive);
        return 0;
    }
    return zip_close(archive) == 0;
}

static inline int npz_add_array(const char *path, const char *member, const char *dictionary,
                                const void *data, size_t n_data, int deflate)
{
    static char bytes[NPZ_UTIL_BYTES];
    return npz_add(path, member, bytes, npy_bytes(dictionary, data, n_data, bytes), deflate);
}

#endif
