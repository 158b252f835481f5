/* SPDX-License-Identifier: MIT */
/* Wall clocks. Private to src/tools/check. */
#ifndef TOOLS_CHECK_CLOCK_H
#define TOOLS_CHECK_CLOCK_H

#include "tools/check/check.h"

/* Adds a line about this host's clock. Not collective.
 *
 *   offset_sec  how far the clock is behind rank 0's
 *   error_sec   uncertainty of offset_sec */
void clock_judge(check_t *check, double offset_sec, double error_sec);

#endif
