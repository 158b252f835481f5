/* SPDX-License-Identifier: MIT */
/* Encodes JPEG (libjpeg-turbo) and PNG (libpng) in memory, and writes PNG files. */
#include <stdio.h> /* jpeglib.h needs it first */

#include <jpeglib.h>

#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/image/image.h"

enum { RGB = 3, FIRST_BYTES = 1 << 16 };
#define CANNOT_ENCODE "cannot encode an image of %lld x %lld as %s: %s"

/* A libjpeg destination that grows in our own memory. */
typedef struct jpeg {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr error;
    struct jpeg_destination_mgr destination;
    jmp_buf back;
    err_t code; /* of an error that we raised; ERR_OK: libjpeg's, in message */
    char message[JMSG_LENGTH_MAX];
    const image_t *image;
    int quality;
    uint8_t *bytes;
    size_t n_bytes, n_room;
} jpeg_t;

static void on_error(j_common_ptr common)
{
    jpeg_t *j = common->client_data;
    common->err->format_message(common, j->message);
    longjmp(j->back, 1);
}

static void on_message(j_common_ptr common, int level)
{
    (void)common, (void)level;
}

static boolean dest_grow(j_compress_ptr c)
{
    jpeg_t *j = c->client_data;
    const size_t n_old = j->n_room, n_new = n_old ? 2 * n_old : FIRST_BYTES;
    j->code = mem_resize(n_new, "a JPEG", &j->bytes);
    if (j->code != ERR_OK) longjmp(j->back, 1);
    j->n_room = n_new;
    j->destination.next_output_byte = j->bytes + n_old;
    j->destination.free_in_buffer = n_new - n_old;
    return TRUE;
}

static void dest_begin(j_compress_ptr c)
{
    dest_grow(c);
}

static void dest_end(j_compress_ptr c)
{
    jpeg_t *j = c->client_data;
    j->n_bytes = j->n_room - j->destination.free_in_buffer;
}

static void jpeg_compress(jpeg_t *j)
{
    struct jpeg_compress_struct *c = &j->c;
    jpeg_create_compress(c);
    j->destination = (struct jpeg_destination_mgr){
        .init_destination = dest_begin, .empty_output_buffer = dest_grow, .term_destination = dest_end};
    c->dest = &j->destination;
    c->image_width = (JDIMENSION)j->image->width;
    c->image_height = (JDIMENSION)j->image->height;
    c->input_components = RGB;
    c->in_color_space = JCS_RGB;
    jpeg_set_defaults(c); /* 4:2:0 */
    jpeg_set_quality(c, j->quality, TRUE);
    jpeg_start_compress(c, TRUE);
    while (c->next_scanline < c->image_height) {
        /* libjpeg does not modify the row. */
        JSAMPROW row = (JSAMPROW)j->image->rgb + (size_t)c->next_scanline * c->image_width * RGB;
        jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
}

/* The only target of longjmp out of libjpeg. */
static err_t jpeg_guard(jpeg_t *j)
{
    if (setjmp(j->back) == 0) {
        jpeg_compress(j);
        return ERR_OK;
    }
    if (j->code != ERR_OK) return j->code;
    RAISE(ERR_SYSTEM, CANNOT_ENCODE, (long long)j->image->width, (long long)j->image->height, "JPEG",
          j->message);
}

err_t image_encode_jpeg(const image_t *image, int quality, uint8_t **out, size_t *n_bytes)
{
    ASSERT(quality >= 1 && quality <= 100);
    if (image->width < 1 || image->height < 1 || image->width > JPEG_MAX_DIMENSION ||
        image->height > JPEG_MAX_DIMENSION)
        RAISE(ERR_USAGE, CANNOT_ENCODE, (long long)image->width, (long long)image->height, "JPEG",
              "sides must be 1 to 65500 pixels");
    jpeg_t *j = NULL;
    TRY(mem_new(sizeof *j, "JPEG encoder", &j));
    j->c.err = jpeg_std_error(&j->error);
    j->error.error_exit = on_error;
    j->error.emit_message = on_message;
    j->c.client_data = j;
    j->image = image;
    j->quality = quality;
    err_t err = jpeg_guard(j);
    jpeg_destroy_compress(&j->c);
    if (err == ERR_OK)
        *out = j->bytes, *n_bytes = j->n_bytes;
    else
        mem_free(&j->bytes);
    mem_free(&j);
    return err;
}

err_t image_encode_png(const uint8_t *pixels, int64_t width, int64_t height, int channels, uint8_t **out,
                       size_t *n_bytes)
{
    ASSERT(channels == 1 || channels == RGB);
    if (width < 1 || height < 1 || width > INT32_MAX / RGB || height > INT32_MAX)
        RAISE(ERR_USAGE, CANNOT_ENCODE, (long long)width, (long long)height, "PNG",
              "a side is 0 or too long");
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)width,
                       .height = (png_uint_32)height,
                       .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB};
    size_t n_raw;
    if (__builtin_mul_overflow((size_t)height, (size_t)(width * channels + 1), &n_raw) || n_raw > INT32_MAX)
        RAISE(ERR_USAGE, CANNOT_ENCODE, (long long)width, (long long)height, "PNG",
              "its pixels exceed 2 GiB");
    png_alloc_size_t n = PNG_IMAGE_PNG_SIZE_MAX(image);
    uint8_t *bytes = NULL;
    TRY(mem_new(n, "a PNG", &bytes));
    if (!png_image_write_to_memory(&image, bytes, &n, 0, pixels, 0, NULL)) {
        mem_free(&bytes);
        RAISE(ERR_SYSTEM, CANNOT_ENCODE, (long long)width, (long long)height, "PNG", image.message);
    }
    *out = bytes, *n_bytes = n;
    return ERR_OK;
}

err_t png_file_write(const char *path, const image_t *image)
{
    ASSERT(image->width > 0 && image->height > 0);
    ASSERT(image->width <= INT32_MAX / 3 && image->height <= INT32_MAX);
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)image->width,
                     .height = (png_uint_32)image->height,
                     .format = PNG_FORMAT_RGB};
    fs_temp_t temp;
    FILE *file = NULL;
    err_t err = ERR_OK;
    TRY_OUT(err, fs_temp_open(&temp, "image", path));
    TRY_OUT(err, fs_temp_stream(&temp, &file));
    errno = 0;
    if (!png_image_write_to_stdio(&png, file, 0, image->rgb, 0, NULL))
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot write the image %s: %s", temp.path,
                        ferror(file) && errno ? strerror(errno) : png.message);
    if (fclose(file) != 0 && err == ERR_OK) err = fs_temp_fail(&temp, errno);
    if (err == ERR_OK) err = fs_temp_commit(&temp);
out:
    fs_temp_discard(&temp);
    return err;
}
