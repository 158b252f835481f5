/* How a convolution's forward and backward data are cut into the tiles of amx.c. */
#ifndef KERNELS_CPU_CONV_AMX_SHAPE_H
#define KERNELS_CPU_CONV_AMX_SHAPE_H

#include "kernels/cpu/amx.h"
#include "kernels/cpu/conv/conv.h"

/* Outputs with the same taps: every stride-th cell of a picture, from its own first one on. */
typedef struct phase {
    int64_t rows, columns;
    int64_t out;     /* the first one, in values from the picture's begin */
    int64_t in;      /* what its tap at offset 0 reads, in bytes from the packed picture's begin */
    int tile_rows;   /* outputs of a tile, all of one row */
    int64_t n_tiles; /* in a row; the last may lie over the one before */
    int64_t first_tap, n_taps;
} phase_t;

typedef struct amx_plan {
    const amx_t *amx;
    int64_t n, chunk;                      /* pictures, and how many of them at a time */
    int64_t h, w, c, every;                /* a picture that is read, and of which cells: every `every`th */
    int64_t top, left, packed_h, packed_w; /* packed, with zeros around */
    int64_t window, window_every; /* cells that are packed as one, and from one such to the next; 1 and 0 */
    int64_t cell, picture_bytes;  /* values of a packed one */
    int64_t in_row, in_column;    /* bytes from output to output */
    int64_t out_row, out_column;  /* values */
    int64_t out_picture, n_out;   /* values of a picture that is written; its channels */
    dtype_t in_dtype, out_dtype;
    int64_t in_cell, out_value; /* bytes: of a cell that is read, of a value that is written */
    bool in_place;              /* nothing is packed */
    int64_t n_steps, n_blocks, block_bytes, n_phases;
    bool stream;
    phase_t *phases;
    amx_tap_t *taps;
    size_t pictures; /* where packed pictures begin in workspace, behind the weights */
} amx_plan_t;

/* What the description alone decides; not amx, chunk, picture_bytes, n_blocks, block_bytes, stream, pictures.
 * There is room for as many phases as there are places between strides, and for as many taps as the filter
 * has. */
void conv_amx_shape(const conv_problem_t *problem, amx_plan_t *plan);

#endif
