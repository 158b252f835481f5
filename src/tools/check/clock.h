/* SPDX-License-Identifier: MIT */
/* Wall clocks. Private to src/tools/check. */
#ifndef TOOLS_CHECK_CLOCK_H
#define TOOLS_CHECK_CLOCK_H

#include "tools/check/check.h"

/* Says a line about this host, whose clock is offset_sec behind rank 0's, ± error_sec. Not collective. */
void clock_judge(check_t *check, double offset_sec, double error_sec);

#endif
