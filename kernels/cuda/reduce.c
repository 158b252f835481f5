/* SPDX-License-Identifier: MIT */
/* Norms and tally of a batch, and hashes; owns the buffer for partial sums from open to close. */
#include "base/hash.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_step.h"

static double *partial; /* on the device: REDUCE_MAX_PARTIALS, followed by REDUCE_MAX_SUMS sums */

err_t cuda_reduce_open(void)
{
    void *block = NULL;
    TRY(cuda_memory.alloc((REDUCE_MAX_PARTIALS + REDUCE_MAX_SUMS) * sizeof *partial, "partial sums", &block));
    partial = block;
    return ERR_OK;
}

void cuda_reduce_close(void)
{
    if (partial) cuda_memory.release(partial);
    partial = NULL;
}

err_t cuda_norms(const optim_norms_t *args)
{
    const int most = REDUCE_MAX_SUMS / 2;
    if (args->n_spans > most)
        RAISE(ERR_SYSTEM,
              "gradient norms on a GPU: the model has %d groups of parameters, at most %d are supported",
              args->n_spans, most);
    E_CUDA(reduce_norms(args, partial, partial + REDUCE_MAX_PARTIALS, cuda_stream()), "gradient norms");
    return ERR_OK;
}

err_t cuda_hash(const void *device, size_t n_bytes, uint64_t seed, uint64_t *out)
{
    uint64_t *sum = (uint64_t *)(void *)partial, terms = 0;
    TRY(cuda_memory.zero(sum, sizeof *sum));
    E_CUDA(reduce_hash(device, n_bytes, sum, cuda_stream()), "hashing memory of the GPU");
    TRY(cuda_memory.download(&terms, sum, sizeof terms));
    TRY(cuda_memory.sync());
    *out = word_hash_mix(seed) + terms;
    return ERR_OK;
}

err_t cuda_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                 float *totals)
{
    E_CUDA(reduce_tally(losses, predictions, labels, n, totals, cuda_stream()), "adding losses");
    return ERR_OK;
}
