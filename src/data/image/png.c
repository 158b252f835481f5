/* SPDX-License-Identifier: MIT */
/* The PNG reader (libpng): converts palette, grey, 16-bit and alpha images to RGB, over black. Library
 * warnings mean a corrupt image and are errors. */
#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "data/image/orient.h"
#include "data/image/reader.h"

enum { MAX_BYTES_PER_BYTE = 1032 }; /* deflate: 258 bytes in two bits (RFC 1951) */
enum { END_BYTES = 1 << 16 };       /* for the last row, besides its pixels */
enum { RGB = 3, RGBA = 4, N_PALETTE = 256, MAX_SIDE = 1000000 };

typedef struct png_state {
    png_structp png;
    png_infop info;
    const uint8_t *next;
    size_t n_left;
    size_t n_allowed; /* bytes that the last row may still take */
    bool ending;      /* the last row is being read */
    jmp_buf back;
    char message[256];
    image_bytes_t from;
    part_t part;
    region_t region;
    int n_passes, n_colours;
    uint8_t palette[N_PALETTE][RGB]; /* over black */
    uint8_t *rgb;
} png_state_t;

/* The only target of longjmp out of libpng. */
static err_t png_guard(png_state_t *p, void (*work)(png_state_t *p))
{
    if (setjmp(p->back) == 0) {
        work(p);
        return ERR_OK;
    }
    RAISE(ERR_DATA, CANNOT_DECODE, p->from.name, "PNG", p->message);
}

static _Noreturn void png_fail(png_state_t *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void png_fail(png_state_t *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->message, sizeof p->message, format, args);
    va_end(args);
    longjmp(p->back, 1);
}

/* Also handles warnings: chunks that do not affect pixels are not read, so every warning concerns pixels. */
static void on_error(png_structp png, png_const_charp message)
{
    png_fail(png_get_error_ptr(png), "%s", message);
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    png_state_t *p = png_get_io_ptr(png);
    if (n > p->n_left) png_fail(p, "truncated");
    if (p->ending && n > p->n_allowed) png_fail(p, "its data go on after the last row");
    if (p->ending) p->n_allowed -= n;
    memcpy(out, p->next, n);
    p->next += n, p->n_left -= n;
}

/* A chunk cannot allocate more than the file's size, because only pixels are decompressed. */
static void read_header(png_state_t *p)
{
    p->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, p, on_error, on_error);
    if (p->png) p->info = png_create_info_struct(p->png);
    if (!p->info) png_fail(p, "libpng is out of memory");
    png_set_read_fn(p->png, p, on_read);
    png_set_benign_errors(p->png, 0);
    png_set_crc_action(p->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_keep_unknown_chunks(p->png, PNG_HANDLE_CHUNK_NEVER, NULL,
                                -1); /* chunks that pixels do not need */
    png_set_user_limits(p->png, MAX_SIDE, MAX_SIDE);
    png_set_chunk_malloc_max(p->png, p->from.n_bytes);
    png_read_info(p->png, p->info);
    const uint64_t n_row = png_get_rowbytes(p->png, p->info), n_rows = png_get_image_height(p->png, p->info);
    if (n_row * n_rows / MAX_BYTES_PER_BYTE > p->from.n_bytes)
        png_fail(p, "truncated: %zu bytes are too few for %u x %u pixels", p->from.n_bytes,
                 png_get_image_width(p->png, p->info), png_get_image_height(p->png, p->info));
}

static const char *colour_name(int type)
{
    switch (type) {
    case PNG_COLOR_TYPE_GRAY:
        return "grey";
    case PNG_COLOR_TYPE_GRAY_ALPHA:
        return "grey with alpha";
    case PNG_COLOR_TYPE_PALETTE:
        return "palette";
    case PNG_COLOR_TYPE_RGB_ALPHA:
        return "RGB with alpha";
    default:
        return "RGB";
    }
}

static bool is_transparent(const png_state_t *p)
{
    return (png_get_color_type(p->png, p->info) & PNG_COLOR_MASK_ALPHA) ||
           png_get_valid(p->png, p->info, PNG_INFO_tRNS);
}

static err_t png_open(void *state, image_bytes_t from, image_info_t *info)
{
    png_state_t *p = state;
    p->from = from;
    p->next = from.bytes, p->n_left = from.n_bytes;
    p->ending = false;
    TRY(png_guard(p, read_header));
    int orientation = exif_orientation_png(from.bytes, from.n_bytes);
    *info = (image_info_t){.format = IMAGE_PNG,
                           .stored_width = png_get_image_width(p->png, p->info),
                           .stored_height = png_get_image_height(p->png, p->info),
                           .orientation = orientation ? orientation : 1,
                           .colour = colour_name(png_get_color_type(p->png, p->info)),
                           .bits = png_get_bit_depth(p->png, p->info),
                           .progressive = png_get_interlace_type(p->png, p->info) != PNG_INTERLACE_NONE,
                           .transparent = is_transparent(p)};
    return ERR_OK;
}

