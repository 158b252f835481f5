/* SPDX-License-Identifier: MIT */
/* Smaller images: sizes, what is known of them, EXIF's orientations, and what stays as it is.
 * RUN np=0 */
#include <math.h>

#include "base/mem.h"
#include "data/annotation/mask.h"
#include "data/image/image.h"
#include "tests/tap.h"
#include "tools/pack/parts.h"

enum { W = 60, H = 40, N = 20 };

static uint8_t pixels[W * H * 3];

/* Dark, but for the upper left quarter: an orientation is seen from where that is. */
static void paint(void)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) memset(pixels + 3 * (y * W + x), x < W / 2 && y < H / 2 ? 240 : 20, 3);
}

/* A JPEG with an EXIF block that has the orientation alone; mem_free *out. */
static void make_jpeg(int orientation, uint8_t **out, size_t *n_bytes)
{
    uint8_t *plain = NULL;
    size_t n;
    const uint8_t exif[] = {0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,
                            'M',  'M',  0, 42, 0,   0,   0,   8,   0, 1,
                            0x01, 0x12, 0, 3,  0,   0,   0,   1,   0, (uint8_t)orientation,
                            0,    0,    0, 0,  0,   0};
    const image_t image = {W, H, pixels};
    ASSERT(image_encode_jpeg(&image, 95, &plain, &n) == ERR_OK);
    ASSERT(mem_new(n + sizeof exif, "an image", out) == ERR_OK);
    memcpy(*out, plain, 2);
    memcpy(*out + 2, exif, sizeof exif);
    memcpy(*out + 2 + sizeof exif, plain + 2, n - 2);
    *n_bytes = n + sizeof exif;
    mem_free(&plain);
}

/* A box around the upper left quarter, that quarter as a polygon and as runs. */
static const int32_t n_points[] = {4};
static const float points[] = {0, 0, W / 2, 0, W / 2, H / 2, 0, H / 2};
static uint32_t runs[W + 2];
static annotation_t annotations[] = {
    {.id = 1,
     .category = 1,
     .area = W * H / 4.0,
     .box = {0, 0, W / 2, H / 2},
     .segmentation = SEGMENTATION_POLYGONS,
     .n_polygons = 1,
     .n_points = n_points,
     .points = points},
    {.id = 2,
     .crowd = true,
     .area = W * H / 4.0,
     .box = {0, 0, W / 2, H / 2},
     .segmentation = SEGMENTATION_RLE,
     .runs = runs},
    {.id = 3, .area = 1, .box = {10.5, 20.25, 0.5, 0.25}},
};

static sample_t make_sample(const void *bytes, size_t n_bytes)
{
    int n = 0;
    runs[n++] = 0;
    for (int x = 0; x < W / 2; x++)
        runs[n++] = H / 2, runs[n++] = x < W / 2 - 1 ? H / 2 : H / 2 + H * (W - W / 2);
    annotations[1].n_runs = n;
    return (sample_t){.id = 7,
                      .name = "a.jpg",
                      .width = W,
                      .height = H,
                      .label = -1,
                      .bytes = bytes,
                      .n_bytes = n_bytes,
                      .n_annotations = 3,
                      .annotations = annotations};
}

/* Whether the mask's pixels are where the image is bright. */
static bool mask_is_bright(const annotation_t *a, const sample_t *sample, image_decoder_t *decoder)
{
    static uint8_t mask[W * H];
    image_t image;
    if (mask_draw(a, sample->width, sample->height, mask) != ERR_OK ||
        image_decode(decoder, (image_bytes_t){"small", sample->bytes, sample->n_bytes}, &image) != ERR_OK ||
        image.width != sample->width || image.height != sample->height)
        return false;
    for (int64_t y = 1; y < image.height - 1; y++)
        for (int64_t x = 1; x < image.width - 1; x++) {
            uint8_t value = image.rgb[3 * (y * image.width + x)];
            /* Along the border of the quarter the reduction mixes. */
            if ((value > 190) != (mask[y * image.width + x] == 1) && (value > 200 || value < 60))
                return false;
        }
    return true;
}

