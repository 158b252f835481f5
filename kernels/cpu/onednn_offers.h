/* SPDX-License-Identifier: MIT */
/* What differs between oneDNN 2 and 3: layouts, and the implementations that oneDNN offers for a primitive.
 * Not collective. */
#ifndef KERNELS_CPU_ONEDNN_OFFERS_H
#define KERNELS_CPU_ONEDNN_OFFERS_H

#include "kernels/cpu/onednn.h"

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

typedef enum onednn_direction {
    ONEDNN_FORWARD,
    ONEDNN_BACKWARD_DATA,
    ONEDNN_BACKWARD_WEIGHTS,
} onednn_direction_t;

/* A convolution or an inner product to be done; x, weight, bias and y are gradients where the direction
 * computes or takes them. */
typedef struct onednn_product {
    onednn_direction_t direction;
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

#endif
