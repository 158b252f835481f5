/* SPDX-License-Identifier: MIT */
/* The optimizers of compute/ops/optim_args.h as one fused pass over parameters, state and weight average, and
 * the sum of squares of a gradient. Learning rates and schedules are left to train/. */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

/* The weight average is updated block by block, right after the step, while the weights are in the cache. */
typedef void (*block_t)(const optim_args_t *args, int64_t first, int64_t end);

LOOP_CLONES(average_block, (const optim_args_t *a, int64_t first, int64_t end), (a, first, end))
{
    const float *weight = a->weight;
    float *average = a->average, rest = (float)(1 - a->average_decay);
#pragma omp simd
    for (int64_t i = first; i < end; i++) average[i] += rest * (weight[i] - average[i]);
}

static err_t optim_run(const optim_args_t *args, block_t update)
{
#pragma omp parallel for schedule(static) if (args->n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < args->n; i += LOOP_BLOCK) {
        int64_t end = i + loop_count(i, args->n, LOOP_BLOCK);
        update(args, i, end);
        if (args->average) average_block(args, i, end);
    }
    return ERR_OK;
}

LOOP_CLONES(sgd_block, (const optim_args_t *a, int64_t first, int64_t end), (a, first, end))
{
    float *weight = a->weight, *velocity = a->state[0];
    const float *gradient = a->gradient;
    float scale = (float)a->gradient_scale, decay = (float)a->weight_decay;
    float lr = (float)a->lr, momentum = (float)a->momentum;
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float v = momentum * velocity[i] + (scale * gradient[i] + decay * weight[i]);
        velocity[i] = v;
        weight[i] -= lr * v;
    }
}

LOOP_CLONES(nesterov_block, (const optim_args_t *a, int64_t first, int64_t end), (a, first, end))
{
    float *weight = a->weight, *velocity = a->state[0];
    const float *gradient = a->gradient;
    float scale = (float)a->gradient_scale, decay = (float)a->weight_decay;
    float lr = (float)a->lr, momentum = (float)a->momentum;
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float g = scale * gradient[i] + decay * weight[i], v = momentum * velocity[i] + g;
        velocity[i] = v;
        weight[i] -= lr * (g + momentum * v);
    }
}

err_t cpu_optim_sgd(const optim_args_t *args)
{
    return optim_run(args, args->nesterov ? nesterov_block : sgd_block);
}

LOOP_CLONES(adadelta_block, (const optim_args_t *a, int64_t first, int64_t end), (a, first, end))
{
    float *weight = a->weight, *square_average = a->state[0], *update_average = a->state[1];
    const float *gradient = a->gradient;
    float scale = (float)a->gradient_scale, decay = (float)a->weight_decay, lr = (float)a->lr;
    float rho = (float)a->rho, rest = (float)(1 - a->rho), epsilon = (float)a->epsilon;
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float g = scale * gradient[i] + decay * weight[i];
        float s = rho * square_average[i] + rest * g * g, u = update_average[i];
        float delta = sqrtf((u + epsilon) / (s + epsilon)) * g;
        square_average[i] = s;
        update_average[i] = rho * u + rest * delta * delta;
        weight[i] -= lr * delta;
    }
}

err_t cpu_optim_adadelta(const optim_args_t *args)
{
    return optim_run(args, adadelta_block);
}

/* Bias corrections are hoisted out of the loop: lr·(m/c1)/(√(v/c2) + ε) = (lr/c1)·m / (√v·√(1/c2) + ε). */
LOOP_CLONES(adamw_block, (const optim_args_t *a, int64_t first, int64_t end), (a, first, end))
{
    float *weight = a->weight, *moment = a->state[0], *square = a->state[1];
    const float *gradient = a->gradient;
    float scale = (float)a->gradient_scale, decay = (float)(a->lr * a->weight_decay);
    float lr = (float)(a->lr / a->correction[0]), root = (float)sqrt(1 / a->correction[1]);
    float beta1 = (float)a->beta[0], rest1 = (float)(1 - a->beta[0]);
    float beta2 = (float)a->beta[1], rest2 = (float)(1 - a->beta[1]), epsilon = (float)a->epsilon;
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float g = scale * gradient[i];
        float m = beta1 * moment[i] + rest1 * g, v = beta2 * square[i] + rest2 * g * g;
        moment[i] = m;
        square[i] = v;
        weight[i] = weight[i] - decay * weight[i] - lr * m / (sqrtf(v) * root + epsilon);
    }
}

err_t cpu_optim_adamw(const optim_args_t *args)
{
    return optim_run(args, adamw_block);
}

LOOP_CLONES(lars_block, (const optim_args_t *a, int64_t first, int64_t end), (a, first, end))
{
    float *weight = a->weight, *velocity = a->state[0];
    const float *gradient = a->gradient;
    float scale = (float)a->gradient_scale, decay = (float)a->weight_decay;
    float rate = (float)(a->lr * a->trust_ratio), momentum = (float)a->momentum;
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float v = momentum * velocity[i] + rate * (scale * gradient[i] + decay * weight[i]);
        velocity[i] = v;
        weight[i] -= v;
    }
}

err_t cpu_optim_lars(const optim_args_t *args)
{
    return optim_run(args, lars_block);
}

/* Each lane accumulates separately, so that vectors of any width add in the same order. */
enum { N_LANES = 16, MAX_CHUNKS = 256 };

LOOP_CLONES(sum_squares_chunk, (const float *x, int64_t n, double *out), (x, n, out))
{
    double lane[N_LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + N_LANES <= n; i += N_LANES)
#pragma omp simd
        for (int k = 0; k < N_LANES; k++) lane[k] += (double)x[i + k] * x[i + k];
    for (int k = 0; i < n; i++, k++) lane[k] += (double)x[i] * x[i];
    for (int k = 0; k < N_LANES; k++) sum += lane[k];
    *out = sum;
}

/* Long arrays get longer chunks, not more of them: the chunk sums fit on the stack. */
err_t cpu_sum_squares(const float *x, int64_t n, double *out)
{
    double chunk_sum[MAX_CHUNKS], sum = 0;
    int64_t chunk = (n + MAX_CHUNKS - 1) / MAX_CHUNKS;
    if (chunk < LOOP_BLOCK) chunk = LOOP_BLOCK;
#pragma omp parallel for schedule(static) if (n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < n; i += chunk)
        sum_squares_chunk(x + i, loop_count(i, n, chunk), &chunk_sum[i / chunk]);
    for (int64_t i = 0; i < n; i += chunk) sum += chunk_sum[i / chunk];
    *out = sum;
    return ERR_OK;
}
