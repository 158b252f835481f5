/* SPDX-License-Identifier: MIT */
/* Gradients on GPUs: gathers which rank has which GPU, refuses or warns about bad combinations, and decides
 * between a library and host memory. The libraries have folders of their own. */
#include "cluster/comm/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/gradients.h"

static bool same_gpu(const comm_gpu_t *a, const comm_gpu_t *b)
{
    return strcmp(a->uuid, b->uuid) == 0 && strcmp(a->host, b->host) == 0;
}

err_t device_check_shared(const comm_gpu_t *gpus, int size, bool share_gpu, bool *shared)
{
    *shared = false;
    for (int b = 1; b < size; b++)
        for (int a = 0; a < b; a++) {
            if (!same_gpu(&gpus[a], &gpus[b])) continue;
            *shared = true;
            if (share_gpu) return ERR_OK;
            RAISE(ERR_USAGE,
                  "ranks %d and %d on %s both use the GPU %s (%s, PCI %s): start fewer ranks per host, give "
                  "each its own with --gpus, or let them share with --share-gpu (slower)",
                  gpus[a].rank, gpus[b].rank, gpus[b].host, gpus[b].uuid, gpus[b].name, gpus[b].pci);
        }
    return ERR_OK;
}

static void append(char *out, size_t n_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t n_bytes, const char *format, ...)
{
    size_t used = strlen(out);
    va_list args;
    va_start(args, format);
    vsnprintf(out + used, n_bytes - used, format, args);
    va_end(args);
}

bool device_describe_mix(const comm_gpu_t *gpus, int size, char *out, size_t n_bytes)
{
    int n_names = 0;
    out[0] = '\0';
    for (int r = 0; r < size; r++) {
        int n_ranks = 0;
        bool first = true;
        for (int i = 0; i < size; i++) {
            bool same = strcmp(gpus[i].name, gpus[r].name) == 0;
            n_ranks += same;
            if (same && i < r) first = false;
        }
        if (!first) continue;
        append(out, n_bytes, "%s%s (rank %d on %s", n_names ? ", " : "", gpus[r].name, gpus[r].rank,
               gpus[r].host);
        append(out, n_bytes, n_ranks > 1 ? ", %d ranks)" : ")", n_ranks);
        n_names++;
    }
    return n_names > 1;
}

bool device_wants(const char *name, const char *library, int size, bool shared)
{
    if (strcmp(name, library) == 0) return true;
    return strcmp(name, "auto") == 0 && size > 1 && !shared;
}

/* Collective. A library missing on one host is missing for all. */
static err_t open_library(comm_t *comm, const gradient_ops_t *library, const comm_device_t *device)
{
    err_t err = library->load(comm);
    if (err == ERR_OK) return library->open(comm, device);
    if (strcmp(comm->options.name, library->name) == 0) return err;
    comm->agreed = ERR_OK; /* the error is handled, not to be reported again */
    log_warn("gradients go through host memory and MPI, which is slower: %s", err_message());
    return ERR_OK;
}

/* Collective. Fills comm->gpus. */
static err_t gather_gpus(comm_t *comm, const comm_device_t *device)
{
    static const char what[] = "exchanging GPU identities";
    comm_gpu_t mine = {.rank = comm->rank}, *all = NULL;
    snprintf(mine.host, sizeof mine.host, "%s", comm->topo.host_name);
    snprintf(mine.uuid, sizeof mine.uuid, "%s", device->uuid);
    snprintf(mine.name, sizeof mine.name, "%s", device->name);
    snprintf(mine.pci, sizeof mine.pci, "%s", device->pci);
    TRY(comm_agree(comm, mem_new_array(comm->size, sizeof *all, "the GPUs of all ranks", &all), what));
    err_t err = comm_allgather(comm, &mine, sizeof mine, all, what);
    if (err == ERR_OK) {
        mem_free(&comm->gpus);
        comm->gpus = all;
    } else {
        mem_free(&all);
    }
    return err;
}

err_t comm_use_device(comm_t *comm, const comm_device_t *device)
{
    bool shared;
    char mix[ERR_MESSAGE_MAX];
    TRY(gather_gpus(comm, device));
    err_t err = device_check_shared(comm->gpus, comm->size, comm->options.share_gpu, &shared);
    /* The table, and so the result, is the same on all ranks: all of them know the error. */
    comm->agreed = err;
    TRY(err);
    if (device_describe_mix(comm->gpus, comm->size, mix, sizeof mix))
        log_warn("the GPUs differ, so the faster ones will wait for the slower ones: %s", mix);
    /* The first library for GPUs that --comm allows; NULL: none. */
    const gradient_ops_t *library = NULL;
    for (const comm_row_t *row = comm_rows; row->name && !library; row++)
        if (row->library && row->library->on_device &&
            device_wants(comm->options.name, row->name, comm->size, shared))
            library = row->library;
    if (library) TRY(open_library(comm, library, device));
    if (comm->options.wire_bf16 && comm->size > 1 && !comm->gradients->wire_bf16)
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "--wire bf16 is not available: gradients go through MPI, which carries fp32%s; use --wire fp32 "
            "or --comm nccl",
            shared ? " (ranks share a GPU)" : "");
    comm->agreed = err;
    return err;
}

bool comm_on_device(const comm_t *comm)
{
    return comm->gradients->on_device;
}

const comm_gpu_t *comm_gpus(const comm_t *comm)
{
    return comm->gpus;
}

void comm_describe_gradients(const comm_t *comm, char *out, size_t n_bytes)
{
    comm->gradients->describe(comm, out, n_bytes);
}

const char *comm_gradients_name(const comm_t *comm)
{
    return comm->gradients->name;
}
