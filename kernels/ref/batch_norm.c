#include <math.h>

#include "kernels/ref/ref.h"

/* Saved: mean and 1/std of the batch, [2, c], in double so that backward starts from no rounding. */
static err_t plan(op_t *op)
{
    op->n_saved_bytes = op->training ? 2 * (size_t)op->desc.param[0].dim[0] * sizeof(double) : 0;
    return ERR_OK;
}

/* One channel: m elements, c apart. */
static void batch_moments(const float *x, int64_t m, int64_t c, double *mean, double *variance)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < m; i++) sum += x[i * c];
    *mean = sum / (double)m;
    for (int64_t i = 0; i < m; i++) squares += (x[i * c] - *mean) * (x[i * c] - *mean);
    *variance = squares / (double)m;
}

static void update_running(float *running, double batch, double momentum)
{
    *running = (float)(*running + momentum * (batch - *running));
}

static err_t forward(const op_t *op, const op_args_t *args)
{
    const batch_norm_attr_t *a = &op->desc.attr.batch_norm;
    int64_t c_count = op->desc.param[0].dim[0], m = shape_count(op->desc.y) / c_count;
    const float *x = args->x[0], *gamma = args->param[0], *beta = args->param[1];
    float *y = args->y, *running_mean = args->state[0], *running_variance = args->state[1];
    double *saved = op->n_saved_bytes ? args->saved : NULL;
    for (int64_t c = 0; c < c_count; c++) {
        double mean = running_mean[c], variance = running_variance[c];
        if (args->training) {
            batch_moments(x + c, m, c_count, &mean, &variance);
            update_running(&running_mean[c], mean, a->momentum);
            update_running(&running_variance[c], m > 1 ? variance * (double)m / (double)(m - 1) : variance,
                           a->momentum);
        }
        double inverse_std = 1 / sqrt(variance + a->epsilon);
        for (int64_t i = c; i < m * c_count; i += c_count)
            y[i] = (float)(gamma[c] * ((x[i] - mean) * inverse_std) + beta[c]);
        if (saved) saved[c] = mean, saved[c_count + c] = inverse_std;
    }
    return ERR_OK;
}

/* With x̂ = (x−mean)/std: dβ = Σ dy, dγ = Σ dy·x̂, dx = γ/std · (dy − dβ/m − x̂·dγ/m); Ioffe & Szegedy 2015,
 * section 3. */
static err_t backward(const op_t *op, const op_args_t *args)
{
    int64_t c_count = op->desc.param[0].dim[0], m = shape_count(op->desc.y) / c_count;
    const float *x = args->x[0], *dy = args->dy, *gamma = args->param[0];
    float *dx = args->dx[0], *dgamma = args->dparam[0], *dbeta = args->dparam[1];
    const double *saved = args->saved;
    for (int64_t c = 0; c < c_count; c++) {
        double mean = saved[c], inverse_std = saved[c_count + c], sum_dy = 0, sum_dy_xhat = 0;
        for (int64_t i = c; i < m * c_count; i += c_count) {
            sum_dy += dy[i];
            sum_dy_xhat += dy[i] * ((x[i] - mean) * inverse_std);
        }
        dbeta[c] = (float)sum_dy;
        dgamma[c] = (float)sum_dy_xhat;
        for (int64_t i = c; i < m * c_count && dx; i += c_count) {
            double xhat = (x[i] - mean) * inverse_std;
            dx[i] = (float)(gamma[c] * inverse_std * (dy[i] - (sum_dy + xhat * sum_dy_xhat) / (double)m));
        }
    }
    return ERR_OK;
}

const op_kernel_t ref_batch_norm = {.plan = plan, .forward = forward, .backward = backward};
