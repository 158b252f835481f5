/* SPDX-License-Identifier: MIT */
/* Builds and runs the reorders around a primitive whose layouts or types differ from ours. Which primitive,
 * and in which layouts, is the operator's choice. */
#include "kernels/cpu/onednn_chain.h"

#include "base/mem.h"

typedef struct link {
    onednn_pass_t reorder; /* between our layout and the primitive's; empty if they are equal */
    size_t offset;         /* of the primitive's copy in the workspace */
    int operand;           /* index of the caller's buffer */
    bool is_output;
} link_t;

struct onednn_chain {
    onednn_pass_t compute;
    link_t link[ONEDNN_MAX_OPERANDS];
    int n_links;
    size_t n_copy_bytes; /* copies, before the scratchpad */
    size_t n_scratch_bytes;
};

void onednn_chain_free(onednn_chain_t **chain)
{
    onednn_chain_t *c = *chain;
    if (!c) return;
    onednn_pass_free(&c->compute);
    for (int i = 0; i < c->n_links; i++) onednn_pass_free(&c->link[i].reorder);
    mem_free(chain);
}

static void need_scratch(onednn_chain_t *chain, const onednn_pass_t *pass)
{
    if (pass->n_scratch_bytes > chain->n_scratch_bytes) chain->n_scratch_bytes = pass->n_scratch_bytes;
}

static err_t add_link(onednn_chain_t *chain, const onednn_operand_t *ours, onednn_md_t theirs, int operand)
{
    link_t *l = &chain->link[chain->n_links++];
    l->operand = operand;
    l->is_output = ours->is_output;
    if (dnnl_memory_desc_equal(theirs, ours->ours)) return ERR_OK;
    l->offset = chain->n_copy_bytes;
    chain->n_copy_bytes += mem_round(dnnl_memory_desc_get_size(theirs));
    TRY(ours->is_output ? onednn_pass_reorder(&l->reorder, theirs, ours->ours)
                        : onednn_pass_reorder(&l->reorder, ours->ours, theirs));
    need_scratch(chain, &l->reorder);
    return ERR_OK;
}

static err_t chain_fill(onednn_chain_t *chain, const_dnnl_primitive_desc_t desc,
                        const onednn_operand_t *operands, int n)
{
    onednn_slot_t slots[ONEDNN_MAX_OPERANDS];
    for (int i = 0; i < n; i++) {
        int arg = operands[i].arg;
        if (!arg) continue;
        onednn_md_t theirs = dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg);
        slots[chain->n_links] = (onednn_slot_t){arg, theirs};
        TRY(add_link(chain, &operands[i], theirs, i));
    }
    TRY(onednn_pass_new(&chain->compute, desc, slots, chain->n_links));
    need_scratch(chain, &chain->compute);
    return ERR_OK;
}

err_t onednn_chain_new(const_dnnl_primitive_desc_t desc, const onednn_operand_t *operands, int n,
                       onednn_chain_t **out, size_t *n_workspace_bytes)
{
    onednn_chain_t *chain;
    ASSERT(n <= ONEDNN_MAX_OPERANDS);
    TRY(mem_new(sizeof *chain, "the plan of a product", &chain));
    err_t err = chain_fill(chain, desc, operands, n);
    if (err != ERR_OK) {
        onednn_chain_free(&chain);
        return err;
    }
    *n_workspace_bytes = chain->n_copy_bytes + chain->n_scratch_bytes;
    *out = chain;
    return ERR_OK;
}

err_t onednn_chain_run(const onednn_chain_t *chain, const void *const *buffers, void *workspace)
{
    const void *theirs[ONEDNN_MAX_OPERANDS];
    char *scratch = (char *)workspace + chain->n_copy_bytes;
    for (int i = 0; i < chain->n_links; i++) {
        const link_t *l = &chain->link[i];
        const void *ours = buffers[l->operand];
        theirs[i] = l->reorder.primitive ? (char *)workspace + l->offset : ours;
        if (l->reorder.primitive && !l->is_output)
            TRY(onednn_pass_run(&l->reorder, (const void *[]){ours, theirs[i]}, scratch));
    }
    TRY(onednn_pass_run(&chain->compute, theirs, scratch));
    for (int i = 0; i < chain->n_links; i++) {
        const link_t *l = &chain->link[i];
        if (l->reorder.primitive && l->is_output)
            TRY(onednn_pass_run(&l->reorder, (const void *[]){theirs[i], buffers[l->operand]}, scratch));
    }
    return ERR_OK;
}
