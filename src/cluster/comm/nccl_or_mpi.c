/* SPDX-License-Identifier: MIT */
/* Gradients on GPUs: gathers which rank has which GPU, refuses or warns about bad combinations, and decides
 * between NCCL and MPI. NCCL itself is in nccl/. */
#include "cluster/comm/nccl_or_mpi.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

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

bool device_wants_nccl(const char *name, int size, bool shared)
{
    if (strcmp(name, "nccl") == 0) return true;
    return strcmp(name, "auto") == 0 && size > 1 && !shared;
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

/* Collective. A library missing on one host is missing for all. */
static err_t open_nccl(comm_t *comm, const comm_device_t *device)
{
    const nccl_ops_t *nccl = comm_nccl();
    if (!nccl) return ERR_OK;
    err_t err = comm_agree(comm, nccl->load(), "looking for NCCL");
    if (err == ERR_OK) return nccl->open(comm, device);
    if (strcmp(comm->options.name, "nccl") == 0) return err;
    comm->agreed = ERR_OK; /* the error is handled, not to be reported again */
    log_warn("gradients go through host memory and MPI, which is slower: %s", err_message());
    return ERR_OK;
}

void comm_nccl_version(char *out, size_t n_bytes)
{
    const nccl_ops_t *nccl = comm_nccl();
    out[0] = '\0';
    if (nccl && nccl->load() == ERR_OK) nccl->version(out, n_bytes);
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
    if (device_wants_nccl(comm->options.name, comm->size, shared)) TRY(open_nccl(comm, device));
    if (comm->options.wire_bf16 && comm->size > 1 && !comm->nccl)
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
    return comm->nccl != NULL;
}

const comm_gpu_t *comm_gpus(const comm_t *comm)
{
    return comm->gpus;
}

void comm_describe_gradients(const comm_t *comm, char *out, size_t n_bytes)
{
    if (comm->nccl)
        comm->nccl->ops->describe(comm->nccl, out, n_bytes);
    else if (comm->size == 1)
        snprintf(out, n_bytes, "none (one rank)");
    else
        snprintf(out, n_bytes, "MPI %s host memory", comm->gpus ? "through pinned" : "in");
}
