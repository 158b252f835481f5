/* SPDX-License-Identifier: MIT */
/* What NCCL tells of itself, judged without the library: whether it came up on all ranks, and from its debug log its
 * transport and algorithms. */
#ifndef CLUSTER_COMM_NCCL_REPORT_H
#define CLUSTER_COMM_NCCL_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cluster/comm/device.h"

/* ---- The state of each rank after NCCL's start-up ---- */
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

/* ---- The debug log ---- */
/* NCCL's transport and algorithms, parsed from its debug log because NCCL has no API for them. NCCL writes
 * the log to a private file, which is read back. If NCCL_DEBUG or NCCL_DEBUG_FILE is set, the log belongs to
 * the user and is left alone.
 *
 * These lines are parsed; they come from the format strings of libnccl 2.28.9 and 2.30.7 and from logs in
 * NCCL's issues (2.19 and later):
 *
 *   Using network Socket
 *   Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
 *   Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
 *   Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0(1)/GDRDMA
 *   AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}     (rank 0 only)
 *   AllReduce [Symmetric]: 4096 Bytes -> Kernel … */
typedef struct debug_facts {
    char transport[96]; /* such as "P2P/CUMEM, NET/IB/GDRDMA": transports of all channels */
    char network[32];   /* such as "Socket"; available, but not necessarily used */
    char algorithm[48]; /* such as "RING/LL128", of the largest allreduce */
    int64_t largest;    /* bytes of that allreduce */
} debug_facts_t;

/* Parses the complete lines of a text and returns their length; the last line may still be incomplete. */
size_t debug_log_parse(const char *text, size_t n_bytes, debug_facts_t *facts);

/* Call before NCCL's first call in the process; may be repeated. If no file can be created, or the log is the
 * user's, no facts will be known. */
void debug_log_open(void);
/* Call after NCCL has opened the file: unlinks it, so that it never outlives the process. */
void debug_log_hide(void);
/* Once the facts are there: switches the log off, which otherwise has a line for every call of NCCL that is not recorded.
 *
 *   reset  makes NCCL read its settings again (ncclResetDebugInit); NULL: it cannot, and the log goes on */
void debug_log_quiet(void (*reset)(void));
/* From any thread: the facts so far. Also keeps the file short. */
void debug_log_read(debug_facts_t *out);

#endif
