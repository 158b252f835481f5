/* SPDX-License-Identifier: MIT */
/* A sealed HDF5 file of named arrays and attributes, with a table of contents: the HDF5 library writes the file, and it is
 * read by the table and pread alone. libhdf5 crashes on crafted metadata, and the seal protects against accidents only:
 * whoever crafts a file also seals it. Other programs read the file as any HDF5 file.
 *
 * After the seal (store/h5/seal.h) and the HDF5 part, in the format of HDF5 1.10 with contiguous arrays, the last line of the
 * file is the table, JSON in UTF-8:
 *
 *     {"attributes":{"schema":2,"lr":0.1,…},
 *      "arrays":[{"name":"/params/fc/bias","type":"f4","shape":[10],"offset":16896,"xxh3":"…","meaning":"O"},…]}
 *
 * Attributes are those of the HDF5 part's root. Integers have neither dot nor exponent, reals have one; an infinity is
 * 1e999, NaN is null. Text is a string, or {"hex":"…"} if it is not valid UTF-8. Arrays are little-endian and row-major:
 *
 *     type     kind and bytes of an element: "f4", "f8", "i4", "i8", "u1"; "struct72": a compound, whose members the HDF5
 *              part names
 *     shape    [] for one number
 *     offset   in the file; 0 if the array has no bytes
 *     xxh3     XXH3-64 of the array's bytes, 16 hex digits; optional
 *     meaning  of the dimensions; optional
 *
 * Equal content gives equal bytes. Not collective. */
#ifndef STORE_H5_FILE_H
#define STORE_H5_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/h5/seal.h"
#include "text/json.h"

enum { H5_MAX_DIMS = 5 };

typedef enum h5_attr_type { H5_TEXT, H5_INT, H5_REAL } h5_attr_type_t;

typedef struct h5_attr {
    const char *name;
    h5_attr_type_t type;
    const char *text; /* H5_TEXT: of any length; borrowed */
    int64_t integer;
    double real;
} h5_attr_t;

static inline h5_attr_t h5_text(const char *name, const char *text)
{
    return (h5_attr_t){.name = name, .type = H5_TEXT, .text = text};
}

static inline h5_attr_t h5_int(const char *name, int64_t integer)
{
    return (h5_attr_t){.name = name, .type = H5_INT, .integer = integer};
}

static inline h5_attr_t h5_real(const char *name, double real)
{
    return (h5_attr_t){.name = name, .type = H5_REAL, .real = real};
}

/* A member of a compound. The type is "i4", "i8", "u8", or "t64": UTF-8 of at most 64 bytes, padded with NUL. */
typedef struct h5_member {
    const char *name;
    size_t offset;
    const char *type;
} h5_member_t;

typedef struct h5_array {
    const char *name; /* absolute, valid UTF-8 without control characters: "/params/fc/bias" */
    const char *type; /* as in the table */
    int n_dims;
    int64_t dims[H5_MAX_DIMS];
    const char *meaning; /* NULL: unknown */
    bool has_sum;
    uint64_t sum;
    int64_t offset, n_bytes;
    /* Of an array that is written. */
    const h5_member_t *members; /* of a compound; ends with a NULL name */
    /* NULL: `read` has it, or the caller has written the bytes, or will, before h5_file_close. */
    const void *data;
    /* Reads the next n bytes, which h5_file_put_array writes. NULL: there is nothing to read. */
    err_t (*read)(void *context, size_t n_bytes, void *out);
    void *context;
} h5_array_t;

/* Limits of a table: what reading takes is bounded by them. */
enum { H5_MAX_TABLE = 64 << 20, H5_MAX_TYPE = 4096 };

/* Bytes of an element: the number that ends its type. 0: there is none, or it exceeds H5_MAX_TYPE. */
int64_t h5_type_bytes(const char *type);

/* ---- Writing ---- */
typedef struct h5_file h5_file_t;

/* Creates the HDF5 part in the open file, which may already hold data of arrays, and writes the attribute "schema" and,
 * unless it is 0, "plan".
 *
 *   file  kind and final name, for messages and the seal; borrowed
 *   seal  schema and plan
 *   out   call h5_file_close, also after an error here or later */
err_t h5_file_create(const seal_file_t *file, const seal_t *seal, h5_file_t **out);

err_t h5_file_put_attr(h5_file_t *file, const h5_attr_t *attr);

/* Creates an array, and the groups in its name. Its data is written by h5_file_close, and may change until then unless
 * it has a sum. Sets n_bytes and offset, and if has_sum is set, sum. Names and data are borrowed until then. */
err_t h5_file_put_array(h5_file_t *file, h5_array_t *array);

/* Completes the file unless `err`, the caller's error so far, is one, and releases it. Returns the first failed write of
 * the library, if any, even if closing succeeds; else `err`; else an error of closing.
 *
 *   seal  set on success; may be NULL if `err` is an error */
err_t h5_file_close(h5_file_t **file, err_t err, seal_t *seal);

/* ---- Reading: contents.c ---- */
/* Arrays are sorted by name within each group, attributes by name. */
typedef struct h5_contents {
    seal_file_t file; /* borrowed */
    seal_t seal;
    h5_array_t *arrays;
    h5_attr_t *attrs;
    int64_t n_arrays, n_attrs;
    int64_t table;      /* its offset: arrays end before it */
    json_reader_t json; /* owns names and texts */
} h5_contents_t;

/* Verifies every byte and reads the table. ERR_DATA, naming the file and the reason: damaged; of another kind or schema; a
 * table that dptrain does not write: arrays must be within the file, and all together not larger. ERR_SYSTEM: reading failed.
 * contents->seal is set wherever the file has one. The open file must live as long as the contents. Call
 * h5_contents_close, also after an error.
 *
 *   schema   the one that the caller reads
 *   earlier  what a user can do with a file of an earlier schema, to end the message */
err_t h5_contents_open(h5_contents_t *contents, const seal_file_t *file, int64_t schema, const char *earlier);
void h5_contents_close(h5_contents_t *contents);

/* NULL: absent. */
const h5_array_t *h5_contents_array(const h5_contents_t *contents, const char *name);
const h5_attr_t *h5_contents_attr(const h5_contents_t *contents, const char *name);

/* The value of a required attribute. ERR_DATA if it is absent or of another type. Text is borrowed; a hash is text of 16
 * hex digits. */
err_t h5_contents_text(const h5_contents_t *contents, const char *name, const char **out);
err_t h5_contents_int(const h5_contents_t *contents, const char *name, int64_t *out);
err_t h5_contents_real(const h5_contents_t *contents, const char *name, double *out);
err_t h5_contents_hash(const h5_contents_t *contents, const char *name, uint64_t *out);

/* Reads the n_bytes of an array and verifies its sum, if it has one. */
err_t h5_contents_read(const h5_contents_t *contents, const h5_array_t *array, void *out);

/* Version of the loaded library, such as "1.10.8". */
void h5_version(char *out, size_t n_bytes);

#endif
