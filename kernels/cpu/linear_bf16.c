/* SPDX-License-Identifier: MIT */
/* oneDNN's inner product on bfloat16 operands, as a chain of reorders around one primitive. The epilogue and
 * the choice of algorithm are left to linear.c. */
#include "kernels/cpu/linear_bf16.h"

#include <string.h>

#include "base/mem.h"
#include "kernels/cpu/onednn_chain.h"
#include "kernels/cpu/onednn_offers.h"

const char *const linear_bf16_name = "onednn/bf16";

struct linear_bf16 {
    op_pass_t pass;
    onednn_chain_t *chain;
};

/* oneDNN's description of the operator: matrices whose layouts, but for the bias, the primitive chooses. */
typedef struct linear_shape {
    onednn_layout_t x, weight, bias, y; /* as the primitive may store them */
    onednn_layout_t our_x, our_weight, our_y;
    bool has_bias;
} linear_shape_t;

static void shape_free(linear_shape_t *s)
{
    onednn_layout_t *const layouts[] = {&s->x,     &s->weight,     &s->bias, &s->y,
                                        &s->our_x, &s->our_weight, &s->our_y};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) onednn_layout_free(layouts[i]);
}

static err_t matrix_layouts(onednn_layout_t *theirs, onednn_layout_t *ours, int64_t rows, int64_t columns,
                            bool rounded)
{
    dnnl_dims_t dims = {rows, columns};
    TRY(onednn_layout_by_tag(theirs, 2, dims, rounded ? dnnl_bf16 : dnnl_f32, dnnl_format_tag_any,
                             "linear layout"));
    return onednn_layout_by_tag(ours, 2, dims, dnnl_f32, dnnl_ab, "linear layout");
}

/* Operands are bfloat16, results float32. */
static err_t shape_of(const op_desc_t *d, op_pass_t pass, linear_shape_t *s)
{
    int64_t n = d->y[0].dim[0], n_out = d->y[0].dim[1], n_in = d->param[0].dim[1];
    dnnl_dims_t bias = {n_out};
    TRY(matrix_layouts(&s->x, &s->our_x, n, n_in, pass != OP_BACKWARD_DATA));
    TRY(matrix_layouts(&s->y, &s->our_y, n, n_out, pass != OP_FORWARD));
    TRY(matrix_layouts(&s->weight, &s->our_weight, n_out, n_in, pass != OP_BACKWARD_WEIGHTS));
    TRY(onednn_layout_by_tag(&s->bias, 1, bias, dnnl_f32, dnnl_x, "linear bias layout"));
    s->has_bias = d->attr.linear.has_bias;
    return ERR_OK;
}

/* oneDNN's best implementation; *out is NULL if it has none but its reference loops. The caller frees the
 * shape, also after an error. */
static err_t find_primitive(const op_desc_t *d, op_pass_t pass, bool training, linear_shape_t *s,
                            dnnl_primitive_desc_t *out)
{
    static const onednn_direction_t directions[OP_PASS_COUNT] = {[OP_FORWARD] = ONEDNN_FORWARD,
                                                                 [OP_BACKWARD_DATA] = ONEDNN_BACKWARD_DATA,
                                                                 [OP_BACKWARD_WEIGHTS] =
                                                                     ONEDNN_BACKWARD_WEIGHTS};
    onednn_offers_t *offers = NULL;
    *s = (linear_shape_t){.has_bias = false};
    *out = NULL;
    TRY(shape_of(d, pass, s));
    const onednn_product_t product = {.direction = directions[pass],
                                      .training = training,
                                      .conv = dnnl_alg_kind_undef,
                                      .x = &s->x,
                                      .weight = &s->weight,
                                      .bias = s->has_bias ? &s->bias : NULL,
                                      .y = &s->y};
    TRY(onednn_offers_open(&product, "looking for implementations of linear", &offers));
    *out = onednn_offers_next(offers);
    onednn_offers_close(&offers);
    if (*out && strncmp(onednn_offer_name(*out), "ref:", strlen("ref:")) == 0) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
    }
    return ERR_OK;
}

bool linear_bf16_fits(const op_desc_t *desc, op_pass_t pass, bool training)
{
    linear_shape_t s;
    dnnl_primitive_desc_t offer;
    if (desc->compute != DTYPE_BF16) return false;
    bool there = find_primitive(desc, pass, training, &s, &offer) == ERR_OK && offer;
    if (there) dnnl_primitive_desc_destroy(offer);
    shape_free(&s);
    return there;
}

enum { MAX_OPERANDS = 4 };

static err_t make_chain(const_dnnl_primitive_desc_t offer, op_pass_t pass, const linear_shape_t *s,
                        onednn_chain_t **out, size_t *n_workspace_bytes)
{
    onednn_md_t x = onednn_md(&s->our_x), y = onednn_md(&s->our_y), weight = onednn_md(&s->our_weight);
    onednn_md_t bias = onednn_md(&s->bias);
    const onednn_operand_t operands[OP_PASS_COUNT][MAX_OPERANDS] = {
        [OP_FORWARD] = {{DNNL_ARG_SRC, x, false},
                        {DNNL_ARG_WEIGHTS, weight, false},
                        {DNNL_ARG_DST, y, true},
                        {s->has_bias ? DNNL_ARG_BIAS : 0, bias, false}},
        [OP_BACKWARD_DATA] = {{DNNL_ARG_DIFF_DST, y, false},
                              {DNNL_ARG_WEIGHTS, weight, false},
                              {DNNL_ARG_DIFF_SRC, x, true}},
        [OP_BACKWARD_WEIGHTS] = {{DNNL_ARG_SRC, x, false},
                                 {DNNL_ARG_DIFF_DST, y, false},
                                 {DNNL_ARG_DIFF_WEIGHTS, weight, true},
                                 {s->has_bias ? DNNL_ARG_DIFF_BIAS : 0, bias, true}}};
    return onednn_chain_new(offer, operands[pass], MAX_OPERANDS, out, n_workspace_bytes);
}

err_t linear_bf16_new(const op_desc_t *desc, op_pass_t pass, bool training, linear_bf16_t **out,
                      size_t *n_workspace_bytes)
{
    err_t err;
    linear_shape_t s;
    dnnl_primitive_desc_t offer;
    linear_bf16_t *plan = NULL;
    TRY_OUT(err, find_primitive(desc, pass, training, &s, &offer));
    TRY_OUT(err, offer
                     ? ERR_OK
                     : err_raise(ERR_SYSTEM, __FILE__, __LINE__,
                                 "oneDNN has no bfloat16 implementation of linear, %s", op_pass_names[pass]));
    TRY_OUT(err, mem_new(sizeof *plan, "the plan of a product", &plan));
    plan->pass = pass;
    TRY_OUT(err, make_chain(offer, pass, &s, &plan->chain, n_workspace_bytes));
    *out = plan;
out:
    if (err != ERR_OK) linear_bf16_free(&plan);
    if (offer) dnnl_primitive_desc_destroy(offer);
    shape_free(&s);
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
