/* SPDX-License-Identifier: MIT */
/* Sum of squares and tally of a batch; owns the buffers they need from open to close. Only the sum of squares
 * waits. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_step.h"

static struct {
    double *partial; /* on the device: REDUCE_MAX_PARTIALS, followed by their sum */
    double *sum;     /* pinned */
} self;

err_t cuda_reduce_open(void)
{
    void *block = NULL;
    TRY(cuda_memory.alloc((REDUCE_MAX_PARTIALS + 1) * sizeof *self.partial, "partial sums", &block));
    self.partial = block;
    TRY(cuda_memory.alloc_host(sizeof *self.sum, "a sum", &block));
    self.sum = block;
    return ERR_OK;
}

void cuda_reduce_close(void)
{
    if (self.partial) cuda_memory.release(self.partial);
    if (self.sum) cuda_memory.release_host(self.sum);
    self.partial = self.sum = NULL;
}

err_t cuda_sum_squares(const float *x, int64_t n, double *out)
{
    double *sum = self.partial + REDUCE_MAX_PARTIALS;
    E_CUDA(reduce_sum_squares(x, n, self.partial, sum, cuda_stream()), "a sum of squares");
    TRY(cuda_memory.download(self.sum, sum, sizeof *sum));
    TRY(cuda_memory.sync());
    *out = *self.sum;
    return ERR_OK;
}

err_t cuda_tally(const float *losses, const int32_t *predictions, const int32_t *labels, int64_t n,
                 float *totals)
{
    E_CUDA(reduce_tally(losses, predictions, labels, n, totals, cuda_stream()), "adding losses");
    return ERR_OK;
}
