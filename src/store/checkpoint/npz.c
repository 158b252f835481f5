/* SPDX-License-Identifier: MIT */
/* Reads and writes zip archives (libzip) of .npy arrays: parses and formats the header of an .npy file, converts half,
 * single and double precision to float, and writes under a temporary name, which it then renames. Names and layouts are
 * matched in train/weights. */
#include "store/checkpoint/npz.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "base/mem.h"
#include "compute/tensor/float16.h"

/* ---- The header of an .npy file. Format: numpy.lib.format, versions 1 to 3 ---- */
enum { NPY_PREFIX = 12, NPY_HEADER_MAX = 4096, SHOWN_MAX = 120 };

static const unsigned char magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* Computes the number of bytes before the data from the first NPY_PREFIX bytes. ERR_DATA if it is not .npy,
 * has an unknown version, or a header longer than NPY_HEADER_MAX. */
static err_t npy_header_bytes(const unsigned char *p, size_t *out)
{
    if (memcmp(p, magic, sizeof magic) != 0) RAISE(ERR_DATA, "it is not an .npy file");
    if (p[6] < 1 || p[6] > 3) RAISE(ERR_DATA, "unsupported .npy version %d.%d; expected 1 to 3", p[6], p[7]);
    uint32_t length =
        p[6] == 1 ? (uint32_t)p[8] | (uint32_t)p[9] << 8
                  : (uint32_t)p[8] | (uint32_t)p[9] << 8 | (uint32_t)p[10] << 16 | (uint32_t)p[11] << 24;
    size_t first = p[6] == 1 ? 10 : 12;
    if (length > NPY_HEADER_MAX - first || first + length < NPY_PREFIX)
        RAISE(ERR_DATA, "its header has an invalid length: %" PRIu32 " bytes", length);
    *out = first + length;
    return ERR_OK;
}

/* The unparsed rest of the header, a Python dictionary literal. */
typedef struct cursor {
    const char *at, *end;
} cursor_t;

static void skip_space(cursor_t *c)
{
    while (c->at < c->end && strchr(" \t\n", *c->at) && *c->at) c->at++;
}

static bool skip_word(cursor_t *c, const char *word)
{
    size_t n = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

static bool take_quoted(cursor_t *c, char *out, size_t n_bytes)
{
    size_t n = 0;
    if (!skip_word(c, "'")) return false;
    while (c->at < c->end && *c->at != '\'' && n + 1 < n_bytes && isprint((unsigned char)*c->at))
        out[n++] = *c->at++;
    out[n] = '\0';
    return skip_word(c, "'");
}

static bool take_number(cursor_t *c, int64_t *out)
{
    int64_t value = 0;
    skip_space(c);
    const char *first = c->at;
    for (; c->at < c->end && isdigit((unsigned char)*c->at); c->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *c->at - '0', &value))
            return false;
    *out = value;
    return c->at > first;
}

/* "()", "(3,)", "(3, 4)" */
static bool take_shape(cursor_t *c, shape_t *out)
{
    int64_t count = 1;
    *out = (shape_t){0};
    if (!skip_word(c, "(")) return false;
    while (!skip_word(c, ")")) {
        if (out->n_dims == SHAPE_MAX_DIMS || !take_number(c, &out->dim[out->n_dims])) return false;
        if (__builtin_mul_overflow(count, out->dim[out->n_dims++], &count)) return false;
        if (!skip_word(c, ",")) return skip_word(c, ")") && out->n_dims > 1;
    }
    return true;
}

static bool take_bool(cursor_t *c, bool *out)
{
    *out = skip_word(c, "True");
    return *out || skip_word(c, "False");
}

/* Copies the first line for a message; unprintable characters become ?. */
static void npy_printable(const char *text, size_t n_bytes, char out[SHOWN_MAX])
{
    size_t n = 0;
    for (; n < n_bytes && n + 1 < SHOWN_MAX && text[n] != '\n'; n++)
        out[n] = isprint((unsigned char)text[n]) ? text[n] : '?';
    while (n > 0 && out[n - 1] == ' ') n--;
    out[n] = '\0';
}

