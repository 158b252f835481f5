/* SPDX-License-Identifier: MIT */
/* Convolutions on cuDNN, through its backend API. The library is loaded when an algorithm of it is first
 * listed; without it, without its headers when this was built, or with another major version, there are none.
 *
 * Tensors are [n, height, width, channels], weights [filters][taps][channels / groups], of float32, or with
 * DTYPE_BF16 of bfloat16, also the gradient of the weight: cuDNN has nothing that writes float32 there. Sums
 * are float32. Only deterministic engines are used, of direct convolution. */
#ifndef KERNELS_CUDA_DNN_H
#define KERNELS_CUDA_DNN_H

#include "compute/ops/op.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/gemm.h"

enum { DNN_PROPOSALS = 4 }; /* most that are offered */

/* One pass. The same description gets the same engine on every GPU of a kind. */
typedef struct dnn_spec {
    const char *what; /* for messages */
    op_pass_t pass;
    dtype_t compute; /* DTYPE_F32 (no tf32), DTYPE_TF32 or DTYPE_BF16 */
    conv_shape_t shape;
    size_t alignment;         /* of every tensor's address: at most 16 */
    size_t n_workspace_bytes; /* upper limit */
    int proposal;             /* which of cuDNN's; less than dnn_count */
} dnn_spec_t;

typedef struct dnn dnn_t;

/* Number of engines that cuDNN proposes, the fastest by its estimate first; 0: none. Of OP_BACKWARD_DATA, that can also
 * add. */
int dnn_count(const dnn_spec_t *spec);
/* Until dnn_close at the latest. */
err_t dnn_new(const dnn_spec_t *spec, dnn_t **out);
void dnn_free(dnn_t **dnn);
size_t dnn_workspace_bytes(const dnn_t *dnn);
/* The operands of conv/gemm.c's products: x and the weight, dy and the weight, or dy and x. beta: 0, or 1 in
 * OP_BACKWARD_DATA. Runs on cuda_stream(); may be recorded. */
err_t dnn_run(dnn_t *dnn, const gemm_call_t *call);

/* Frees what was listed, and the handle. */
void dnn_close(void);
/* Such as "cuDNN 9.19.0", "cuDNN missing", or why it is not used; "" if it has not been loaded. load: loads it for
 * this. */
void dnn_describe(bool load, char *out, size_t n_bytes);
/* For tests: lists for the device that this JSON text describes, without one. NULL ends it. ERR_SYSTEM without the
 * library. */
err_t dnn_pretend(const char *device);

#endif
