#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matrix.h"
#include "kernels/cpu/onednn.h"

/* dnnl_sgemm on our row-major buffers reaches 100–130 GFLOP/s on one AVX-512 core at LeNet's 64×800→500,
 * which leaves nothing for primitives in layouts of their own and the reorders they cost. */

static err_t forward(const op_t *op, const op_args_t *args)
{
    int64_t n = op->desc.y.dim[0], n_out = op->desc.y.dim[1], n_in = op->desc.param[0].dim[1];
    bool has_bias = op->desc.attr.linear.has_bias;
    if (has_bias) matrix_spread_rows(args->y, args->param[1], n, n_out);
    E_DNNL(dnnl_sgemm('N', 'T', n, n_out, n_in, 1, args->x[0], n_in, args->param[0], n_in, has_bias ? 1 : 0,
                      args->y, n_out),
           "sgemm, linear forward");
    return ERR_OK;
}

static err_t backward(const op_t *op, const op_args_t *args)
{
    int64_t n = op->desc.y.dim[0], n_out = op->desc.y.dim[1], n_in = op->desc.param[0].dim[1];
    E_DNNL(
        dnnl_sgemm('T', 'N', n_out, n_in, n, 1, args->dy, n_out, args->x[0], n_in, 0, args->dparam[0], n_in),
        "sgemm, linear weight gradient");
    if (args->dx[0])
        E_DNNL(dnnl_sgemm('N', 'N', n, n_in, n_out, 1, args->dy, n_out, args->param[0], n_in, 0, args->dx[0],
                          n_in),
               "sgemm, linear data gradient");
    if (!op->desc.attr.linear.has_bias) return ERR_OK;
    matrix_sum_columns(args->dparam[1], args->dy, n, n_out);
    return ERR_OK;
}

const op_kernel_t cpu_linear = {.forward = forward, .backward = backward};
