/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3
 *
 * Work of rank 0 for all: its bytes arrive, errors reach all ranks, and the others wait while rank 0
 * works. */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "cluster/watch/watchdog.h"
#include "tests/mpi/everyone.h"

enum { N_BEATS = 2, N_BYTES = 100003 };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

typedef enum step { FIND, SAVE, RESTORE, NOTHING } step_t;

typedef struct context {
    comm_t *comm;
    step_t fails;
    int n_calls[3];
    unsigned char *kept;
    int64_t n_kept;
} context_t;

static err_t fail_at(context_t *c, step_t step)
{
    c->n_calls[step]++;
    if (c->fails != step) return ERR_OK;
    RAISE(ERR_DATA, "step %d fails", (int)step);
}

/* Works until the others have been told N_BEATS times. */
static err_t find(void *context, comm_alive_t alive, void *alive_context)
{
    context_t *c = context;
    long long first = watchdog_sequence();
    for (int i = 0; c->comm->size > 1 && watchdog_sequence() < first + N_BEATS; i++) {
        TRY(alive(alive_context));
        usleep(1000);
    }
    TRY(alive(alive_context));
    return fail_at(c, FIND);
}

static err_t save(void *context, void **bytes, int64_t *n_bytes)
{
    unsigned char *block;
    TRY(fail_at(context, SAVE));
    TRY(mem_new(N_BYTES, "bytes", &block));
    for (int i = 0; i < N_BYTES; i++) block[i] = (unsigned char)(i * 7 + (i >> 8));
    *bytes = block;
    *n_bytes = N_BYTES;
    return ERR_OK;
}

static err_t restore(void *context, void **bytes, int64_t n_bytes)
{
    context_t *c = context;
    /* With several ranks, the last one fails. */
    if (c->fails != RESTORE || c->comm->rank == c->comm->size - 1) TRY(fail_at(c, RESTORE));
    c->kept = *bytes;
    c->n_kept = n_bytes;
    *bytes = NULL;
    return ERR_OK;
}

static err_t share(context_t *c)
{
    static const char what[] = "sharing";
    const comm_finding_t finding = {what, c, find, save, restore};
    return comm_share(c->comm, &finding);
}

static void test_bytes(comm_t *comm)
{
    context_t c = {.comm = comm, .fails = NOTHING};
    long long first = watchdog_sequence();
    err_t err = share(&c);
    int n_first = comm->rank == 0, n_others = comm->size > 1;
    int64_t n_right = 0;
    for (int64_t i = 0; i < c.n_kept; i++) n_right += c.kept[i] == (unsigned char)(i * 7 + (i >> 8));
    OK_ALL(err == ERR_OK && n_right == (comm->rank == 0 ? 0 : N_BYTES), "the other ranks get the bytes");
    OK_ALL(c.n_calls[FIND] == n_first && c.n_calls[SAVE] == n_first * n_others &&
               c.n_calls[RESTORE] == !n_first,
           "only rank 0 finds, and saves if there are other ranks");
    OK_ALL(comm->size == 1 || watchdog_sequence() >= first + N_BEATS + 2,
           "the others were told that it was working");
    mem_free(&c.kept);
}

static void test_errors(comm_t *comm)
{
    for (step_t step = FIND; step <= RESTORE; step++) {
        context_t c = {.comm = comm, .fails = step};
        char words[32];
        snprintf(words, sizeof words, "step %d fails", (int)step);
        err_t err = share(&c);
        bool reached = comm->size > 1 || step == FIND;
        OK_ALL(reached ? err == ERR_DATA && SAYS(words) : err == ERR_OK,
               "an error of step %d reaches all ranks", (int)step);
        char name[32];
        snprintf(name, sizeof name, "rank %d on ", step == RESTORE ? comm->size - 1 : 0);
        OK_ALL(comm->size == 1 || SAYS(name), "and names the rank");
        mem_free(&c.kept);
    }
}

static void test_block(comm_t *comm)
{
    void *block = NULL;
    int64_t n_bytes = comm->rank == 0 ? 5 : -1;
    if (comm->rank == 0 && mem_new(5, "a block", &block) != ERR_OK) abort();
    if (block) memcpy(block, "word", 5);
    OK_ALL(comm_broadcast_block(comm, &block, &n_bytes, "a block") == ERR_OK && n_bytes == 5 &&
               strcmp(block, "word") == 0,
           "rank 0's block reaches all ranks");
    mem_free(&block);
}

int main(void)
{
    comm_t *comm = NULL;
    comm_options_t options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    err_t err = comm_open(&options, &comm);
    tap_quiet = !log_speaks();
    tap_plan(3 + 6 + 1 + 1);
    if (err != ERR_OK) return 1;
    test_bytes(comm);
    test_errors(comm);
    test_block(comm);
    comm_close(&comm);
    OK(mem_live() == 0, "all memory was freed");
    return tap_done();
}
