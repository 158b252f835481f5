/* SPDX-License-Identifier: MIT */
/* Files of named arrays that other programs read and write: NumPy's .npz, a zip archive with one .npy file per array,
 * stored or deflated; and .safetensors (github.com/huggingface/safetensors), a header in JSON before the arrays. Files
 * may be hostile: memory for values is allocated by the caller, for shapes that it expects, never by what a file claims.
 * Not collective. */
#ifndef STORE_CHECKPOINT_ARRAYS_H
#define STORE_CHECKPOINT_ARRAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "compute/tensor/tensor.h"

/* Type, shape and order of an array. */
enum { ARRAY_TYPE_MAX = 16 };

typedef struct array_info {
    char type[ARRAY_TYPE_MAX]; /* as the format has it: "<f4", "F32"; floats of 4 bytes */
    bool fortran;              /* the first dimension is contiguous, not the last */
    shape_t shape;
} array_info_t;

typedef struct arrays arrays_t;

/* Whether a path has the ending of such a file. */
bool arrays_named(const char *path);

/* Opens a file, whose format is told by its content. ERR_DATA naming the file and the reason. */
err_t arrays_open(const char *path, arrays_t **out);
void arrays_close(arrays_t **arrays);

/* The file's note, cut to n_bytes with its NUL; "" if it has none. */
void arrays_note(const arrays_t *arrays, char *out, size_t n_bytes);

int64_t arrays_count(const arrays_t *arrays);
/* The name of an array as the file has it, without ".npy"; "" if it is not one, or longer than 511 bytes. */
enum { ARRAY_NAME_MAX = 512 };
const char *arrays_name(const arrays_t *arrays, int64_t i);
/* From now on every name given to the functions below follows this prefix; "": none. At most 127 bytes. */
void arrays_set_prefix(arrays_t *arrays, const char *prefix);

bool arrays_has(const arrays_t *arrays, const char *name);
/* Lists array names for messages: "'a', 'b', 'c' and 4 more". */
void arrays_list(const arrays_t *arrays, char *out, size_t n_bytes);

/* Type and shape of an array. ERR_DATA naming file and array. */
err_t arrays_describe(const arrays_t *arrays, const char *name, array_info_t *out);

/* Reads an array of float16, bfloat16, float32 or float64 (little-endian) as float32, in the order of the file. ERR_DATA
 * if it has another type, does not match its shape, or fails its checksum, which .npz has.
 *
 *   info  from arrays_describe */
err_t arrays_read(const arrays_t *arrays, const char *name, const array_info_t *info, float *out);

typedef struct array_entry {
    const char *name;
    shape_t shape;
    const float *data; /* C order */
} array_entry_t;

/* Writes little-endian float32 arrays, atomically as checkpoint_write does: .safetensors if the path ends so, else
 * .npz, not deflated. Equal content gives equal bytes.
 *
 *   note  a text that other readers of arrays pass over: the comment of an archive; in .safetensors, "dptrain" of
 *         __metadata__. NULL: none */
err_t arrays_write(const char *path, const array_entry_t *entries, int n, const char *note);

#endif