/* Composites a row of RGBA over black, in place. */
static void drop_alpha(png_structp png, png_row_infop row, png_bytep pixels)
{
    (void)png;
    for (size_t i = 0; i < row->width; i++)
        for (size_t c = 0; c < RGB; c++)
            pixels[RGB * i + c] = multiply_bytes(pixels[RGBA * i + c], pixels[RGBA * i + 3]);
}

/* Expands a row of indices in place, from its end. libpng would silently draw an index beyond the palette
 * black. */
static void look_up(png_structp png, png_row_infop row, png_bytep pixels)
{
    png_state_t *p = png_get_user_transform_ptr(png);
    for (size_t i = row->width; i-- > 0;) {
        const int colour = pixels[i];
        if (colour >= p->n_colours)
            png_fail(p, "colour index %d is beyond its palette of %d", colour, p->n_colours);
        memcpy(pixels + RGB * i, p->palette[colour], RGB);
    }
}

static void png_begin(png_state_t *p)
{
    const int64_t width = png_get_image_width(p->png, p->info),
                  height = png_get_image_height(p->png, p->info);
    const int type = png_get_color_type(p->png, p->info);
    const bool has_alpha = is_transparent(p);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_colorp colours = NULL;
        png_bytep alpha = NULL;
        int n_alpha = 0;
        p->n_colours = 0;
        if (!png_get_PLTE(p->png, p->info, &colours, &p->n_colours)) png_fail(p, "no palette");
        png_get_tRNS(p->png, p->info, &alpha, &n_alpha, NULL);
        for (int i = 0; i < p->n_colours; i++) {
            const int a = i < n_alpha ? alpha[i] : 255;
            p->palette[i][0] = multiply_bytes(colours[i].red, a);
            p->palette[i][1] = multiply_bytes(colours[i].green, a);
            p->palette[i][2] = multiply_bytes(colours[i].blue, a);
        }
        png_set_packing(p->png);
        png_set_read_user_transform_fn(p->png, look_up);
    } else {
        png_set_expand(p->png);
        png_set_strip_16(p->png);
        if (!(type & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(p->png);
        if (has_alpha) png_set_read_user_transform_fn(p->png, drop_alpha);
    }
    if (type == PNG_COLOR_TYPE_PALETTE || has_alpha) png_set_user_transform_info(p->png, p, 8, RGB);
    p->n_passes = png_set_interlace_handling(p->png);
    png_read_update_info(p->png, p->info);
    if ((int64_t)png_get_rowbytes(p->png, p->info) != RGB * width)
        png_fail(p, "libpng cannot convert it to RGB");
    p->region = (region_t){0, 0, width, height, 1};
    if (!p->part.whole && p->n_passes == 1)
        region_cover(p->part.wanted.y, p->part.wanted.height, p->part.out_height, height, &p->region.y,
                     &p->region.height);
}

static err_t png_start(void *state, const part_t *part, region_t *region)
{
    png_state_t *p = state;
    p->part = *part;
    TRY(png_guard(p, png_begin));
    *region = p->region;
    return ERR_OK;
}

static void read_rows(png_state_t *p)
{
    const region_t *r = &p->region;
    const int64_t n_rows = png_get_image_height(p->png, p->info);
    const size_t n_row = (size_t)png_get_image_width(p->png, p->info) * RGBA * 2; /* 16 bits */
    for (int pass = 0; pass < p->n_passes; pass++)
        for (int64_t y = 0; y < r->y + r->height; y++) {
            /* Rows above the region are overwritten by its first row. */
            const int64_t row = y > r->y ? y - r->y : 0;
            /* With the last row, libpng decompresses whatever follows in the stream, which can be a thousand times the
             * file's size. */
            if (pass == p->n_passes - 1 && y == n_rows - 1) {
                p->ending = true;
                p->n_allowed = END_BYTES + n_row + n_row / 4;
            }
            png_read_row(p->png, p->rgb + row * r->width * RGB, NULL);
        }
    p->ending = false;
    if (p->part.whole) png_read_end(p->png, NULL);
}

static err_t png_read(void *state, uint8_t *rgb)
{
    png_state_t *p = state;
    p->rgb = rgb;
    return png_guard(p, read_rows);
}

static void png_close(void *state)
{
    png_state_t *p = state;
    png_destroy_read_struct(&p->png, &p->info, NULL);
}

const reader_ops_t png_reader = {sizeof(png_state_t), png_open, png_start, png_read, png_close};
