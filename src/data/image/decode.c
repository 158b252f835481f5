/* SPDX-License-Identifier: MIT */
/* Decodes an image, or the part of it that is needed, through the reader of its format, which the first bytes tell, and
 * applies EXIF's orientation. Resizing to the final size is left to resize.c. */
#include <math.h>
#include <string.h>

#include "base/file_kind.h"
#include "base/fs.h"
#include "base/mem.h"
#include "data/image/orient.h"
#include "data/image/reader.h"

enum { RGB = 3, DEFAULT_MAX_PIXELS = 89478485, STATE_MAX = 4096 };

const char *const image_format_names[IMAGE_FORMAT_COUNT] = {"JPEG", "PNG"};
static const reader_ops_t *const readers[IMAGE_FORMAT_COUNT] = {&jpeg_reader, &png_reader};

bool image_is_named(const char *path)
{
    return fs_has_suffix(path, ".jpg") || fs_has_suffix(path, ".jpeg") || fs_has_suffix(path, ".png");
}

/* Half of a PNG signature is enough; libpng then reports the damage. */
static err_t recognise(image_bytes_t from, image_format_t *out)
{
    const uint8_t *b = from.bytes;
    if (from.n_bytes == 0) RAISE(ERR_DATA, "the image %s is empty; replace or remove it", from.name);
    const bool jpeg = from.n_bytes >= 3 && b[0] == 0xFF && b[1] == 0xD8 && b[2] == 0xFF;
    const bool png = from.n_bytes >= 4 && (b[0] == 0x89 || memcmp(b + 1, "PNG", 3) == 0);
    if (!jpeg && !png) {
        const char *advice = file_kind_is_image(file_kind(b, from.n_bytes))
                                 ? "convert it (ImageMagick: mogrify -format png FILE) or remove it"
                                 : "replace or remove it";
        RAISE(ERR_DATA, "the image %s is neither JPEG nor PNG: %s", from.name,
              file_kind_explain(b, from.n_bytes, advice).text);
    }
    *out = jpeg ? IMAGE_JPEG : IMAGE_PNG;
    return ERR_OK;
}

/* A buffer that grows to the largest image. */
typedef struct pixels {
    uint8_t *rgb;
    int64_t n;
} pixels_t;

static int64_t max_pixels = DEFAULT_MAX_PIXELS;

void image_set_max_pixels(int64_t n)
{
    max_pixels = n;
}

struct image_decoder {
    image_limits_t limits;
    pixels_t stored, shown; /* shown: used only if an orientation applies */
    void *states[IMAGE_FORMAT_COUNT];
};

static err_t open_with(void *state, image_format_t format, image_bytes_t from, image_info_t *info)
{
    TRY(readers[format]->open(state, from, info));
    const bool swaps = orient_swaps(info->orientation);
    info->width = swaps ? info->stored_height : info->stored_width;
    info->height = swaps ? info->stored_width : info->stored_height;
    return ERR_OK;
}

err_t image_info(image_bytes_t from, image_info_t *out)
{
    image_format_t format = IMAGE_JPEG;
    _Alignas(MEM_ALIGN) uint8_t state[STATE_MAX] = {0};
    TRY(recognise(from, &format));
    ASSERT(readers[format]->n_state_bytes <= sizeof state);
    err_t err = open_with(state, format, from, out);
    readers[format]->close(state);
    return err;
}

err_t image_decoder_new(image_limits_t limits, image_decoder_t **out)
{
    image_decoder_t *d = NULL;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *d, "image decoder", &d));
    d->limits = limits;
    if (d->limits.max_pixels == 0) d->limits.max_pixels = max_pixels;
    for (int f = 0; f < IMAGE_FORMAT_COUNT; f++)
        TRY_OUT(err, mem_new(readers[f]->n_state_bytes, "image decoder", &d->states[f]));
    *out = d;
    return ERR_OK;
out:
    image_decoder_free(&d);
    return err;
}

void image_decoder_free(image_decoder_t **decoder)
{
    image_decoder_t *d = *decoder;
    if (!d) return;
    for (int f = 0; f < IMAGE_FORMAT_COUNT; f++) mem_free(&d->states[f]);
    mem_free(&d->stored.rgb);
    mem_free(&d->shown.rgb);
    mem_free(decoder);
}

