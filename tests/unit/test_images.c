/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Folders of images and COCO as datasets: what is read of them, as it is shown in evaluation and in
 * training; objects in images that a camera has turned; damaged and missing files. */
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/dataset/dataset.h"
#include "data/image/orient.h"
#include "data/transform/transform.h"
#include "tests/tap.h"
#include "tests/turned.h"

enum { SIZE = 16, W = 60, H = 40 };

static char root[] = "/tmp/dptrain-images-XXXXXX";

typedef struct colour {
    uint8_t r, g, b;
} colour_t;
static const colour_t red = {220, 30, 30}, blue = {20, 40, 200}, green = {40, 180, 60};

/* An image of W x H: background, and in it a box of another colour. */
static uint8_t canvas[W * H * 3];
static void paint(colour_t ground, colour_t ink, int x0, int y0, int width, int height)
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            bool in = x >= x0 && x < x0 + width && y >= y0 && y < y0 + height;
            memcpy(canvas + 3 * (y * W + x), in ? &ink : &ground, 3);
        }
}

static void put_file(const char *name, const void *bytes, size_t n_bytes)
{
    char path[FS_PATH_MAX], folder[FS_PATH_MAX];
    if (fs_join(path, root, name) != ERR_OK) abort();
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (fs_make_folder(folder) != ERR_OK) abort();
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, n_bytes, file) != n_bytes || fclose(file) != 0) abort();
}

static void put_png(const char *name)
{
    uint8_t *bytes = NULL;
    size_t n_bytes;
    if (image_encode_png(canvas, W, H, 3, &bytes, &n_bytes) != ERR_OK) abort();
    put_file(name, bytes, n_bytes);
    mem_free(&bytes);
}

static void put_jpeg(const char *name, int orientation)
{
    uint8_t file[1 << 16];
    const image_t image = {W, H, canvas};
    put_file(name, file, turned_jpeg(&image, orientation, file, sizeof file));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *position)
{
    (void)info, (void)kind, (void)position;
    return remove(path);
}

static dataset_t *open_set(const char *name, transform_settings_t settings)
{
    static char path[FS_PATH_MAX];
    dataset_t *set = NULL;
    if (fs_join(path, root, name) != ERR_OK) abort();
    if (settings.input_size == 0) settings.input_size = SIZE;
    if (dataset_open(path, &settings, &set) != ERR_OK) {
        printf("# %s\n", err_message());
        exit(1);
    }
    return set;
}

/* One sample, copied. */
typedef struct shown {
    err_t err;
    int32_t label;
    uint8_t rgb[SIZE][SIZE][3];
    float targets[4];
} shown_t;

static shown_t show(const dataset_t *set, dataset_request_t request)
{
    shown_t shown = {.label = -2};
    dataset_reader_t reader;
    dataset_sample_t sample;
    const bool several = set->info.task == TASK_MULTILABEL;
    const field_place_t place = {.data = several ? (void *)shown.targets : (void *)&shown.label};
    request.fields = &place;
    if (dataset_reader_open(set, &reader) != ERR_OK) abort();
    shown.err = dataset_read(&reader, &request, &sample);
    if (shown.err == ERR_OK) memcpy(shown.rgb, sample.bytes, sizeof shown.rgb);
    dataset_reader_close(&reader);
    return shown;
}

static bool is(const uint8_t *p, colour_t c, int tolerance)
{
    bool same = abs(p[0] - c.r) <= tolerance && abs(p[1] - c.g) <= tolerance && abs(p[2] - c.b) <= tolerance;
    if (!same) printf("# got %d, %d, %d\n", p[0], p[1], p[2]);
    return same;
}

/* Class 0: red, on the left blue. Class 1: green. */
static void make_folder(void)
{
    char name[64];
    paint(red, blue, 0, 0, W / 2, H);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "pets/train/cat/%d.png", i);
        put_png(name);
    }
    paint(green, green, 0, 0, 0, 0);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "pets/train/dog/%d.png", i);
        put_png(name);
    }
    put_png("pets/val/dog/9.png");
}

