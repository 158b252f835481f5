#include "kernels/cpu/cpu.h"
#include "kernels/cpu/loop.h"

LOOP_CLONES static void sgd_block(const sgd_args_t *a, int64_t first, int64_t end)
{
    float *weight = a->weight, *velocity = a->velocity, lr = a->lr, momentum = a->momentum;
    const float *gradient = a->gradient;
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float v = momentum * velocity[i] + gradient[i];
        velocity[i] = v;
        weight[i] -= lr * v;
    }
}

err_t cpu_sgd(const sgd_args_t *args)
{
#pragma omp parallel for schedule(static) if (args->n > LOOP_FORK_MIN)
    for (int64_t i = 0; i < args->n; i += LOOP_BLOCK)
        sgd_block(args, i, i + loop_count(i, args->n, LOOP_BLOCK));
    return ERR_OK;
}
