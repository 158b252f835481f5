/* GPUs of a job: which rank has which, and who sums the gradients on them. What comm.h does not need. */
#ifndef CLUSTER_COMM_DEVICE_H
#define CLUSTER_COMM_DEVICE_H

#include "cluster/comm/comm.h"

/* The GPU of this rank, for comm_use_device. */
typedef struct comm_device {
    int index;        /* cudaSetDevice's */
    const char *uuid; /* the same for two ranks that share a GPU */
    const char *name, *pci;
    void *stream; /* cudaStream_t: gradients are made and used in its order */
    /* To bfloat16 and back on a stream, see backend_t; for gradients that travel so. */
    err_t (*narrow)(const float *from, uint16_t *to, int64_t n, void *stream);
    err_t (*widen)(const uint16_t *from, float *to, int64_t n, void *stream);
} comm_device_t;

/* Collective, after comm_open and before any buffer, by ranks that compute on GPUs, all of them. Two ranks on
 * one GPU are ERR_USAGE unless the options' share_gpu says so; GPUs that differ are warned of. Gradient
 * buffers then lie on the GPUs and are summed by NCCL, where the options choose it: `nccl`, or `auto` when no
 * GPU is shared. Otherwise everything stays as it was, and who uses a buffer copies it to host memory and
 * back. ERR_USAGE for wire_bf16 where MPI sums. ERR_PEER naming the hosts that did not arrive when NCCL does
 * not come up in time. */
err_t comm_use_device(comm_t *comm, const comm_device_t *device);

/* Whether buffers to come lie on the GPUs. */
bool comm_on_device(const comm_t *comm);

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
 * chosen it tells its first rank alone, and only where its log is free for us (cluster/comm/debug_log.h):
 * else less is said. */
void comm_describe_gradients(const comm_t *comm, char *out, size_t n_bytes);

/* Not collective. "2.28.9" of the NCCL that would be used; "" where there is none, or no CUDA in this build.
 */
void comm_nccl_version(char *out, size_t n_bytes);

/* Decisions over the gathered table, without a device; the same on all ranks. */

/* ERR_USAGE naming two ranks of one host that have the same GPU, unless share_gpu; *shared: some have. */
err_t device_check_shared(const comm_gpu_t *gpus, int size, bool share_gpu, bool *shared);

/* Whether GPUs differ by name; if so, who has which, with the lowest rank of each name: "NVIDIA H200 (rank 0
 * on node-a, 8 ranks), NVIDIA A100 (rank 8 on node-b, 8 ranks)". */
bool device_describe_mix(const comm_gpu_t *gpus, int size, char *out, size_t n_bytes);

/* Whether NCCL sums, under --comm `name`. */
bool device_wants_nccl(const char *name, int size, bool shared);

/* What sums gradients on GPUs. For the files of src/cluster/comm alone. */
typedef struct nccl {
    const struct nccl_ops *ops;
} nccl_t;

struct collective_spec;

typedef struct nccl_ops {
    /* Finds NCCL's library. ERR_SYSTEM saying what to do. Not collective; repeating is fine. */
    err_t (*load)(void);
    void (*version)(char *out, size_t n_bytes); /* "2.28.9", after load */
    /* Collective. Makes comm->nccl. ERR_PEER naming the ranks that did not come in time. */
    err_t (*open)(comm_t *comm, const comm_device_t *device);
    err_t (*buffer_new)(comm_t *comm, size_t n_bytes, comm_buffer_t *out); /* Collective */
    err_t (*buffer_begin)(nccl_t *nccl, comm_buffer_t *buffer, int64_t offset, int64_t count); /* count > 0 */
    err_t (*buffer_finish)(nccl_t *nccl, comm_buffer_t *buffer);
    void (*buffer_free)(nccl_t *nccl, comm_buffer_t *buffer);
    err_t (*subset)(nccl_t *nccl, comm_t *part); /* Collective over part; makes part->nccl */
    /* Single calls on device buffers (collective.h): made ready, Collective, once; one given to NCCL; all
     * waited for. */
    err_t (*direct_open)(nccl_t *nccl);
    err_t (*direct_run)(nccl_t *nccl, const struct collective_spec *spec);
    err_t (*direct_wait)(nccl_t *nccl, const char *what);
    void (*describe)(nccl_t *nccl, char *out, size_t n_bytes);
    void (*describe_way)(nccl_t *nccl, char *out, size_t n_bytes); /* "NCCL 2.28.9, P2P/CUMEM" */
    void (*close)(nccl_t *nccl);                                   /* Collective */
} nccl_ops_t;

/* NULL: this build has none. */
const nccl_ops_t *comm_nccl(void);

#endif
