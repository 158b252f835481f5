/* SPDX-License-Identifier: MIT */
/* RUN np=2
 *
 * A rank that waits in shared memory still drives MPI progress: its own long message is in flight, and the
 * peer enters the allreduce only after receiving all of it. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "tests/mpi/everyone.h"

enum { N_BYTES = 8 << 20, COUNT = 1000 };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

static bool arrives(comm_t *comm, comm_buffer_t *buffer)
{
    char *message = NULL;
    float *data = buffer->data;
    bool right = mem_new(N_BYTES, "test", &message) == ERR_OK;
    for (int i = 0; i < COUNT; i++) data[i] = (float)(comm->rank + i);
    MPI_Request request = MPI_REQUEST_NULL;
    if (comm->rank == 0) {
        message[N_BYTES - 1] = 7;
        MPI_Isend(message, N_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
    } else {
        MPI_Recv(message, N_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    right &= comm_buffer_allreduce(comm, buffer, COUNT, "a test's allreduce") == ERR_OK;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < COUNT; i++) right &= (int)data[i] == 2 * i + 1;
    right &= message[N_BYTES - 1] == 7;
    mem_free(&message);
    return right;
}

int main(void)
{
    /* The sender must take part: the receiver cannot fetch the message alone. */
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    comm_t *comm = NULL;
    comm_buffer_t buffer;
    comm_options_t options = {.name = "mpi", .timeout_sec = 30, .allreduce = "host", .abort_job = abort_job};
    err_t err = comm_open(&options, &comm);
    tap_quiet = !log_speaks();
    tap_plan(4);
    OK_CALL(err, "open");
    if (err != ERR_OK) return 1;
    OK_ALL(comm_buffer_new(comm, COUNT * sizeof(float), &buffer) == ERR_OK && buffer.shared, "a buffer");
    OK_ALL(arrives(comm, &buffer), "a message sent before an allreduce arrives");
    comm_buffer_free(comm, &buffer);
    comm_close(&comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
