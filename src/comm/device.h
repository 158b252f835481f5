/* GPUs of a job: which rank has which, and who sums the gradients on them. What comm.h does not need. */
#ifndef COMM_DEVICE_H
#define COMM_DEVICE_H

#include "comm/comm.h"

/* The GPU of a rank, as every rank knows it. */
typedef struct comm_gpu {
    int rank;
    char host[TOPO_HOST_MAX];
    char uuid[48], name[64], pci[24];
} comm_gpu_t;

/* Not collective. [size] in rank order; NULL without GPUs. The communicator's own. */
const comm_gpu_t *comm_gpus(const comm_t *comm);

/* Not collective; who sums gradients and by which way, for the header and the run record: "NCCL 2.28.9,
 * P2P/CUMEM, RING/LL, registered", "MPI through pinned host memory", "nobody (one rank)". What NCCL has
 * chosen it tells its first rank alone, and only where its log is free for us (comm/debug_log.h): else less
 * is said. */
void comm_describe_gradients(const comm_t *comm, char *out, size_t n_bytes);

/* Not collective. "2.28.9" of the NCCL that would be used; "" where there is none, or no CUDA in this build. */
void comm_nccl_version(char *out, size_t n_bytes);

/* Decisions over the gathered table, without a device; the same on all ranks. */

/* ERR_USAGE naming two ranks of one host that have the same GPU, unless share_gpu; *shared: some have. */
err_t device_check_shared(const comm_gpu_t *gpus, int size, bool share_gpu, bool *shared);

/* Whether GPUs differ by name; if so, who has which, with the lowest rank of each name: "NVIDIA H200 (rank 0
 * on node-a, 8 ranks), NVIDIA A100 (rank 8 on node-b, 8 ranks)". */
bool device_describe_mix(const comm_gpu_t *gpus, int size, char *out, size_t n_bytes);

/* Whether NCCL sums, under --comm `name`. */
bool device_wants_nccl(const char *name, int size, bool shared);

#endif
