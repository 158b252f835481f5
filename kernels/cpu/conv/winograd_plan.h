/* SPDX-License-Identifier: MIT */
/* How a 3×3 convolution by Winograd's algorithm is cut into tiles, chunks of tiles and blocks of channels, and where its
 * matrices are in the workspace. Not collective. */
#ifndef KERNELS_CPU_CONV_WINOGRAD_PLAN_H
#define KERNELS_CPU_CONV_WINOGRAD_PLAN_H

#include <stddef.h>

#include "kernels/cpu/conv/conv.h"
#include "kernels/cpu/conv/winograd_transform.h"

/* Tiles that a thread transforms, or a product takes, at a time. */
enum { WINOGRAD_KINDS = 4, WINOGRAD_ROWS = 6 };

/* Tiles of one kind, whole or half: their place in the input and in the output grid; backward weights: of x and dy. */
typedef struct winograd_kind {
    winograd_grid_t from, to;
    int64_t n_tiles, first; /* first: of all tiles */
} winograd_kind_t;

typedef struct winograd_plan {
    winograd_kind_t kinds[WINOGRAD_KINDS]; /* whole tiles first */
    int n_kinds;
    bool sums; /* backward weights */
    bool few;  /* tiles: all of them are transformed at once */
    int64_t n_tiles, chunk;
    int64_t k, c, n_in, n_out, block; /* channels of `from` and `to`; `to` is taken `block` at a time */
    int n_threads; /* each has matrices `to` of its own, and `from` unless there are few tiles */
    size_t from_bytes, to_bytes; /* of one thread */
    size_t to_matrices, filters, turned, zeros,
        n_bytes; /* offsets in the workspace, after from's; its size */
    int64_t from_plane, to_plane, filter_plane;
} winograd_plan_t;

void winograd_plan_make(const conv_problem_t *problem, winograd_plan_t *out);

/* Matrices in the workspace. Those whose rows are added up have panels, which products then read from front to end. */
typedef struct winograd_space {
    winograd_matrices_t from, to, filters; /* from, to: of thread 0 */
    float *turned, *zeros;
} winograd_space_t;
winograd_space_t winograd_space(const winograd_plan_t *plan, char *workspace);

/* A part of the tiles, all of one kind. */
typedef struct winograd_part {
    const winograd_kind_t *kind;
    int64_t first, count; /* of the kind */
} winograd_part_t;

/* The number of parts of at most `most` tiles, and part i. */
int64_t winograd_count_parts(const winograd_plan_t *plan, int64_t most);
winograd_part_t winograd_part(const winograd_plan_t *plan, int64_t most, int64_t i);

#endif
