/* SPDX-License-Identifier: MIT */
/* The communicator of one process, self or the one named by the first argument, keeps the contract of comm.h
 * without MPI. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/comm/buffer.h"
#include "cluster/comm/comm.h"
#include "cluster/watch/watchdog.h"
#include "tests/tap.h"

/* Pretends to be started by a launcher with this many ranks; 0: without a launcher. */
static void launcher(int size)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
                                        "PMI_RANK", "SLURM_PROCID"};
    for (int i = 0; i < 5; i++) unsetenv(names[i]);
    if (size == 0) return;
    char text[16];
    snprintf(text, sizeof text, "%d", size);
    setenv(names[0], "0", 1);
    setenv(names[1], text, 1);
}

/* Whether opening fails with ERR_USAGE and a message that contains both words. */
static bool refused(const char *name, const char *word, const char *other_word)
{
    comm_t *comm = NULL;
    comm_options_t options = {.name = name, .timeout_sec = 60};
    return comm_open(&options, &comm) == ERR_USAGE && !comm && strstr(err_message(), word) &&
           strstr(err_message(), other_word);
}

static void test_choice(void)
{
    launcher(3);
    OK(refused("self", "3", "--comm mpi"), "self under a launcher with several ranks is refused");
    launcher(0);
#ifdef DPTRAIN_CUDA
    tap_skip("this build has NCCL");
#else
    OK(refused("nccl", "no CUDA backend", "--comm mpi"), "--comm nccl is refused in a build without CUDA");
#endif
    OK(refused("gossip", "gossip", "auto"), "an unknown name is refused; the message lists the known ones");
    launcher(1);
    comm_t *comm = NULL;
    comm_options_t options = {.name = "self", .timeout_sec = 60};
    OK_CALL(comm_open(&options, &comm), "self under a launcher with one rank");
    comm_close(&comm);
    launcher(0);
    bool self_is_listed = false;
    for (int i = 0; comm_names[i]; i++) self_is_listed |= strcmp(comm_names[i], "self") == 0;
    OK(self_is_listed && strcmp(comm_names[0], "auto") == 0, "the names for --comm");
}

static void test_collectives(comm_t *comm)
{
    float values[5] = {1, -2, 3, -4, 5}, copy[5];
    memcpy(copy, values, sizeof copy);
    OK_CALL(comm_barrier(comm, "a test"), "barrier");
    bool kept = true;
    for (comm_op_t op = COMM_SUM; op <= COMM_MIN; op++)
        for (dtype_t dtype = DTYPE_F32; dtype <= DTYPE_I64; dtype++) {
            kept &=
                comm_allreduce(comm, values, dtype_size(dtype) == 4 ? 5 : 2, dtype, op, "a test") == ERR_OK;
            kept &= comm_allreduce(comm, values, 0, dtype, op, "a test") == ERR_OK;
        }
    kept &= comm_broadcast(comm, values, sizeof values, 0, "a test") == ERR_OK;
    OK(kept && memcmp(values, copy, sizeof copy) == 0, "allreduce and broadcast of one rank change nothing");
    float gathered[5] = {0};
    OK(comm_allgather(comm, values, sizeof values, gathered, "a test") == ERR_OK &&
           memcmp(gathered, copy, sizeof copy) == 0,
       "allgather copies");
    OK(comm_allgather(comm, gathered, sizeof gathered, gathered, "a test") == ERR_OK &&
           memcmp(gathered, copy, sizeof copy) == 0,
       "allgather in place");
    const int64_t n_bytes[] = {2 * sizeof(float)};
    float few[3] = {7, 7, 7};
    OK(comm_allgatherv(comm, values, n_bytes, few, "a test") == ERR_OK && few[0] == values[0] &&
           few[1] == values[1] && few[2] == 7,
       "allgatherv copies its piece");
    OK(comm_agree(comm, ERR_OK, "a test") == ERR_OK, "agree: no failure");
    double offset = -1, error = -1;
    OK(comm_clock_offset(comm, clock_sec, &offset, &error) == ERR_OK && offset == 0 && error == 0,
       "its clock is rank 0's");
    err_t mine = err_raise(ERR_DATA, __FILE__, __LINE__, "just this");
    OK(comm_agree(comm, mine, "a test") == ERR_DATA && strcmp(err_message(), "just this") == 0,
       "agree: a failure keeps code and message");
}

static void test_buffers(comm_t *comm)
{
    comm_buffer_t a = {0}, b = {0};
    OK_CALL(comm_buffer_new(comm, 1003, &a), "a buffer");
    OK_CALL(comm_buffer_new(comm, 0, &b), "an empty one");
    bool zero = true;
    for (size_t i = 0; i < a.n_bytes; i++) zero &= ((char *)a.data)[i] == 0;
    OK(zero && a.n_bytes == 1003 && !a.shared && (uintptr_t)a.data % MEM_ALIGN == 0,
       "zeroed, aligned, private");
    comm_buffer_free(comm, &a);
    comm_buffer_free(comm, &b);
    comm_buffer_free(comm, &b);
    OK(!a.data && !b.data, "freed; a second time does nothing");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "self";
    tap_plan(20);
    launcher(0);
    test_choice();
    comm_t *comm = NULL;
    comm_options_t options = {.name = argc > 1 ? name : "auto", .timeout_sec = 60};
    OK_CALL(comm_open(&options, &comm), "auto without a launcher");
    if (!comm) return 1;
    OK(strcmp(comm->ops->name, name) == 0 && comm->rank == 0 && comm->size == 1 && comm->topo.size == 1,
       "is %s, rank 0 of 1", name);
    watchdog_phase("a phase without a watchdog");
    test_collectives(comm);
    test_buffers(comm);
    comm_close(&comm);
    comm_close(&comm);
    OK(!comm && mem_live() == 0, "closed; all memory was freed");
    return tap_done();
}
