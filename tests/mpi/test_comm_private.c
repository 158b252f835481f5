/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3
 *
 * Without room for shared memory, gradient buffers are private, with one warning. */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "tests/mpi/everyone.h"

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* Creates two buffers and uses one, with stderr redirected to `captured`. */
static bool use_buffers(comm_t *comm, char *captured, size_t n_bytes)
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    if (!file || before < 0) return false;
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    comm_buffer_t a = {0}, b = {0};
    bool fine = comm_buffer_new(comm, 4000, &a) == ERR_OK && comm_buffer_new(comm, 4000, &b) == ERR_OK;
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    captured[fread(captured, 1, n_bytes - 1, file)] = '\0';
    fclose(file);
    if (!fine || a.shared || b.shared || (uintptr_t)a.data % MEM_ALIGN) return false;
    int32_t *values = a.data;
    fine = values[0] == 0 && values[999] == 0;
    for (int i = 0; i < 1000; i++) values[i] = i + comm->rank;
    fine &= comm_allreduce(comm, values, 1000, DTYPE_I32, COMM_MAX, "a test's allreduce") == ERR_OK;
    for (int i = 0; i < 1000; i++) fine &= values[i] == i + comm->size - 1;
    comm_buffer_free(comm, &a);
    comm_buffer_free(comm, &b);
    return fine && !a.data && !b.data;
}

static int count_words(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) n++;
    return n;
}

int main(void)
{
    /* Read by OpenMPI at its start; this folder has no room. */
    setenv("OMPI_MCA_osc_sm_backing_directory", "/nonexistent", 1);
    comm_t *comm = NULL;
    comm_options_t options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    err_t err = comm_open(&options, &comm);
    tap_quiet = !log_speaks();
    tap_plan(5);
    OK_CALL(err, "open");
    if (err != ERR_OK) return 1;
    char said[4096];
    OK_ALL(use_buffers(comm, said, sizeof said), "two private buffers that work");
    int wanted = comm->rank == 0 && comm->topo.max_local_size > 1;
    OK_ALL(count_words(said, "private") == wanted, "a single warning, and none if no two ranks share a host");
    OK_ALL(!wanted || (strstr(said, comm->topo.host_name) && strstr(said, "/nonexistent")),
           "it names the host and the folder");
    comm_close(&comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
