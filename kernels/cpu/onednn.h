/* SPDX-License-Identifier: MIT */
/* oneDNN's C API with our errors and our memory. A pass is one primitive and its memory objects, created once
 * and run on the caller's buffers. A run allocates nothing: the caller provides scratch memory too. */
#ifndef KERNELS_CPU_ONEDNN_H
#define KERNELS_CPU_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "base/err.h"
#include "compute/ops/op.h"

/* A layout as oneDNN's functions take it. The other differences between versions are below. */
#if DNNL_VERSION_MAJOR == 2
typedef const dnnl_memory_desc_t *onednn_md_t;
#elif DNNL_VERSION_MAJOR == 3
typedef const_dnnl_memory_desc_t onednn_md_t;
#else
#error "dptrain's cpu backend is written for oneDNN 2 and 3 (libdnnl-dev of Debian 12 and 13)"
#endif

/* Returns ERR_SYSTEM with oneDNN's name for the failure unless the call succeeds. */
#define E_DNNL(call, what) TRY(onednn_check((call), (what), __FILE__, __LINE__))
err_t onednn_check(dnnl_status_t status, const char *what, const char *file, int line);

/* The engine and stream of this process. May be opened twice, and closed without being open. */
err_t onednn_open(void);
void onednn_close(void);
dnnl_engine_t onednn_engine(void);
/* Such as "oneDNN 2.6.3, avx512_core". */
void onednn_describe(char *out, size_t n_bytes);
/* Whether this CPU has instructions for bfloat16 products. Without them oneDNN may still offer such
 * primitives, but slow ones. */
bool onednn_has_bf16(void);
bool onednn_has_amx(void);

enum { ONEDNN_MAX_ARGS = 6 };

typedef struct onednn_pass {
    dnnl_primitive_t primitive; /* NULL: nothing to run */
    int n_args;                 /* the last is the scratchpad */
    dnnl_exec_arg_t arg[ONEDNN_MAX_ARGS];
    size_t n_scratch_bytes;
} onednn_pass_t;

/* One argument of a pass: DNNL_ARG_… and its layout. */
typedef struct onednn_slot {
    int arg;
    onednn_md_t layout;
} onednn_slot_t;

/* Attributes shared by all primitives here: the caller provides the scratchpad. Free with
 * dnnl_primitive_attr_destroy. */
err_t onednn_attr_new(dnnl_primitive_attr_t *out);

/* Slots with arg 0 are skipped. The caller keeps desc. On an error *pass is empty. */
err_t onednn_pass_new(onednn_pass_t *pass, const_dnnl_primitive_desc_t desc, const onednn_slot_t *slots,
                      int n_slots);
/* A copy from one layout to another; arguments: source, destination. */
err_t onednn_pass_reorder(onednn_pass_t *pass, onednn_md_t from, onednn_md_t to);
/* buffers: in the order of the slots that were not skipped. */
err_t onednn_pass_run(const onednn_pass_t *pass, const void *const *buffers, void *scratch);
void onednn_pass_free(onednn_pass_t *pass);

/* A layout of our own: a struct in oneDNN 2, an object in 3. Starts as zeroes; free it also after an error. */
typedef struct onednn_layout {
    dnnl_memory_desc_t desc;
} onednn_layout_t;

err_t onednn_layout_by_tag(onednn_layout_t *out, int n_dims, const int64_t *dims, dnnl_data_type_t type,
                           dnnl_format_tag_t tag, const char *what);
err_t onednn_layout_by_strides(onednn_layout_t *out, int n_dims, const int64_t *dims, dnnl_data_type_t type,
                               const int64_t *strides, const char *what);
/* As oneDNN's functions and onednn_slot_t take it; valid as long as the layout. */
onednn_md_t onednn_md(const onednn_layout_t *layout);
void onednn_layout_free(onednn_layout_t *layout);

/* A convolution or an inner product to be done; x, weight, bias and y are gradients where the pass
 * computes or takes them. */
typedef struct onednn_product {
    op_pass_t pass;
    bool training;        /* of a forward pass */
    dnnl_alg_kind_t conv; /* dnnl_alg_kind_undef: an inner product, without the windows below */
    const onednn_layout_t *x, *weight, *bias, *y; /* bias NULL: none */
    dnnl_dims_t strides, dilation, padding;       /* dilation: skipped pixels */
} onednn_product_t;

/* oneDNN's implementations in its order of preference; may be none. */
typedef struct onednn_offers onednn_offers_t;

/* what: for messages, such as "conv2d". On an error *out is unchanged. */
err_t onednn_offers_open(const onednn_product_t *product, const char *what, onednn_offers_t **out);
/* The next one, to be destroyed by the caller; NULL after the last. */
dnnl_primitive_desc_t onednn_offers_next(onednn_offers_t *offers);
void onednn_offers_close(onednn_offers_t **offers);

/* Such as "jit:avx512_core"; "x64:gemm:jit" without its "x64:". Valid as long as desc. */
const char *onednn_offer_name(const_dnnl_primitive_desc_t desc);

/* The tensors of such a product: in the layouts of its primitive, which may choose them, and in ours. Starts as zeroes; free
 * it also after an error. */
typedef struct onednn_tensors {
    onednn_layout_t x, weight, bias, y;
    onednn_layout_t our_x, our_weight, our_y;
    bool has_bias;
} onednn_tensors_t;
void onednn_tensors_free(onednn_tensors_t *tensors);

/* A primitive on buffers in our layouts and types: inputs that differ are reordered into the workspace before it, outputs
 * from there after it. */
typedef struct onednn_chain onednn_chain_t;

/* The caller keeps desc. On an error *out is unchanged. */
err_t onednn_chain_new(const_dnnl_primitive_desc_t desc, op_pass_t pass, const onednn_tensors_t *tensors,
                       onednn_chain_t **out, size_t *n_workspace_bytes);
/* Allocates nothing.
 *
 *   buffers    [ONEDNN_OPERANDS] forward: x, weight, y, bias; backward: dy, weight, dx; x, dy, dweight, dbias. Without
 *              bias the last is ignored
 *   workspace  64-byte aligned */
enum { ONEDNN_OPERANDS = 4 };
err_t onednn_chain_run(const onednn_chain_t *chain, const void *const *buffers, void *workspace);
void onednn_chain_free(onednn_chain_t **chain);

#endif
