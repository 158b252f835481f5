/* The pixels of a transform, from what the decoder delivered. */
#include "data/transform/render.h"

#include <string.h>

#include "base/mem.h"
#include "data/transform/jitter.h"

void render_scratch_free(render_scratch_t *scratch)
{
    resize_scratch_free(&scratch->resize);
    mem_free(&scratch->rgb);
    scratch->n_rgb = 0;
}

static err_t make_room(render_scratch_t *scratch, int64_t n_pixels)
{
    size_t n_bytes = 3 * (size_t)n_pixels;
    if (n_bytes <= scratch->n_rgb) return ERR_OK;
    mem_free(&scratch->rgb);
    scratch->n_rgb = 0;
    TRY(mem_new(n_bytes, "an image", &scratch->rgb));
    scratch->n_rgb = n_bytes;
    return ERR_OK;
}

render_window_t render_window(const transform_t *t)
{
    return (render_window_t){t->part, t->width, t->height};
}

static void put_in_square(const transform_t *t, const uint8_t *inner, uint8_t *rgb)
{
    const int64_t size = t->size;
    memset(rgb, TRANSFORM_GREY, (size_t)(3 * size * size));
    for (int64_t y = 0; y < t->height; y++)
        memcpy(rgb + 3 * ((t->top + y) * size + t->left), inner + 3 * y * t->width, (size_t)(3 * t->width));
}

err_t render(const transform_t *t, const image_t *image, image_rect_t place, render_scratch_t *scratch,
             uint8_t *rgb)
{
    bool whole = t->width == t->size && t->height == t->size;
    if (!whole) TRY(make_room(scratch, t->width * t->height));
    uint8_t *to = whole ? rgb : scratch->rgb;
    TRY(resize(image, place, t->mirror, t->width, t->height, &scratch->resize, to));
    jitter_apply(t->brightness, t->contrast, t->saturation, to, t->width * t->height);
    if (!whole) put_in_square(t, to, rgb);
    return ERR_OK;
}
