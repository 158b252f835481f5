/* SPDX-License-Identifier: MIT */
/* HDF5 calls that raise err_t. HDF5 has one error stack and one printing switch per thread. */
#ifndef STORE_H5_H5_H
#define STORE_H5_H5_H

#include <hdf5.h>

#include "base/err.h"

/* Stops HDF5 from printing errors in this thread; E_H5 adds the reason to the message instead. Call it
 * wherever a thread enters code that uses HDF5; it is cheap. */
void h5_quiet(void);

/* Raises `code` with the given message, followed by HDF5's innermost reason. */
err_t h5_raise(err_t code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Closes an id of any kind (negative: none) and sets it to -1. */
herr_t h5_close(hid_t *id);

/* ERR_OK if the call (any expression that is negative on failure) succeeds:
 *     TRY_OUT(err, E_H5(group = H5Gopen2(…), ERR_DATA, "%s: the group %s", path, name)); */
#define E_H5(call, code, ...) ((call) >= 0 ? ERR_OK : h5_raise((code), __FILE__, __LINE__, __VA_ARGS__))

/* Version of the loaded library, such as "1.10.8". */
void h5_version(char *out, size_t n_bytes);

#endif
