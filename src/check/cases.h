/* The checks. Private to src/check. */
#ifndef CHECK_CASES_H
#define CHECK_CASES_H

#include "check/check.h"

extern const check_case_t check_topology, check_gpu, check_host_case, check_clock, check_versions;
extern const check_case_t check_network, check_transport;

#endif
