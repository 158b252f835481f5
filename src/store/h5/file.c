/* SPDX-License-Identifier: MIT */
/* Writes with the HDF5 library, which no other file includes: its errors become err_t, and its I/O goes through a driver over
 * the caller's file descriptor. It lays out the metadata; seal_write writes arrays and table. */
#include "store/h5/file.h"

#include <errno.h>
#include <hdf5.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

/* ---- Errors. HDF5 has one error stack and one printing switch per thread ---- */
enum { REASON_MAX = 256 };

typedef struct reason {
    char inner[REASON_MAX], call[64];
} reason_t;

/* Walking upward, the first entry is the cause, the last one the library function that was called. */
static herr_t note_reason(unsigned n, const H5E_error2_t *entry, void *context)
{
    reason_t *reason = context;
    if (n == 0) snprintf(reason->inner, sizeof reason->inner, "%s", entry->desc ? entry->desc : "");
    snprintf(reason->call, sizeof reason->call, "%s", entry->func_name ? entry->func_name : "");
    return 0;
}

/* Raises ERR_SYSTEM with the message, followed by HDF5's innermost reason. */
static err_t h5_raise(int line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static err_t h5_raise(int line, const char *format, ...)
{
    reason_t reason = {"", ""};
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, note_reason, &reason);
    H5Eclear2(H5E_DEFAULT);
    char text[ERR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return err_raise(ERR_SYSTEM, __FILE__, line, "%s: HDF5 says: %s (%s)", text,
                     reason.inner[0] ? reason.inner : "failed", reason.call[0] ? reason.call : "no details");
}

/* ERR_OK if the call, any expression that is negative on failure, succeeds. */
#define E_H5(call, ...) ((call) >= 0 ? ERR_OK : h5_raise(__LINE__, __VA_ARGS__))

/* Closes an id of any kind (negative: none) and sets it to -1. */
static herr_t close_id(hid_t *id)
{
    herr_t status = *id >= 0 ? (H5Idec_ref(*id) < 0 ? -1 : 0) : 0;
    *id = -1;
    return status;
}

void h5_version(char *out, size_t n_bytes)
{
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    snprintf(out, n_bytes, "%u.%u.%u", major, minor, release);
}

/* ---- The file driver, over pread and pwrite ----
 * It replaces the library's own because HDF5 1.10 cannot close a file after a failed write (disk full): the file stays open
 * in the library, which crashes after a few attempts. This one records the first failure and ignores later writes, so that
 * the library can close the file; the caller looks at `error` afterwards. It takes no file locks, which network file systems
 * often refuse. */
typedef struct h5_driver {
    int fd;    /* borrowed; stays open when the HDF5 file is closed */
    int error; /* errno of the first failed read or write; 0: none */
} h5_driver_t;

/* HDF5 requires its own part first. */
typedef struct driver_file {
    H5FD_t pub;
    h5_driver_t *driver;
    haddr_t eoa, eof; /* end of the library's allocations / of the file */
} driver_file_t;

static H5FD_t *driver_open(const char *name, unsigned flags, hid_t fapl, haddr_t max)
{
    (void)name, (void)flags, (void)max;
    h5_driver_t *const *driver = H5Pget_driver_info(fapl); /* as set_driver stored it */
    driver_file_t *file = NULL;
    if (!driver) return NULL;
    if (mem_new(sizeof *file, "a file driver", &file) != ERR_OK) return NULL;
    file->driver = *driver;
    return &file->pub;
}

static herr_t driver_close(H5FD_t *pub)
{
    driver_file_t *file = (driver_file_t *)pub;
    mem_free(&file);
    return 0;
}

static herr_t driver_query(const H5FD_t *pub, unsigned long *flags)
{
    (void)pub;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t driver_get_eoa(const H5FD_t *pub, H5FD_mem_t type)
{
    (void)type;
    return ((const driver_file_t *)pub)->eoa;
}

static herr_t driver_set_eoa(H5FD_t *pub, H5FD_mem_t type, haddr_t address)
{
    (void)type;
    ((driver_file_t *)pub)->eoa = address;
    return 0;
}

static haddr_t driver_get_eof(const H5FD_t *pub, H5FD_mem_t type)
{
    (void)type;
    return ((const driver_file_t *)pub)->eof;
}

static herr_t driver_read(H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t n_bytes,
                          void *out)
{
    (void)type, (void)dxpl;
    h5_driver_t *driver = ((driver_file_t *)pub)->driver;
    if (driver->error) return -1;
    size_t n_read;
    driver->error = fs_read_all(driver->fd, (int64_t)address, out, n_bytes, &n_read);
    if (driver->error) return -1;
    memset((char *)out + n_read, 0, n_bytes - n_read); /* HDF5 expects zeros beyond the end */
    return 0;
}

/* Always reports success: see h5_driver_t. */
static herr_t driver_write(H5FD_t *pub, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t n_bytes,
                           const void *data)
{
    (void)type, (void)dxpl;
    driver_file_t *file = (driver_file_t *)pub;
    if (address + n_bytes > file->eof) file->eof = address + n_bytes;
    if (!file->driver->error)
        file->driver->error = fs_write_all(file->driver->fd, (int64_t)address, data, n_bytes);
    return 0;
}

/* The file ends where the library's allocations end. */
static herr_t driver_truncate(H5FD_t *pub, hid_t dxpl, hbool_t closing)
{
    (void)dxpl, (void)closing;
    driver_file_t *file = (driver_file_t *)pub;
    if (file->eof == file->eoa || file->driver->error) return 0;
    if (ftruncate(file->driver->fd, (off_t)file->eoa) != 0) file->driver->error = errno;
    file->eof = file->eoa;
    return 0;
}

static const H5FD_class_t driver_class = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)600, /* in the range for unregistered drivers */
#endif
    .name = "dptrain",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(h5_driver_t *),
    .open = driver_open,
    .close = driver_close,
    .query = driver_query,
    .get_eoa = driver_get_eoa,
    .set_eoa = driver_set_eoa,
    .get_eof = driver_get_eof,
    .read = driver_read,
    .write = driver_write,
    .truncate = driver_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* Makes H5Fcreate with `fapl` use driver->fd; it ignores the file name. `driver` must outlive the
 * HDF5 file. The class is never unregistered: when HDF5 1.10 closes a file, it reads the driver's table after dropping the
 * last reference to it. */
static err_t set_driver(hid_t fapl, h5_driver_t *driver)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static hid_t id = -1;
    pthread_mutex_lock(&lock);
    err_t err = ERR_OK;
    if (id < 0) err = E_H5(id = H5FDregister(&driver_class), "registering a file driver");
    pthread_mutex_unlock(&lock);
    TRY(err);
    return E_H5(H5Pset_driver(fapl, id, &driver), "choosing a file driver");
}

