/* SPDX-License-Identifier: MIT */
/* Affine maps of images, passed by the loader to backends that prepare pixels themselves. */
#ifndef COMPUTE_TENSOR_AFFINE_H
#define COMPUTE_TENSOR_AFFINE_H

/* In pixels, row first: an output pixel at some offset from the output's centre ((h − 1)/2, (w − 1)/2) is
 * read at matrix · offset + shift from the centre of the input. */
typedef struct affine {
    double matrix[4], shift[2];
} affine_t;

#endif
