/* SPDX-License-Identifier: MIT */
/* Checks and launches the preparation of a batch of image bytes on the GPU (pixels.cu). */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_step.h"

err_t cuda_pixels(const pixels_args_t *args)
{
    ASSERT(args->height > 0 && args->width > 0 && args->height * args->width <= INT32_MAX);
    ASSERT(args->channels > 0 && args->channels <= PIXEL_MAX_CHANNELS);
    const pixels_batch_t batch = {.bytes = args->bytes,
                                  .maps = args->maps,
                                  .n = args->n,
                                  .height = args->height,
                                  .width = args->width,
                                  .channels = args->channels,
                                  .norm = args->norm,
                                  .pixels = args->pixels};
    E_CUDA(pixels_prepare(&batch, cuda_stream()), "preparing pixels");
    return ERR_OK;
}
