/* SPDX-License-Identifier: MIT */
/* Reads and writes files of arrays: the .npy files of a zip archive (libzip), and .safetensors. Both formats find names,
 * convert numbers to float, and write under a temporary name, which is then renamed, in the same way. Names and layouts are
 * matched in train/weights. */
#include "store/checkpoint/arrays.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "base/mem.h"
#include "compute/tensor/float16.h"
#include "text/json.h"

enum { PREFIX_MAX = 128, PIECE_BYTES = 64 << 10 };

/* What a format does. Its errors do not name the file, nor the array. */
typedef struct format {
    const char *ending;
    /* Opens arrays->path: sets `file` and `note`, and adds every name by add_name. After an error, close is called. */
    err_t (*open)(arrays_t *arrays);
    void (*close)(arrays_t *arrays);
    err_t (*describe)(const arrays_t *arrays, int64_t i, array_info_t *out);
    /* Reads the array's values, of a type of the table below, piece by piece. */
    err_t (*read)(const arrays_t *arrays, int64_t i, const array_info_t *info, float *out);
    /* Writes a new file; its errors name `path`. */
    err_t (*write)(const char *path, const char *temp, const array_entry_t *entries, int n, const char *note);
} format_t;

typedef struct name {
    const char *name;
    int64_t at; /* in the file's order */
} name_t;

struct arrays {
    const format_t *format;
    char path[FS_PATH_MAX], prefix[PREFIX_MAX];
    arena_t arena; /* names and the note */
    name_t *names, *sorted;
    int64_t n;
    const char *note; /* NULL: none */
    void *file;       /* the format's */
};

static err_t add_name(arrays_t *a, const char *name, size_t n_bytes)
{
    TRY(mem_grow(a->n + 1, sizeof *a->names, "names of arrays", &a->names));
    a->names[a->n].at = a->n;
    return arena_text(&a->arena, name, n_bytes < ARRAY_NAME_MAX ? n_bytes : 0, &a->names[a->n++].name);
}

typedef enum number { HALF, BFLOAT, SINGLE, DOUBLE } number_t;

