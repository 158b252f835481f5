#include "check/cases.h"

static err_t run(check_t *check)
{
    check_line(check, check_host(check), "ranks", CHECK_OK, NULL, "%d", check->comm->topo.local_size);
    return ERR_OK;
}

const check_case_t check_topology = {"topology", "where ranks are and which CPUs they are bound to", true,
                                     run};
