/* SPDX-License-Identifier: MIT */
/* Affine maps of images, passed by the loader to backends that prepare pixels themselves. */
#ifndef COMPUTE_TENSOR_AFFINE_H
#define COMPUTE_TENSOR_AFFINE_H

/* In pixels, row first: the output pixel at `offset` from the output's centre ((h − 1)/2, (w − 1)/2) is read
 * at matrix · offset + shift from the input's centre. */
typedef struct affine {
    double matrix[4], shift[2];
} affine_t;

#endif