static void test_folder(void)
{
    make_folder();
    dataset_t *set = open_set("pets", (transform_settings_t){0}),
              *again = open_set("pets", (transform_settings_t){.input_size = 9});
    const dataset_info_t *info = &set->info;
    OK(strcmp(info->kind, "images") == 0 && info->n_samples[SPLIT_TRAIN] == 5 &&
           info->n_samples[SPLIT_VAL] == 1 && info->height == SIZE && info->width == SIZE &&
           info->channels == 3 && info->n_classes == 2 && info->task == TASK_CLASSIFY,
       "a folder of classes");
    OK(fabs(info->norm.mean[1] - 0.456) < 1e-9 && fabs(info->norm.std[2] - 0.225) < 1e-9, "ImageNet's norm");
    OK(info->hash == again->info.hash && again->info.width == 9, "its hash is not of how it is shown");
    dataset_close(&again);

    shown_t cat = show(set, (dataset_request_t){.split = SPLIT_TRAIN, .index = 2});
    shown_t dog = show(set, (dataset_request_t){.split = SPLIT_VAL});
    OK(cat.label == 0 && dog.label == 1, "labels");
    OK(is(cat.rgb[8][2], blue, 0) && is(cat.rgb[8][13], red, 0) && is(dog.rgb[0][0], green, 0), "pixels");

    const dataset_request_t random = {.split = SPLIT_TRAIN, .index = 1, .random = true, .seed = 5};
    shown_t first = show(set, random), second = show(set, random);
    OK(memcmp(&first, &second, sizeof first) == 0, "a random view is the same again");
    int n_mirrored = 0, n_new = 0;
    for (int epoch = 1; epoch <= 40; epoch++) {
        dataset_request_t request = random;
        request.epoch = epoch;
        second = show(set, request);
        n_new += memcmp(first.rgb, second.rgb, sizeof first.rgb) != 0;
        n_mirrored += second.rgb[8][0][0] > second.rgb[8][15][0];
    }
    OK(n_new > 20 && n_mirrored > 5 && n_mirrored < 35, "… and others in other epochs, some mirrored");
    dataset_close(&set);

    set = open_set("pets", (transform_settings_t){.eval_crop = CROP_LETTERBOX});
    cat = show(set, (dataset_request_t){.split = SPLIT_TRAIN});
    const colour_t grey = {TRANSFORM_GREY, TRANSFORM_GREY, TRANSFORM_GREY};
    OK(is(cat.rgb[0][5], grey, 0) && is(cat.rgb[15][5], grey, 0) && is(cat.rgb[3][0], blue, 0) &&
           is(cat.rgb[12][15], red, 0),
       "letterbox: 11 rows of image between grey borders");
    dataset_close(&set);
}

/* Images of which the left half is blue: each pixel well within a half has its colour, where the map says.
 */
static void test_moved(void)
{
    const transform_settings_t settings = {.task = TASK_CLASSIFY,
                                           .input_size = SIZE,
                                           .crop = CROP_WARP,
                                           .affine = {.rotate_deg = 180, .shift = .1, .zoom = .2}};
    dataset_t *set = open_set("pets", settings);
    bool right = true;
    for (int epoch = 0; epoch < 20; epoch++) {
        const dataset_request_t request = {.index = 2, .random = true, .seed = 5, .epoch = epoch};
        const transform_t t = transform_random(&settings, 5, epoch, 2, (image_rect_t){0, 0, W, H});
        const map_t map = transform_map(&t, (map_size_t){H, W});
        const shown_t shown = show(set, request);
        right = right && shown.err == ERR_OK;
        for (int i = 0; i < SIZE * SIZE; i++) {
            const map_point_t p = map_point(&map, i % SIZE + 0.5, i / SIZE + 0.5);
            if (fabs(p.x - W / 2.0) < 8) continue;
            right = right && is(shown.rgb[i / SIZE][i % SIZE], p.x < W / 2.0 ? blue : red, 2);
        }
    }
    OK(right, "turned, shifted and zoomed: each pixel from where the map says");
    dataset_close(&set);
}

static void test_damage(void)
{
    char path[FS_PATH_MAX];
    dataset_t *set = open_set("pets", (transform_settings_t){0});
    snprintf(path, sizeof path, "%s/pets/train/cat/1.png", root);
    struct stat info;
    if (stat(path, &info) != 0) abort();
    FILE *file = fopen(path, "r+b");
    if (!file || fseek(file, info.st_size / 2, SEEK_SET) != 0 || fwrite("torn, torn", 1, 10, file) != 10 ||
        fclose(file) != 0)
        abort();
    shown_t cat = show(set, (dataset_request_t){.index = 1});
    OK(cat.err == ERR_DATA && SAYS("cat/1.png"), "a damaged image: %s", err_message());
    unlink(path);
    cat = show(set, (dataset_request_t){.index = 1});
    OK(cat.err == ERR_DATA && SAYS("1.png"), "one that has gone: %s", err_message());
    cat = show(set, (dataset_request_t){.index = 2});
    OK(cat.err == ERR_OK && cat.label == 0, "others are read");
    dataset_close(&set);
}

/* Eight images of a red box on blue, each with another orientation; a crowd and something small besides. `shown`: the
 * list gives sizes and boxes of the images as shown. */
