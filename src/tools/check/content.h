/* SPDX-License-Identifier: MIT */
/* The part of the check `versions` that --content adds. Private to src/tools/check. */
#ifndef TOOLS_CHECK_CONTENT_H
#define TOOLS_CHECK_CONTENT_H

#include "tools/check/check.h"

/* Collective. One rank per host reads all image files of the folder. Skips folders of which hosts have different
 * lists, and data that is compared otherwise. */
err_t check_content(check_t *check, const char *where);

#endif
