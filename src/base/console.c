/* SPDX-License-Identifier: MIT */
/* The table of --progress, --quiet and --verbose. What each level prints is left to callers of base/log.h. */
#include "base/progress.h"

#include <string.h>

#include "base/log.h"

/* In the order of progress_mode_t. */
static const char *const modes[] = {"auto", "bar", "lines", "none", NULL};

#define FIELD(name) offsetof(console_options_t, name)
const opt_t console_option_table[] = {
    {"progress", OPT_CHOICE, FIELD(progress), "auto", 0, 0, modes, NULL,
     "progress as a bar that is redrawn, or as lines; auto: a bar on a terminal", OPT_MORE},
    {"quiet", OPT_FLAG, FIELD(quiet), "false", 0, 0, NULL, NULL,
     "print only results, warnings and errors (short form: -q)", OPT_MORE},
    {"verbose", OPT_FLAG, FIELD(verbose), "false", 0, 0, NULL, NULL,
     "also print what was chosen and measured, and the profile (short form: -v)", OPT_MORE},
};
const int n_console_options = sizeof console_option_table / sizeof console_option_table[0];

err_t console_apply(const console_options_t *options)
{
    progress_mode_t mode = PROGRESS_AUTO;
    if (options->quiet && options->verbose)
        RAISE(ERR_USAGE, "--quiet and --verbose are mutually exclusive; give one of them");
    for (int i = 0; modes[i]; i++)
        if (strcmp(options->progress, modes[i]) == 0) mode = (progress_mode_t)i;
    if (options->quiet && mode == PROGRESS_AUTO) mode = PROGRESS_NONE;
    progress_set_mode(mode);
    log_set_level(options->quiet ? LOG_QUIET : options->verbose ? LOG_VERBOSE : LOG_NORMAL);
    return ERR_OK;
}