/* ---- Writing ---- */
/* Large arrays start at a multiple of 512 bytes, which suits devices and vector loads. HDF5 allows
 * alignments up to the size of the user block. */
enum {
    ALIGN_BYTES = SEAL_BYTES,
    ALIGN_THRESHOLD = 64 << 10,
    METADATA_BLOCK = 16 << 10,
    METADATA_CACHE = 64 << 20,
    GROUP_MAX = 512
};

struct h5_file {
    seal_file_t file;
    seal_t seal;
    h5_driver_t driver;
    hid_t id, group_props, data_props;
    const char *last;     /* name of the previous array; "" */
    json_t attrs, arrays; /* of the table */
    int64_t n_values;     /* in it */
    seal_part_t *parts;   /* bytes of the arrays and the table */
    int n_parts;
    void *piece;         /* of arrays that are read piece by piece */
    XXH3_state_t *state; /* of their sums */
};

static err_t create_hdf5(h5_file_t *f)
{
    err_t err = ERR_OK;
    hid_t fapl = -1, fcpl = -1;
    const char *path = f->file.path;
    H5AC_cache_config_t cache = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    TRY_OUT(err, E_H5(fapl = H5Pcreate(H5P_FILE_ACCESS), "%s", path));
    TRY_OUT(err, set_driver(fapl, &f->driver));
    /* Keeps all metadata in memory until the file is closed: fewer writes, and no reading back. */
    TRY_OUT(err, E_H5(H5Pget_mdc_config(fapl, &cache), "reading HDF5's cache settings"));
    cache.set_initial_size = 1;
    cache.initial_size = cache.max_size = METADATA_CACHE;
    cache.decr_mode = H5C_decr__off;
    TRY_OUT(err, E_H5(H5Pset_mdc_config(fapl, &cache), "changing HDF5's cache settings"));
    /* Not the newest format of a later library, which other programs may not read. */
    TRY_OUT(err, E_H5(H5Pset_libver_bounds(fapl, H5F_LIBVER_V110, H5F_LIBVER_V110), "%s", path));
    TRY_OUT(err, E_H5(H5Pset_alignment(fapl, ALIGN_THRESHOLD, ALIGN_BYTES), "%s", path));
    TRY_OUT(err, E_H5(H5Pset_meta_block_size(fapl, METADATA_BLOCK), "%s", path));
    TRY_OUT(err, E_H5(H5Pset_small_data_block_size(fapl, METADATA_BLOCK), "%s", path));
    TRY_OUT(err, E_H5(fcpl = H5Pcreate(H5P_FILE_CREATE), "%s", path));
    TRY_OUT(err, E_H5(H5Pset_userblock(fcpl, SEAL_BYTES), "%s", path));
    TRY_OUT(err, E_H5(H5Pset_obj_track_times(fcpl, false), "%s", path));
    TRY_OUT(err, E_H5(f->id = H5Fcreate(f->file.kind, H5F_ACC_TRUNC, fcpl, fapl), "creating the %s %s",
                      f->file.kind, path));
out:
    close_id(&fcpl);
    close_id(&fapl);
    return err;
}

