/* SPDX-License-Identifier: MIT */
/* Shared by the files of the NCCL communicator. Private to src/cluster/comm/nccl; compiled only with CUDA. */
#ifndef CLUSTER_COMM_NCCL_NCCL_H
#define CLUSTER_COMM_NCCL_NCCL_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "cluster/comm/collective.h"
#include "cluster/comm/device.h"
#include "cluster/comm/gradients.h"

/* NCCL's functions, without the prefix. Those of the second list exist from 2.19 on. */
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
    void (*reset_debug)(void); /* ncclResetDebugInit, deprecated; NULL: this version has none */
} nccl_table_t;

/* nccl_load sets nccl_lib; nccl_version loads it, too. */
extern nccl_table_t nccl_lib;
err_t nccl_load(void);
void nccl_version(char *out, size_t n_bytes);

/* Unless the call succeeds: return ERR_SYSTEM, or the more specific ERR_PEER or ERR_USAGE, with the library's
 * message and advice. ncclInProgress counts as a failure. */
#define E_NCCL(call, what)   TRY(nccl_check((call), (what), __FILE__, __LINE__))
#define E_CUDART(call, what) TRY(nccl_cuda_check((call), (what), __FILE__, __LINE__))
err_t nccl_check(ncclResult_t status, const char *what, const char *file, int line);
err_t nccl_cuda_check(cudaError_t status, const char *what, const char *file, int line);

/* The thread that watches a communicator. */
typedef struct nccl_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop; /* under lock */
    bool running;
} nccl_watch_t;

/* A communicator's `library`. */
typedef struct nccl_impl {
    comm_t *comm;
    comm_device_t device;
    /* Held briefly: NCCL calls on a non-blocking communicator, including ncclCommGetAsyncError, must not overlap. */
    pthread_mutex_t lock;
    ncclComm_t handle;
    /* For single calls (collective.c), blocking; NULL: not opened. It is set under lock, but called without it: a call
     * may wait for a peer, and the watcher must go on. */
    ncclComm_t direct;
    bool broken;  /* under lock: NCCL failed, or handle and direct are freed; no more calls */
    bool is_part; /* made by comm_subset: the watchdog counts the parent's calls */
    cudaStream_t stream;
    cudaEvent_t begun, done;        /* for streams to wait on */
    cudaEvent_t watched;            /* recorded after the last piece, also each time a recorded step runs */
    bool has_begun;                 /* pieces were begun but not finished */
    _Atomic(const char *) exchange; /* of gradients, for messages: what a step waits for */
    atomic_llong n_finished;
    _Atomic(const char *) doing; /* purpose of the last call, for messages */
    atomic_bool is_recorded;     /* the last call was recorded and may run any number of times */
    bool registered;             /* the last buffer is registered; for nccl_describe */
    nccl_watch_t watch;
} nccl_impl_t;

/* Waits until the work given to NCCL is on the stream, up to the options' timeout. Returns the library's
 * error, or ERR_PEER after the timeout. */
err_t nccl_settle(nccl_impl_t *impl, ncclResult_t status, const char *what);
/* *done: false if `sec` were not enough. */
err_t nccl_settle_within(nccl_impl_t *impl, ncclResult_t status, const char *what, double sec, bool *done);
/* Calls a function that frees the communicator. False if it does not return in time: its thread is then abandoned. */
typedef ncclResult_t (*nccl_end_t)(ncclComm_t);
bool nccl_end_within(nccl_end_t call, ncclComm_t handle, double sec);
/* Limit for calls that need no peer, or none with work left. */
extern const double nccl_end_sec;
/* Locks the communicator for an NCCL call; ERR_PEER if it is broken. */
err_t nccl_lock(nccl_impl_t *impl);
void nccl_unlock(nccl_impl_t *impl);
/* Whether it is broken, as far as NCCL knows now. Any thread. */
bool nccl_find_broken(nccl_impl_t *impl, ncclResult_t *why);
/* Frees the communicator without waiting for its peers, within a few seconds. Not while recorded steps exist:
 * ncclCommAbort waits for them to be released, and meanwhile they run without waiting for their peers. */
void nccl_abort(nccl_impl_t *impl);

/* nccl_watch_stop may be called without a start. */
err_t nccl_watch_start(nccl_impl_t *impl);
void nccl_watch_stop(nccl_impl_t *impl);

/* Version and transport: "NCCL 2.28.9, P2P/CUMEM". */
void nccl_describe_way(const comm_t *comm, char *out, size_t n_bytes);

/* collective.c */
extern const collective_ops_t collective_nccl;
/* gradients.c */
extern const gradient_ops_t gradients_nccl;

#endif
