/* SPDX-License-Identifier: MIT */
/* The GPUs of a job, and the choice of what sums gradients on them: a library such as NCCL, or MPI through
 * host memory. */
#ifndef CLUSTER_COMM_DEVICE_H
#define CLUSTER_COMM_DEVICE_H

#include "cluster/comm/comm.h"

/* The GPU of this rank, for comm_use_device. */
typedef struct comm_device {
    int index;        /* for cudaSetDevice */
    const char *uuid; /* equal for two ranks that share a GPU */
    const char *name, *pci;
    void *stream; /* cudaStream_t: gradients are written and read in its order */
    /* Conversion to bfloat16 and back on a stream, see backend_t; for --wire bf16. */
    err_t (*narrow)(const float *from, uint16_t *to, int64_t n, void *stream);
    err_t (*widen)(const uint16_t *from, float *to, int64_t n, void *stream);
} comm_device_t;

/* Collective, for jobs that compute on GPUs: after comm_open and before any buffer is created. If the options
 * choose a library for GPUs (`nccl`, or `auto` when no GPU is shared), gradient buffers are then in GPU
 * memory and the library sums them. Otherwise nothing changes, and users of a buffer copy it to host memory
 * and back. Warns of different GPU models.
 *
 *   ERR_USAGE  two ranks use one GPU, without options.share_gpu; or wire_bf16, although MPI sums
 *   ERR_PEER   the library did not come up in time; names the ranks or hosts that did not arrive */
err_t comm_use_device(comm_t *comm, const comm_device_t *device);

/* Whether new buffers are in GPU memory. */
bool comm_on_device(const comm_t *comm);

/* The GPU of a rank, known to all ranks. */
typedef struct comm_gpu {
    int rank;
    char host[TOPO_HOST_MAX];
    char uuid[48], name[64], pci[24];
} comm_gpu_t;

/* Not collective. [size] in rank order; NULL without GPUs. Owned by the communicator. */
const comm_gpu_t *comm_gpus(const comm_t *comm);

/* Not collective. How gradients are summed, for the header and the run record:
 *
 *   NCCL 2.28.9, P2P/CUMEM, RING/LL, registered
 *   MPI through pinned host memory
 *   none (one rank)
 *
 * NCCL's choices are known on its first rank only, and only if its log is not the user's
 * (cluster/comm/nccl_report.h); otherwise they are left out. */
void comm_describe_gradients(const comm_t *comm, char *out, size_t n_bytes);
/* Not collective. What sums gradients, as for --comm: "mpi", "nccl". */
const char *comm_gradients_name(const comm_t *comm);

/* Not collective. Version of the library of a name for --comm that would be used, such as "2.28.9" of nccl;
 * "" if it is not in this build or cannot be loaded. */
void comm_library_version(const char *name, char *out, size_t n_bytes);

/* Not collective. Whether a name for --comm stands for a library that sums gradients on GPUs only. */
bool comm_needs_device(const char *name);

/* The following decide by the gathered table, without a device; the result is the same on all ranks. */

/* *shared: whether two ranks of a host use the same GPU. If so, and share_gpu is false: ERR_USAGE naming
 * them. */
err_t device_check_shared(const comm_gpu_t *gpus, int size, bool share_gpu, bool *shared);

/* Whether GPUs differ by name; if so, `out` lists them with the lowest rank of each name: "NVIDIA H200 (rank
 * 0 on node-a, 8 ranks), NVIDIA A100 (rank 8 on node-b, 8 ranks)". */
bool device_describe_mix(const comm_gpu_t *gpus, int size, char *out, size_t n_bytes);

/* Whether a library for GPUs sums gradients, with --comm `name`.
 *
 *   library  its own name for --comm */
bool device_wants(const char *name, const char *library, int size, bool shared);

#endif
