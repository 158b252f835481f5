/* SPDX-License-Identifier: MIT */
/* The communicators by name: what each is and offers; opening, subsetting and closing one. The calls on an open
 * communicator are in comm.c. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/process.h"
#include "cluster/comm/collective.h"
#include "cluster/comm/comm.h"
#include "cluster/comm/device.h"
#include "cluster/comm/gradients.h"
#include "cluster/watch/deadline.h"
#include "cluster/watch/watchdog.h"

extern const comm_ops_t comm_self, comm_mpi;
extern const gradient_ops_t gradients_nccl;
#ifdef DPTRAIN_CUDA
#define WITH_CUDA(library) &(library)
#else
#define WITH_CUDA(library) NULL
#endif

/* See comm_row_t: X(name, ops, library, needs). */
#define ROWS(X)                                                                                              \
    X("self", comm_self, NULL, NULL)                                                                         \
    X("mpi", comm_mpi, NULL, NULL)                                                                           \
    X("nccl", comm_mpi, WITH_CUDA(gradients_nccl), "GPUs and NCCL: --device cuda --comm nccl")

#define NAME(name, ...)                name,
#define ROW(name, ops, library, needs) {name, &(ops), library, needs},
const char *const comm_names[] = {"auto", ROWS(NAME) NULL};
const comm_row_t comm_rows[] = {ROWS(ROW){NULL, NULL, NULL, NULL}};
#undef NAME
#undef ROW

const char *const comm_allreduce_names[] = {"auto", "host", "mpi", NULL};

/* The row without a name: none. */
static const comm_row_t *row_of(const char *name)
{
    const comm_row_t *row = comm_rows;
    while (row->name && strcmp(row->name, name) != 0) row++;
    return row;
}

static err_t raise_unknown(const char *name)
{
    char list[256] = "auto";
    for (const comm_row_t *row = comm_rows; row->name; row++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", row[1].name ? ", " : " or ", row->name);
    }
    RAISE(ERR_USAGE, "invalid --comm '%s': expected %s", name, list);
}

static err_t find_row(const char *name, const comm_row_t **out)
{
    if (strcmp(name, "auto") == 0) name = launch_present() ? "mpi" : "self";
    const comm_row_t *row = row_of(name);
    if (!row->name) return raise_unknown(name);
    if (row->needs && !row->library)
        RAISE(ERR_USAGE,
              "--comm %s is not available: this build has no CUDA backend (make CUDA=1); use --comm mpi",
              name);
    *out = row;
    return ERR_OK;
}

err_t comm_open(const comm_options_t *options, comm_t **out)
{
    const comm_row_t *row = NULL;
    comm_t *comm = NULL;
    const launch_t launch = launch_read();
    TRY(mem_new(sizeof *comm, "the communicator", &comm));
    comm->options = *options;
    deadline_set(options->timeout_sec);
    deadline_enter(DEADLINE_INIT, "");
    err_t err = find_row(options->name, &row);
    if (err == ERR_OK && !launch_present()) {
        char library[128];
        comm_mpi.describe(library, sizeof library);
        err = comm_check_launch(&launch, 1, library);
    }
    if (err == ERR_OK) {
        comm->ops = row->ops;
        err = row->ops->open(options, comm);
    }
    if (err != ERR_OK) {
        mem_free(&comm);
        return err;
    }
    deadline_enter(DEADLINE_RUN, "");
    *out = comm;
    comm->gradients = comm->ops->gradients;
    /* A library for GPUs is opened by comm_use_device. */
    if (!row->library || row->library->on_device) return ERR_OK;
    TRY(row->library->load(comm));
    return row->library->open(comm, NULL);
}

static bool has_library(const comm_t *comm)
{
    return comm->gradients != comm->ops->gradients;
}

void comm_close(comm_t **comm)
{
    if (!*comm) return;
    if (has_library(*comm)) (*comm)->gradients->close(*comm);
    mem_free(&(*comm)->gpus);
    (*comm)->ops->close(*comm);
    mem_free(&(*comm)->places);
    mem_free(comm);
}

/* Collective over the part. */
static err_t give_part_library(comm_t *comm, int n, comm_t *part)
{
    part->options = comm->options;
    if (comm->gpus) {
        TRY(mem_new_array(n, sizeof *part->gpus, "the GPUs of some ranks", &part->gpus));
        memcpy(part->gpus, comm->gpus, (size_t)n * sizeof *part->gpus);
    }
    return comm->gradients->subset(comm, part);
}

err_t comm_subset(comm_t *comm, int n, comm_t **out)
{
    static const char what[] = "creating a communicator of some ranks";
    ASSERT(n > 0 && n <= comm->size);
    *out = NULL;
    if (n == 1) return comm_agree(comm, comm->rank == 0 ? comm_alone(out) : ERR_OK, what);
    TRY(comm_agree(comm, comm->rank < n ? mem_new(sizeof **out, "a communicator", out) : ERR_OK, what));
    if (*out) (*out)->ops = comm->ops;
    watchdog_enter(what);
    err_t err = watchdog_leave_with(comm->ops->subset(comm, n, *out), what);
    if (err == ERR_OK && *out) (*out)->gradients = (*out)->ops->gradients;
    if (err != ERR_OK) mem_free(out);
    if (err != ERR_OK || !has_library(comm)) return err;
    err = comm_agree(comm, *out ? give_part_library(comm, n, *out) : ERR_OK, what);
    if (err != ERR_OK) comm_close(out);
    return err;
}

/* ---- What names stand for ---- */
void comm_library_version(const char *name, char *out, size_t n_bytes)
{
    const comm_row_t *row = row_of(name);
    out[0] = '\0';
    if (row->library) row->library->version(out, n_bytes);
}

bool comm_needs_device(const char *name)
{
    const comm_row_t *row = row_of(name);
    return row->library && row->library->on_device;
}

/* What a row adds to the rows above it; NULL: not in this build. */
static const gradient_ops_t *gradients_of(const comm_row_t *row)
{
    return row->needs ? row->library : row->ops->gradients;
}

int collective_names(const char *out[COLLECTIVE_MAX_OPS])
{
    int n = 0;
    for (const comm_row_t *row = comm_rows; row->name; row++) {
        const gradient_ops_t *gradients = gradients_of(row);
        const collective_ops_t *const *single = gradients ? gradients->singles : NULL;
        for (; single && *single; single++) {
            ASSERT(n < COLLECTIVE_MAX_OPS);
            out[n++] = (*single)->name;
        }
        if (!gradients) out[n++] = row->name;
    }
    return n;
}

const collective_ops_t *collective_find(const char *name)
{
    for (const comm_row_t *row = comm_rows; row->name; row++) {
        const gradient_ops_t *gradients = gradients_of(row);
        const collective_ops_t *const *single = gradients ? gradients->singles : NULL;
        for (; single && *single; single++)
            if (strcmp((*single)->name, name) == 0) return *single;
    }
    return NULL;
}

const char *collective_needs(const char *name)
{
    for (const comm_row_t *row = comm_rows; row->name; row++)
        if (strcmp(row->name, name) == 0 && row->needs) return row->needs;
    return "--comm mpi";
}
