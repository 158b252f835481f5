/* SPDX-License-Identifier: MIT */
/* What a rank's hardware can do at most, to judge passes by: the same for the profile and for `bench`. */
#ifndef CLUSTER_SESSION_YARDSTICK_H
#define CLUSTER_SESSION_YARDSTICK_H

#include "cluster/comm/comm.h"
#include "compute/ops/backend.h"

typedef struct yardstick {
    double flops;         /* products: FLOP/s of a rank, 2 per multiply-add, while all compute; 0: unknown */
    double bytes_per_sec; /* read or written beyond the caches, by a rank while all do; 0: unknown */
    double cache_bytes;   /* of a rank's share of the last-level cache, and its cores' own */
    char flops_from[64];  /* "vdpbf16ps, 2 threads", "a product of 8192 x 8192 x 8192"; "" if unknown */
} yardstick_t;

/* Collective. Means over the ranks; of a CPU, the greatest values ever measured on such a machine with as many ranks and
 * threads: these are kept in the user's cache, if there is one. A kept value of more than twice what is measured now, or
 * ten times for memory, is replaced, with a warning. If a rank cannot measure, such as for lack of memory, a warning says
 * so, and the value stays unknown. Errors are those of the communicator. Takes a tenth of a second.
 *
 *   compute  of products: DTYPE_F32, DTYPE_TF32 or DTYPE_BF16 */
err_t yardstick_measure(comm_t *comm, const backend_t *backend, dtype_t compute, yardstick_t *out);

typedef enum bound { BOUND_NONE, BOUND_PRODUCTS, BOUND_BYTES } bound_t;

/* The least seconds of a pass, and what decides them. Only bytes that cannot be in a cache count, so that no
 * pass is faster. 0, and BOUND_NONE, if what would decide is unknown.
 *
 *   n_flops  2 per multiply-add that the algorithm needs
 *   n_bytes  of every tensor that the pass reads or writes, once each
 *   bound    may be NULL */
double yardstick_least_sec(const yardstick_t *y, double n_flops, double n_bytes, bound_t *bound);

/* Of the array by which a CPU's rate beyond its caches is measured: for each thread twice those that it has while
 * others pause, up to 128 MiB, but at least twice those of all threads. At most a quarter of free_bytes; 0 if that is
 * too little: what fits into caches would measure these.
 *
 *   own_bytes, all_bytes  machine_cache_bytes of one CPU alone, and of the rank; 0: unknown
 *   free_bytes            of memory, for each rank of this host */
int64_t yardstick_array_bytes(int n_threads, int64_t own_bytes, int64_t all_bytes, int64_t free_bytes);

/* What is kept for a machine, as text. `machine`: a line that describes all that decides. */
enum { YARDSTICK_MACHINE_MAX = 1024, YARDSTICK_TEXT_MAX = YARDSTICK_MACHINE_MAX + 128 };
typedef struct yardstick_kept {
    double flops, bytes_per_sec; /* 0: unknown */
} yardstick_kept_t;
void yardstick_write(const yardstick_kept_t *kept, const char *machine, char out[YARDSTICK_TEXT_MAX]);
/* Zeros if it is of another machine. ERR_DATA if it is damaged, or a value is absurd. */
err_t yardstick_read(const char *text, const char *machine, yardstick_kept_t *out);

#endif
