/* SPDX-License-Identifier: MIT */
/* Reads arrays from a zip archive (libzip) and converts half, single and double precision to float. Names and
 * layouts are matched in train/weights. */
#include "store/checkpoint/npz.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "base/mem.h"
#include "compute/tensor/half.h"

enum { ENTRY_NAME_MAX = 512, PREFIX_MAX = 128, PIECE_BYTES = 64 << 10 };

struct npz {
    zip_t *archive;
    char path[FS_PATH_MAX], prefix[PREFIX_MAX];
};

/* What a file is in which libzip finds no archive: its list of entries is at the end. */
static file_words_t explain(const char *path)
{
    unsigned char first[FILE_KIND_BYTES];
    const size_t n = file_kind_peek(path, first);
    if (n >= 2 && memcmp(first, "PK", 2) == 0)
        return (file_words_t){"its end is missing; download or copy it again"};
    return file_kind_explain(first, n, NULL);
}

err_t npz_open(const char *path, npz_t **out)
{
    npz_t *npz;
    int code = 0;
    TRY(mem_new(sizeof *npz, "an archive of arrays", &npz));
    snprintf(npz->path, sizeof npz->path, "%s", path);
    npz->archive = zip_open(path, ZIP_RDONLY, &code);
    if (!npz->archive) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        err_t err = err_raise(ERR_DATA, __FILE__, __LINE__, "%s cannot be read as .npz (a zip of arrays): %s",
                              path, code == ZIP_ER_NOZIP ? explain(path).text : zip_error_strerror(&error));
        zip_error_fini(&error);
        mem_free(&npz);
        return err;
    }
    *out = npz;
    return ERR_OK;
}

void npz_close(npz_t **npz)
{
    if (!*npz) return;
    zip_discard((*npz)->archive);
    mem_free(npz);
}

void npz_comment(const npz_t *npz, char *out, size_t n_bytes)
{
    int n = 0;
    const char *comment = zip_get_archive_comment(npz->archive, &n, ZIP_FL_ENC_RAW);
    snprintf(out, n_bytes, "%.*s", comment ? n : 0, comment ? comment : "");
}

int64_t npz_count(const npz_t *npz)
{
    return zip_get_num_entries(npz->archive, 0);
}

