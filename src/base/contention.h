/* SPDX-License-Identifier: MIT */
/* Whether a thread competes for its CPU: how long it was ready to run and did not, as the kernel counts it
 * (/proc/thread-self/schedstat). On a quiet machine that is below a tenth of the time, beside one busy process
 * about half. Without such a file, no thread ever competes. */
#ifndef BASE_CONTENTION_H
#define BASE_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct contention {
    int fd;
    int64_t waited_nsec;
    double since_sec;
    int n_calm;
    bool competes;
} contention_t;

/* Watches the calling thread. Any thread may then update it. */
void contention_open(contention_t *c);
void contention_close(contention_t *c);

/* Judges the time since the last call; the calls should be about 50 ms apart. True from the first interval of
 * which the thread waited for more than a fifth, until ten in sequence with less than a tenth. */
bool contention_update(contention_t *c);

/* The share of the time since it was opened or last updated that the thread waited for a CPU. */
double contention_share(const contention_t *c);

#endif
