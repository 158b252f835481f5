/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,4
 *
 * Clocks with known offsets: the measured offset is correct within the reported error. */
#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "tests/mpi/everyone.h"

static int my_rank;

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* Like that of another host: each rank is 100 s ahead of the previous one. */
static double skewed(void)
{
    return clock_sec() + 100.0 * my_rank;
}

static void test_offset(comm_t *comm)
{
    double offset = -1, error = -1;
    err_t err = comm_clock_offset(comm, skewed, &offset, &error);
    OK_ALL(err == ERR_OK, "the offset is measured");
    /* A nanosecond for the rounding of seconds since the machine's start. */
    OK_ALL(fabs(offset + 100.0 * my_rank) <= error + 1e-9, "the offset is right within the reported error");
    OK_ALL(my_rank > 0 ? error > 0 && error < 50 : error == 0 && offset == 0,
           "the error is that of a round trip; rank 0 has none");
    err = comm_clock_offset(comm, clock_sec, &offset, &error);
    OK_ALL(err == ERR_OK && fabs(offset) <= error + 1e-9, "equal clocks: zero within the reported error");
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void test_map(void)
{
    comm_clock_mark_t first = {100, 5}, last = {200, 5.001};
    OK_ALL(near(comm_clock_map(first, last, 100), 105) && near(comm_clock_map(first, last, 200), 205.001),
           "the interpolation passes through both marks");
    OK_ALL(near(comm_clock_map(first, last, 150), 155.0005), "and is linear between them");
    OK_ALL(near(comm_clock_map(first, first, 150), 155), "two marks at the same time: no drift");
}

int main(void)
{
    comm_t *comm = NULL;
    comm_options_t options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    err_t err = comm_open(&options, &comm);
    tap_quiet = !log_speaks();
    tap_plan(9);
    OK_CALL(err, "open");
    if (err != ERR_OK) return 1;
    my_rank = comm->rank;
    test_offset(comm);
    test_map();
    comm_close(&comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
