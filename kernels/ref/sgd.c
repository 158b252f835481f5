#include "kernels/ref/ref.h"

err_t ref_sgd(const sgd_args_t *args)
{
    for (int64_t i = 0; i < args->n; i++) {
        args->velocity[i] = args->momentum * args->velocity[i] + args->gradient[i];
        args->weight[i] = args->weight[i] - args->lr * args->velocity[i];
    }
    return ERR_OK;
}

err_t ref_accumulate(float *dst, const float *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) dst[i] += src[i];
    return ERR_OK;
}
