/* SPDX-License-Identifier: MIT */
/* The JPEG reader (libjpeg-turbo): decodes at the smallest sufficient DCT scale, only the rows and block
 * columns needed, and converts CMYK to RGB. Library warnings mean a corrupt image and are errors. */
#include <stdio.h> /* jpeglib.h needs it first */

#include <jpeglib.h>

#include <jerror.h>
#include <setjmp.h>
#include <stdarg.h>

#include "data/image/orient.h"
#include "data/image/reader.h"

/* The densest Huffman coding: one bit per 8 × 8 block, for two components that are each at half the
 * resolution in one direction and a quarter in the other. */
enum { MAX_PIXELS_PER_BYTE = 1024 };
enum { ROWS = 8, RGB = 3, CMYK = 4, BASE_MEMORY = 64 << 20, COEFFICIENT = 2 };

typedef struct jpeg {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr error;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    err_t code;
    char message[JMSG_LENGTH_MAX];
    image_bytes_t from;
    part_t part;
    region_t region;
    uint8_t *rgb;
    JSAMPARRAY inks; /* a row of CMYK */
    int n_markers;   /* application markers read so far */
} jpeg_t;

/* The only target of longjmp out of libjpeg. */
static err_t jpeg_guard(jpeg_t *j, void (*work)(jpeg_t *j))
{
    if (setjmp(j->back) == 0) {
        work(j);
        return ERR_OK;
    }
    RAISE(j->code, CANNOT_DECODE, j->from.name, "JPEG", j->message);
}

