/* SPDX-License-Identifier: MIT */
/* Measures clock offsets by round trips to rank 0. When to measure, and what to do with the offsets, is left
 * to the callers. */
#include "cluster/comm/clock.h"

#include "cluster/comm/watchdog.h"

/* Round trips per rank; enough for one of them to meet no other traffic. */
enum { N_ROUNDS = 32 };

static err_t answer_clock(comm_t *comm, double (*clock)(void), int rank)
{
    for (int i = 0; i < N_ROUNDS; i++) {
        double now;
        TRY(comm->ops->receive(comm, &now, sizeof now, rank));
        now = clock();
        TRY(comm->ops->send(comm, &now, sizeof now, rank));
    }
    return ERR_OK;
}

static err_t ask_clock(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec)
{
    double best = -1;
    for (int i = 0; i < N_ROUNDS; i++) {
        double theirs, start = clock();
        TRY(comm->ops->send(comm, &start, sizeof start, 0));
        TRY(comm->ops->receive(comm, &theirs, sizeof theirs, 0));
        double round_trip = clock() - start;
        if (best >= 0 && round_trip >= best) continue;
        best = round_trip;
        *offset_sec = theirs - (start + round_trip / 2);
        *error_sec = round_trip / 2;
    }
    return ERR_OK;
}

static err_t measure_offset(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec)
{
    if (comm->rank > 0) return ask_clock(comm, clock, offset_sec, error_sec);
    for (int r = 1; r < comm->size; r++) TRY(answer_clock(comm, clock, r));
    return ERR_OK;
}

err_t comm_clock_offset(comm_t *comm, double (*clock)(void), double *offset_sec, double *error_sec)
{
    *offset_sec = *error_sec = 0;
    watchdog_enter("comparing clocks");
    return watchdog_leave_with(measure_offset(comm, clock, offset_sec, error_sec), "comparing clocks");
}

double comm_clock_map(comm_clock_mark_t first, comm_clock_mark_t last, double sec)
{
    double span = last.at_sec - first.at_sec;
    double part = span > 0 ? (sec - first.at_sec) / span : 0;
    return sec + first.offset_sec + part * (last.offset_sec - first.offset_sec);
}
