/* SPDX-License-Identifier: MIT */
/* Data that verifies a collective. Every rank can compute any rank's input and the whole result on its own,
 * at a cost per element that does not depend on the number of ranks, so every element is compared.
 *
 * Inputs depend on seed, rank and index, which reveals data that is shifted, swapped, duplicated, missing or
 * left from an earlier call. Reductions are exact in any order. At each index a hash selects one rank, the
 * owner, whose value is large and unique; the other ranks hold
 *
 *   sum       one common small value; the total stays in the range of exact integers
 *   avg       the same; the owner's surplus is a multiple of the number of ranks
 *   prod      1, except for one rank with a power of two
 *   max, min  values from the other half of the type's range */
#ifndef TOOLS_BENCH_COMM_CHECK_H
#define TOOLS_BENCH_COMM_CHECK_H

#include "cluster/comm/collective.h"

typedef struct comm_check {
    collective_kind_t kind;
    collective_type_t type;
    collective_op_t op;
    int rank, size;
    int root, peer; /* as in collective_spec_t */
    int64_t count;  /* elements per piece */
    uint64_t seed;  /* different for every call */
} comm_check_t;

/* Whether the result is the same in any order, as far as kind, type, op and size say. It is not where a GPU's
 * library multiplies floats by 1 / size before it sums them, unless that is a power of two. */
bool comm_check_is_exact(const comm_check_t *check, bool on_device);

/* Writes this rank's input to its send buffer or, in place, to where collective.h expects it. */
void comm_check_fill(const comm_check_t *check, void *input);

/* Counts the wrong elements of this rank's result.
 *
 *   result  the receive buffer. For the root of a broadcast and the non-root ranks of a reduction: their
 *           input, which must be unchanged
 *   first   index of the first wrong element; -1 if there is none */
int64_t comm_check_count_wrong(const comm_check_t *check, const void *result, int64_t *first);

/* Number of result elements that are compared. */
int64_t comm_check_elements(const comm_check_t *check);

/* Describes an element of the result: "3.5 instead of 4". */
void comm_check_describe(const comm_check_t *check, const void *result, int64_t element, char *out,
                         size_t n_bytes);

#endif