static const struct {
    const char *type;
    number_t number;
    int n_bytes;
} types[] = {
    {"<f2", HALF, 2},   {"<f4", SINGLE, 4},  {"<f8", DOUBLE, 8}, {"F16", HALF, 2},
    {"F32", SINGLE, 4}, {"BF16", BFLOAT, 2}, {"F64", DOUBLE, 8},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* N_TYPES: unknown. */
static int find_type(const char *type)
{
    int i = 0;
    while (i < N_TYPES && strcmp(types[i].type, type) != 0) i++;
    return i;
}

/* Bytes of a number; 0: the type is unknown. */
static int64_t type_bytes(const char *type)
{
    const int i = find_type(type);
    return i < N_TYPES ? types[i].n_bytes : 0;
}

/* Converts n_bytes of whole numbers, and returns their number. */
static int64_t widen(const char *type, const char *bytes, int64_t n_bytes, float *out)
{
    const int which = find_type(type);
    const size_t size = (size_t)types[which].n_bytes;
    const int64_t n = n_bytes / types[which].n_bytes;
    for (int64_t k = 0; k < n; k++, bytes += size) { /* unaligned */
        uint16_t bits;
        double wide;
        switch (types[which].number) {
        case HALF:
            memcpy(&bits, bytes, size), out[k] = half_to_float(bits);
            break;
        case BFLOAT:
            memcpy(&bits, bytes, size), out[k] = bf16_to_float(bits);
            break;
        case DOUBLE:
            memcpy(&wide, bytes, size), out[k] = (float)wide;
            break;
        case SINGLE:
            memcpy(&out[k], bytes, size);
            break;
        }
    }
    return n;
}

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
static err_t npy_parse(const unsigned char *header, size_t n_bytes, array_info_t *out)
{
    size_t first = header[6] == 1 ? 10 : 12;
    cursor_t c = {(const char *)header + first, (const char *)header + n_bytes};
    enum { DESCR = 1, ORDER = 2, SHAPE = 4, ALL = 7 };
    int seen = 0;
    char key[ARRAY_TYPE_MAX];
    bool good = skip_word(&c, "{");
    *out = (array_info_t){.fortran = false};
    while (good && !skip_word(&c, "}")) {
        int what = 0;
        good = take_quoted(&c, key, sizeof key) && skip_word(&c, ":");
        if (good && strcmp(key, "descr") == 0)
            what = DESCR, good = take_quoted(&c, out->type, sizeof out->type);
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
/* What a file is in which libzip finds no archive: its list of entries is at the end. */
static file_words_t explain(const char *path)
{
    unsigned char first[FILE_KIND_BYTES];
    const size_t n = file_kind_peek(path, first);
    if (n >= 2 && memcmp(first, "PK", 2) == 0)
        return (file_words_t){"its end is missing; download or copy it again"};
    return file_kind_explain(first, n, NULL);
}

static err_t npz_open(arrays_t *a)
{
    int code = 0, n_note = 0;
    zip_t *archive = zip_open(a->path, ZIP_RDONLY, &code);
    if (!archive) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        err_t err = err_raise(ERR_DATA, __FILE__, __LINE__, "it cannot be read as .npz (a zip of arrays): %s",
                              code == ZIP_ER_NOZIP ? explain(a->path).text : zip_error_strerror(&error));
        zip_error_fini(&error);
        return err;
    }
    a->file = archive;
    const char *note = zip_get_archive_comment(archive, &n_note, ZIP_FL_ENC_RAW);
    if (note) TRY(arena_text(&a->arena, note, (size_t)n_note, &a->note));
    for (zip_int64_t i = 0, n = zip_get_num_entries(archive, 0); i < n; i++) {
        const char *name = zip_get_name(archive, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        const bool is_array = name && fs_has_suffix(name, ".npy");
        TRY(add_name(a, is_array ? name : "", is_array ? strlen(name) - 4 : 0));
    }
    return ERR_OK;
}

static void npz_close(arrays_t *a)
{
    if (a->file) zip_discard(a->file);
}

/* Reads exactly n_bytes. */
static err_t npz_read_bytes(zip_file_t *file, void *out, size_t n_bytes)
{
    for (char *to = out; n_bytes > 0;) {
        zip_int64_t n = zip_fread(file, to, n_bytes);
        if (n < 0) RAISE(ERR_DATA, "%s", zip_file_strerror(file));
        if (n == 0) RAISE(ERR_DATA, "the data is shorter than the shape");
        to += n, n_bytes -= (size_t)n;
    }
    return ERR_OK;
}

/* Opens an entry and reads its header; zip_fclose it, also after an error, if it is not NULL. */
static err_t open_entry(const arrays_t *a, int64_t i, array_info_t *out, zip_file_t **file)
{
    unsigned char header[NPY_HEADER_MAX];
    size_t n_bytes = 0;
    *file = zip_fopen_index(a->file, (zip_uint64_t)i, 0);
    if (!*file) RAISE(ERR_DATA, "%s", zip_strerror(a->file));
    TRY(npz_read_bytes(*file, header, NPY_PREFIX));
    TRY(npy_header_bytes(header, &n_bytes));
    TRY(npz_read_bytes(*file, header + NPY_PREFIX, n_bytes - NPY_PREFIX));
    return npy_parse(header, n_bytes, out);
}

static err_t npz_describe(const arrays_t *a, int64_t i, array_info_t *out)
{
    zip_file_t *file;
    const err_t err = open_entry(a, i, out, &file);
    if (file) zip_fclose(file);
    return err;
}

static err_t npz_read(const arrays_t *a, int64_t i, const array_info_t *info, float *out)
{
    static _Thread_local char piece[PIECE_BYTES];
    zip_file_t *file;
    array_info_t now;
    err_t err;
    TRY_OUT(err, open_entry(a, i, &now, &file));
    if (!shape_equal(now.shape, info->shape)) RAISE_OUT(err, ERR_DATA, "it changed while it was read");
    for (int64_t n = shape_count(info->shape) * type_bytes(info->type), n_now; n > 0; n -= n_now) {
        n_now = n < PIECE_BYTES ? n : PIECE_BYTES;
        TRY_OUT(err, npz_read_bytes(file, piece, (size_t)n_now));
        out += widen(info->type, piece, n_now, out);
    }
    /* libzip compares the checksum when it reaches the end. */
    const zip_int64_t more = zip_fread(file, piece, 1);
    if (more < 0) RAISE_OUT(err, ERR_DATA, "%s", zip_file_strerror(file));
    if (more > 0) RAISE_OUT(err, ERR_DATA, "the data is longer than the shape");
out:
    if (file) zip_fclose(file);
    return err;
}

/* ---- Writing archives ---- */
/* Adds header and data of one array to the archive. Both must live until zip_close. */
static err_t add_entry(zip_t *archive, const char *path, const array_entry_t *entry, char *header)
{
    char name[ARRAY_NAME_MAX + 4];
    zip_buffer_fragment_t parts[] = {
        {(zip_uint8_t *)header, npy_format(entry->shape, header)},
        {(zip_uint8_t *)(uintptr_t)entry->data, (zip_uint64_t)shape_count(entry->shape) * sizeof(float)},
    };
    snprintf(name, sizeof name, "%s.npy", entry->name);
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

static err_t npz_write(const char *path, const char *temp, const array_entry_t *entries, int n,
                       const char *note)
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
    if (note && zip_set_archive_comment(archive, note, (zip_uint16_t)strlen(note)) != 0)
        RAISE_OUT(err, ERR_SYSTEM, "%s cannot be written: %s", path, zip_strerror(archive));
    if (zip_close(archive) != 0)
        RAISE_OUT(err, ERR_SYSTEM, "%s cannot be written: %s", path, zip_strerror(archive));
    archive = NULL;
out:
    if (archive) zip_discard(archive);
    mem_free(&headers);
    return err;
}

static const format_t npz_format = {
    .ending = ".npz",
    .open = npz_open,
    .close = npz_close,
    .describe = npz_describe,
    .read = npz_read,
    .write = npz_write,
};

/* ---- .safetensors: the length of a header in 8 bytes, the header in JSON, and the arrays' bytes,
 *
 *   {"__metadata__": {"format": "pt"}, "fc.bias": {"dtype": "F32", "shape": [10], "data_offsets": [0, 40]}, …}
 *
 * whose offsets count from the end of the header. There are no checksums: a file is whole if its arrays end where it
 * does. ---- */
enum { PREFIX_BYTES = 8, HEADER_MAX_BYTES = 100000000 }; /* the format's limit */

/* An array of the header. `problem`: it cannot be read; said where it is wanted. */
typedef struct stored {
    array_info_t info;
    int64_t at;          /* in the file */
    const char *problem; /* NULL: none */
} stored_t;

typedef struct safetensors {
    int fd;
    stored_t *tensors; /* as arrays->names */
} safetensors_t;

static void safetensors_close(arrays_t *a)
{
    safetensors_t *file = a->file;
    if (!file) return;
    if (file->fd >= 0) close(file->fd);
    mem_free(&file->tensors);
    mem_free(&file);
    a->file = NULL;
}

/* "shape": as many dimensions as a shape has, whose product is an int64_t. */
static bool json_shape(const json_value_t *value, shape_t *out)
{
    int64_t count = 1;
    *out = (shape_t){0};
    if (!value || value->kind != JSON_ARRAY || value->n > SHAPE_MAX_DIMS) return false;
    for (const json_value_t *v = value->first; v; v = v->next) {
        int64_t *dim = &out->dim[out->n_dims++];
        if (!json_as_int(v, dim) || *dim < 0 || __builtin_mul_overflow(count, *dim, &count)) return false;
    }
    return true;
}

/* Adds an array of the header, whose bytes are among the n_data that follow it. */
static err_t add_tensor(arrays_t *a, const json_value_t *value, int64_t data, int64_t n_data, int64_t *end)
{
    safetensors_t *file = a->file;
    const json_value_t *offsets = json_get(value, "data_offsets");
    const char *type;
    int64_t from, to, n_bytes;
    TRY(mem_grow(a->n + 1, sizeof *file->tensors, "names of arrays", &file->tensors));
    stored_t *t = &file->tensors[a->n];
    TRY(add_name(a, value->key, strlen(value->key)));
    if (!offsets || offsets->kind != JSON_ARRAY || offsets->n != 2 || !json_as_int(offsets->first, &from) ||
        !json_as_int(offsets->first->next, &to) || from < 0 || to < from ||
        !json_get_text(value, "dtype", &type) || strlen(type) >= ARRAY_TYPE_MAX)
        RAISE(ERR_DATA, "its header does not describe the array '%.200s'", value->key);
    if (to > n_data)
        RAISE(ERR_DATA,
              "its end is missing: the array '%.200s' ends at byte %" PRId64 " of %" PRId64
              "; download or copy it again",
              value->key, data + to, data + n_data);
    if (to > *end) *end = to;
    t->at = data + from;
    strcpy(t->info.type, type);
    const int64_t size = type_bytes(type);
    if (!json_shape(json_get(value, "shape"), &t->info.shape))
        t->problem = "its shape is not a list of a few numbers";
    else if (size > 0 &&
             (__builtin_mul_overflow(shape_count(t->info.shape), size, &n_bytes) || n_bytes != to - from))
        t->problem = "its bytes are not as many as its shape needs";
    return ERR_OK;
}

static err_t read_header(arrays_t *a, json_reader_t *reader, char **text)
{
    safetensors_t *file = a->file;
    unsigned char prefix[PREFIX_BYTES];
    uint64_t n_header = 0;
    size_t n_read;
    int64_t end = 0;
    const json_value_t *root;
    struct stat info;
    file->fd = open(a->path, O_RDONLY | O_CLOEXEC);
    int reason = file->fd < 0 || fstat(file->fd, &info) != 0 ? errno : 0;
    if (reason == 0) reason = fs_read_all(file->fd, 0, prefix, sizeof prefix, &n_read);
    if (reason != 0) RAISE(ERR_DATA, "%s", strerror(reason));
    for (size_t i = 0; i < n_read; i++) n_header |= (uint64_t)prefix[i] << 8 * i;
    if (n_read < sizeof prefix || n_header > (uint64_t)info.st_size - PREFIX_BYTES)
        RAISE(ERR_DATA,
              "its end is missing: a header of %" PRIu64 " bytes in a file of %" PRId64
              "; download or copy it again",
              n_header, (int64_t)info.st_size);
    if (n_header > HEADER_MAX_BYTES)
        RAISE(ERR_DATA, "its header has %" PRIu64 " bytes; the format's limit is %d", n_header,
              HEADER_MAX_BYTES);
    const int64_t data = PREFIX_BYTES + (int64_t)n_header, n_data = (int64_t)info.st_size - data;
    TRY(mem_new((size_t)n_header + 1, "a header", text));
    reason = fs_read_all(file->fd, PREFIX_BYTES, *text, (size_t)n_header, &n_read);
    if (reason != 0 || n_read < n_header)
        RAISE(ERR_DATA, "%s", reason ? strerror(reason) : "it became shorter");
    err_t err = json_read(reader, *text, (size_t)n_header, &root);
    if (err != ERR_OK) return err_context(err, "its header");
    if (root->kind != JSON_OBJECT) RAISE(ERR_DATA, "its header is not a JSON object");
    for (const json_value_t *v = root->first; v; v = v->next)
        if (strcmp(v->key, "__metadata__") != 0)
            TRY(add_tensor(a, v, data, n_data, &end));
        else if (json_get_text(v, "dptrain", &a->note))
            TRY(arena_text(&a->arena, a->note, strlen(a->note), &a->note));
    if (end < n_data)
        RAISE(ERR_DATA, "%" PRId64 " bytes follow its arrays, which end at byte %" PRId64, n_data - end,
              data + end);
    return ERR_OK;
}

static err_t safetensors_open(arrays_t *a)
{
    json_reader_t reader = {.strict = true};
    safetensors_t *file;
    char *text = NULL;
    TRY(mem_new(sizeof *file, "a file of arrays", &file));
    file->fd = -1;
    a->file = file;
    const err_t err = read_header(a, &reader, &text);
    json_reader_free(&reader);
    mem_free(&text);
    return err;
}

static err_t safetensors_describe(const arrays_t *a, int64_t i, array_info_t *out)
{
    const safetensors_t *file = a->file;
    if (file->tensors[i].problem) RAISE(ERR_DATA, "%s", file->tensors[i].problem);
    *out = file->tensors[i].info;
    return ERR_OK;
}

static err_t safetensors_read(const arrays_t *a, int64_t i, const array_info_t *info, float *out)
{
    static _Thread_local char piece[PIECE_BYTES];
    const safetensors_t *file = a->file;
    int64_t at = file->tensors[i].at;
    for (int64_t n = shape_count(info->shape) * type_bytes(info->type), n_now; n > 0; n -= n_now) {
        n_now = n < PIECE_BYTES ? n : PIECE_BYTES;
        size_t n_read;
        const int reason = fs_read_all(file->fd, at, piece, (size_t)n_now, &n_read);
        if (reason != 0) RAISE(ERR_DATA, "%s", strerror(reason));
        if ((int64_t)n_read < n_now) RAISE(ERR_DATA, "the file became shorter while it was read");
        out += widen(info->type, piece, n_now, out);
        at += n_now;
    }
    return ERR_OK;
}

/* The header is padded by spaces, so that the arrays are aligned. */
static err_t safetensors_write(const char *path, const char *temp, const array_entry_t *entries, int n,
                               const char *note)
{
    json_t j = {0};
    int64_t at = 0;
    json_object_begin(&j, NULL);
    json_object_begin(&j, "__metadata__");
    json_string(&j, "format", "pt"); /* which some readers ask for */
    if (note) json_string(&j, "dptrain", note);
    json_object_end(&j);
    for (int i = 0; i < n; i++) {
        const shape_t *shape = &entries[i].shape;
        json_object_begin(&j, entries[i].name);
        json_string(&j, "dtype", "F32");
        json_array_begin(&j, "shape");
        for (int k = 0; k < shape->n_dims; k++) json_int(&j, NULL, shape->dim[k]);
        json_array_end(&j);
        json_array_begin(&j, "data_offsets");
        json_int(&j, NULL, at);
        json_int(&j, NULL, at += shape_count(*shape) * (int64_t)sizeof(float));
        json_array_end(&j);
        json_object_end(&j);
    }
    json_object_end(&j);
    const size_t n_pad = -j.n_bytes % PREFIX_BYTES;
    const uint64_t n_header = j.n_bytes + n_pad; /* little-endian, as the machines that this runs on */
    int reason = 0, fd = -1;
    err_t err;
    TRY_OUT(err, j.status);
    fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) reason = errno;
    if (reason == 0) reason = fs_write_all(fd, FS_HERE, &n_header, sizeof n_header);
    if (reason == 0) reason = fs_write_all(fd, FS_HERE, j.text, j.n_bytes);
    if (reason == 0) reason = fs_write_all(fd, FS_HERE, "        ", n_pad);
    for (int i = 0; i < n && reason == 0; i++)
        reason =
            fs_write_all(fd, FS_HERE, entries[i].data, (size_t)shape_count(entries[i].shape) * sizeof(float));
    if (fd >= 0 && close(fd) != 0 && reason == 0) reason = errno;
    if (reason != 0) RAISE_OUT(err, ERR_SYSTEM, "%s cannot be written: %s", path, strerror(reason));
out:
    json_free(&j);
    return err;
}

static const format_t safetensors_format = {
    .ending = ".safetensors",
    .open = safetensors_open,
    .close = safetensors_close,
    .describe = safetensors_describe,
    .read = safetensors_read,
    .write = safetensors_write,
};

/* ---- Files of either format ---- */
static const format_t *const formats[] = {&npz_format, &safetensors_format};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* NULL: the path has another ending. */
static const format_t *format_named(const char *path)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (fs_has_suffix(path, formats[i]->ending)) return formats[i];
    return NULL;
}

bool arrays_named(const char *path)
{
    return format_named(path) != NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const name_t *)a)->name, ((const name_t *)b)->name);
}