static err_t write_attr(const h5_file_t *f, hid_t object, const char *name, hid_t type, const void *value)
{
    err_t err = ERR_OK;
    hid_t space = -1, attr = -1;
    const char *kind = f->file.kind, *path = f->file.path;
    TRY_OUT(err, E_H5(space = H5Screate(H5S_SCALAR), "%s", path));
    TRY_OUT(err, E_H5(attr = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT),
                      "the %s %s: creating the attribute %s", kind, path, name));
    TRY_OUT(err, E_H5(H5Awrite(attr, type, value), "the %s %s: writing the attribute %s", kind, path, name));
    TRY_OUT(err, E_H5(close_id(&attr), "the %s %s: closing the attribute %s", kind, path, name));
out:
    close_id(&attr);
    close_id(&space);
    return err;
}

static err_t write_text(const h5_file_t *f, hid_t object, const char *name, const char *text)
{
    err_t err = ERR_OK;
    hid_t type = -1;
    TRY_OUT(err, E_H5(type = H5Tcopy(H5T_C_S1), "%s", f->file.path));
    TRY_OUT(err, E_H5(H5Tset_size(type, strlen(text) + 1), "the attribute %s of %s", name, f->file.path));
    TRY_OUT(err, E_H5(H5Tset_cset(type, H5T_CSET_UTF8), "%s", f->file.path));
    TRY_OUT(err, write_attr(f, object, name, type, text));
out:
    close_id(&type);
    return err;
}

/* Adds a text to the table; see its form in file.h. */
static err_t add_text(json_t *j, const char *name, const char *text)
{
    char *hex;
    if (utf8_is_valid(text)) {
        json_string(j, name, text);
        return j->status;
    }
    TRY(mem_new(2 * strlen(text) + 1, "the text of an attribute", &hex));
    for (size_t i = 0; text[i]; i++) snprintf(hex + 2 * i, 3, "%02x", (unsigned char)text[i]);
    json_object_begin(j, name);
    json_string(j, "hex", hex);
    json_object_end(j);
    mem_free(&hex);
    return j->status;
}

static err_t add_real(json_t *j, const char *name, double real)
{
    char text[sizeof(json_number_t) + 2];
    snprintf(text, sizeof text, "%s",
             isnan(real)   ? "null"
             : isinf(real) ? real > 0 ? "1e999" : "-1e999"
                           : json_number(real).text);
    if (isfinite(real) && !strpbrk(text, ".e")) memcpy(text + strlen(text), ".0", 3);
    json_raw(j, name, text);
    return j->status;
}