static void make_coco(const char *folder, bool shown)
{
    char json[8192], name[64];
    size_t used = (size_t)snprintf(json, sizeof json, "{\"images\":[");
#define ADD(...) used += (size_t)snprintf(json + used, sizeof json - used, __VA_ARGS__)
    for (int i = 1; i <= 8; i++) {
        paint(blue, red, 4, 2, 34, 33);
        const bool swapped = shown && orient_swaps(i);
        snprintf(name, sizeof name, "%s/train2017/%d.jpg", folder, i);
        put_jpeg(name, i);
        ADD("%s{\"id\":%d,\"file_name\":\"%d.jpg\",\"width\":%d,\"height\":%d}", i > 1 ? "," : "", i, i,
            swapped ? H : W, swapped ? W : H);
    }
    ADD("],\"categories\":[{\"id\":3,\"name\":\"box\"},{\"id\":17,\"name\":\"crowd\"},{\"id\":40,\"name\":"
        "\"none\"},"
        "{\"id\":90,\"name\":\"dot\"}],\"annotations\":[");
    for (int i = 1; i <= 8; i++) {
        const image_rect_t b = orient_to_shown(shown ? i : 1, W, H, (image_rect_t){4, 2, 34, 33});
        ADD("%s{\"id\":%d,\"image_id\":%d,\"category_id\":3,\"bbox\":[%g,%g,%g,%g],\"area\":1122,\"iscrowd\":0}",
            i > 1 ? "," : "", i, i, b.x, b.y, b.width, b.height);
    }
    ADD(",{\"id\":20,\"image_id\":2,\"category_id\":17,\"bbox\":[0,0,50,40],\"area\":2000,\"iscrowd\":1}"
        ",{\"id\":21,\"image_id\":3,\"category_id\":90,\"bbox\":[40,0,8,8],\"area\":64,\"iscrowd\":0}]}");
    snprintf(name, sizeof name, "%s/annotations/instances_train2017.json", folder);
    put_file(name, json, used);
}

static void test_coco(void)
{
    make_coco("coco", false);
    make_coco("coco-shown", true);
    dataset_t *set = open_set("coco", (transform_settings_t){0});
    OK(set->info.task == TASK_MULTILABEL && set->info.n_classes == 4 &&
           set->info.n_samples[SPLIT_TRAIN] == 8 && set->info.n_samples[SPLIT_VAL] == 0,
       "COCO: a target for each category");
    static const float expected[3][4] = {{1, 0, 0, 0}, {1, 1, 0, 0}, {1, 0, 0, 1}};
    bool right = true;
    for (int i = 0; i < 3; i++) {
        shown_t shown = show(set, (dataset_request_t){.index = i});
        right = right && shown.err == ERR_OK && memcmp(shown.targets, expected[i], sizeof expected[i]) == 0;
    }
    OK(right, "… 1 where an object is annotated, or a crowd, or something small");
    shown_t whole = show(set, (dataset_request_t){.index = 0});
    OK(is(whole.rgb[8][5], red, 12) && is(whole.rgb[8][15], blue, 12), "the whole image is shown, stretched");
    uint64_t hash = set->info.hash;
    dataset_close(&set);

    set = open_set("coco", (transform_settings_t){.task = TASK_CROPS});
    OK(set->info.task == TASK_CROPS && set->info.n_samples[SPLIT_TRAIN] == 8 && set->info.hash != hash,
       "objects as samples: neither crowds nor small ones");
    /* The box is 10 % wider on each side than the red one: but where it is cut, 1/12 of what is shown is
     * blue. */
    bool turned = true, random = true;
    for (int i = 0; i < 8; i++) {
        shown_t shown = show(set, (dataset_request_t){.index = i});
        turned = turned && shown.err == ERR_OK && shown.label == 0 && is(shown.rgb[8][8], red, 12) &&
                 is(shown.rgb[3][3], red, 12) && is(shown.rgb[12][12], red, 12) &&
                 is(shown.rgb[3][12], red, 12) && is(shown.rgb[12][3], red, 12) &&
                 is(shown.rgb[0][0], blue, 60);
        shown = show(set, (dataset_request_t){.index = i, .random = true, .seed = 1, .epoch = i});
        random = random && shown.err == ERR_OK && is(shown.rgb[8][8], red, 12);
    }
    OK(turned, "each object fills what is shown, however the camera was held");
    OK(random, "… and most of it in training");
    dataset_t *other = open_set("coco-shown", (transform_settings_t){.task = TASK_CROPS});
    bool same = true;
    for (int i = 0; i < 8; i++) {
        const shown_t a = show(set, (dataset_request_t){.index = i}),
                      b = show(other, (dataset_request_t){.index = i});
        same = same && b.err == ERR_OK && b.label == a.label && memcmp(a.rgb, b.rgb, sizeof a.rgb) == 0;
    }
    OK(same && other->info.hash != set->info.hash, "… the same from a list of boxes as shown: %s",
       other->info.about);
    dataset_close(&other);
    dataset_close(&set);

    char path[FS_PATH_MAX];
    if (fs_join(path, root, "coco") != ERR_OK) abort();
    OK(dataset_open(path, &(transform_settings_t){.task = TASK_CLASSIFY}, &set) == ERR_USAGE &&
           SAYS("--task classify"),
       "%s", err_message());
}

static void test_no_source(void)
{
    char path[FS_PATH_MAX];
    dataset_t *set = NULL;
    put_file("odd/notes.txt", "x", 1);
    if (fs_join(path, root, "odd") != ERR_OK) abort();
    OK(dataset_open(path, NULL, &set) == ERR_DATA && SAYS("odd"), "neither: %s", err_message());
}

int main(void)
{
    if (!mkdtemp(root)) tap_skip_all("no folder in /tmp");
    tap_plan(8 + 1 + 3 + 7 + 1 + 1 + 1);
    test_folder();
    test_moved();
    test_damage();
    test_coco();
    test_no_source();
    nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
