/* SPDX-License-Identifier: MIT */
/* Which algorithm computes which pass of which operator: a table with a text form, and the measurements that
 * fill it. Not collective.
 *
 * The text has one line per choice, "KEY PASS = NAME", where KEY is op_key's ("conv2d float32 n=64 x=12x12x20
 * k=50x5x5 stride=1x1 pad=0x0 dilation=1x1 groups=1 forward = gemm"), and at most one line "machine = TEXT"
 * that says where the choices were measured. Blank lines and lines that begin with # are ignored. */
#ifndef COMPUTE_GRAPH_ALGORITHMS_H
#define COMPUTE_GRAPH_ALGORITHMS_H

#include "compute/graph/graph.h"
#include "compute/ops/backend.h"

enum {
    ALGORITHMS_FORMAT = 3, /* of the text; also raised when a kernel's speed changes much */
    ALGORITHMS_MACHINE_MAX = 256,
    ALGORITHMS_TEXT_MAX = 1 << 20,
};

typedef struct algorithm {
    char key[OP_KEY_MAX];
    op_pass_t pass;
    char name[OP_ALGORITHM_MAX];
} algorithm_t;

/* All zero is an empty table. Free it with algorithms_free. */
typedef struct algorithms {
    char machine[ALGORITHMS_MACHINE_MAX]; /* "" if unknown */
    algorithm_t *entries;
    int n;
} algorithms_t;

void algorithms_free(algorithms_t *table);

/* The choice for one pass; NULL if the table has none. desc must be inferred. */
const char *algorithms_find(const algorithms_t *table, const op_desc_t *desc, op_pass_t pass);
/* All passes; "" for those without an entry. */
void algorithms_get(const algorithms_t *table, const op_desc_t *desc, op_algorithms_t *out);
/* Enters or replaces a choice. */
err_t algorithms_set(algorithms_t *table, const op_desc_t *desc, op_pass_t pass, const char *name);
/* Removes a choice, if there is one. */
void algorithms_drop(algorithms_t *table, const op_desc_t *desc, op_pass_t pass);

/* Adds the choices of a text; later lines win. Whether the algorithm exists is not checked here: op_plan
 * does.
 * source  for messages
 * strict  an invalid line is ERR_USAGE naming `source` and the line; otherwise it is ignored with a warning
 */
err_t algorithms_read(algorithms_t *table, const char *text, const char *source, bool strict);
/* *out is freed with mem_free. */
err_t algorithms_write(const algorithms_t *table, char **out);

/* A batch size to plan for. */
typedef struct batch_size {
    int64_t n;
    bool training;
} batch_size_t;

typedef struct measure_options {
    const graph_t *graph;
    const backend_t *backend; /* open, in this thread */
    const batch_size_t *sizes;
    int n_sizes;
    algorithms_t *cache; /* earlier measurements; new ones are added. NULL: none */
    /* Time limit; layers left over get the backend's default. A run starts only if the remaining time covers
     * the longest run so far, so only a run longer than all before it can exceed the limit. Negative: measure
     * nothing. */
    double limit_sec;
} measure_options_t;

typedef struct measure_result {
    int n_measured, n_cached; /* choices */
    int n_dropped;            /* entries whose algorithm does not exist or does not fit here */
    int n_left;               /* choices not made in time */
    const char *first_left;   /* layer of the first such choice, borrowed from the graph; NULL: none */
    double sec;
} measure_result_t;

/* For every layer and pass with more than one algorithm: keeps the table's choice, else the cache's, else
 * measures on scratch buffers and takes the fastest; the backend's default stays unless another is at least 3
 * % faster. The gradient of the graph's input is never computed and is left out. */
err_t algorithms_measure(const measure_options_t *options, algorithms_t *table, measure_result_t *result);

#endif