/* Parses a header of npy_header_bytes bytes. ERR_DATA with the reason, also for more than SHAPE_MAX_DIMS
 * dimensions, a size beyond int64_t, or a type other than plain numbers. */
static err_t npy_parse(const unsigned char *header, size_t n_bytes, npy_t *out)
{
    size_t first = header[6] == 1 ? 10 : 12;
    cursor_t c = {(const char *)header + first, (const char *)header + n_bytes};
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    char key[NPY_DESCR_MAX];
    bool good = skip_word(&c, "{");
    *out = (npy_t){.fortran = false};
    while (good && !skip_word(&c, "}")) {
        int what = 0;
        good = take_quoted(&c, key, sizeof key) && skip_word(&c, ":");
        if (good && strcmp(key, "descr") == 0)
            what = DESCR, good = take_quoted(&c, out->descr, sizeof out->descr);
        if (good && strcmp(key, "fortran_order") == 0) what = ORDER, good = take_bool(&c, &out->fortran);
        if (good && strcmp(key, "shape") == 0) what = SHAPE, good = take_shape(&c, &out->shape);
        good = good && what && !(seen & what);
        seen |= what;
        if (good && !skip_word(&c, ",")) {
            good = skip_word(&c, "}");
            break;
        }
    }
    skip_space(&c);
    char shown[SHOWN_MAX];
    npy_printable((const char *)header + first, n_bytes - first, shown);
    if (!good || seen != ALL || c.at != c.end)
        RAISE(ERR_DATA, "its header does not describe an array of numbers with up to %d dimensions: %s",
              SHAPE_MAX_DIMS, shown);
    return ERR_OK;
}

/* Formats the header of a float32 array in C order. Returns its length, a multiple of 64 bytes. */
static size_t npy_format(shape_t shape, char out[NPY_HEADER_MAX])
{
    enum { PREFIX = 10, ALIGN = 64 };
    char dims[128] = "";
    for (int i = 0; i < shape.n_dims; i++) {
        size_t used = strlen(dims);
        snprintf(dims + used, sizeof dims - used, "%s%" PRId64 "%s", i ? ", " : "", shape.dim[i],
                 shape.n_dims == 1 ? "," : "");
    }
    int n = snprintf(out + PREFIX, NPY_HEADER_MAX - PREFIX,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", dims);
    size_t total = (PREFIX + (size_t)n + 1 + ALIGN - 1) / ALIGN * ALIGN, length = total - PREFIX;
    memset(out + PREFIX + n, ' ', length - (size_t)n);
    out[total - 1] = '\n';
    memcpy(out, magic, sizeof magic);
    out[6] = 1, out[7] = 0;
    out[8] = (char)(length & 255), out[9] = (char)(length >> 8);
    return total;
}

/* ---- Reading archives ---- */
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

static err_t npz_read_values(const npz_t *npz, const char *name, zip_file_t *file, const npy_t *array,
                             float *out)
{
    static _Thread_local char piece[PIECE_BYTES];
    size_t size = float_bytes(array->descr);
    int64_t n = shape_count(array->shape), at_once = PIECE_BYTES / (int64_t)size;
    for (int64_t i = 0; i < n; i += at_once) {
        int64_t count = n - i < at_once ? n - i : at_once;
        TRY(npz_read_bytes(npz, name, file, piece, (size_t)count * size));
        const char *from = piece; /* numbers of `size` bytes each, unaligned */
        for (int64_t k = i; k < i + count; k++, from += size) {
            uint16_t half;
            double wide;
            if (size == sizeof half)
                memcpy(&half, from, size), out[k] = half_to_float(half);
            else if (size == sizeof wide)
                memcpy(&wide, from, size), out[k] = (float)wide;
            else
                memcpy(&out[k], from, size);
        }
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

/* ---- Writing archives ---- */
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
