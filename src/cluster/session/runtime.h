/* What every collective command starts with: communicator, backend, threads. */
#ifndef CLUSTER_SESSION_RUNTIME_H
#define CLUSTER_SESSION_RUNTIME_H

#include "base/json.h"
#include "base/opt.h"
#include "cluster/comm/comm.h"
#include "cluster/session/burn.h"
#include "compute/ops/backend.h"

typedef struct runtime_options {
    const char *device, *comm, *allreduce, *gpus, *wire, *cuda_graph, *burn;
    int64_t threads, ranks_per_host, workspace, bucket;
    double timeout_sec;
    bool share_gpu, nccl_register;
} runtime_options_t;

extern const opt_t runtime_option_table[];
extern const int n_runtime_options;

typedef struct runtime {
    comm_t *comm;
    const backend_t *backend;
    int n_threads;
    int n_cpus;                /* this rank's share of those that its host allows */
    char device[96];           /* what the backend says of itself */
    char why[BACKEND_WHY_MAX]; /* why --device auto has no better one; "" */
    burn_t burn;
} runtime_t;

/* Collective. The communicator alone: all of out but the backend and what is said of it. For who reports what
 * is wrong with the rest; runtime_close takes it as it is. */
err_t runtime_open_comm(const runtime_options_t *options, void (*abort_job)(err_t code), runtime_t *out);

/* Collective. Tells the communicator of an open backend's GPU: see comm_use_device. On the host there is
 * nothing to tell. */
err_t runtime_use_device(comm_t *comm, const backend_t *backend);

/* Collective. */
err_t runtime_open(const runtime_options_t *options, void (*abort_job)(err_t code), runtime_t *out);

/* Collective. options->threads threads from now on (0: as it is), before anything is planned: for options
 * that were not known at the start. */
err_t runtime_threads(const runtime_options_t *options, runtime_t *runtime);

/* What computes and with which versions, as fields of the object that the caller has begun. Not collective.
 */
void runtime_record_software(const runtime_t *runtime, json_t *j);

/* Returns when err is ERR_OK or all ranks know of it (comm_agree). An error that is this rank's alone is
 * printed and ends the job through abort_job: nothing that waits for others may come after it. Not
 * collective. */
void runtime_abort_alone(const runtime_t *runtime, err_t err);

/* Collective, after runtime_abort_alone's rule. Rank 0 prints the message of an error; everything is closed
 * in order. Returns err. */
err_t runtime_close(runtime_t *runtime, err_t err);

#endif
