/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Which part of an image is shown: ranges and independence of random transforms, parts that follow from the
 * formulas, what settings resolve to, and colour jitter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/transform/transform.h"
#include "tests/tap.h"

enum { N_DRAWS = 20000 };

static const image_rect_t image = {0, 0, 640, 480}, object = {100.5, 20.25, 61.5, 123.75};

static transform_settings_t resolved(transform_settings_t s, bool has_annotations)
{
    if (transform_resolve(&s, has_annotations, "the test's images") != ERR_OK) abort();
    return s;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static bool same_rect(image_rect_t a, double x, double y, double width, double height)
{
    bool same = near(a.x, x) && near(a.y, y) && near(a.width, width) && near(a.height, height);
    if (!same) printf("# got %g, %g, %g x %g\n", a.x, a.y, a.width, a.height);
    return same;
}

static bool same_transform(const transform_t *a, const transform_t *b)
{
    return same_rect(a->part, b->part.x, b->part.y, b->part.width, b->part.height) && a->left == b->left &&
           a->top == b->top && a->width == b->width && a->height == b->height && a->mirror == b->mirror &&
           near(a->jitter.brightness, b->jitter.brightness) && near(a->jitter.contrast, b->jitter.contrast) &&
           near(a->jitter.saturation, b->jitter.saturation);
}

static bool inside(image_rect_t part, image_rect_t region)
{
    return part.x >= region.x && part.y >= region.y &&
           part.x + part.width <= region.x + region.width + 1e-9 &&
           part.y + part.height <= region.y + region.height + 1e-9 && part.width >= 1 && part.height >= 1;
}

/* Statistics of random parts. */
static void test_ranges(image_rect_t region, double least, double mean_share, double tolerance)
{
    transform_settings_t s = resolved((transform_settings_t){.crop_scale = least}, false);
    bool all_inside = true, in_range = true;
    double sum = 0, top = 0;
    int n_mirrored = 0, n_tried = 0;
    for (int i = 0; i < N_DRAWS; i++) {
        transform_t v = transform_random(&s, 3, i % 7, i, region);
        double share = v.part.width * v.part.height / (region.width * region.height),
               ratio = v.part.width / v.part.height;
        all_inside = all_inside && inside(v.part, region) && v.left == 0 && v.top == 0 && v.width == 224 &&
                     v.height == 224;
        /* Sides are rounded to whole pixels. */
        double slack = 0.5 / v.part.width + 0.5 / v.part.height;
        in_range = in_range && share > least * (1 - 2 * slack) && ratio > 0.75 * (1 - 2 * slack) &&
                   ratio < 4.0 / 3 * (1 + 2 * slack);
        sum += share;
        n_mirrored += v.mirror;
        /* Where there is room, any place is as likely. */
        double room = region.height - v.part.height;
        if (room > 20) top += (v.part.y - region.y) / room, n_tried++;
    }
    OK(all_inside && in_range,
       "%gx%g: parts are inside, of %g of the area or more, of ratios from 3/4 to 4/3", region.width,
       region.height, least);
    OK(fabs(sum / N_DRAWS - mean_share) < tolerance, "… of %.3f of it on average", sum / N_DRAWS);
    OK(fabs(top / n_tried - 0.5) < 0.02 && fabs(n_mirrored - N_DRAWS / 2.0) < 4 * sqrt(N_DRAWS / 4.0),
       "… anywhere, and every other one is mirrored");
}

static double word(uint64_t seed, int64_t epoch, int64_t index, int i)
{
    rng_t rng = rng_new(seed, RNG_TRANSFORM, (uint64_t)index);
    rng.position = (uint64_t)(epoch * TRANSFORM_WORDS + i);
    return rng_uniform(&rng);
}

/* The first try, by torchvision's formulas, of those that need no second one. */
static void test_formula(void)
{
    transform_settings_t s = resolved((transform_settings_t){0}, false);
    bool right = true;
    int n_first = 0;
    for (int i = 0; i < 500; i++) {
        double area = 640 * 480 * (0.08 + 0.92 * word(5, 2, i, 0));
        double ratio = exp(log(3.0 / 4) + (log(4.0 / 3) - log(3.0 / 4)) * word(5, 2, i, 1));
        double width = rint(sqrt(area * ratio)), height = rint(sqrt(area / ratio));
        if (width > 640 || height > 480) continue;
        transform_t v = transform_random(&s, 5, 2, i, image);
        right = right && same_rect(v.part, floor(word(5, 2, i, 20) * (640 - width + 1)),
                                   floor(word(5, 2, i, 21) * (480 - height + 1)), width, height);
        n_first++;
    }
    OK(right && n_first > 300, "the first try that fits, word by word");
}

static void test_independence(void)
{
    transform_settings_t s =
        resolved((transform_settings_t){.brightness = 0.4, .contrast = 0.4, .saturation = 0.4}, false);
    transform_t a = transform_random(&s, 1, 2, 3, image), b = transform_random(&s, 1, 2, 3, image);
    transform_t seed = transform_random(&s, 2, 2, 3, image), epoch = transform_random(&s, 1, 3, 3, image),
                index = transform_random(&s, 1, 2, 4, image);
    OK(same_transform(&a, &b), "the same seed, epoch and index: the same transform");
    OK(!near(a.part.x, seed.part.x) && !near(a.part.x, epoch.part.x) && !near(a.part.x, index.part.x) &&
           !near(a.jitter.brightness, epoch.jitter.brightness),
       "another seed, epoch or index: another");
    bool kept = true, in_range = true;
    for (int i = 0; i < 100; i++) {
        transform_settings_t plain = resolved((transform_settings_t){.no_flip = true}, false);
        transform_t with = transform_random(&s, 1, 0, i, image),
                    without = transform_random(&plain, 1, 0, i, image);
        kept =
            kept &&
            same_rect(with.part, without.part.x, without.part.y, without.part.width, without.part.height) &&
            !without.mirror && near(without.jitter.brightness, 1) && near(without.jitter.contrast, 1) &&
            near(without.jitter.saturation, 1);
        in_range = in_range && fabs(with.jitter.brightness - 1) <= 0.4 &&
                   fabs(with.jitter.contrast - 1) <= 0.4 && fabs(with.jitter.saturation - 1) <= 0.4 &&
                   !near(with.jitter.brightness, with.jitter.contrast);
    }
    OK(kept, "what is switched off leaves the rest as it was");
    OK(in_range, "factors are within 1 ± what is allowed");
    s.crop = CROP_WARP;
    transform_t warped = transform_random(&s, 1, 2, 3, image);
    OK(same_rect(warped.part, 0, 0, 640, 480) && warped.mirror == a.mirror &&
           near(warped.jitter.contrast, a.jitter.contrast),
       "crops that are not random are mirrored and jittered alike");
}

/* Where no try can fit. */
static void test_fallback(void)
{
    transform_settings_t s = resolved((transform_settings_t){.crop_scale = 1}, false);
    transform_t wide = transform_random(&s, 1, 0, 0, (image_rect_t){10, 20, 100, 5});
    transform_t tall = transform_random(&s, 1, 0, 0, (image_rect_t){0, 0, 5, 100});
    transform_t dot = transform_random(&s, 1, 0, 0, (image_rect_t){3, 4, 1, 1});
    OK(same_rect(wide.part, 10 + 46.5, 20, 7, 5), "too wide: the middle, 4/3 of its height");
    OK(same_rect(tall.part, 0, 46.5, 5, 7), "too high: the middle");
    OK(same_rect(dot.part, 3, 4, 1, 1), "an image of one pixel");
}

static void test_fixed(void)
{
    transform_settings_t s = resolved((transform_settings_t){.input_size = 224}, false);
    transform_t v = transform_fixed(&s, image);
    OK(same_rect(v.part, 110, 30, 420, 420) && v.width == 224 && v.height == 224 && !v.mirror, "center");
    s.eval_crop = CROP_WARP;
    v = transform_fixed(&s, object);
    OK(same_rect(v.part, object.x, object.y, object.width, object.height) && v.width == 224 &&
           v.height == 224,
       "warp");
    s.eval_crop = CROP_LETTERBOX;
    v = transform_fixed(&s, image);
    OK(same_rect(v.part, 0, 0, 640, 480) && v.width == 224 && v.height == 168 && v.left == 0 && v.top == 28,
       "letterbox");
    v = transform_fixed(&s, (image_rect_t){0, 0, 1, 4000});
    OK(v.width == 1 && v.height == 224 && v.left == 111 && v.top == 0, "… of a line");
}

static void test_settings(void)
{
    transform_settings_t s = resolved((transform_settings_t){0}, false);
    OK(s.task == TASK_CLASSIFY && s.crop == CROP_RANDOM && s.eval_crop == CROP_CENTER &&
           near(s.crop_scale, 0.08) && s.input_size == 224,
       "images with labels");
    s = resolved((transform_settings_t){0}, true);
    OK(s.task == TASK_MULTILABEL && s.eval_crop == CROP_WARP && near(s.crop_scale, 0.5),
       "images with annotations");
    s = resolved((transform_settings_t){.task = TASK_CROPS, .crop_scale = 0.3, .input_size = 32}, true);
    OK(s.task == TASK_CROPS && near(s.crop_scale, 0.3) && s.input_size == 32, "what is given stays");
    s = (transform_settings_t){.task = TASK_MULTILABEL};
    OK(transform_resolve(&s, false, "pets") == ERR_USAGE &&
           SAYS("--task multilabel", "pets", "--task classify"),
       "%s", err_message());
    s = (transform_settings_t){.task = TASK_CLASSIFY};
    OK(transform_resolve(&s, true, "coco") == ERR_USAGE &&
           SAYS("--task classify", "coco", "multilabel or crops"),
       "%s", err_message());
    s = (transform_settings_t){.crop = CROP_CENTER, .crop_scale = 0.2};
    OK(transform_resolve(&s, false, "pets") == ERR_USAGE && SAYS("--crop-scale", "center"), "%s",
       err_message());

    transform_options_t options = {0};
    opt_group_t group = {"", transform_option_table, n_transform_options, &options, 0};
    char *words[] = {"--task=crops", "--eval-crop=letterbox", "--no-flip", "--crop=warp",
                     "--jitter-contrast=0.1"};
    if (opt_defaults(&group, 1) != ERR_OK) abort();
    s = transform_settings(&options);
    OK(transform_resolve_in_memory(&s, 1, "digits") == ERR_OK && !transform_moves(&s) &&
           !transform_jitters(&s),
       "the defaults leave images in memory as they are");
    if (opt_parse(&group, 1, 5, words, NULL, 0, NULL) != ERR_OK) abort();
    s = transform_settings(&options);
    OK(s.task == TASK_CROPS && s.eval_crop == CROP_LETTERBOX && s.crop == CROP_WARP && s.no_flip &&
           near(s.contrast, 0.1),
       "options");
    OK(transform_resolve_in_memory(&s, 1, "digits") == ERR_USAGE && SAYS("--task", "digits"), "%s",
       err_message());
}

static bool refused(transform_settings_t s, int64_t channels, const char *what)
{
    bool right = transform_resolve_in_memory(&s, channels, "digits") == ERR_USAGE && SAYS(what, "digits");
    if (right) printf("# %s\n", err_message());
    return right;
}

static void test_in_memory(void)
{
    transform_settings_t s = {
        .crop = CROP_RANDOM, .contrast = 0.1, .no_flip = true, .affine = {.rotate_deg = 5}};
    OK(transform_resolve_in_memory(&s, 1, "digits") == ERR_OK && near(s.crop_scale, 0.08) &&
           transform_moves(&s) && transform_jitters(&s),
       "in memory: random crops, jitter and affine maps together");
    OK(refused((transform_settings_t){.input_size = 32}, 1, "--input-size") &&
           refused((transform_settings_t){.eval_crop = CROP_WARP}, 1, "--eval-crop") &&
           refused((transform_settings_t){.crop = CROP_CENTER}, 1, "--crop center") &&
           refused((transform_settings_t){.crop_scale = 0.5}, 1, "--crop-scale") &&
           refused((transform_settings_t){.saturation = 0.5}, 1, "--jitter-saturation"),
       "… what makes no sense there is refused");
    s = (transform_settings_t){.saturation = 0.5};
    OK(transform_resolve_in_memory(&s, 3, "digits") == ERR_OK, "… but saturation in colour");
    transform_options_t options = {.flip = false, .affine = {.flip = true}};
    OK(transform_check(&options) == ERR_USAGE && SAYS("--augment-flip", "--no-flip"), "%s", err_message());

    s = (transform_settings_t){.task = TASK_DETECT, .canvases = {.exact = true}, .affine = {.flip = true}};
    OK(transform_resolve(&s, true, "coco") == ERR_OK, "--flip is for detectors, too: %s", err_message());

    bool alone = true, inside_image = true;
    const map_size_t size = {28, 28};
    transform_settings_t affine = {.affine = {20, .1, 5, .1, true}},
                         crop = {.crop = CROP_RANDOM, .crop_scale = 0.3};
    for (int i = 0; i < 100; i++) {
        random_affine_t drawn = random_affine_draw(&affine.affine, 3, 1, i);
        affine_t expected = random_affine_matrix(&drawn, 28, 28),
                 got = transform_in_memory(&affine, 3, 1, i, size);
        alone = alone && memcmp(&expected, &got, sizeof got) == 0;
        map_t map = {transform_in_memory(&crop, 3, 1, i, size), size, size};
        transform_t t = transform_random(&crop, 3, 1, i, (image_rect_t){0, 0, 28, 28});
        image_rect_t part = map_box(&map, (image_rect_t){0, 0, 28, 28});
        inside_image = inside_image && same_rect(part, t.part.x, t.part.y, t.part.width, t.part.height);
    }
    OK(alone, "without a crop the map is random_affine_matrix's, to the bit");
    OK(inside_image, "with one alone it is the part that folders would be shown in");
}

/* Images of 32 pixels as CIFAR's, moved as by torchvision's RandomCrop(32, 4, padding_mode="edge"). */
static void test_shifts(void)
{
    enum { SIDE = 32, MOST = 4, N_SHIFTS = 2250 };
    const map_size_t size = {SIDE, SIDE};
    const transform_settings_t s = {
        .input_size = SIDE, .crop = CROP_WARP, .no_flip = true, .affine = {.shift = 0.125}};
    static uint8_t pixels[3 * SIDE * SIDE], shown[3 * SIDE * SIDE];
    const image_t whole = {SIDE, SIDE, pixels};
    const image_rect_t all = {0, 0, SIDE, SIDE};
    render_scratch_t scratch = {0};
    rng_t rng = rng_new(1, RNG_TEST, 0);
    int n_seen[2 * MOST + 1] = {0};
    bool exact = true, even = true;
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)rng_u32(&rng);
    for (int i = 0; exact && i < N_SHIFTS; i++) {
        const transform_t t = transform_random(&s, 1, 0, i, all);
        const render_window_t w = render_window(&t, size);
        const int dy = (int)t.affine.shift[0], dx = (int)t.affine.shift[1];
        exact = dy >= -MOST && dy <= MOST && render(&t, size, &whole, w.part, &scratch, shown) == ERR_OK;
        if (!exact) break;
        n_seen[dy + MOST]++;
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++) {
                const int from_y = y + dy < 0       ? 0
                                   : y + dy >= SIDE ? SIDE - 1
                                                    : y + dy,
                          from_x = x + dx < 0       ? 0
                                   : x + dx >= SIDE ? SIDE - 1
                                                    : x + dx;
                exact = exact &&
                        memcmp(shown + 3 * (y * SIDE + x), pixels + 3 * (from_y * SIDE + from_x), 3) == 0;
            }
    }
    for (int i = 0; i <= 2 * MOST; i++)
        even = even && abs(n_seen[i] - N_SHIFTS / (2 * MOST + 1)) < 60; /* 4 standard deviations */
    OK(exact && even, "shifts alone are by whole pixels, all of them equally often");
    const transform_settings_t small = {
        .input_size = SIDE, .crop = CROP_WARP, .no_flip = true, .affine = {.shift = 0.01}};
    const transform_t t = transform_random(&small, 1, 0, 3, all);
    OK(t.affine.shift[0] != 0 && fabs(t.affine.shift[0]) < 1, "below a pixel they are fractions");
    render_scratch_free(&scratch);
}

