/* The checks; each is in the file of its name. Private to src/check. */
#ifndef CHECK_CASES_H
#define CHECK_CASES_H

#include "check/check.h"

extern const check_case_t check_topology;

#endif
