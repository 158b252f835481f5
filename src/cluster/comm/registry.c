/* SPDX-License-Identifier: MIT */
/* The communicators by name: opening, subsetting and closing one. The calls on an open communicator are in
 * comm.c. */
#include <string.h>

#include "base/deadline.h"
#include "base/launch.h"
#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "cluster/comm/nccl_or_mpi.h"
#include "cluster/comm/watchdog.h"

/* Defined in self.c, mpi/mpi.c and nccl/nccl.c. */
extern const comm_ops_t comm_self, comm_mpi;
#ifdef DPTRAIN_CUDA
extern const nccl_ops_t comm_nccl_ops;
#endif

const char *const comm_names[] = {"auto", "self", "mpi", "nccl", NULL};
const char *const comm_allreduce_names[] = {"auto", "host", "mpi", NULL};

static const struct {
    const char *name;
    const comm_ops_t *ops;
} table[] = {{"self", &comm_self}, {"mpi", &comm_mpi}, {"nccl", &comm_mpi}};

const nccl_ops_t *comm_nccl(void)
{
#ifdef DPTRAIN_CUDA
    return &comm_nccl_ops;
#else
    return NULL;
#endif
}

static err_t open_by_name(const comm_options_t *options, comm_t *comm)
{
    const char *name = options->name;
    if (strcmp(name, "auto") == 0) name = launch_present() ? "mpi" : "self";
    if (strcmp(name, "nccl") == 0 && !comm_nccl())
        RAISE(ERR_USAGE,
              "--comm nccl is not available: this build has no CUDA backend (make CUDA=1); use --comm mpi");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(name, table[i].name) == 0) return table[i].ops->open(options, comm);
    RAISE(ERR_USAGE, "invalid --comm '%s': expected auto, self, mpi or nccl", name);
}

err_t comm_open(const comm_options_t *options, comm_t **out)
{
    comm_t *comm = NULL;
    TRY(mem_new(sizeof *comm, "the communicator", &comm));
    comm->options = *options;
    deadline_set(options->timeout_sec);
    deadline_enter(DEADLINE_INIT, "");
    err_t err = open_by_name(options, comm);
    if (err == ERR_OK) {
        deadline_enter(DEADLINE_RUN, "");
        *out = comm;
    } else {
        mem_free(&comm);
    }
    return err;
}

void comm_close(comm_t **comm)
{
    if (!*comm) return;
    if ((*comm)->nccl) (*comm)->nccl->ops->close((*comm)->nccl);
    mem_free(&(*comm)->gpus);
    (*comm)->ops->close(*comm);
    mem_free(comm);
}

/* Collective over the subset. */
static err_t give_part_devices(const comm_t *comm, int n, comm_t *part)
{
    part->options = comm->options;
    TRY(mem_new_array(n, sizeof *part->gpus, "the GPUs of some ranks", &part->gpus));
    memcpy(part->gpus, comm->gpus, (size_t)n * sizeof *part->gpus);
    return comm->nccl->ops->subset(comm->nccl, part);
}

err_t comm_subset(comm_t *comm, int n, comm_t **out)
{
    static const char what[] = "creating a communicator of some ranks";
    ASSERT(n > 0 && n <= comm->size);
    *out = NULL;
    if (n == 1) return comm_agree(comm, comm->rank == 0 ? comm_alone(out) : ERR_OK, what);
    TRY(comm_agree(comm, comm->rank < n ? mem_new(sizeof **out, "a communicator", out) : ERR_OK, what));
    watchdog_enter(what);
    err_t err = watchdog_leave_with(comm->ops->subset(comm, n, *out), what);
    if (err != ERR_OK) mem_free(out);
    if (err != ERR_OK || !comm->nccl) return err;
    err = comm_agree(comm, *out ? give_part_devices(comm, n, *out) : ERR_OK, what);
    if (err != ERR_OK) comm_close(out);
    return err;
}
