/* SPDX-License-Identifier: MIT */
/* The checks of `dptrain check`, in the order in which they run. */
#include <stdio.h>

#include "tools/check/cases.h"

const check_case_t *const check_cases[] = {&check_topology, &check_gpu,       &check_host_case,
                                           &check_clock,    &check_versions,  &check_shared,
                                           &check_network,  &check_transport, NULL};

void check_print_list(void)
{
    for (int i = 0; check_cases[i]; i++)
        printf("%-10s %s%s\n", check_cases[i]->name, check_cases[i]->what,
               check_cases[i]->collective ? " (hosts together)" : "");
}
