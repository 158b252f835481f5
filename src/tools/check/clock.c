/* SPDX-License-Identifier: MIT */
/* The check `clock`: each host's offset from rank 0's wall clock, as measured by cluster/comm/comm.c. */
#include "tools/check/clock.h"

#include <math.h>

#include "base/clock.h"
#include "cluster/comm/comm.h"
#include "tools/check/cases.h"

void clock_judge(check_t *check, double offset_sec, double error_sec)
{
    static const char advice[] = "start chrony or systemd-timesyncd on that host: times of files, logs and "
                                 "certificates are wrong";
    /* The least offset that the uncertainty allows. */
    double off = fmax(fabs(offset_sec) - error_sec, 0);
    check_status_t status = off > 60 ? CHECK_FAIL : off > 1 ? CHECK_WARN : CHECK_OK;
    /* A positive offset has to be added to this clock. */
    check_measured(check, check_host(check), "wall clock", status, advice, off, "%.*f s %s rank 0's",
                   off < 10 ? 3 : 0, fabs(offset_sec), offset_sec > 0 ? "behind" : "ahead of");
}

static err_t clock_run(check_t *check)
{
    double offset, error;
    TRY(comm_clock_offset(check->comm, clock_unix_sec, &offset, &error));
    if (check->n_hosts == 1)
        check_line(check, check_job(check), "wall clock", CHECK_SKIP, NULL, "one host");
    else if (check->host != 0)
        clock_judge(check, offset, error);
    return ERR_OK;
}

const check_case_t check_clock = {"clock", "wall clocks of all hosts agree", true, clock_run};