static _Noreturn void jpeg_fail(jpeg_t *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void jpeg_fail(jpeg_t *j, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(j->message, sizeof j->message, format, args);
    va_end(args);
    j->code = ERR_DATA;
    longjmp(j->back, 1);
}

static void on_error(j_common_ptr common)
{
    jpeg_t *j = common->client_data;
    common->err->format_message(common, j->message);
    j->code = common->err->msg_code == JERR_OUT_OF_MEMORY ? ERR_SYSTEM : ERR_DATA;
    longjmp(j->back, 1);
}

/* Warnings report damage that libjpeg would conceal, except for an unknown JFIF version. Other messages
 * announce markers; libjpeg keeps the APP1 ones, which can hold EXIF, even if empty. */
static void on_message(j_common_ptr common, int level)
{
    jpeg_t *j = common->client_data;
    if (common->err->msg_code == JTRC_MISC_MARKER && ++j->n_markers > IMAGE_MAX_MARKERS)
        jpeg_fail(j, "more than %d application markers", IMAGE_MAX_MARKERS);
    if (level < 0 && common->err->msg_code != JWRN_JFIF_MAJOR) on_error(common);
}

/* Called repeatedly while libjpeg collects the scans. */
static void on_progress(j_common_ptr common)
{
    jpeg_t *j = common->client_data;
    if (j->d.input_scan_number > IMAGE_MAX_SCANS) jpeg_fail(j, "more than %d scans", IMAGE_MAX_SCANS);
}

static void read_header(jpeg_t *j)
{
    jpeg_create_decompress(&j->d);
    j->d.progress = &j->progress;
    jpeg_mem_src(&j->d, j->from.bytes, j->from.n_bytes);
    jpeg_save_markers(&j->d, JPEG_APP0 + 1, UINT16_MAX);
    jpeg_read_header(&j->d, TRUE);
    const int n = j->d.num_components;
    if (n != 1 && n != 3 && n != 4) jpeg_fail(j, "%d components; expected 1, 3 or 4", n);
    const int64_t n_pixels = (int64_t)j->d.image_width * j->d.image_height;
    if (!j->d.arith_code && n_pixels / MAX_PIXELS_PER_BYTE > (int64_t)j->from.n_bytes)
        jpeg_fail(j, "truncated: %zu bytes are too few for %u x %u pixels", j->from.n_bytes, j->d.image_width,
                  j->d.image_height);
}

static const char *colour_name(J_COLOR_SPACE space)
{
    switch (space) {
    case JCS_GRAYSCALE:
        return "grey";
    case JCS_YCbCr:
        return "YCbCr";
    case JCS_CMYK:
        return "CMYK";
    case JCS_YCCK:
        return "YCCK";
    default:
        return "RGB";
    }
}

static err_t jpeg_open(void *state, image_bytes_t from, image_info_t *info)
{
    jpeg_t *j = state;
    j->from = from;
    j->n_markers = 0;
    j->d.err = jpeg_std_error(&j->error);
    j->error.error_exit = on_error;
    j->error.emit_message = on_message;
    j->progress.progress_monitor = on_progress;
    j->d.client_data = j;
    TRY(jpeg_guard(j, read_header));
    int orientation = 0;
    for (jpeg_saved_marker_ptr m = j->d.marker_list; m && !orientation; m = m->next)
        orientation = exif_orientation(m->data, m->data_length);
    *info = (image_info_t){.format = IMAGE_JPEG,
                           .stored_width = j->d.image_width,
                           .stored_height = j->d.image_height,
                           .orientation = orientation ? orientation : 1,
                           .colour = colour_name(j->d.jpeg_color_space),
                           .bits = j->d.data_precision,
                           .progressive = j->d.progressive_mode};
    return ERR_OK;
}

static void jpeg_begin(jpeg_t *j)
{
    struct jpeg_decompress_struct *d = &j->d;
    const part_t *part = &j->part;
    region_t *r = &j->region;
    int shrink =
        part->whole ? 1 : 8; /* the largest DCT scaling that still leaves at least the output's size */
    while (shrink > 1 && !(part->wanted.width / shrink >= (double)part->out_width &&
                           part->wanted.height / shrink >= (double)part->out_height))
        shrink /= 2;
    d->scale_num = 1, d->scale_denom = (unsigned)shrink;
    d->out_color_space = d->num_components == CMYK ? JCS_CMYK : JCS_RGB;
    /* With several scans libjpeg keeps the coefficients of all channels, rounded up to blocks. */
    d->mem->max_memory_to_use = BASE_MEMORY + (long)d->image_width * d->image_height * CMYK * COEFFICIENT;
    jpeg_start_decompress(d);
    *r = (region_t){0, 0, d->output_width, d->output_height, shrink};
    if (!part->whole) {
        /* Rows are chosen to the pixel; libjpeg extends the columns to whole blocks. */
        const double reduced = shrink;
        int64_t x, width;
        region_cover(part->wanted.x / reduced, part->wanted.width / reduced, part->out_width, r->width, &x,
                     &width);
        region_cover(part->wanted.y / reduced, part->wanted.height / reduced, part->out_height, r->height,
                     &r->y, &r->height);
        if (width != r->width) {
            JDIMENSION first = (JDIMENSION)x, n = (JDIMENSION)width;
            jpeg_crop_scanline(d, &first, &n);
            r->x = first, r->width = n;
        }
    }
    if (d->num_components == CMYK)
        j->inks = d->mem->alloc_sarray((j_common_ptr)d, JPOOL_IMAGE, (JDIMENSION)(r->width * CMYK), 1);
}

static err_t jpeg_start(void *state, const part_t *part, region_t *region)
{
    jpeg_t *j = state;
    j->part = *part;
    TRY(jpeg_guard(j, jpeg_begin));
    *region = j->region;
    return ERR_OK;
}

/* 255 means no ink: Adobe's convention, which other decoders (ImageMagick, Pillow) apply with or without
 * Adobe's marker. */
static void mix_inks(const uint8_t *inks, int64_t n, uint8_t *rgb)
{
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < RGB; c++)
            rgb[RGB * i + c] = multiply_bytes(inks[CMYK * i + c], inks[CMYK * i + 3]);
}

static void read_rows(jpeg_t *j)
{
    struct jpeg_decompress_struct *d = &j->d;
    const region_t *r = &j->region;
    if (r->y > 0) jpeg_skip_scanlines(d, (JDIMENSION)r->y);
    for (int64_t y = 0; y < r->height;) {
        JSAMPROW rows[ROWS];
        JDIMENSION n = 0;
        for (; n < ROWS && y + n < r->height; n++) rows[n] = j->rgb + (y + n) * r->width * RGB;
        if (d->num_components == CMYK) {
            n = jpeg_read_scanlines(d, j->inks, 1);
            mix_inks(j->inks[0], r->width, rows[0]);
        } else
            n = jpeg_read_scanlines(d, rows, n);
        if (n == 0) jpeg_fail(j, "libjpeg returned no rows");
        y += n;
    }
    if (j->part.whole) jpeg_finish_decompress(d);
}

static err_t jpeg_read(void *state, uint8_t *rgb)
{
    jpeg_t *j = state;
    j->rgb = rgb;
    return jpeg_guard(j, read_rows);
}

/* Destroys all state, so that no image is decoded with the tables of the previous one. */
static void jpeg_close(void *state)
{
    jpeg_t *j = state;
    jpeg_destroy_decompress(&j->d);
}

const reader_ops_t jpeg_reader = {sizeof(jpeg_t), jpeg_open, jpeg_start, jpeg_read, jpeg_close};
