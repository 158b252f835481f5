/* How far each rank has come when NCCL does not come up everywhere, and the words for it. */
#ifndef CLUSTER_COMM_ARRIVAL_H
#define CLUSTER_COMM_ARRIVAL_H

#include "base/err.h"
#include "cluster/comm/device.h"

typedef enum arrival_state { ARRIVAL_UP, ARRIVAL_UNDER_WAY, ARRIVAL_FAILED } arrival_state_t;

typedef struct arrival {
    arrival_state_t state;
    err_t code; /* of a failure, and its message */
    char words[512];
} arrival_t;

/* The same on all ranks, over [size] arrivals in rank order. ERR_OK when all are up; the code and the words
 * of the lowest rank that failed; or ERR_PEER naming the ranks that are still under way after timeout_sec,
 * and, where none is up and so none is to blame, all hosts. */
err_t arrival_judge(const arrival_t *arrivals, const comm_gpu_t *gpus, int size, double timeout_sec);

#endif
