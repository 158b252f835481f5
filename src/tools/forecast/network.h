/* SPDX-License-Identifier: MIT */
/* A network as two numbers per range of message sizes: a message of x bytes takes α + x / B (Hockney 1994, "The
 * communication challenge for MPP", Parallel Computing 20: 389). An allreduce between N hosts then takes:
 *
 *   ring   2 (N − 1) messages of n / N bytes (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for
 *          clusters of workstations", J. Parallel Distrib. Comput. 69: 117)
 *   tree   recursive halving and doubling: with P = 2^⌊log2 N⌋, messages of n/2, n/4, … n/P twice; if N > P, also
 *          one of n before and one after (Rabenseifner 2004; Thakur, Rabenseifner, Gropp 2005, "Optimization of
 *          collective communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19: 49)
 *
 * Both move 2 (N − 1) / N · n bytes per host if N is a power of two; they differ in the number of messages. Racks and
 * shared links are not modelled. */
#ifndef TOOLS_FORECAST_NETWORK_H
#define TOOLS_FORECAST_NETWORK_H

#include <stdbool.h>

typedef enum network_algorithm { NETWORK_RING, NETWORK_TREE } network_algorithm_t;
extern const char *const network_algorithm_names[]; /* "ring", "tree" */

enum { NETWORK_MAX_RANGES = 3, NETWORK_MAX_TERMS = 2 * NETWORK_MAX_RANGES };

/* Messages up to max_bytes that exceed the range before. */
typedef struct network_range {
    double max_bytes; /* of the last range: infinite */
    double alpha_sec; /* α */
    double byte_sec;  /* 1 / B */
} network_range_t;

typedef struct network {
    network_algorithm_t algorithm;
    int n_ranges; /* at least 1 */
    network_range_t range[NETWORK_MAX_RANGES];
} network_t;

/* What an allreduce needs of each range: time = Σ messages[r] · α_r + bytes[r] / B_r. */
typedef struct network_demand {
    double messages[NETWORK_MAX_RANGES], bytes[NETWORK_MAX_RANGES];
} network_demand_t;

/* Of one rank; nothing on one host. */
network_demand_t network_demand(const network_t *network, double n_hosts, double n_bytes);

/* Seconds of an allreduce of n_bytes between n_hosts.
 *
 *   latency_sec  the part that α takes; may be NULL */
double network_allreduce_sec(const network_t *network, double n_hosts, double n_bytes, double *latency_sec);

/* The same network with B times `factor`. */
network_t network_scaled(const network_t *network, double factor);

#endif
