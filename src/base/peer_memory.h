/* SPDX-License-Identifier: MIT */
/* Whether the kernel lets the processes of a job read and write each other's memory (process_vm_readv). */
#ifndef BASE_PEER_MEMORY_H
#define BASE_PEER_MEMORY_H

#include <stdbool.h>

typedef struct peer_memory {
    bool refused;
    const char *cause, *advice; /* of a refusal: a few words; what to do */
} peer_memory_t;

/* Tried once, by two short-lived calls in a child process; not refused if that cannot be tried. Call it first before
 * MPI_Init, which does not like forks. */
const peer_memory_t *peer_memory(void);

#endif
