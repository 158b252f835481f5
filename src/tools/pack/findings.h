/* SPDX-License-Identifier: MIT */
/* Findings of the ranks: sentences for rank 0, and the samples that they are about. Private to
 * src/tools/pack. */
#ifndef TOOLS_PACK_FINDINGS_H
#define TOOLS_PACK_FINDINGS_H

#include "cluster/comm/comm.h"

enum { FINDINGS_MAX = 100000 }; /* sentences of a rank; more are only counted */

/* Starts zeroed. */
typedef struct findings {
    char *text; /* sentences, each with its NUL */
    size_t n_bytes;
    int64_t n;
    int64_t *samples; /* [n]; -1: about something else */
    err_t status;     /* of adding findings */
} findings_t;

/* Not collective.
 *
 *   sample  its number over both splits, or -1 */
void findings_add(findings_t *findings, const char *what, int64_t sample);
void findings_free(findings_t *findings);

/* Calls `tell` on rank 0 with each sentence, in order of ranks. Sets *n to the number of findings of all
 * ranks. Collective. */
err_t findings_tell(comm_t *comm, const findings_t *findings, void (*tell)(void *context, const char *what),
                    void *context, int64_t *n);

/* Sets *out to the samples of all ranks, in ascending order; free it with mem_free. Collective. */
err_t findings_samples(comm_t *comm, const findings_t *findings, int64_t **out, int64_t *n);

#endif