static void test_jitter(void)
{
    static const uint8_t two[] = {10, 100, 200, 30, 60, 90};
    uint8_t p[6];
#define JITTERED(b, c, s) (memcpy(p, two, sizeof p), jitter_apply(&(jitter_t){b, c, s}, p, 2, 3), p)
    OK(memcmp(JITTERED(1, 1, 1), two, 6) == 0, "factors of 1 change nothing");
    OK(memcmp(JITTERED(1.5, 1, 1), ((uint8_t[]){15, 150, 255, 45, 90, 135}), 6) == 0,
       "brightness, cut at 255");
    OK(memcmp(JITTERED(0, 1, 1), ((uint8_t[6]){0}), 6) == 0, "none of it");
    /* Greys: 0.299·10 + 0.587·100 + 0.114·200 = 84.49 and 54.45; their mean is 69.47. */
    OK(memcmp(JITTERED(1, 0, 1), ((uint8_t[]){69, 69, 69, 69, 69, 69}), 6) == 0,
       "no contrast: the mean grey");
    OK(memcmp(JITTERED(1, 0.5, 1), ((uint8_t[]){40, 85, 135, 50, 65, 80}), 6) == 0, "half of it");
    OK(memcmp(JITTERED(1, 1, 0), ((uint8_t[]){84, 84, 84, 54, 54, 54}), 6) == 0,
       "no saturation: each pixel's grey");
    uint8_t grey[] = {10, 30};
    jitter_apply(&(jitter_t){2, 0.5, 1}, grey, 2, 1);
    OK(grey[0] == 30 && grey[1] == 50, "grey: brightness, then contrast about the mean");
    OK(memcmp(JITTERED(1, 1, 2), ((uint8_t[]){0, 116, 255, 6, 66, 126}), 6) == 0, "twice of it");
    /* (20, 200, 255) and (60, 120, 180), whose greys are 152.45 and 108.9. */
    const uint8_t *both = JITTERED(2, 0, 1);
    OK(both[0] == both[5] && both[0] == 131, "brightness comes before contrast");
}

int main(void)
{
    tap_plan(6 + 1 + 5 + 3 + 4 + 9 + 7 + 2 + 9);
    /* Means as of an independent simulation of torchvision's procedure. */
    test_ranges(image, 0.08, 0.433, 0.005);
    test_ranges(object, 0.5, 0.603, 0.005);
    test_formula();
    test_independence();
    test_fallback();
    test_fixed();
    test_settings();
    test_in_memory();
    test_shifts();
    test_jitter();
    return tap_done();
}
