/* SPDX-License-Identifier: MIT */
/* The sizes of canvases, and an image on the smallest that holds it. */
#include "data/transform/canvas.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name) offsetof(canvas_options_t, name)
const opt_t canvas_option_table[] = {
    {"min-size", OPT_STRING, FIELD(min_size), "800", 0, 0, NULL, "N,...",
     "resize images until their shorter side has N pixels,", OPT_MORE},
    {"max-size", OPT_INT, FIELD(max_size), "1333", CANVAS_MULTIPLE, RESIZE_MAX, NULL, "N",
     "or their longer side has N pixels, whichever is smaller", OPT_MORE},
    {"canvas", OPT_STRING, FIELD(canvas), "auto", 0, 0, NULL, "auto|exact|HxW,...",
     "sizes of the network's input, multiples of 32; auto: a few that suit most images; exact: as "
     "many as the images need",
     OPT_MORE},
};
const int n_canvas_options = sizeof canvas_option_table / sizeof canvas_option_table[0];

static int by_area(const void *a, const void *b)
{
    const map_size_t *p = a, *q = b;
    int64_t x = p->height * p->width, y = q->height * q->width;
    if (x == y) x = p->height, y = q->height;
    return (x > y) - (x < y);
}

/* Keeps the list sorted and without duplicates. False if it is full. */
static bool insert_size(canvases_t *c, map_size_t size)
{
    for (int i = 0; i < c->n; i++)
        if (c->size[i].height == size.height && c->size[i].width == size.width) return true;
    if (c->n == CANVAS_MAX) return false;
    c->size[c->n++] = size;
    qsort(c->size, (size_t)c->n, sizeof *c->size, by_area);
    return true;
}

static int64_t round_up(double length)
{
    return (int64_t)ceil(length / CANVAS_MULTIPLE) * CANVAS_MULTIPLE;
}

static bool add_usual(canvases_t *c, int64_t min_size)
{
    const double s = (double)min_size, l = (double)c->max_size, lengths[] = {4 * s / 3, 3 * s / 2, l};
    const int64_t side = round_up(s), square = round_up(fmin(1.04 * s, l));
    bool room = insert_size(c, (map_size_t){square, square});
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t length = round_up(fmin(lengths[i], l));
        room =
            insert_size(c, (map_size_t){side, length}) && insert_size(c, (map_size_t){length, side}) && room;
    }
    return room;
}

/* A number up to 4096 at *text, which moves behind it; 0: something else. */
static int64_t read_number(const char **text)
{
    int64_t value = 0;
    int n = 0;
    for (; **text >= '0' && **text <= '9' && n < 5; (*text)++, n++) value = 10 * value + (**text - '0');
    return value <= RESIZE_MAX ? value : 0;
}

static int64_t read_side(const char **text)
{
    const int64_t side = read_number(text);
    return side % CANVAS_MULTIPLE == 0 ? side : 0;
}

