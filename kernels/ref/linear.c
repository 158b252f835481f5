/* SPDX-License-Identifier: MIT */
/* Reference fully connected layer: a double sum per output. */
#include "kernels/ref/ref.h"

static err_t ref_linear_forward(const op_t *op, const op_args_t *given)
{
    const op_args_t rounded = ref_round(op, given), *args = &rounded;
    int64_t n_out = op->desc.y[0].dim[1], n_in = shape_sample_count(op->desc.x[0]);
    const float *weight = args->param[0].data,
                *bias = op->desc.attr.linear.has_bias ? args->param[1].data : NULL;
    float *y = args->y[0].data;
    for (int64_t n = 0; n < op->desc.y[0].dim[0]; n++)
        for (int64_t o = 0; o < n_out; o++) {
            const float *x = (const float *)args->x[0].data + n * n_in;
            double sum = bias ? bias[o] : 0.0;
            for (int64_t i = 0; i < n_in; i++) sum += (double)x[i] * weight[o * n_in + i];
            *y++ = (float)sum;
        }
    return ERR_OK;
}

static err_t ref_linear_backward(const op_t *op, const op_args_t *given)
{
    const op_args_t rounded = ref_round(op, given), *args = &rounded;
    int64_t n_batch = op->desc.y[0].dim[0], n_out = op->desc.y[0].dim[1],
            n_in = shape_sample_count(op->desc.x[0]);
    const float *x = args->x[0].data, *dy = args->dy[0].data, *weight = args->param[0].data;
    float *dx = args->dx[0].data, *dweight = args->dparam[0].data, *dbias = args->dparam[1].data;
    for (int64_t n = 0; n < n_batch && dx; n++)
        for (int64_t i = 0; i < n_in; i++) {
            double sum = 0;
            for (int64_t o = 0; o < n_out; o++) sum += (double)dy[n * n_out + o] * weight[o * n_in + i];
            dx[n * n_in + i] = (float)sum;
        }
    for (int64_t o = 0; o < n_out && dweight; o++)
        for (int64_t i = 0; i < n_in; i++) {
            double sum = 0;
            for (int64_t n = 0; n < n_batch; n++) sum += (double)dy[n * n_out + o] * x[n * n_in + i];
            dweight[o * n_in + i] = (float)sum;
        }
    for (int64_t o = 0; o < n_out && dbias; o++) {
        double sum = 0;
        for (int64_t n = 0; n < n_batch; n++) sum += dy[n * n_out + o];
        dbias[o] = (float)sum;
    }
    return ERR_OK;
}

const op_kernel_t ref_linear = {
    .plan = ref_round_plan, .forward = ref_linear_forward, .backward = ref_linear_backward};