/* Allocates a quarter more than requested, so that regions of similar size fit. */
static err_t grow_pixels(pixels_t *pixels, int64_t n)
{
    if (n <= pixels->n) return ERR_OK;
    const int64_t n_new = n + n / 4;
    pixels->n = 0;
    mem_free(&pixels->rgb);
    TRY(mem_new_array(n_new, RGB, "an image's pixels", &pixels->rgb));
    pixels->n = n_new;
    return ERR_OK;
}

/* Clips the wanted rectangle to the image and maps it from the image as shown to the image as stored. */
static err_t place_part(const char *name, const image_info_t *info, part_t *part)
{
    const image_rect_t w = part->wanted;
    const double left = fmax(w.x, 0), top = fmax(w.y, 0);
    const double right = fmin(w.x + w.width, (double)info->width),
                 bottom = fmin(w.y + w.height, (double)info->height);
    /* fmin and fmax ignore NaN. */
    const bool numbers = isfinite(w.x) && isfinite(w.y) && isfinite(w.width) && isfinite(w.height);
    if (!numbers || !(right > left && bottom > top))
        RAISE(ERR_DATA, "the image %s has no region of %g x %g pixels at (%g, %g): its size is %lld x %lld",
              name, w.width, w.height, w.x, w.y, (long long)info->width, (long long)info->height);
    part->wanted = orient_to_stored(info->orientation, info->stored_width, info->stored_height,
                                    (image_rect_t){left, top, right - left, bottom - top});
    if (orient_swaps(info->orientation)) {
        int64_t out_width = part->out_width;
        part->out_width = part->out_height, part->out_height = out_width;
    }
    return ERR_OK;
}

static err_t read_region(image_decoder_t *d, image_bytes_t from, image_format_t format, part_t *part,
                         image_info_t *info, region_t *region)
{
    const reader_ops_t *reader = readers[format];
    void *state = d->states[format];
    TRY(open_with(state, format, from, info));
    const int64_t n_pixels = info->stored_width * info->stored_height; /* sides have 31 bits */
    if (n_pixels > d->limits.max_pixels)
        RAISE(
            ERR_DATA,
            "the image %s has %lld x %lld pixels, more than --max-image-pixels %lld; shrink or remove it, or allow more",
            from.name, (long long)info->width, (long long)info->height, (long long)d->limits.max_pixels);
    if (!part->whole) TRY(place_part(from.name, info, part));
    TRY(reader->start(state, part, region));
    TRY(grow_pixels(&d->stored, region->width * region->height));
    return reader->read(state, d->stored.rgb);
}

static err_t decode_region(image_decoder_t *d, image_bytes_t from, part_t *part, image_t *out,
                           image_rect_t *place)
{
    image_format_t format = IMAGE_JPEG;
    image_info_t info;
    region_t region;
    TRY(recognise(from, &format));
    err_t err = read_region(d, from, format, part, &info, &region);
    readers[format]->close(d->states[format]);
    TRY(err);
    const bool swaps = orient_swaps(info.orientation);
    *out =
        (image_t){swaps ? region.height : region.width, swaps ? region.width : region.height, d->stored.rgb};
    if (info.orientation != 1) {
        TRY(grow_pixels(&d->shown, region.width * region.height));
        orient_pixels(info.orientation, region.width, region.height, d->stored.rgb, d->shown.rgb);
        out->rgb = d->shown.rgb;
    }
    if (part->whole) return ERR_OK;
    const double shrink = region.shrink;
    const image_rect_t w = part->wanted;
    *place = orient_to_shown(info.orientation, region.width, region.height,
                             (image_rect_t){w.x / shrink - (double)region.x, w.y / shrink - (double)region.y,
                                            w.width / shrink, w.height / shrink});
    /* In a flipped image, rounding can yield a start below 0. */
    place->x = fmax(place->x, 0), place->y = fmax(place->y, 0);
    return ERR_OK;
}

err_t image_decode(image_decoder_t *decoder, image_bytes_t from, image_t *out)
{
    part_t part = {.whole = true};
    return decode_region(decoder, from, &part, out, NULL);
}

err_t image_decode_part(image_decoder_t *decoder, image_bytes_t from, image_rect_t wanted, int64_t out_width,
                        int64_t out_height, image_t *out, image_rect_t *place)
{
    ASSERT(out_width > 0 && out_height > 0);
    part_t part = {.wanted = wanted, .out_width = out_width, .out_height = out_height};
    return decode_region(decoder, from, &part, out, place);
}

bool image_is_black(const image_t *image)
{
    const int64_t n = 3 * image->width * image->height;
    return image->rgb[0] == 0 && memcmp(image->rgb, image->rgb + 1, (size_t)n - 1) == 0;
}
