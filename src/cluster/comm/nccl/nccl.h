/* SPDX-License-Identifier: MIT */
/* Shared by the files of the NCCL communicator. Private to src/cluster/comm/nccl; compiled only with CUDA. */
#ifndef CLUSTER_COMM_NCCL_NCCL_H
#define CLUSTER_COMM_NCCL_NCCL_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cluster/comm/collective.h"
#include "cluster/comm/nccl_or_mpi.h"

/* NCCL's functions, without the prefix. The second list was added in 2.19. */
#define NCCL_FUNCTIONS(X)                                                                                    \
    X(GetVersion)                                                                                            \
    X(GetUniqueId)                                                                                           \
    X(CommInitRankConfig)                                                                                    \
    X(CommFinalize)                                                                                          \
    X(CommDestroy)                                                                                           \
    X(CommAbort)                                                                                             \
    X(CommGetAsyncError)                                                                                     \
    X(GetErrorString)                                                                                        \
    X(GetLastError)                                                                                          \
    X(AllReduce)                                                                                             \
    X(AllGather)                                                                                             \
    X(ReduceScatter)                                                                                         \
    X(Broadcast)                                                                                             \
    X(Reduce)                                                                                                \
    X(Send)                                                                                                  \
    X(Recv)                                                                                                  \
    X(GroupStart)                                                                                            \
    X(GroupEnd)
#define NCCL_REGISTER_FUNCTIONS(X)                                                                           \
    X(CommRegister)                                                                                          \
    X(CommDeregister)                                                                                        \
    X(MemAlloc)                                                                                              \
    X(MemFree)

typedef struct nccl_table {
#define NCCL_MEMBER(name) __typeof__(&nccl##name) name;
    NCCL_FUNCTIONS(NCCL_MEMBER)
    NCCL_REGISTER_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
    bool can_register;
} nccl_table_t;

/* lib.c; set by nccl_load. */
extern nccl_table_t nccl_lib;
err_t nccl_load(void);
void nccl_version(char *out, size_t n_bytes);

/* Return ERR_SYSTEM (ERR_PEER or ERR_USAGE, if that fits) with the library's message and advice, unless the
 * call succeeds. Not for ncclInProgress. */
#define E_NCCL(call, what)   TRY(nccl_check((call), (what), __FILE__, __LINE__))
#define E_CUDART(call, what) TRY(nccl_cuda_check((call), (what), __FILE__, __LINE__))
err_t nccl_check(ncclResult_t status, const char *what, const char *file, int line);
err_t nccl_cuda_check(cudaError_t status, const char *what, const char *file, int line);
/* NCCL's last error message on this rank; never empty. */
const char *nccl_last_words(ncclResult_t status);

/* The thread that watches a communicator, see watch.c. */
typedef struct nccl_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* under lock */
    bool running;
} nccl_watch_t;

typedef struct nccl_impl {
    nccl_t base;
    comm_t *comm;
    comm_device_t device;
    /* NCCL calls on one communicator must not overlap, ncclCommGetAsyncError included. Held briefly. After an
     * abort the communicator is gone. */
    pthread_mutex_t lock;
    ncclComm_t handle;
    ncclComm_t direct; /* for single calls, see collective.c; NULL: not opened */
    bool aborted;      /* under lock */
    bool is_part;      /* made by comm_subset: the watchdog counts the parent's calls */
    cudaStream_t stream;
    cudaEvent_t begun, done; /* for streams to wait on */
    cudaEvent_t watched;     /* recorded after the last piece, also each time a recorded step runs */
    bool has_begun;          /* pieces were begun and not finished */
    atomic_llong n_finished;
    _Atomic(const char *) doing; /* purpose of the last call, for messages */
    atomic_bool is_recorded;     /* the last call was recorded, and may run any number of times */
    bool registered;             /* the last buffer is registered; for the description */
    nccl_watch_t watch;
} nccl_impl_t;

/* Waits until the work given to NCCL is on the stream, up to the options' timeout. Returns the library's
 * failure, or ERR_PEER. */
err_t nccl_settle(nccl_impl_t *impl, ncclResult_t status, const char *what);
/* Takes the lock for an NCCL call; ERR_PEER if the communicator was aborted. */
err_t nccl_lock(nccl_impl_t *impl);
void nccl_unlock(nccl_impl_t *impl);
/* Frees the communicator without its peers, within a few seconds. */
void nccl_abort(nccl_impl_t *impl);

/* buffer.c */
err_t nccl_buffer_new(comm_t *comm, size_t n_bytes, comm_buffer_t *out);
err_t nccl_buffer_begin(nccl_t *nccl, comm_buffer_t *buffer, int64_t offset, int64_t count);
err_t nccl_buffer_finish(nccl_t *nccl, comm_buffer_t *buffer);
void nccl_buffer_free(nccl_t *nccl, comm_buffer_t *buffer);

/* collective.c; functions of nccl_ops_t */
err_t nccl_direct_open(nccl_t *nccl);
err_t nccl_direct_run(nccl_t *nccl, const collective_spec_t *spec);
err_t nccl_direct_wait(nccl_t *nccl, const char *what);

/* watch.c. nccl_watch_stop may be called without a start. */
err_t nccl_watch_start(nccl_impl_t *impl);
void nccl_watch_stop(nccl_impl_t *impl);

#endif