static err_t sort_names(arrays_t *a)
{
    TRY(mem_new_array(a->n > 0 ? a->n : 1, sizeof *a->sorted, "names of arrays", &a->sorted));
    if (a->n > 0) memcpy(a->sorted, a->names, (size_t)a->n * sizeof *a->names);
    qsort(a->sorted, (size_t)a->n, sizeof *a->sorted, compare_names);
    for (int64_t i = 1; i < a->n; i++) {
        const char *name = a->sorted[i].name;
        if (name[0] && strcmp(name, a->sorted[i - 1].name) == 0)
            RAISE(ERR_DATA, "it has two arrays '%.200s'", name);
    }
    return ERR_OK;
}

err_t arrays_open(const char *path, arrays_t **out)
{
    unsigned char first[FILE_KIND_BYTES];
    arrays_t *a;
    if (access(path, R_OK) != 0) RAISE(ERR_DATA, "%s cannot be read: %s", path, strerror(errno));
    TRY(mem_new(sizeof *a, "a file of arrays", &a));
    snprintf(a->path, sizeof a->path, "%s", path);
    const size_t n = file_kind_peek(path, first);
    a->format = n > 0 && file_kind(first, n) == FILE_SAFETENSORS ? &safetensors_format : &npz_format;
    err_t err = a->format->open(a);
    if (err == ERR_OK) err = sort_names(a);
    if (err == ERR_OK) {
        *out = a;
        return ERR_OK;
    }
    arrays_close(&a);
    return err_context(err, "%s", path);
}

