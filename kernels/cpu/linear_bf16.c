/* SPDX-License-Identifier: MIT */
/* oneDNN's inner product on bfloat16 operands, as a chain of reorders around one primitive. The epilogue and
 * the choice of algorithm are left to linear.c. */
#include "kernels/cpu/linear_bf16.h"

#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/onednn_chain.h"

const char *const linear_bf16_name = "onednn/bf16";

struct linear_bf16 {
    op_pass_t pass;
    onednn_chain_t *chain;
};

/* oneDNN's description of the operator: matrices whose layouts, but for the bias, the primitive chooses. */
typedef struct linear_shape {
    dnnl_memory_desc_t x, weight, bias, y; /* as the primitive may store them */
    dnnl_memory_desc_t our_x, our_weight, our_y;
    bool has_bias;
} linear_shape_t;

static err_t matrix_layouts(dnnl_memory_desc_t *theirs, dnnl_memory_desc_t *ours, int64_t rows,
                            int64_t columns, bool rounded)
{
    dnnl_dims_t dims = {rows, columns};
    E_DNNL(dnnl_memory_desc_init_by_tag(theirs, 2, dims, rounded ? dnnl_bf16 : dnnl_f32, dnnl_format_tag_any),
           "linear layout");
    E_DNNL(dnnl_memory_desc_init_by_tag(ours, 2, dims, dnnl_f32, dnnl_ab), "linear layout");
    return ERR_OK;
}

/* Operands are bfloat16, results float32. */
static err_t shape_of(const op_desc_t *d, op_pass_t pass, linear_shape_t *s)
{
    int64_t n = d->y[0].dim[0], n_out = d->y[0].dim[1], n_in = d->param[0].dim[1];
    dnnl_dims_t bias = {n_out};
    TRY(matrix_layouts(&s->x, &s->our_x, n, n_in, pass != OP_BACKWARD_DATA));
    TRY(matrix_layouts(&s->y, &s->our_y, n, n_out, pass != OP_FORWARD));
    TRY(matrix_layouts(&s->weight, &s->our_weight, n_out, n_in, pass != OP_BACKWARD_WEIGHTS));
    E_DNNL(dnnl_memory_desc_init_by_tag(&s->bias, 1, bias, dnnl_f32, dnnl_x), "linear bias layout");
    s->has_bias = d->attr.linear.has_bias;
    return ERR_OK;
}

static dnnl_status_t describe_product(const linear_shape_t *s, op_pass_t pass, bool training,
                                      dnnl_inner_product_desc_t *out)
{
    const dnnl_memory_desc_t *bias = s->has_bias ? &s->bias : NULL;
    dnnl_prop_kind_t kind = training ? dnnl_forward_training : dnnl_forward_inference;
    if (pass == OP_FORWARD)
        return dnnl_inner_product_forward_desc_init(out, kind, &s->x, &s->weight, bias, &s->y);
    if (pass == OP_BACKWARD_DATA)
        return dnnl_inner_product_backward_data_desc_init(out, &s->x, &s->weight, &s->y);
    return dnnl_inner_product_backward_weights_desc_init(out, &s->x, &s->weight, bias, &s->y);
}

/* oneDNN's best implementation; *out is NULL if it has none but its reference loops. */
static err_t find_primitive(const op_desc_t *d, op_pass_t pass, bool training, linear_shape_t *s,
                            dnnl_primitive_desc_t *out)
{
    dnnl_inner_product_desc_t desc;
    dnnl_primitive_attr_t attr;
    const char *info = "";
    *out = NULL;
    TRY(shape_of(d, pass, s));
    E_DNNL(describe_product(s, pass, training, &desc), "describing linear");
    TRY(onednn_attr_new(&attr));
    dnnl_status_t status = dnnl_primitive_desc_create(out, &desc, attr, onednn_engine(), NULL);
    dnnl_primitive_attr_destroy(attr);
    if (status == dnnl_unimplemented) *out = NULL;
    if (status == dnnl_unimplemented) return ERR_OK;
    E_DNNL(status, "looking for implementations of linear");
    dnnl_primitive_desc_query(*out, dnnl_query_impl_info_str, 0, (void *)&info);
    if (strncmp(info, "ref:", strlen("ref:")) == 0) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
    }
    return ERR_OK;
}

bool linear_bf16_fits(const op_desc_t *desc, op_pass_t pass, bool training)
{
    linear_shape_t s;
    dnnl_primitive_desc_t offer;
    if (desc->compute != DTYPE_BF16 || find_primitive(desc, pass, training, &s, &offer) != ERR_OK || !offer)
        return false;
    dnnl_primitive_desc_destroy(offer);
    return true;
}

enum { MAX_OPERANDS = 4 };

err_t linear_bf16_new(const op_desc_t *desc, op_pass_t pass, bool training, linear_bf16_t **out,
                      size_t *n_workspace_bytes)
{
    linear_shape_t s;
    dnnl_primitive_desc_t offer;
    linear_bf16_t *plan;
    TRY(find_primitive(desc, pass, training, &s, &offer));
    if (!offer) RAISE(ERR_SYSTEM, "oneDNN has no bfloat16 implementation of linear, %s", op_pass_names[pass]);
    const onednn_operand_t operands[OP_PASS_COUNT][MAX_OPERANDS] = {
        [OP_FORWARD] = {{DNNL_ARG_SRC, &s.our_x, false},
                        {DNNL_ARG_WEIGHTS, &s.our_weight, false},
                        {DNNL_ARG_DST, &s.our_y, true},
                        {s.has_bias ? DNNL_ARG_BIAS : 0, &s.bias, false}},
        [OP_BACKWARD_DATA] = {{DNNL_ARG_DIFF_DST, &s.our_y, false},
                              {DNNL_ARG_WEIGHTS, &s.our_weight, false},
                              {DNNL_ARG_DIFF_SRC, &s.our_x, true}},
        [OP_BACKWARD_WEIGHTS] = {{DNNL_ARG_SRC, &s.our_x, false},
                                 {DNNL_ARG_DIFF_DST, &s.our_y, false},
                                 {DNNL_ARG_DIFF_WEIGHTS, &s.our_weight, true},
                                 {s.has_bias ? DNNL_ARG_DIFF_BIAS : 0, &s.bias, true}}};
    err_t err = mem_new(sizeof *plan, "the plan of a product", &plan);
    if (err == ERR_OK) {
        plan->pass = pass;
        err = onednn_chain_new(offer, operands[pass], MAX_OPERANDS, &plan->chain, n_workspace_bytes);
        if (err != ERR_OK)
            linear_bf16_free(&plan);
        else
            *out = plan;
    }
    dnnl_primitive_desc_destroy(offer);
    return err;
}

err_t linear_bf16_run(const linear_bf16_t *plan, const linear_buffers_t *b, void *workspace)
{
    const void *const buffers[OP_PASS_COUNT][MAX_OPERANDS] = {
        [OP_FORWARD] = {b->x, b->weight, b->y, b->bias},
        [OP_BACKWARD_DATA] = {b->dy, b->weight, b->dx},
        [OP_BACKWARD_WEIGHTS] = {b->x, b->dy, b->dweight, b->dbias}};
    return onednn_chain_run(plan->chain, buffers[plan->pass], workspace);
}

void linear_bf16_free(linear_bf16_t **plan)
{
    if (!*plan) return;
    onednn_chain_free(&(*plan)->chain);
    mem_free(plan);
}
