/* SPDX-License-Identifier: MIT */
/* The arguments of a call of a planned operator. */
#ifndef COMPUTE_OPS_OP_ARGS_H
#define COMPUTE_OPS_OP_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "compute/ops/op_desc.h"
#include "compute/tensor/tensor.h"

/* Arguments beyond tensors, of the operators that read them. */
typedef struct dropout_call {
    uint64_t key;          /* rng_key(seed, RNG_DROPOUT) */
    uint32_t layer;        /* index of the layer in its graph */
    uint64_t step;         /* optimizer step */
    uint64_t first_sample; /* index of this batch's sample 0 in the global batch */
} dropout_call_t;

typedef struct batch_norm_call {
    /* In training with one group: sums n values over all ranks that share statistics, which all make the same
     * calls. NULL: not shared. */
    err_t (*sum_shared)(void *context, double *values, int64_t n);
    void *context;
} batch_norm_call_t;

/* Of every loss: its gradients are multiplied by scale · weight. y is not. */
typedef struct loss_call {
    float scale;  /* usually 1 / samples in the global batch; may change from step to step */
    float weight; /* of this loss in the objective; does not change */
} loss_call_t;

/* Tensors have the shapes and types that were planned. data NULL: the tensor does not exist, backward does
 * not read it (op_traits), or this gradient or extra output is not needed. The gradients of parameters are
 * needed all or none. */
typedef struct op_args {
    tensor_t x[OP_MAX_INPUTS], y[OP_MAX_OUTPUTS];
    tensor_t dy[OP_MAX_OUTPUTS], dx[OP_MAX_INPUTS];
    tensor_t param[OP_MAX_PARAMS], dparam[OP_MAX_PARAMS];
    tensor_t state[OP_MAX_STATES];
    /* param, rounded as bf16_round does, 16-byte aligned; NULL: kernels round it themselves. */
    const uint16_t *param_bf16[OP_MAX_PARAMS];
    /* Backward adds to this gradient instead of overwriting it. */
    bool accumulate_dx[OP_MAX_INPUTS], accumulate_dparam[OP_MAX_PARAMS];
    /* Rows (samples) that exist, known only now; -1: all that were planned. An operator that counts rows
     * (op_traits) neither reads nor computes the rest, and its y and dx are 0 there; a sum of dx stays as it
     * was. Others compute all. A recorded step keeps the number of its recording. */
    int64_t n_rows;
    void *addend;    /* op_addend_bytes, 64-byte aligned: gradients before they are added */
    void *saved;     /* n_saved_bytes, 64-byte aligned */
    void *workspace; /* n_workspace_bytes, 64-byte aligned */
    bool training;   /* forward only: training or evaluation mode */
    dropout_call_t dropout;
    batch_norm_call_t batch_norm;
    loss_call_t loss;
} op_args_t;

#endif
