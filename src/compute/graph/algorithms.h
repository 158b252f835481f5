/* Which algorithm computes which pass of which operator: a table kept as text, and the measuring that fills
 * it. Not collective.
 *
 * The text has a line a choice, "KEY PASS = NAME" with op_key's KEY ("conv2d float32 n=64 x=12x12x20 k=50x5x5
 * stride=1x1 pad=0x0 dilation=1x1 groups=1 forward = gemm"), and at most one "machine = TEXT", where the
 * choices were measured. Blank lines and what begins with # are comments. */
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

/* All zero: empty. End it with algorithms_free. */
typedef struct algorithms {
    char machine[ALGORITHMS_MACHINE_MAX]; /* "": not said */
    algorithm_t *entries;
    int n, capacity;
} algorithms_t;

void algorithms_free(algorithms_t *table);

/* Name of one choice; NULL when the table has none. desc must be inferred. */
const char *algorithms_find(const algorithms_t *table, const op_desc_t *desc, op_pass_t pass);
/* All passes; "" for those without an entry. */
void algorithms_get(const algorithms_t *table, const op_desc_t *desc, op_algorithms_t *out);
/* Enters or replaces a choice. */
err_t algorithms_set(algorithms_t *table, const op_desc_t *desc, op_pass_t pass, const char *name);

/* Adds the choices of a text; later lines win. strict: a line that is none is ERR_USAGE naming `source` and
 * the line's number; otherwise it is warned of and passed over. Whether there is such an algorithm is not
 * looked at: op_plan does. */
err_t algorithms_read(algorithms_t *table, const char *text, const char *source, bool strict);
/* *out is freed with mem_free. */
err_t algorithms_write(const algorithms_t *table, char **out);

/* A batch size that will be planned. */
typedef struct batch_size {
    int64_t n;
    bool training;
} batch_size_t;

typedef struct measure_options {
    const graph_t *graph;
    const backend_t *backend; /* open, in this thread */
    const batch_size_t *sizes;
    int n_sizes;
    algorithms_t *cache; /* what is known already; measured choices are added. NULL: nothing, nowhere */
    /* Choices that are left then are the backend's own rule's. No run begins when less time is left than the
     * longest so far took: only one that is longer than all before it can end later. Negative: nothing is
     * measured. */
    double limit_sec;
} measure_options_t;

typedef struct measure_result {
    int n_measured, n_cached; /* choices */
    int n_dropped;            /* entries of the table whose algorithm does not exist or does not fit here */
    int n_left;               /* choices not made in time */
    const char *first_left; /* the layer of the first of them, borrowed from the graph; NULL: there is none */
    double sec;
} measure_result_t;

/* Every layer and pass with more than one algorithm: keeps the table's choice, else takes the cache's, else
 * measures on scratch buffers and takes the fastest, but the backend's own unless another is at least 3 %
 * faster. The gradient of the graph's input, which nobody computes, is left out. */
err_t algorithms_measure(const measure_options_t *options, algorithms_t *table, measure_result_t *result);

#endif