err_t h5_file_put_attr(h5_file_t *f, const h5_attr_t *attr)
{
    ASSERT(utf8_is_valid(attr->name));
    f->n_values += 2;
    switch (attr->type) {
    case H5_TEXT:
        TRY(write_text(f, f->id, attr->name, attr->text));
        return add_text(&f->attrs, attr->name, attr->text);
    case H5_INT:
        TRY(write_attr(f, f->id, attr->name, H5T_STD_I64LE, &attr->integer));
        json_int(&f->attrs, attr->name, attr->integer);
        return f->attrs.status;
    default:
        TRY(write_attr(f, f->id, attr->name, H5T_IEEE_F64LE, &attr->real));
        return add_real(&f->attrs, attr->name, attr->real);
    }
}

err_t h5_file_create(const seal_file_t *file, const seal_t *seal, h5_file_t **out)
{
    char plan[17];
    TRY(mem_new(sizeof **out, "an HDF5 file", out));
    h5_file_t *f = *out;
    *f = (h5_file_t){.file = *file,
                     .seal = *seal,
                     .driver = {.fd = file->fd},
                     .last = "",
                     .id = -1,
                     .group_props = -1,
                     .data_props = -1};
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* E_H5 reports errors, in place of the library */
    TRY(create_hdf5(f));
    /* Without timestamps, so that equal content gives equal files. */
    TRY(E_H5(f->group_props = H5Pcreate(H5P_GROUP_CREATE), "%s", file->path));
    TRY(E_H5(H5Pset_obj_track_times(f->group_props, false), "%s", file->path));
    TRY(E_H5(f->data_props = H5Pcreate(H5P_DATASET_CREATE), "%s", file->path));
    TRY(E_H5(H5Pset_obj_track_times(f->data_props, false), "%s", file->path));
    TRY(E_H5(H5Pset_layout(f->data_props, H5D_CONTIGUOUS), "%s", file->path));
    TRY(E_H5(H5Pset_alloc_time(f->data_props, H5D_ALLOC_TIME_EARLY), "%s", file->path));
    TRY(E_H5(H5Pset_fill_time(f->data_props, H5D_FILL_TIME_NEVER), "%s", file->path));
    json_object_begin(&f->attrs, NULL);
    json_array_begin(&f->arrays, NULL);
    const h5_attr_t schema = h5_int("schema", seal->schema), set = h5_text("plan", plan);
    snprintf(plan, sizeof plan, "%016" PRIx64, seal->plan);
    TRY(f->arrays.status);
    TRY(h5_file_put_attr(f, &schema));
    return seal->plan ? h5_file_put_attr(f, &set) : ERR_OK;
}

/* Creates the groups in an array's name, except those shared with the previous array. */
static err_t make_groups(h5_file_t *f, const char *name)
{
    char group[GROUP_MAX];
    size_t n_shared = 0;
    ASSERT(name[0] == '/' && strlen(name) < sizeof group);
    while (name[n_shared] && name[n_shared] == f->last[n_shared]) n_shared++;
    for (const char *slash = strchr(name + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        if ((size_t)(slash - name) < n_shared) continue;
        snprintf(group, sizeof group, "%.*s", (int)(slash - name), name);
        if (H5Lexists(f->id, group, H5P_DEFAULT) > 0) continue;
        hid_t id = -1;
        TRY(E_H5(id = H5Gcreate2(f->id, group, H5P_DEFAULT, f->group_props, H5P_DEFAULT),
                 "the %s %s: creating the group %s", f->file.kind, f->file.path, group));
        TRY(E_H5(close_id(&id), "the %s %s: closing the group %s", f->file.kind, f->file.path, group));
    }
    f->last = name;
    return ERR_OK;
}

/* HDF5's type of a plain element, or of a compound's member. Close *out with close_id. */
static err_t make_type(const char *type, hid_t *out)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files hold little-endian numbers");
    *out = -1;
    if (type[0] == 't') {
        TRY(E_H5(*out = H5Tcopy(H5T_C_S1), "a type of text"));
        TRY(E_H5(H5Tset_size(*out, (size_t)h5_type_bytes(type)), "a type of text"));
        return E_H5(H5Tset_cset(*out, H5T_CSET_UTF8), "a type of text");
    }
    const struct {
        const char *name;
        hid_t id;
    } plain[] = {{"f4", H5T_IEEE_F32LE}, {"f8", H5T_IEEE_F64LE}, {"i4", H5T_STD_I32LE},
                 {"i8", H5T_STD_I64LE},  {"u1", H5T_STD_U8LE},   {"u8", H5T_STD_U64LE}};
    size_t i = 0;
    while (i < sizeof plain / sizeof plain[0] && strcmp(plain[i].name, type) != 0) i++;
    ASSERT(i < sizeof plain / sizeof plain[0]);
    return E_H5(*out = H5Tcopy(plain[i].id), "the type %s", type);
}

