/* SPDX-License-Identifier: MIT */
/* Another program's answer, within a deadline. Private to src/tools/check. */
#ifndef TOOLS_CHECK_PROCESS_H
#define TOOLS_CHECK_PROCESS_H

#include "base/err.h"

/* Runs argv (found on PATH; ended by NULL) with nothing to read, and keeps the beginning of what it writes to
 * either output, NUL-terminated. *exit_code: its own, or 128 + signal. After timeout_sec it is killed and
 * ERR_PEER is returned; ERR_DATA where there is no such program. Not collective. */
err_t process_run(const char *const *argv, double timeout_sec, char *out, size_t n_bytes, int *exit_code);

/* Whether a path's file system answers at all: a dead network mount holds whoever touches it, for ever, so
 * another process does so first. ERR_PEER: no answer in time; touch nothing there. Anything else, a missing
 * path too, is ERR_OK. */
err_t process_probe(const char *path, double timeout_sec);

#endif
