/* SPDX-License-Identifier: MIT */
/* Options of what a command prints while it works: --progress, --quiet, --verbose. */
#ifndef BASE_CONSOLE_H
#define BASE_CONSOLE_H

#include <stdbool.h>

#include "base/opt.h"

typedef struct console_options {
    const char *progress;
    bool quiet, verbose;
} console_options_t;

extern const opt_t console_option_table[];
extern const int n_console_options;

/* Applies the options to base/log.h and base/progress.h, for the whole process. --quiet implies --progress
 * none, except with bar or lines. */
err_t console_apply(const console_options_t *options);

#endif