static err_t make_compound(const h5_array_t *array, hid_t *out)
{
    err_t err =
        E_H5(*out = H5Tcreate(H5T_COMPOUND, (size_t)h5_type_bytes(array->type)), "the type %s", array->type);
    for (const h5_member_t *m = array->members; err == ERR_OK && m->name; m++) {
        hid_t type;
        err = make_type(m->type, &type);
        if (err == ERR_OK) err = E_H5(H5Tinsert(*out, m->name, m->offset, type), "a type with %s", m->name);
        close_id(&type);
    }
    return err;
}

static err_t add_array(json_t *j, const h5_array_t *array)
{
    json_object_begin(j, NULL);
    json_string(j, "name", array->name);
    json_string(j, "type", array->type);
    json_array_begin(j, "shape");
    for (int i = 0; i < array->n_dims; i++) json_int(j, NULL, array->dims[i]);
    json_array_end(j);
    json_int(j, "offset", array->offset);
    if (array->has_sum) json_hex(j, "xxh3", array->sum, 16);
    if (array->meaning) json_string(j, "meaning", array->meaning);
    json_object_end(j);
    return j->status;
}

/* Writes the bytes of an array that is read piece by piece, and sets its sum. A failed write is the driver's error, after which the
 * rest is still read. */
static err_t copy_pieces(h5_file_t *f, h5_array_t *array)
{
    enum { PIECE_BYTES = 1 << 20 };
    /* Once for all arrays: the library's small blocks between many large ones would take the memory apart. */
    if (!f->piece) TRY(mem_new(PIECE_BYTES, "writing a file", &f->piece));
    if (!f->state) f->state = XXH3_createState();
    if (!f->state) RAISE(ERR_SYSTEM, "not enough memory to write %s", f->file.path);
    XXH3_64bits_reset(f->state);
    for (int64_t at = 0; at < array->n_bytes; at += PIECE_BYTES) {
        const size_t n = (size_t)(array->n_bytes - at < PIECE_BYTES ? array->n_bytes - at : PIECE_BYTES);
        TRY(array->read(array->context, n, f->piece));
        XXH3_64bits_update(f->state, f->piece, n);
        if (!f->driver.error) f->driver.error = fs_write_all(f->file.fd, array->offset + at, f->piece, n);
    }
    array->sum = XXH3_64bits_digest(f->state);
    return ERR_OK;
}

/* Reserves space for the bytes: seal_write writes them in the order of addresses and digests them at the same time, which
 * saves reading the file back. */
