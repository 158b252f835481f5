/* SPDX-License-Identifier: MIT */
/* Writes arrays as stored .npy entries of a zip archive under a temporary name, then renames it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/fs.h"
#include "base/mem.h"
#include "store/checkpoint/npz.h"

enum { ENTRY_NAME_MAX = 512 };

/* Adds header and data of one array to the archive. Both must live until zip_close. */
static err_t add_entry(zip_t *archive, const char *path, const npz_entry_t *entry, char *header)
{
    char name[ENTRY_NAME_MAX];
    zip_buffer_fragment_t parts[] = {
        {(zip_uint8_t *)header, npy_format(entry->shape, header)},
        {(zip_uint8_t *)(uintptr_t)entry->data, (zip_uint64_t)shape_count(entry->shape) * sizeof(float)},
    };
    if (snprintf(name, sizeof name, "%s.npy", entry->name) >= ENTRY_NAME_MAX)
        RAISE(ERR_USAGE, "%s: the name '%.60s…' is longer than %d bytes", path, entry->name,
              ENTRY_NAME_MAX - 5);
    zip_source_t *source = zip_source_buffer_fragment(archive, parts, 2, 0);
    zip_int64_t i = source ? zip_file_add(archive, name, source, ZIP_FL_ENC_UTF_8) : -1;
    if (i < 0) {
        if (source) zip_source_free(source);
        RAISE(ERR_SYSTEM, "%s, array '%s': %s", path, entry->name, zip_strerror(archive));
    }
    /* The earliest time in zip's range, so that the bytes do not depend on the clock. */
    if (zip_set_file_compression(archive, (zip_uint64_t)i, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive, (zip_uint64_t)i, 0, 1 << 5 | 1, 0) != 0)
        RAISE(ERR_SYSTEM, "%s, array '%s': %s", path, entry->name, zip_strerror(archive));
    return ERR_OK;
}

static err_t write_archive(const char *path, const char *temp, const npz_entry_t *entries, int n,
                           const char *comment)
{
    err_t err = ERR_OK;
    int code = 0;
    char(*headers)[NPY_HEADER_MAX] = NULL;
    zip_t *archive = zip_open(temp, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!archive) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "%s cannot be written: %s", path,
                        zip_error_strerror(&error));
        zip_error_fini(&error);
        return err;
    }
    TRY_OUT(err, mem_new_array(n, sizeof *headers, "headers of arrays", &headers));
    for (int i = 0; i < n; i++) TRY_OUT(err, add_entry(archive, path, &entries[i], headers[i]));
    if (comment && zip_set_archive_comment(archive, comment, (zip_uint16_t)strlen(comment)) != 0)
        RAISE_OUT(err, ERR_SYSTEM, "%s cannot be written: %s", path, zip_strerror(archive));
    if (zip_close(archive) != 0)
        RAISE_OUT(err, ERR_SYSTEM, "%s cannot be written: %s", path, zip_strerror(archive));
    archive = NULL;
out:
    if (archive) zip_discard(archive);
    mem_free(&headers);
    return err;
}

err_t npz_write(const char *path, const npz_entry_t *entries, int n, const char *comment)
{
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    ASSERT(n > 0); /* libzip writes no empty archive */
    TRY(fs_temp_path(path, folder, temp));
    unlink(temp);
    err_t err = write_archive(path, temp, entries, n, comment);
    if (err == ERR_OK) err = fs_sync(temp);
    if (err == ERR_OK && rename(temp, path) != 0)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "%s cannot be written: %s", path, strerror(errno));
    if (err == ERR_OK) return fs_sync(folder);
    unlink(temp);
    return err;
}
