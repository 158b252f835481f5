/* Affine maps of pictures, as the loader hands them to backends that prepare pixels themselves. */
#ifndef COMPUTE_TENSOR_AFFINE_H
#define COMPUTE_TENSOR_AFFINE_H

/* In pixels, row first: the pixel at an offset from the centre ((h − 1)/2, (w − 1)/2) of the output is read
 * at matrix · offset + shift from the centre of the input. */
typedef struct affine {
    double matrix[4], shift[2];
} affine_t;

#endif