static void test_orientation(int orientation)
{
    uint8_t *jpeg;
    size_t n_bytes;
    pack_resizer_t *resizer = NULL;
    image_decoder_t *decoder = NULL;
    sample_t small;
    make_jpeg(orientation, &jpeg, &n_bytes);
    sample_t sample = make_sample(jpeg, n_bytes);
    ASSERT(pack_resizer_new(N, 95, &resizer) == ERR_OK &&
           image_decoder_new((image_limits_t){0}, &decoder) == ERR_OK);
    bool fine = pack_resize(resizer, &sample, &small) == ERR_OK;
    bool turned = orientation >= 5;
    fine = fine && small.width == (turned ? N : N * W / H) && small.height == (turned ? N * W / H : N);
    fine = fine && small.n_annotations == 3 && small.id == 7 && strcmp(small.name, "a.jpg") == 0;
    const annotation_t *a = small.annotations;
    fine = fine && fabs(a[0].area - W * H / 16.0) < 1e-9 && a[1].crowd && a[2].id == 3;
    fine =
        fine && fabs(a[0].box[2] - small.width / 2.0) < 1e-9 && fabs(a[0].box[3] - small.height / 2.0) < 1e-9;
    fine = fine && fabs(a[2].box[2] * a[2].box[3] - 0.125 / 4) < 1e-9;
    bool where = fine && mask_is_bright(&a[0], &small, decoder) && mask_is_bright(&a[1], &small, decoder);
    annotation_t box = {.box = {0}};
    if (fine) memcpy(box.box, a[0].box, sizeof box.box);
    where = where && mask_is_bright(&box, &small, decoder);
    OK(where, "orientation %d: image, box, polygon and runs stay together (%dx%d) %s", orientation,
       small.width, small.height, fine ? "" : err_message());
    pack_resizer_free(&resizer);
    image_decoder_free(&decoder);
    mem_free(&jpeg);
}

static void test_as_they_are(void)
{
    uint8_t *jpeg;
    size_t n_bytes;
    pack_resizer_t *resizer = NULL;
    sample_t same;
    make_jpeg(6, &jpeg, &n_bytes);
    sample_t sample = make_sample(jpeg, n_bytes);
    ASSERT(pack_resizer_new(H, 95, &resizer) == ERR_OK);
    OK(pack_resize(resizer, &sample, &same) == ERR_OK && same.bytes == sample.bytes &&
           same.n_bytes == n_bytes && same.annotations == annotations && same.width == W,
       "an image whose shorter side is no longer stays as it is");
    sample.width = W + 1;
    OK(pack_resize(resizer, &sample, &same) == ERR_DATA && SAYS("a.jpg", "60×40", "61×40"),
       "a size that is not the image's is told");
    sample = make_sample(jpeg, n_bytes / 2);
    pack_resizer_free(&resizer);
    ASSERT(pack_resizer_new(N, 95, &resizer) == ERR_OK);
    OK(pack_resize(resizer, &sample, &same) == ERR_DATA && SAYS("a.jpg"),
       "an image that is cut off is told by name");
    pack_resizer_free(&resizer);
    mem_free(&jpeg);
}

static void test_png(void)
{
    uint8_t *png = NULL;
    size_t n_bytes;
    pack_resizer_t *resizer = NULL;
    sample_t small;
    image_info_t info = {0};
    ASSERT(image_encode_png(pixels, W, H, 3, &png, &n_bytes) == ERR_OK);
    sample_t sample = make_sample(png, n_bytes);
    ASSERT(pack_resizer_new(N, 95, &resizer) == ERR_OK);
    bool fine = pack_resize(resizer, &sample, &small) == ERR_OK &&
                image_info((image_bytes_t){"small", small.bytes, small.n_bytes}, &info) == ERR_OK;
    OK(fine && info.format == IMAGE_PNG && info.width == N * W / H && info.height == N,
       "a PNG becomes a smaller PNG");
    pack_resizer_free(&resizer);
    mem_free(&png);
}

/* Runs take the memory of what they are, not of as many as there are pixels. */
static void test_many_runs(void)
{
    enum { MANY = 2000 };
    static annotation_t many[MANY];
    uint8_t *png = NULL;
    size_t n_bytes;
    pack_resizer_t *resizer = NULL;
    sample_t small;
    ASSERT(image_encode_png(pixels, W, H, 3, &png, &n_bytes) == ERR_OK);
    sample_t sample = make_sample(png, n_bytes);
    for (int i = 0; i < MANY; i++) many[i] = annotations[1];
    sample.annotations = many;
    sample.n_annotations = MANY;
    ASSERT(pack_resizer_new(N, 95, &resizer) == ERR_OK);
    int64_t before = mem_live_bytes();
    bool fine = pack_resize(resizer, &sample, &small) == ERR_OK;
    int64_t n_more = mem_live_bytes() - before;
    OK(fine && n_more < MANY * 1000, "%d masks take %lld bytes", (int)MANY, (long long)n_more);
    pack_resizer_free(&resizer);
    mem_free(&png);
}

int main(void)
{
    paint();
    tap_plan(8 + 3 + 1 + 1 + 1);
    for (int orientation = 1; orientation <= 8; orientation++) test_orientation(orientation);
    test_as_they_are();
    test_png();
    test_many_runs();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
