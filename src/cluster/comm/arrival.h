/* SPDX-License-Identifier: MIT */
/* The state of each rank after NCCL's start-up, and the error message if NCCL did not come up everywhere. */
#ifndef CLUSTER_COMM_ARRIVAL_H
#define CLUSTER_COMM_ARRIVAL_H

#include "base/err.h"
#include "cluster/comm/device.h"

typedef enum arrival_state { ARRIVAL_UP, ARRIVAL_UNDER_WAY, ARRIVAL_FAILED } arrival_state_t;

typedef struct arrival {
    arrival_state_t state;
    err_t code;      /* of ARRIVAL_FAILED */
    char words[512]; /* its message */
} arrival_t;

/* Combines the arrivals into one result, the same on all ranks:
 *
 *   all are up                ERR_OK
 *   a rank failed             its code and message; of several, one with a cause of its own, the lowest
 *   some are still under way  ERR_PEER naming them
 *   all are still under way   ERR_PEER naming all hosts
 *
 *   arrivals, gpus  [size] in rank order
 *   timeout_sec     for the message */
err_t arrival_judge(const arrival_t *arrivals, const comm_gpu_t *gpus, int size, double timeout_sec);

#endif
