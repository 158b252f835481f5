/* SPDX-License-Identifier: MIT */
/* The state of each rank when NCCL does not come up everywhere, and the message for it. */
#ifndef CLUSTER_COMM_ARRIVAL_H
#define CLUSTER_COMM_ARRIVAL_H

#include "base/err.h"
#include "cluster/comm/nccl_or_mpi.h"

typedef enum arrival_state { ARRIVAL_UP, ARRIVAL_UNDER_WAY, ARRIVAL_FAILED } arrival_state_t;

typedef struct arrival {
    arrival_state_t state;
    err_t code; /* of a failure, with its message */
    char words[512];
} arrival_t;

/* Judges [size] arrivals in rank order; all ranks get the same result. ERR_OK if all are up; otherwise the
 * code and message of the lowest rank that failed; otherwise ERR_PEER naming the ranks still under way after
 * timeout_sec or, if no rank is up, all hosts, as then none can be blamed. */
err_t arrival_judge(const arrival_t *arrivals, const comm_gpu_t *gpus, int size, double timeout_sec);

#endif
