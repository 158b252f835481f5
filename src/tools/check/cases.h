/* SPDX-License-Identifier: MIT */
/* The checks. Private to src/tools/check. */
#ifndef TOOLS_CHECK_CASES_H
#define TOOLS_CHECK_CASES_H

#include "tools/check/check.h"

extern const check_case_t check_topology, check_reach, check_gpu, check_host_case, check_machine, check_load,
    check_speed, check_clock, check_versions, check_shared, check_network, check_transport;

/* Advice for a file system that does not respond. */
extern const char check_hung_advice[];

#endif
