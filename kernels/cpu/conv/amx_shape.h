/* SPDX-License-Identifier: MIT */
/* Cuts a convolution's forward and backward data into tiles for amx.c. */
#ifndef KERNELS_CPU_CONV_AMX_SHAPE_H
#define KERNELS_CPU_CONV_AMX_SHAPE_H

#include "kernels/cpu/amx.h"
#include "kernels/cpu/conv/conv.h"

/* Outputs that share the same taps: every stride-th pixel of an image, starting at the phase's first. */
typedef struct phase {
    int64_t rows, columns;
    int64_t out;     /* the first output, in values from the start of the image */
    int64_t in;      /* the input of its tap at offset 0, in bytes from the start of the packed image */
    int tile_rows;   /* outputs per tile, all in one row */
    int64_t n_tiles; /* per row; the last may overlap the one before */
    int64_t first_tap, n_taps;
} phase_t;

typedef struct amx_plan {
    const amx_t *amx;
    int64_t n, chunk;                      /* images, and how many are packed at a time */
    int64_t h, w, c, every;                /* input image; every `every`th pixel is read */
    int64_t top, left, packed_h, packed_w; /* of a packed image, zeros around it */
    int64_t window, window_every;          /* pixels packed as one, and the step between such; 1 and 0 */
    int64_t cell, image_bytes;             /* values of a packed pixel; bytes of an image */
    int64_t in_row, in_column;             /* bytes between the inputs of two outputs */
    int64_t out_row, out_column;           /* values */
    int64_t out_image, n_out;              /* values of an output image; its channels */
    dtype_t in_dtype, out_dtype;
    int64_t in_cell, out_value; /* bytes of an input pixel, of an output value */
    bool in_place;              /* used as it is, not packed */
    int64_t n_steps, n_blocks, block_bytes, n_phases;
    bool stream;
    phase_t *phases;
    amx_tap_t *taps;
    size_t images; /* offset of the packed images in the workspace, after the weights */
} amx_plan_t;

/* Derives all fields but amx, chunk, image_bytes, n_blocks, block_bytes, stream and images from the
 * description. `phases` has room for stride_h · stride_w of them, `taps` for all taps of a filter. */
void conv_amx_shape(const conv_problem_t *problem, amx_plan_t *plan);

#endif
