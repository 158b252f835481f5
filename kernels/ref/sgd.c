#include "kernels/ref/ref.h"

err_t ref_sgd(const sgd_args_t *args)
{
    for (int64_t i = 0; i < args->n; i++) {
        args->velocity[i] = args->momentum * args->velocity[i] + args->gradient[i];
        args->weight[i] = args->weight[i] - args->lr * args->velocity[i];
    }
    return ERR_OK;
}
