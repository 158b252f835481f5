/* Time wasted on purpose, for proofs that a slowdown is found and blamed on the right phase: the hidden option
 * of train and bench is --burn PHASE:SHARE. What is given to a GPU is not lengthened. Not collective. */
#ifndef CLUSTER_SESSION_BURN_H
#define CLUSTER_SESSION_BURN_H

#include "base/err.h"

/* Zeroed: nothing is wasted. */
typedef struct burn {
    const char *phase; /* one of the names below; NULL: none */
    double share;      /* of the time that the whole takes without it */
} burn_t;

/* "backward:0.05": of a step's parts data, forward, backward, allreduce, optimizer; or of what a case of
 * bench measures, by its name: comm, gemm, conv, mem, io. ERR_USAGE. NULL: none. */
err_t burn_parse(const char *text, burn_t *out);

/* Where `phase` is the one: wastes its share of whole_sec. Returns how long that took. */
double burn_now(const burn_t *burn, const char *phase, double whole_sec);

#endif
