/* What NCCL says of its transport and its algorithms. It has no question for them, only its debug log; so the
 * log is sent to a file that nobody else sees and read back. Where NCCL_DEBUG or NCCL_DEBUG_FILE is set, the
 * log is the user's and left alone.
 *
 * The lines, as the format strings of libnccl 2.28.9 and 2.30.7 and the logs in NCCL's issues (2.19 on) have
 * them: Using network Socket Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read Channel 00 : 0[0] -> 1[1] via
 * SHM/direct/direct Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0(1)/GDRDMA AllReduce: 4194304 Bytes ->
 * Algo RING proto SIMPLE channel{Lo..Hi}={0..23}     (rank 0 only) AllReduce [Symmetric]: 4096 Bytes ->
 * Kernel … */
#ifndef CLUSTER_COMM_DEBUG_LOG_H
#define CLUSTER_COMM_DEBUG_LOG_H

#include <stddef.h>
#include <stdint.h>

typedef struct debug_facts {
    char transport[96]; /* "P2P/CUMEM, NET/IB/GDRDMA": each way that some channel takes */
    char network[32];   /* "Socket": what is there, used or not */
    char algorithm[48]; /* "RING/LL128", of the largest allreduce */
    int64_t largest;    /* its bytes */
} debug_facts_t;

/* Adds what the whole lines of a text say; returns how many bytes they are (a line may still be growing). */
size_t debug_log_parse(const char *text, size_t n_bytes, debug_facts_t *facts);

/* Before NCCL's first call in the process; repeating is fine. Without a file (no room, or it is the user's)
 * all goes on, and nothing is known. */
void debug_log_open(void);
/* After NCCL has begun to write: the file loses its name, so that nothing is left of it whatever happens. */
void debug_log_hide(void);
/* From any thread: what has been said until now. Keeps the file short, too. */
void debug_log_read(debug_facts_t *out);

#endif
