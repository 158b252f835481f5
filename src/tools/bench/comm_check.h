/* SPDX-License-Identifier: MIT */
/* The data that `bench comm` proves a collective with. Each rank can tell every rank's input and the whole
 * result by itself, in a few operations an element whatever the number of ranks, so every element is
 * compared.
 *
 * Inputs depend on the seed, the rank and the index: what is shifted, swapped, doubled, missing or left from
 * an earlier call is noticed. Reductions are exact in any order: at each index one rank, the owner, which the
 * index's hash chooses, has a large value of its own; the others have
 *   sum        the same small one; all of them together stay in the range of exact whole numbers
 *   prod       1, but for one that has a power of two
 *   max, min   values from the other half of the type's range */
#ifndef TOOLS_BENCH_COMM_CHECK_H
#define TOOLS_BENCH_COMM_CHECK_H

#include "cluster/comm/collective.h"

typedef struct comm_check {
    collective_kind_t kind;
    collective_type_t type;
    collective_op_t op;
    int rank, size;
    int root, peer; /* as in collective_spec_t */
    int64_t count;  /* elements of a piece */
    uint64_t seed;  /* another one for every call */
} comm_check_t;

/* This rank's input, into its `send` or, in place, where collective.h says that it lies. */
void comm_check_fill(const comm_check_t *check, void *input);

/* How many elements are wrong in this rank's result: recv, but for the root of a broadcast and all other than
 * the root of a reduction its own input, which must have stayed as it was. *first is the first one's index.
 */
int64_t comm_check_count_wrong(const comm_check_t *check, const void *result, int64_t *first);

/* Elements of the result that are compared. */
int64_t comm_check_elements(const comm_check_t *check);

/* "3.5 instead of 4", of one element of the result. */
void comm_check_describe(const comm_check_t *check, const void *result, int64_t element, char *out,
                         size_t n_bytes);

#endif