void arrays_close(arrays_t **arrays)
{
    arrays_t *a = *arrays;
    if (!a) return;
    a->format->close(a);
    mem_free(&a->names);
    mem_free(&a->sorted);
    arena_free(&a->arena);
    mem_free(arrays);
}

void arrays_note(const arrays_t *a, char *out, size_t n_bytes)
{
    snprintf(out, n_bytes, "%s", a->note ? a->note : "");
}

int64_t arrays_count(const arrays_t *a)
{
    return a->n;
}

const char *arrays_name(const arrays_t *a, int64_t i)
{
    return a->names[i].name;
}

void arrays_set_prefix(arrays_t *a, const char *prefix)
{
    snprintf(a->prefix, sizeof a->prefix, "%s", prefix);
}

/* The array's place in the file, or -1. */
static int64_t locate(const arrays_t *a, const char *name)
{
    char full[ARRAY_NAME_MAX];
    if (snprintf(full, sizeof full, "%s%s", a->prefix, name) >= ARRAY_NAME_MAX || !full[0]) return -1;
    const name_t wanted = {.name = full};
    const name_t *found = bsearch(&wanted, a->sorted, (size_t)a->n, sizeof *a->sorted, compare_names);
    return found ? found->at : -1;
}

bool arrays_has(const arrays_t *a, const char *name)
{
    return locate(a, name) >= 0;
}

