/* SPDX-License-Identifier: MIT */
/* Start and end of a collective command: communicator, backend, threads. */
#ifndef CLUSTER_SESSION_RUNTIME_H
#define CLUSTER_SESSION_RUNTIME_H

#include "cluster/comm/comm.h"
#include "compute/ops/backend.h"
#include "text/json.h"
#include "text/opt.h"

typedef struct runtime_options {
    const char *device, *comm, *allreduce, *gpus, *wire, *cuda_graph, *slowdown;
    int64_t threads, ranks_per_host, workspace, bucket;
    double timeout_sec, stall_sec;
    bool share_gpu, nccl_register;
} runtime_options_t;

/* Two groups of one struct: the second has what concerns GPUs alone. */
extern const opt_t runtime_option_table[], gpu_option_table[];
extern const int n_runtime_options, n_gpu_options;

/* Injected slowdown, to prove that a slowdown is detected and attributed to the right phase: the hidden option
 * --burn PHASE:SHARE[@RANK] of train and bench. Work on a GPU is not slowed down. Zeroed: no slowdown. */
typedef struct slowdown {
    /* data, forward, backward, allreduce, optimizer; of bench, the name of the case; NULL: none */
    const char *phase;
    double share; /* relative to the time without it */
    int rank;     /* of @RANK; -1: all */
} slowdown_t;

typedef struct runtime {
    comm_t *comm;
    const backend_t *backend;
    int n_threads;
    int n_cpus;                /* this rank's share of the CPUs its host allows */
    int n_allowed_cpus;        /* CPUs that this rank may use; ≥ n_cpus */
    int n_host_cpus;           /* CPUs that the ranks of this host may use */
    char device[96];           /* description of the backend */
    char why[BACKEND_WHY_MAX]; /* why --device auto did not choose a better one; "" */
    slowdown_t slowdown;
} runtime_t;

/* Collective. Opens only the communicator, for commands that need or diagnose no backend. runtime_close
 * accepts the result.
 *
 *   abort_job  ends the whole job, from any thread */
err_t runtime_open_comm(const runtime_options_t *options, void (*abort_job)(err_t code), runtime_t *out);

/* Collective. Passes an open backend's GPU to the communicator: see comm_use_device. Does nothing for host
 * backends. */
err_t runtime_use_device(comm_t *comm, const backend_t *backend);

/* Collective. Adds the backend to it. */
err_t runtime_open_backend(const runtime_options_t *options, runtime_t *runtime);

/* Collective. Opens communicator and backend. runtime_close accepts the result, also after an error. */
err_t runtime_open(const runtime_options_t *options, void (*abort_job)(err_t code), runtime_t *out);

/* Not collective. Opens a host backend again with another number of threads. Nothing may be planned on it. */
err_t runtime_set_threads(runtime_t *runtime, int n_threads);

/* Whether the backend computes with threads of the host. */
bool runtime_has_threads(const runtime_t *runtime);

/* Not collective. Adds backend and library versions as fields of the JSON object that the caller has
 * begun. */
void runtime_record_software(const runtime_t *runtime, json_t *j);

/* Not collective. Returns if err is ERR_OK or known to all ranks (comm_agree). An error of this rank alone is
 * printed and ends the job through abort_job: after it, nothing may wait for other ranks. */
void runtime_abort_alone(const runtime_t *runtime, err_t err);

/* Collective; first applies runtime_abort_alone. Rank 0 prints an error's message; everything is closed in
 * order. Returns err. */
err_t runtime_close(runtime_t *runtime, err_t err);

/* If `phase` is the chosen one, spins for its share of whole_sec. Returns the time spent. */
double slowdown_now(const slowdown_t *slowdown, const char *phase, double whole_sec);

#endif
