/* SPDX-License-Identifier: MIT */
/* The checks of `dptrain check`, in the order in which they run. */
#include "text/table.h"
#include "tools/check/cases.h"

const check_case_t *const check_cases[] = {
    &check_topology, &check_reach,     &check_gpu,   &check_host_case, &check_machine,
    &check_load,     &check_speed,     &check_clock, &check_versions,  &check_shared,
    &check_network,  &check_transport, NULL};

err_t check_print_list(void)
{
    table_t table = {.columns = {{NULL, true}, {NULL, true}}, .n_columns = 2};
    for (int i = 0; check_cases[i]; i++) {
        table_cell(&table, "%s", check_cases[i]->name);
        table_cell(&table, "%s%s", check_cases[i]->what, check_cases[i]->collective ? " (collective)" : "");
    }
    err_t err = table_print(&table, stdout);
    table_free(&table);
    return err;
}
