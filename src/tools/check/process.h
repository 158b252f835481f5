/* SPDX-License-Identifier: MIT */
/* Runs another program with a deadline. Private to src/tools/check. */
#ifndef TOOLS_CHECK_PROCESS_H
#define TOOLS_CHECK_PROCESS_H

#include "base/err.h"

/* Runs a program without input. Not collective. ERR_PEER: killed after timeout_sec. ERR_DATA: not found.
 *
 *   argv       NULL-terminated; the program is found on PATH
 *   out        receives the beginning of stdout and stderr, NUL-terminated
 *   exit_code  of the program, or 128 + signal */
err_t process_run(const char *const *argv, double timeout_sec, char *out, size_t n_bytes, int *exit_code);

/* Tests whether a path's file system responds. A dead network mount blocks any process that touches it,
 * so a separate process does. ERR_PEER: no response in time; do not touch the path. ERR_OK in all other
 * cases, even if the path is missing. */
err_t process_probe(const char *path, double timeout_sec);

#endif