static err_t read_sizes(canvases_t *c, const char *list)
{
    for (const char *text = list;; text++) {
        map_size_t size = {0};
        size.height = read_side(&text);
        if (size.height > 0 && *text == 'x') {
            text++;
            size.width = read_side(&text);
        }
        if (size.width == 0 || (*text && *text != ','))
            RAISE(
                ERR_USAGE,
                "invalid --canvas '%s': expected auto, exact, or sizes HEIGHTxWIDTH such as 800x1344,1344x800, "
                "multiples of %d up to %d",
                list, CANVAS_MULTIPLE, RESIZE_MAX);
        if (!insert_size(c, size)) RAISE(ERR_USAGE, "--canvas takes at most %d sizes", CANVAS_MAX);
        if (!*text) return ERR_OK;
    }
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static err_t read_min_sizes(canvases_t *c, const char *list)
{
    for (const char *text = list;; text++) {
        const int64_t size = read_number(&text);
        if (size < CANVAS_MULTIPLE || (*text && *text != ','))
            RAISE(ERR_USAGE,
                  "invalid --min-size '%s': expected a number of pixels from %d to %d, or several as in "
                  "640,672,800",
                  list, CANVAS_MULTIPLE, RESIZE_MAX);
        if (c->n_min_sizes == CANVAS_MAX_SIZES)
            RAISE(ERR_USAGE, "--min-size takes at most %d sizes", CANVAS_MAX_SIZES);
        c->min_sizes[c->n_min_sizes++] = size;
        if (!*text) break;
    }
    qsort(c->min_sizes, (size_t)c->n_min_sizes, sizeof *c->min_sizes, by_number);
    c->min_size = c->min_sizes[c->n_min_sizes - 1];
    return ERR_OK;
}

err_t canvases_new(const canvas_options_t *options, canvases_t *out)
{
    *out = (canvases_t){.max_size = options->max_size};
    TRY(read_min_sizes(out, options->min_size));
    if (out->min_size > options->max_size)
        RAISE(ERR_USAGE, "--min-size %" PRId64 " exceeds --max-size %" PRId64, out->min_size,
              options->max_size);
    out->exact = strcmp(options->canvas, "exact") == 0;
    if (out->exact) return ERR_OK;
    if (strcmp(options->canvas, "auto") != 0) return read_sizes(out, options->canvas);
    for (int i = 0; i < out->n_min_sizes; i++)
        if (!add_usual(out, out->min_sizes[i]))
            RAISE(
                ERR_USAGE,
                "--min-size %s needs more than %d canvases, and each takes memory and a plan; give fewer sizes "
                "or a list with --canvas",
                options->min_size, CANVAS_MAX);
    return ERR_OK;
}

/* In double, in the order of torchvision's _resize_image_and_masks. */
static map_size_t scaled_size(const canvases_t *c, int64_t min_size, map_size_t image)
{
    const int64_t shorter = image.height < image.width ? image.height : image.width,
                  longer = image.height < image.width ? image.width : image.height;
    const double scale = fmin((double)min_size / (double)shorter, (double)c->max_size / (double)longer);
    const double half = c->nearest ? 0.5 : 0;
    return (map_size_t){(int64_t)fmax(floor((double)image.height * scale + half), 1),
                        (int64_t)fmax(floor((double)image.width * scale + half), 1)};
}

static err_t check_image(map_size_t image, const char *name)
{
    const int64_t shorter = image.height < image.width ? image.height : image.width,
                  longer = image.height < image.width ? image.width : image.height;
    if (shorter < CANVAS_MIN_SIDE)
        RAISE(ERR_DATA,
              "the image %s has %" PRId64 " x %" PRId64 " pixels; detection needs at least %d on each side; "
              "enlarge it or leave it out",
              name, image.width, image.height, CANVAS_MIN_SIDE);
    if (longer > CANVAS_MAX_RATIO * shorter)
        RAISE(ERR_DATA,
              "the image %s has %" PRId64 " x %" PRId64
              " pixels, a longer shape than 1:%d, which detection does "
              "not take; cut it or leave it out",
              name, image.width, image.height, CANVAS_MAX_RATIO);
    return ERR_OK;
}

err_t canvases_add(canvases_t *c, map_size_t image, const char *name)
{
    if (!c->exact) return ERR_OK;
    TRY(check_image(image, name));
    for (int i = 0; i < c->n_min_sizes; i++) {
        const map_size_t scaled = scaled_size(c, c->min_sizes[i], image);
        if (!insert_size(c, (map_size_t){round_up((double)scaled.height), round_up((double)scaled.width)}))
            RAISE(
                ERR_USAGE,
                "--canvas exact: the images have more than %d shapes, and each takes memory and a plan; use "
                "--canvas auto",
                CANVAS_MAX);
    }
    return ERR_OK;
}

void canvases_describe(const canvases_t *c, char *out, size_t n_bytes)
{
    size_t used = 0;
    if (n_bytes > 0) *out = '\0';
    for (int i = 0; i < c->n && used < n_bytes; i++)
        used += (size_t)snprintf(out + used, n_bytes - used, "%s%" PRId64 "x%" PRId64, i > 0 ? ", " : "",
                                 c->size[i].height, c->size[i].width);
}

err_t canvas_place(const canvases_t *c, map_size_t image, const char *name, canvas_place_t *out)
{
    return canvas_place_at(c, c->min_size, image, name, out);
}

err_t canvas_place_at(const canvases_t *c, int64_t min_size, map_size_t image, const char *name,
                      canvas_place_t *out)
{
    TRY(check_image(image, name));
    const map_size_t scaled = scaled_size(c, min_size, image);
    for (int i = 0; i < c->n; i++) {
        if (scaled.height > c->size[i].height || scaled.width > c->size[i].width) continue;
        *out = (canvas_place_t){i, c->size[i], image, scaled};
        return ERR_OK;
    }
    RAISE(ERR_USAGE,
          "--canvas: none holds the image %s, of %" PRId64 " x %" PRId64 " pixels (height x width) after "
          "--min-size %" PRId64 " --max-size %" PRId64 "; add %" PRId64 "x%" PRId64 ", or use --canvas auto",
          name, scaled.height, scaled.width, min_size, c->max_size, round_up((double)scaled.height),
          round_up((double)scaled.width));
}

map_t canvas_map(const canvas_place_t *place)
{
    const map_size_t image = place->image, scaled = place->scaled;
    return map_crop(image, (image_rect_t){0, 0, (double)image.width, (double)image.height}, place->canvas,
                    (image_rect_t){0, 0, (double)scaled.width, (double)scaled.height}, false);
}

void canvas_normalize(const canvas_place_t *place, const uint8_t *rgb, const pixel_table_t *norm, float *out)
{
    const int64_t width = place->canvas.width, height = place->canvas.height, w = place->scaled.width,
                  h = place->scaled.height;
    for (int64_t y = 0; y < h; y++) {
        float *row = out + y * width * 3;
        pixel_table_apply(norm, rgb + y * w * 3, w, row);
        memset(row + w * 3, 0, (size_t)((width - w) * 3) * sizeof *out);
    }
    memset(out + h * width * 3, 0, (size_t)((height - h) * width * 3) * sizeof *out);
}

err_t canvas_fill(const canvas_place_t *place, const image_t *image, const pixel_table_t *norm,
                  resize_scratch_t *scratch, uint8_t *rgb, float *out)
{
    const image_rect_t all = {0, 0, (double)image->width, (double)image->height};
    TRY(resize(image, all, false, place->scaled.width, place->scaled.height, scratch, rgb));
    canvas_normalize(place, rgb, norm, out);
    return ERR_OK;
}

void canvas_interpolate(const canvas_place_t *place, const image_t *image, const pixel_table_t *norm,
                        float *out)
{
    const map_size_t size = place->scaled, canvas = place->canvas;
    memset(out, 0, (size_t)(canvas.height * canvas.width * 3) * sizeof *out);
    for (int64_t y = 0; y < size.height; y++) {
        const bilinear_t row = bilinear_at(y, image->height, size.height);
        const uint8_t *upper = image->rgb + row.first * image->width * 3,
                      *lower = image->rgb + row.second * image->width * 3;
        for (int64_t x = 0; x < size.width; x++) {
            const bilinear_t column = bilinear_at(x, image->width, size.width);
            for (int64_t c = 0; c < 3; c++) {
                const float *value = norm->value[c];
                const int64_t left = 3 * column.first + c, right = 3 * column.second + c;
                const float above = bilinear_mix(value[upper[left]], value[upper[right]], column.share),
                            below = bilinear_mix(value[lower[left]], value[lower[right]], column.share);
                out[(y * canvas.width + x) * 3 + c] = bilinear_mix(above, below, row.share);
            }
        }
    }
}
