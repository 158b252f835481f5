/* SPDX-License-Identifier: MIT */
/* Times JPEG decoding on one core for scripts/bench/image.sh: image FOLDER CROPS SEED. Of each *.jpg of the
 * folder, CROPS random resized crops to 224 × 224, as torchvision draws them (area 8 to 100 %, aspect 3/4 to
 * 4/3, mirrored or not). Prints a line of NAME IMAGES_PER_SEC for each way:
 *
 *   bare     libjpeg-turbo alone, of bytes in memory: the same region at the same scale that ours decodes
 *   part     image_decode_part of the same bytes
 *   crop     the file read, image_decode_part, resize: what a training sample takes
 *   whole    the file read, image_decode, resize */
#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/image/resize.h"

enum { SIDE = 224, MAX_FILES = 4096, MAX_BYTES = 1 << 24 };

typedef struct file {
    char path[FS_PATH_MAX];
    uint8_t *bytes;
    size_t n;
} file_t;

typedef struct crop {
    int file;
    bool mirror;
    image_rect_t wanted;
    int64_t x, y, width, height; /* what ours decodes, in reduced pixels */
    int shrink;
} crop_t;

static file_t files[MAX_FILES];
static int n_files, n_crops;
static crop_t *crops;
static image_decoder_t *decoder;
static resize_scratch_t scratch;
static uint8_t rgb[SIDE * SIDE * 3], *buffer, *rows;

static void must(err_t err)
{
    if (err == ERR_OK) return;
    fprintf(stderr, "image: error: %s\n", err_message());
    exit(err);
}

static size_t read_file(const char *path, uint8_t *to)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(to, 1, MAX_BYTES, file) : 0;
    if (file) fclose(file);
    return n;
}

static void read_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && n_files < MAX_FILES;) {
        file_t *file = &files[n_files];
        if (!strstr(entry->d_name, ".jpg")) continue;
        must(fs_join(file->path, folder, entry->d_name));
        file->n = read_file(file->path, buffer);
        must(mem_new(file->n, "a file", &file->bytes));
        memcpy(file->bytes, buffer, file->n);
        n_files++;
    }
    if (dir) closedir(dir);
}

/* torchvision's RandomResizedCrop.get_params, without its fallback. */
static image_rect_t draw(rng_t *rng, double width, double height)
{
    for (;;) {
        const double area = width * height * (.08 + .92 * rng_uniform(rng));
        const double aspect = exp(log(3. / 4) + rng_uniform(rng) * (log(4. / 3) - log(3. / 4)));
        const double w = round(sqrt(area * aspect)), h = round(sqrt(area / aspect));
        if (w < 1 || h < 1 || w > width || h > height) continue;
        return (image_rect_t){floor(rng_uniform(rng) * (width - w + 1)),
                              floor(rng_uniform(rng) * (height - h + 1)), w, h};
    }
}

static image_bytes_t bytes_of(const file_t *file)
{
    return (image_bytes_t){file->path, file->bytes, file->n};
}

static void draw_crops(int per_file, uint64_t seed)
{
    rng_t rng = rng_new(seed, RNG_AUGMENT, 0);
    must(mem_new_array((int64_t)n_files * per_file, sizeof *crops, "crops", &crops));
    for (int i = 0; i < n_files; i++)
        for (int k = 0; k < per_file; k++) {
            crop_t *crop = &crops[n_crops++];
            image_info_t info;
            image_t image;
            image_rect_t place;
            must(image_info(bytes_of(&files[i]), &info));
            *crop = (crop_t){.file = i,
                             .mirror = rng_below(&rng, 2),
                             .wanted = draw(&rng, (double)info.width, (double)info.height)};
            must(image_decode_part(decoder, bytes_of(&files[i]), crop->wanted, SIDE, SIDE, &image, &place));
            crop->shrink = (int)lround(crop->wanted.width / place.width);
            crop->x = lround(crop->wanted.x / crop->shrink - place.x);
            crop->y = lround(crop->wanted.y / crop->shrink - place.y);
            crop->width = image.width, crop->height = image.height;
        }
}

static void bare(const crop_t *crop)
{
    const file_t *file = &files[crop->file];
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr error;
    d.err = jpeg_std_error(&error);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, file->bytes, file->n);
    jpeg_read_header(&d, TRUE);
    d.scale_num = 1, d.scale_denom = (unsigned)crop->shrink;
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    JDIMENSION x = (JDIMENSION)crop->x, width = (JDIMENSION)crop->width;
    if (width != d.output_width) jpeg_crop_scanline(&d, &x, &width);
    if (crop->y > 0) jpeg_skip_scanlines(&d, (JDIMENSION)crop->y);
    for (int64_t y = 0; y < crop->height;) {
        JSAMPROW to[2] = {rows + y * width * 3, rows + (y + 1) * width * 3};
        y += jpeg_read_scanlines(&d, to, crop->height - y > 1 ? 2 : 1);
    }
    jpeg_abort_decompress(&d);
    jpeg_destroy_decompress(&d);
}

static void part(const crop_t *crop)
{
    image_t image;
    image_rect_t place;
    must(image_decode_part(decoder, bytes_of(&files[crop->file]), crop->wanted, SIDE, SIDE, &image, &place));
}

static image_bytes_t read_again(const crop_t *crop)
{
    const char *path = files[crop->file].path;
    return (image_bytes_t){path, buffer, read_file(path, buffer)};
}

static void crop_and_resize(const crop_t *crop)
{
    image_t image;
    image_rect_t place;
    must(image_decode_part(decoder, read_again(crop), crop->wanted, SIDE, SIDE, &image, &place));
    must(resize(&image, place, crop->mirror, SIDE, SIDE, &scratch, rgb));
}

static void whole(const crop_t *crop)
{
    image_t image;
    must(image_decode(decoder, read_again(crop), &image));
    must(resize(&image, crop->wanted, crop->mirror, SIDE, SIDE, &scratch, rgb));
}

int main(int n, char **words)
{
    static const struct {
        const char *name;
        void (*call)(const crop_t *crop);
        int stride; /* one of so many crops is timed */
    } ways[] = {{"bare", bare, 1}, {"part", part, 1}, {"crop", crop_and_resize, 1}, {"whole", whole, 2}};
    if (n != 4 || atoi(words[2]) < 1) {
        fprintf(stderr, "usage: image FOLDER CROPS SEED\n");
        return 2;
    }
    must(image_decoder_new((image_limits_t){0}, &decoder));
    must(mem_new(MAX_BYTES, "a file", &buffer));
    must(mem_new(MAX_BYTES * 8, "rows", &rows));
    read_folder(words[1]);
    if (n_files == 0) {
        fprintf(stderr, "image: error: no *.jpg in %s\n", words[1]);
        return 3;
    }
    const uint64_t seed = (uint64_t)atoll(words[3]);
    draw_crops(atoi(words[2]), seed);
    /* Crop by crop in turn, so that a machine that changes its speed does so to all. */
    double seconds[4] = {0};
    int n_timed[4] = {0};
    for (int i = -20; i < n_crops; i++) /* the first ones warm up */
        for (int k = 0; k < 4; k++) {
            const int w = (i + 20 + k) % 4, at = i < 0 ? (i + 20) % n_crops : i;
            if (at % ways[w].stride != 0) continue;
            const double begin = clock_sec();
            ways[w].call(&crops[at]);
            if (i < 0) continue;
            seconds[w] += clock_sec() - begin, n_timed[w]++;
        }
    for (int w = 0; w < 4; w++) printf("%s %.2f\n", ways[w].name, n_timed[w] / seconds[w]);
    return 0;
}