void arrays_list(const arrays_t *a, char *out, size_t n_bytes)
{
    enum { SHOWN = 3, MORE_MAX = 32 };
    int64_t i = 0;
    size_t used = 0;
    out[0] = '\0';
    for (; i < a->n && i < SHOWN; i++) {
        const int length = (int)strnlen(a->names[i].name, 60);
        if (used + (size_t)length + MORE_MAX > n_bytes) break;
        used +=
            (size_t)snprintf(out + used, n_bytes - used, "%s'%.*s'", i ? ", " : "", length, a->names[i].name);
    }
    if (i < a->n) snprintf(out + used, n_bytes - used, " and %" PRId64 " more", a->n - i);
    if (a->n == 0) snprintf(out, n_bytes, "nothing");
}

static err_t find(const arrays_t *a, const char *name, int64_t *out)
{
    *out = locate(a, name);
    if (*out < 0) RAISE(ERR_DATA, "%s has no array '%s'", a->path, name);
    return ERR_OK;
}

err_t arrays_describe(const arrays_t *a, const char *name, array_info_t *out)
{
    int64_t i;
    TRY(find(a, name, &i));
    const err_t err = a->format->describe(a, i, out);
    return err == ERR_OK ? ERR_OK : err_context(err, "%s, array '%s'", a->path, name);
}

