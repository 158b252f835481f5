/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Photographs of COCO: every one decodes, and parts of them are the whole's own pixels. */
#include <dirent.h>
#include <math.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/image/resize.h"
#include "tests/tap.h"

static image_decoder_t *decoder;
static uint8_t *whole, *bytes;
static int64_t n_whole;
enum { MOST_BYTES = 1 << 22, OUT = 64 };

static size_t read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(bytes, 1, MOST_BYTES, file) : 0;
    if (file) fclose(file);
    return n;
}

static bool part_is_right(image_bytes_t from, int64_t width, int64_t height, rng_t *rng)
{
    const int64_t x = rng_below(rng, (uint32_t)width), y = rng_below(rng, (uint32_t)height);
    const int64_t w = 1 + rng_below(rng, (uint32_t)(width - x)),
                  h = 1 + rng_below(rng, (uint32_t)(height - y));
    const image_rect_t wanted = {(double)x, (double)y, (double)w, (double)h};
    image_t part;
    image_rect_t place;
    if (image_decode_part(decoder, from, wanted, w, h, &part, &place) != ERR_OK) return false;
    bool same = (int64_t)place.width == w && (int64_t)place.height == h;
    for (int64_t row = 0; row < h && same; row++)
        same = memcmp(part.rgb + (((int64_t)place.y + row) * part.width + (int64_t)place.x) * 3,
                      whole + ((y + row) * width + x) * 3, (size_t)w * 3) == 0;
    return same;
}

static bool image_is_right(const char *path, rng_t *rng)
{
    const image_bytes_t from = {path, bytes, read_file(path)};
    image_info_t info;
    image_t image;
    if (image_info(from, &info) != ERR_OK || image_decode(decoder, from, &image) != ERR_OK) {
        printf("# %s\n", err_message());
        return false;
    }
    bool right =
        image.width == info.width && image.height == info.height && image.width * image.height <= n_whole;
    if (right) memcpy(whole, image.rgb, (size_t)(image.width * image.height * 3));
    const int64_t width = image.width, height = image.height;
    for (int i = 0; i < 4 && right; i++) right = part_is_right(from, width, height, rng);
    if (!right) printf("# %s\n", path);
    return right;
}

/* Largest difference of means over 8 × 8 pixels of two images of OUT × OUT. */
static double coarse_distance(const uint8_t *a, const uint8_t *b)
{
    double most = 0;
    for (int block = 0; block < OUT / 8 * OUT / 8; block++) {
        double sum = 0;
        for (int i = 0; i < 64; i++) {
            const int y = block / (OUT / 8) * 8 + i / 8, x = block % (OUT / 8) * 8 + i % 8;
            for (int c = 0; c < 3; c++) sum += a[(y * OUT + x) * 3 + c] - b[(y * OUT + x) * 3 + c];
        }
        most = fmax(most, fabs(sum) / (64 * 3));
    }
    return most;
}

/* A part of `side` pixels, resized, against the same from the whole image: to the bit where it is not
 * scaled, and otherwise as near as the transform's own scaling is. */
static bool crop_is_right(image_bytes_t from, double side, rng_t *rng, resize_scratch_t *scratch)
{
    static uint8_t ours[OUT * OUT * 3], plain[OUT * OUT * 3];
    image_t image;
    image_rect_t place;
    if (image_decode(decoder, from, &image) != ERR_OK) return false;
    const image_rect_t wanted = {rng_uniform(rng) * ((double)image.width - side),
                                 rng_uniform(rng) * ((double)image.height - side), side, side};
    const bool mirror = rng_below(rng, 2);
    if (resize(&image, wanted, mirror, OUT, OUT, scratch, plain) != ERR_OK ||
        image_decode_part(decoder, from, wanted, OUT, OUT, &image, &place) != ERR_OK ||
        resize(&image, place, mirror, OUT, OUT, scratch, ours) != ERR_OK)
        return false;
    const double far = coarse_distance(ours, plain);
    const bool right = side < 2 * OUT ? memcmp(ours, plain, sizeof ours) == 0 : far < 6;
    if (!right) printf("# %s, a part of %.0f pixels: %.2f\n", from.name, side, far);
    return right;
}

int main(void)
{
    static const char *const splits[] = {"train2017", "val2017"};
    const char *data = getenv("DPTRAIN_DATA");
    char folder[FS_PATH_MAX], path[FS_PATH_MAX];
    if (!data || fs_join(folder, data, "coco_tiny") != ERR_OK || !fs_is_folder(folder))
        tap_skip_all("no coco_tiny in $DPTRAIN_DATA");
    tap_plan(3 + 4 + 1);
    n_whole = 4000 * 4000;
    OK_CALL(image_decoder_new((image_limits_t){0}, &decoder), "a decoder");
    OK_CALL(mem_new_array(n_whole, 3, "an image", &whole), "memory");
    OK_CALL(mem_new(MOST_BYTES, "a file", &bytes), "memory");
    rng_t rng = rng_new(21, RNG_TEST, 0);
    resize_scratch_t scratch = {NULL, 0};
    for (int s = 0; s < 2; s++) {
        char split[FS_PATH_MAX];
        int n = 0, n_right = 0, n_near = 0;
        fs_join(split, folder, splits[s]);
        DIR *dir = opendir(split);
        for (struct dirent *entry; dir && (entry = readdir(dir)) && (!UNDER_SANITIZER || n < 8);) {
            if (!strstr(entry->d_name, ".jpg") || fs_join(path, split, entry->d_name) != ERR_OK) continue;
            n++;
            n_right += image_is_right(path, &rng);
            const image_bytes_t from = {path, bytes, read_file(path)};
            n_near += crop_is_right(from, OUT * (1.1 + .8 * rng_uniform(&rng)), &rng, &scratch) &&
                      crop_is_right(from, OUT * (2 + 1.5 * rng_uniform(&rng)), &rng, &scratch);
        }
        if (dir) closedir(dir);
        OK(n > 0 && n_right == n, "%s: %d of %d decode, and parts are the whole's pixels", splits[s], n_right,
           n);
        OK(n > 0 && n_near == n, "parts of %d of %d, resized, are what the whole gives", n_near, n);
    }
    resize_scratch_free(&scratch);
    image_decoder_free(&decoder);
    mem_free(&whole), mem_free(&bytes);
    OK(mem_live() == 0, "nothing is left");
    return tap_done();
}
