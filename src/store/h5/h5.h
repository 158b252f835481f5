/* SPDX-License-Identifier: MIT */
/* HDF5's calls with our errors. HDF5 keeps its error stack and its printing switch per thread. */
#ifndef STORE_H5_H5_H
#define STORE_H5_H5_H

#include <hdf5.h>

#include "base/err.h"

/* Stops HDF5 from printing its error stack in this thread; E_H5 puts the reason into our message instead.
 * Call it where a thread enters code that uses HDF5; cheap. */
void h5_quiet(void);

/* Raises `code` with the words given and HDF5's innermost reason behind them. */
err_t h5_raise(err_t code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Closes any kind of id (negative: nothing to do) and sets it to -1. */
herr_t h5_close(hid_t *id);

/* ERR_OK when the call (anything that is negative on failure) succeeds:
 *     TRY_OUT(err, E_H5(group = H5Gopen2(…), ERR_DATA, "%s: the group %s", path, name)); */
#define E_H5(call, code, ...) ((call) >= 0 ? ERR_OK : h5_raise((code), __FILE__, __LINE__, __VA_ARGS__))

/* "1.10.8": the library that is loaded. */
void h5_version(char *out, size_t n_bytes);

#endif
