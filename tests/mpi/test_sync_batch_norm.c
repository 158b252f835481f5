/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3 device=ref,cpu,cuda
 *
 * Batch norm with statistics over all ranks: each rank has some of the samples, and gets the results of one
 * operator over all samples. */
#include "cluster/comm/comm.h"
#include "compute/ops/backend.h"
#include "tests/mpi/everyone.h"
#include "tests/op_util.h"

enum { PER_RANK = 3, SIDE = 5, CHANNELS = 7, ROWS = PER_RANK * SIDE * SIDE };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static err_t sum_shared(void *comm, double *values, int64_t n)
{
    return comm_allreduce(comm, values, n, DTYPE_F64, COMM_SUM, "statistics");
}

static bool close_to(const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 2e-5 * (1 + fabs((double)want[i])))) return false;
    return true;
}

/* This rank's samples of `all`, and the same parameters and running values. */
static void take_share(const op_run_t *all, const op_run_t *own, int rank)
{
    int64_t first = (int64_t)rank * ROWS * CHANNELS;
    memcpy(own->x[0], all->x[0] + first, sizeof(float) * ROWS * CHANNELS);
    memcpy(own->dy, all->dy + first, sizeof(float) * ROWS * CHANNELS);
    for (int i = 0; i < 2; i++) {
        memcpy(own->param[i], all->param[i], sizeof(float) * CHANNELS);
        memcpy(own->state[i], all->state[i], sizeof(float) * CHANNELS);
    }
}

static void compare(comm_t *comm, const backend_t *device)
{
    int64_t first = (int64_t)comm->rank * ROWS * CHANNELS;
    op_run_t all = op_run_new(
        &backend_ref, (op_desc_t)NORM(0.1, 1e-5, {4, {PER_RANK * comm->size, SIDE, SIDE, CHANNELS}}), true);
    op_run_t own =
        op_run_new(device, (op_desc_t)NORM(0.1, 1e-5, {4, {PER_RANK, SIDE, SIDE, CHANNELS}}), true);
    op_run_fill(&all, 17);
    take_share(&all, &own, comm->rank);
    own.args.batch_norm.sum_shared = sum_shared;
    own.args.batch_norm.context = comm;
    must(op_run_forward(&all), "forward");
    must(op_run_forward(&own), "forward");
    OK_ALL(close_to(own.y, all.y + first, ROWS * CHANNELS),
           "forward equals that of one operator over all samples");
    OK_ALL(close_to(own.state[0], all.state[0], CHANNELS) && close_to(own.state[1], all.state[1], CHANNELS),
           "running values are those of all samples");
    must(op_run_backward(&all), "backward");
    must(op_run_backward(&own), "backward");
    OK_ALL(close_to(own.dx[0], all.dx[0] + first, ROWS * CHANNELS), "dx equals that of one operator");
    for (int i = 0; i < 2; i++) {
        must(comm_allreduce(comm, own.dparam[i], CHANNELS, DTYPE_F32, COMM_SUM, "gradients"), "allreduce");
        OK_ALL(close_to(own.dparam[i], all.dparam[i], CHANNELS), "the ranks' gradients of %s add up",
               i ? "beta" : "gamma");
    }
    /* Proves that sharing makes a difference. */
    own.args.batch_norm.sum_shared = NULL;
    must(op_run_forward(&own), "forward");
    OK_ALL(comm->size == 1 || !close_to(own.y, all.y + first, ROWS * CHANNELS),
           "without sharing the result differs");
    op_run_free(&all), op_run_free(&own);
}

int main(int argc, char **argv)
{
    comm_t *comm = NULL;
    comm_options_t options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    must(comm_open(&options, &comm), "the communicator");
    tap_quiet = comm->rank != 0;
    tap_plan(7);
    const backend_t *device = util_open(argc, argv, 1);
    compare(comm, device);
    if (device->close) device->close();
    comm_close(&comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
