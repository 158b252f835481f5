/* SPDX-License-Identifier: MIT */
/* The algorithm of each operator and pass: a table with a text form. Not collective.
 *
 * The text has a line "KEY PASS = NAME" per choice, with op_key's KEY:
 *
 *   conv2d float32 n=64 x=12x12x20 k=50x5x5 stride=1x1 pad=0x0 dilation=1x1 groups=1 forward = gemm
 *
 * and at most one line "machine = TEXT", which names the machine that measured. Blank lines and lines that
 * begin with # are ignored. */
#ifndef COMPUTE_GRAPH_ALGORITHMS_H
#define COMPUTE_GRAPH_ALGORITHMS_H

#include "compute/graph/graph.h"
#include "compute/ops/backend.h"

enum {
    ALGORITHMS_FORMAT = 3, /* version of the text; raise it also when the speed of a kernel changes much */
    ALGORITHMS_MACHINE_MAX = 1024,
    ALGORITHMS_TEXT_MAX = 1 << 20,
};

typedef struct algorithm {
    char key[OP_KEY_MAX];
    op_pass_t pass;
    char name[OP_ALGORITHM_MAX];
} algorithm_t;

/* All zero: an empty table. Free it with algorithms_free. */
typedef struct algorithms {
    char machine[ALGORITHMS_MACHINE_MAX]; /* "" if unknown */
    algorithm_t *entries;
    int n;
} algorithms_t;

void algorithms_free(algorithms_t *table);

/* The choice for one pass; NULL if the table has none. desc must be inferred. */
const char *algorithms_find(const algorithms_t *table, const op_desc_t *desc, op_pass_t pass);
/* Like algorithms_find, or else the choice for the nearest batch size at which the same algorithm can be
 * expected to win: at most four times as large or as small, and filling vectors of 16 samples equally well
 * (within a tenth). */
const char *algorithms_find_near(const algorithms_t *table, const op_desc_t *desc, op_pass_t pass);
/* All passes; "" for those without an entry. */
void algorithms_get(const algorithms_t *table, const op_desc_t *desc, op_algorithms_t *out);
/* Enters or replaces a choice. */
err_t algorithms_set(algorithms_t *table, const op_desc_t *desc, op_pass_t pass, const char *name);
/* Removes a choice, if there is one. */
void algorithms_drop(algorithms_t *table, const op_desc_t *desc, op_pass_t pass);

/* Adds the choices of a text; later lines win. op_plan checks that the algorithms exist.
 *
 *   source  for messages
 *   strict  an invalid line is ERR_USAGE naming `source` and the line; otherwise only a warning */
err_t algorithms_read(algorithms_t *table, const char *text, const char *source, bool strict);
/* Free *out with mem_free. */
err_t algorithms_write(const algorithms_t *table, char **out);

/* A batch to plan for. */
typedef struct batch_size {
    int64_t n;
    bool training;
    const shape_t *shapes; /* as for exec_prepare_shapes; NULL: the graph's */
} batch_size_t;
enum { ALGORITHMS_MAX_SIZES = 512 };

/* Adds n samples of the graph's shapes unless they are 0, already listed, or the list of ALGORITHMS_MAX_SIZES is full. */
void batch_size_add(batch_size_t *sizes, int *n_sizes, int64_t n, bool training);

#endif
