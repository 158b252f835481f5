/* SPDX-License-Identifier: MIT */
/* Checks and launches the preparation of a batch of image bytes on the GPU (pixels.cu). */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/kernels_step.h"

/* An image per launch: they have different sizes, and a batch has few. */
static err_t place_all(const pixels_args_t *args)
{
    ASSERT(!args->maps);
    for (int64_t i = 0; i < args->n; i++) {
        const pixels_canvas_t *canvas = &args->canvases[i];
        const int64_t first = i * args->height * args->width * args->channels;
        ASSERT(canvas->height * canvas->width <= args->height * args->width &&
               canvas->height * canvas->width <= INT32_MAX / args->channels &&
               canvas->image_height <= canvas->height && canvas->image_width <= canvas->width);
        const pixels_placed_t image = {.bytes = args->bytes + first,
                                       .height = canvas->image_height,
                                       .width = canvas->image_width,
                                       .channels = args->channels,
                                       .canvas_height = canvas->height,
                                       .canvas_width = canvas->width,
                                       .norm = args->norm,
                                       .pixels = args->pixels + first};
        E_CUDA(pixels_place(&image, cuda_stream()), "preparing pixels");
    }
    return ERR_OK;
}

err_t cuda_pixels(const pixels_args_t *args)
{
    ASSERT(args->height > 0 && args->width > 0 && args->height * args->width <= INT32_MAX);
    ASSERT(args->channels > 0 && args->channels <= PIXEL_MAX_CHANNELS);
    if (args->canvases) return place_all(args);
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