err_t h5_file_put_array(h5_file_t *f, h5_array_t *array)
{
    err_t err = ERR_OK;
    hid_t type = -1, space = -1, set = -1;
    hsize_t dims[H5_MAX_DIMS];
    const char *kind = f->file.kind, *path = f->file.path, *name = array->name;
    ASSERT(array->n_dims <= H5_MAX_DIMS && array->type && (!array->meaning || utf8_is_valid(array->meaning)));
    if (f->driver.error) return ERR_OK; /* h5_file_close returns it */
    array->n_bytes = h5_type_bytes(array->type);
    array->offset = 0;
    for (int i = 0; i < array->n_dims; i++)
        dims[i] = (hsize_t)array->dims[i], array->n_bytes *= array->dims[i];
    TRY(make_groups(f, name));
    TRY_OUT(err, array->members ? make_compound(array, &type) : make_type(array->type, &type));
    space = array->n_dims ? H5Screate_simple(array->n_dims, dims, NULL) : H5Screate(H5S_SCALAR);
    TRY_OUT(err, E_H5(space, "the %s %s: the shape of %s", kind, path, name));
    TRY_OUT(err, E_H5(set = H5Dcreate2(f->id, name, type, space, H5P_DEFAULT, f->data_props, H5P_DEFAULT),
                      "the %s %s: creating the array %s", kind, path, name));
    if (array->n_bytes > 0) {
        haddr_t at = H5Dget_offset(set);
        if (at == HADDR_UNDEF)
            RAISE_OUT(err, ERR_SYSTEM, "the %s %s: HDF5 allocated no space for %s", kind, path, name);
        array->offset = (int64_t)at;
    }
    if (array->read) TRY_OUT(err, copy_pieces(f, array));
    if (array->has_sum) {
        char sum[17];
        if (!array->read)
            array->sum = XXH3_64bits(array->n_bytes > 0 ? array->data : "", (size_t)array->n_bytes);
        snprintf(sum, sizeof sum, "%016" PRIx64, array->sum);
        TRY_OUT(err, write_text(f, set, "xxh3", sum));
    }
    if (array->meaning) TRY_OUT(err, write_text(f, set, "meaning", array->meaning));
    TRY_OUT(err, E_H5(close_id(&set), "the %s %s: closing the array %s", kind, path, name));
    if (array->data && array->n_bytes > 0) {
        TRY_OUT(err, mem_grow(f->n_parts + 1, sizeof *f->parts, "the arrays of a file", &f->parts));
        f->parts[f->n_parts++] = (seal_part_t){array->offset, array->n_bytes, array->data};
    }
    f->n_values += 7 + array->n_dims;
    err = add_array(&f->arrays, array);
out:
    close_id(&set);
    close_id(&space);
    close_id(&type);
    return err;
}

/* Appends the table to what HDF5 laid out, writes the arrays, and seals the file. */
static err_t seal_file(h5_file_t *f, seal_t *seal)
{
    const char *kind = f->file.kind, *path = f->file.path;
    json_t table = {0};
    struct stat info;
    err_t err;
    json_object_end(&f->attrs);
    json_array_end(&f->arrays);
    TRY_OUT(err, f->attrs.status);
    TRY_OUT(err, f->arrays.status);
    json_object_begin(&table, NULL);
    json_raw(&table, "attributes", f->attrs.text);
    json_raw(&table, "arrays", f->arrays.text);
    json_object_end(&table);
    TRY_OUT(err, table.status);
    if (table.n_bytes >= H5_MAX_TABLE || f->n_values > JSON_MAX_VALUES)
        RAISE_OUT(err, ERR_SYSTEM, "the %s %s has too many arrays or attributes for its table of contents",
                  kind, path);
    if (fstat(f->file.fd, &info) != 0)
        RAISE_OUT(err, ERR_SYSTEM, "the %s %s cannot be written: %s", kind, path, strerror(errno));
    TRY_OUT(err, mem_grow(f->n_parts + 3, sizeof *f->parts, "the arrays of a file", &f->parts));
    const int64_t end = (int64_t)info.st_size, n = (int64_t)table.n_bytes;
    f->parts[f->n_parts++] = (seal_part_t){end, 1, "\n"};
    f->parts[f->n_parts++] = (seal_part_t){end + 1, n, table.text};
    f->parts[f->n_parts++] = (seal_part_t){end + 1 + n, 1, "\n"};
    err = seal_write(&f->file, f->parts, f->n_parts, &f->seal);
    if (err == ERR_OK) *seal = f->seal;
out:
    json_free(&table);
    return err;
}

err_t h5_file_close(h5_file_t **file, err_t err, seal_t *seal)
{
    h5_file_t *f = *file;
    if (!f) return err;
    close_id(&f->data_props);
    close_id(&f->group_props);
    err_t closed = E_H5(close_id(&f->id), "closing the %s %s", f->file.kind, f->file.path);
    if (f->driver.error)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "the %s %s cannot be written: %s", f->file.kind,
                        f->file.path, strerror(f->driver.error));
    else if (err == ERR_OK)
        err = closed;
    if (err == ERR_OK) err = seal_file(f, seal);
    json_free(&f->attrs);
    json_free(&f->arrays);
    mem_free(&f->parts);
    mem_free(&f->piece);
    XXH3_freeState(f->state);
    mem_free(file);
    return err;
}
