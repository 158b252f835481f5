/* SPDX-License-Identifier: MIT */
/* A oneDNN primitive on buffers in our layouts and types: inputs that differ are reordered into the workspace
 * before it, outputs from there after it. Not collective. */
#ifndef KERNELS_CPU_ONEDNN_CHAIN_H
#define KERNELS_CPU_ONEDNN_CHAIN_H

#include "kernels/cpu/onednn.h"

enum { ONEDNN_MAX_OPERANDS = ONEDNN_MAX_ARGS - 1 }; /* the scratchpad is an argument too */

typedef struct onednn_operand {
    int arg; /* DNNL_ARG_…; 0: absent */
    onednn_md_t ours;
    bool is_output;
} onednn_operand_t;

typedef struct onednn_chain onednn_chain_t;

/* n: at most ONEDNN_MAX_OPERANDS. The caller keeps desc. On an error *out is unchanged. */
err_t onednn_chain_new(const_dnnl_primitive_desc_t desc, const onednn_operand_t *operands, int n,
                       onednn_chain_t **out, size_t *n_workspace_bytes);
/* Allocates nothing.
 *
 *   buffers    in the order of the operands, absent ones included
 *   workspace  64-byte aligned */
err_t onednn_chain_run(const onednn_chain_t *chain, const void *const *buffers, void *workspace);
void onednn_chain_free(onednn_chain_t **chain);

#endif