void npz_name(const npz_t *npz, int64_t i, char out[NPZ_NAME_MAX])
{
    const char *name = zip_get_name(npz->archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
    const size_t n = name ? strlen(name) : 0;
    const bool fits = n > 4 && n < NPZ_NAME_MAX && strcmp(name + n - 4, ".npy") == 0;
    snprintf(out, NPZ_NAME_MAX, "%.*s", fits ? (int)n - 4 : 0, fits ? name : "");
}

void npz_set_prefix(npz_t *npz, const char *prefix)
{
    snprintf(npz->prefix, sizeof npz->prefix, "%s", prefix);
}

/* Index of the array's entry, or -1. */
static zip_int64_t npz_locate(const npz_t *npz, const char *name)
{
    char entry[ENTRY_NAME_MAX];
    if (snprintf(entry, sizeof entry, "%s%s.npy", npz->prefix, name) >= ENTRY_NAME_MAX) return -1;
    return zip_name_locate(npz->archive, entry, ZIP_FL_ENC_RAW);
}

bool npz_has(const npz_t *npz, const char *name)
{
    return npz_locate(npz, name) >= 0;
}

void npz_list(const npz_t *npz, char *out, size_t n_bytes)
{
    enum { SHOWN = 3, MORE_MAX = 32 };
    int64_t n = npz_count(npz), i = 0;
    size_t used = 0;
    out[0] = '\0';
    for (; i < n && i < SHOWN; i++) {
        const char *name = zip_get_name(npz->archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        int length = name ? (int)strnlen(name, 60) : 0;
        if (length > 4 && strcmp(name + length - 4, ".npy") == 0) length -= 4;
        if (used + (size_t)length + MORE_MAX > n_bytes) break;
        used +=
            (size_t)snprintf(out + used, n_bytes - used, "%s'%.*s'", i ? ", " : "", length, name ? name : "");
    }
    if (i < n) snprintf(out + used, n_bytes - used, " and %lld more", (long long)(n - i));
    if (n == 0) snprintf(out, n_bytes, "nothing");
}

static err_t open_entry(const npz_t *npz, const char *name, zip_file_t **out)
{
    zip_int64_t i = npz_locate(npz, name);
    if (i < 0) RAISE(ERR_DATA, "%s has no array '%s'", npz->path, name);
    *out = zip_fopen_index(npz->archive, (zip_uint64_t)i, 0);
    if (!*out) RAISE(ERR_DATA, "%s, array '%s': %s", npz->path, name, zip_strerror(npz->archive));
    return ERR_OK;
}

/* Reads exactly n_bytes. */
static err_t npz_read_bytes(const npz_t *npz, const char *name, zip_file_t *file, void *out, size_t n_bytes)
{
    for (char *to = out; n_bytes > 0;) {
        zip_int64_t n = zip_fread(file, to, n_bytes);
        if (n < 0) RAISE(ERR_DATA, "%s, array '%s': %s", npz->path, name, zip_file_strerror(file));
        if (n == 0) RAISE(ERR_DATA, "%s, array '%s': the data is shorter than the shape", npz->path, name);
        to += n, n_bytes -= (size_t)n;
    }
    return ERR_OK;
}

static err_t npz_read_header(const npz_t *npz, const char *name, zip_file_t *file, npy_t *out)
{
    unsigned char header[NPY_HEADER_MAX];
    size_t n_bytes = 0;
    TRY(npz_read_bytes(npz, name, file, header, NPY_PREFIX));
    err_t err = npy_header_bytes(header, &n_bytes);
    if (err != ERR_OK) return err_context(err, "%s, array '%s'", npz->path, name);
    TRY(npz_read_bytes(npz, name, file, header + NPY_PREFIX, n_bytes - NPY_PREFIX));
    err = npy_parse(header, n_bytes, out);
    return err == ERR_OK ? ERR_OK : err_context(err, "%s, array '%s'", npz->path, name);
}

err_t npz_describe(const npz_t *npz, const char *name, npy_t *out)
{
    zip_file_t *file;
    TRY(open_entry(npz, name, &file));
    err_t err = npz_read_header(npz, name, file, out);
    zip_fclose(file);
    return err;
}

static size_t float_bytes(const char *descr)
{
    static const char *const types[] = {"<f2", "<f4", "<f8"};
    for (int i = 0; i < 3; i++)
        if (strcmp(descr, types[i]) == 0) return (size_t)2 << i;
    return 0;
}

/* from: n numbers of `size` bytes each, unaligned. */
static void npz_widen(const char *from, size_t size, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++, from += size) {
        uint16_t half;
        double wide;
        if (size == sizeof half)
            memcpy(&half, from, size), out[i] = half_to_float(half);
        else if (size == sizeof wide)
            memcpy(&wide, from, size), out[i] = (float)wide;
        else
            memcpy(&out[i], from, size);
    }
}

static err_t npz_read_values(const npz_t *npz, const char *name, zip_file_t *file, const npy_t *array,
                             float *out)
{
    static _Thread_local char piece[PIECE_BYTES];
    size_t size = float_bytes(array->descr);
    int64_t n = shape_count(array->shape), at_once = PIECE_BYTES / (int64_t)size;
    for (int64_t i = 0; i < n; i += at_once) {
        int64_t count = n - i < at_once ? n - i : at_once;
        TRY(npz_read_bytes(npz, name, file, piece, (size_t)count * size));
        npz_widen(piece, size, count, out + i);
    }
    /* libzip compares the checksum when it reaches the end. */
    zip_int64_t more = zip_fread(file, piece, 1);
    if (more < 0) RAISE(ERR_DATA, "%s, array '%s': %s", npz->path, name, zip_file_strerror(file));
    if (more > 0) RAISE(ERR_DATA, "%s, array '%s': the data is longer than the shape", npz->path, name);
    return ERR_OK;
}

err_t npz_read(const npz_t *npz, const char *name, const npy_t *array, float *out)
{
    zip_file_t *file;
    npy_t now;
    if (!float_bytes(array->descr))
        RAISE(ERR_DATA, "%s, array '%s' has type '%s'; expected float16, float32 or float64 (little-endian)",
              npz->path, name, array->descr);
    TRY(open_entry(npz, name, &file));
    err_t err = npz_read_header(npz, name, file, &now);
    if (err == ERR_OK && !shape_equal(now.shape, array->shape))
        err = err_raise(ERR_DATA, __FILE__, __LINE__, "%s, array '%s' changed while it was read", npz->path,
                        name);
    if (err == ERR_OK) err = npz_read_values(npz, name, file, array, out);
    zip_fclose(file);
    return err;
}