err_t arrays_read(const arrays_t *a, const char *name, const array_info_t *info, float *out)
{
    if (!type_bytes(info->type))
        RAISE(ERR_DATA,
              "%s, array '%s' has type '%s'; expected float16, bfloat16, float32 or float64 (little-endian)",
              a->path, name, info->type);
    int64_t i;
    TRY(find(a, name, &i));
    const err_t err = a->format->read(a, i, info, out);
    return err == ERR_OK ? ERR_OK : err_context(err, "%s, array '%s'", a->path, name);
}

err_t arrays_write(const char *path, const array_entry_t *entries, int n, const char *note)
{
    const format_t *format = format_named(path);
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    ASSERT(n > 0); /* libzip writes no empty archive */
    TRY(fs_temp_path(path, folder, temp));
    for (int i = 0; i < n; i++) {
        if (strlen(entries[i].name) >= ARRAY_NAME_MAX)
            RAISE(ERR_USAGE, "%s: the name '%.60s…' is longer than %d bytes", path, entries[i].name,
                  ARRAY_NAME_MAX - 1);
        for (int k = 0; k < i; k++)
            if (strcmp(entries[i].name, entries[k].name) == 0)
                RAISE(ERR_USAGE, "%s: two arrays have the name '%s'", path, entries[i].name);
    }
    unlink(temp);
    err_t err = (format ? format : &npz_format)->write(path, temp, entries, n, note);
    if (err == ERR_OK) err = fs_sync(temp);
    if (err == ERR_OK && rename(temp, path) != 0)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "%s cannot be written: %s", path, strerror(errno));
    if (err == ERR_OK) return fs_sync(folder);
    unlink(temp);
    return err;
}
