/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * What is in a source of images, counted; and its contact sheet, with images in it that cannot be
 * decoded. */
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/image/image.h"
#include "data/show/objects.h"
#include "data/show/sheet.h"
#include "data/show/survey.h"
#include "tests/tap.h"

enum { TILE = 60 };
static char root[] = "/tmp/dptrain-sheet-XXXXXX";
static char told[4][512];
static int n_told;

static void tell(const char *message)
{
    if (n_told < 4) snprintf(told[n_told], sizeof told[0], "%s", message);
    n_told++;
}

static bool was_told(const char *words)
{
    for (int i = 0; i < n_told && i < 4; i++)
        if (strstr(told[i], words)) return true;
    return false;
}

static void put(const char *class, const char *name, const void *bytes, size_t n_bytes)
{
    char folder[FS_PATH_MAX], path[FS_PATH_MAX];
    if (fs_join(folder, root, class) != ERR_OK || fs_make_folder(folder) != ERR_OK) abort();
    if (fs_join(path, folder, name) != ERR_OK) abort();
    FILE *file = fopen(path, "we");
    if (!file || fwrite(bytes, 1, n_bytes, file) != n_bytes || fclose(file) != 0) abort();
}

/* Of one grey; the file may be cut. */
static void put_png(const char *class, const char *name, int width, int height, uint8_t grey, size_t n_cut)
{
    static uint8_t pixels[200 * 200];
    uint8_t *bytes = NULL;
    size_t n_bytes;
    memset(pixels, grey, sizeof pixels);
    if (image_encode_png(pixels, width, height, 1, &bytes, &n_bytes) != ERR_OK) abort();
    put(class, name, bytes, n_bytes - n_cut);
    mem_free(&bytes);
}

static source_t *make_source(void)
{
    source_t *source = NULL;
    if (!mkdtemp(root)) abort();
    put_png("cat", "large.png", 120, 90, 40, 0);
    put_png("cat", "tiny.png", 12, 9, 80, 0);
    put_png("dog", "cut.png", 80, 60, 120, 20);
    put("dog", "text.png", "no image at all..", 17);
    if (source_open(root, &source) != ERR_OK) abort();
    return source;
}

static void test_survey(const source_t *source)
{
    survey_t survey = {0};
    survey_options_t options = {true, tell};
    n_told = 0;
    OK_CALL(survey_run(source, &options, &survey), "a folder with two images that are none, in part");
    const survey_split_t *s = &survey.splits[SPLIT_TRAIN];
    OK(s->n_images == 4 && s->n_formats[IMAGE_PNG] == 3 && s->n_formats[IMAGE_JPEG] == 0 &&
           s->n_unreadable == 1,
       "formats, and what has none");
    OK(s->width.n == 3 && s->width.min == 12 && s->width.median == 80 && s->width.max == 120 &&
           s->height.max == 90,
       "widths and heights");
    OK(s->bytes.n == 4 && s->bytes.min == 17, "bytes");
    OK(survey.categories[0].n_images == 2 && survey.categories[1].n_images == 2 && s->n_empty == 0,
       "images of each class");
    OK(n_told == 1 && was_told("dog/text.png"), "what is unreadable is named");
    survey_free(&survey);
    options.read = false;
    OK_CALL(survey_run(source, &options, &survey), "the same without reading");
    OK(s->n_images == 4 && s->n_formats[IMAGE_PNG] == 0 && s->n_unreadable == 0 && s->width.n == 0,
       "of a folder only names and bytes are known beforehand");
    survey_free(&survey);
}

static void test_pick(const source_t *source)
{
    pick_t all[8], some[2], dogs[8];
    int64_t n = 0;
    bool right = pick_images(source, -1, 1, 8, all, &n) == ERR_OK && n == 4;
    for (int64_t i = 0; right && i < n; i++) right = all[i].split == SPLIT_TRAIN && all[i].index == i;
    OK(right, "all of them, in order");
    bool differs = false;
    for (uint64_t seed = 0; seed < 8; seed++) {
        pick_t other[2];
        right = right && pick_images(source, -1, seed, 2, some, &n) == ERR_OK && n == 2;
        right = right && pick_images(source, -1, seed, 2, other, &n) == ERR_OK;
        right = right && some[0].index == other[0].index && some[1].index == other[1].index;
        differs = differs || some[0].index != 0 || some[1].index != 1;
    }
    OK(right && differs, "some of them, the same for a seed");
    right = pick_images(source, 1, 1, 8, dogs, &n) == ERR_OK;
    OK(right && n == 2 && dogs[0].index == 2 && dogs[1].index == 3, "those of a class");
}

static bool is_grey(const page_t *page, int64_t x, int64_t y, int grey)
{
    const uint8_t *p = page->rgb + 3 * (y * page->width + x);
    return p[0] == grey && p[1] == grey && p[2] == grey;
}

static int count_grey(const page_t *page, int grey)
{
    int n = 0;
    for (int64_t y = 0; y < page->height; y++)
        for (int64_t x = 0; x < page->width; x++) n += is_grey(page, x, y, grey);
    return n;
}

static void test_sheet(const source_t *source)
{
    static const pick_t picks[] = {{SPLIT_TRAIN, 0}, {SPLIT_TRAIN, 1}, {SPLIT_TRAIN, 2}, {SPLIT_TRAIN, 3}};
    const sheet_t sheet = {.source = source, .picks = picks, .n = 4, .tile = TILE, .tell = tell};
    page_t *page = NULL;
    int64_t n_bad = 0;
    n_told = 0;
    OK_CALL(sheet_draw(&sheet, &n_bad, &page), "a sheet of all");
    OK(page && count_grey(page, 40) == TILE * 45, "an image that is larger fills its tile");
    OK(page && count_grey(page, 80) == TILE * 45, "one that is smaller is enlarged by a whole factor");
    OK(n_bad == 2 && count_grey(page, 120) == 0, "what cannot be decoded is not there, in no part");
    OK(n_told == 2 && was_told("dog/cut.png") && was_told("dog/text.png"), "and it is named");
    page_free(&page);
    OK(sheet_check(SHEET_MAX_IMAGES, 240) == ERR_OK, "a thousand tiles of the usual size");
    OK(sheet_check(SHEET_MAX_IMAGES, SHEET_MAX_TILE) == ERR_USAGE && SAYS("1000 tiles", "fewer"),
       "a page that is too large is refused beforehand");
}

/* Detections beside an image that has a class. */
static void test_beside(const source_t *source)
{
    static const pick_t picks[] = {{SPLIT_TRAIN, 0}};
    const detection_t detections[] = {{.category = 1, .score = 0.9, .box = {20, 15, 60, 45}},
                                      {.category = 0, .score = 0.4, .box = {0, 0, 30, 30}}};
    detected_t detected = {0};
    page_t *alone = NULL, *page = NULL;
    int64_t n_bad = 0;
    sheet_t sheet = {.source = source, .picks = picks, .n = 1, .tile = TILE, .tell = tell};
    const sheet_beside_t beside = {&detected, "1 of 2 found"};
    OK_CALL(detected_set(&detected, detections, 2, source->categories, 0.5), "detections of an image");
    OK_CALL(sheet_draw(&sheet, &n_bad, &alone), "the image alone");
    sheet.beside = &beside;
    OK_CALL(sheet_draw(&sheet, &n_bad, &page), "with its detections beside it");
    const int64_t further = page && alone ? page->width - alone->width : 0;
    OK(further >= TILE && page->height == alone->height, "the page is wider by a tile");
    OK(page && count_grey(page, 40) < 2 * TILE * 45 && count_grey(page, 40) > TILE * 45 + 1000,
       "the same pixels twice, the second time under a box");
    page_free(&alone);
    page_free(&page);
    detected_free(&detected);
}

/* Samples as a network gets them: pixels of their own, with a class, or with objects over them. */
static void test_samples(void)
{
    static uint8_t small[9 * 12 * 3], large[90 * 120 * 3];
    static const category_t categories[] = {{1, "cat", ""}, {2, "dog", ""}};
    uint32_t runs[] = {0, 90 * 60, 90 * 60}; /* the left half */
    const annotation_t object = {.id = 1,
                                 .category = 1,
                                 .box = {0, 0, 60, 90},
                                 .segmentation = SEGMENTATION_RLE,
                                 .n_runs = 3,
                                 .runs = runs};
    memset(small, 80, sizeof small);
    memset(large, 40, sizeof large);
    sheet_sample_t samples[] = {
        {.image = {12, 9, small}, .sample = {.name = "a", .label = 0}, .text = "#0"},
        {.image = {120, 90, large},
         .sample = {.name = "b", .label = -1, .n_annotations = 1, .annotations = &object},
         .text = "#1"}};
    sheet_samples_t sheet = {.samples = samples,
                             .n = 2,
                             .tile = TILE,
                             .categories = categories,
                             .title = "two",
                             .about = "of two"};
    page_t *page = NULL;
    OK_CALL(sheet_draw_samples(&sheet, &page), "a sheet of samples");
    OK(page && count_grey(page, 80) == TILE * 45, "a small one is enlarged by a whole factor");
    OK(page && count_grey(page, 40) == TILE * 45, "a large one is reduced; its objects are only named");
    page_free(&page);
    sheet.boxed = true;
    OK_CALL(sheet_draw_samples(&sheet, &page), "a sheet of samples with objects");
    OK(page && count_grey(page, 40) == TILE / 2 * 45 && count_grey(page, 80) == TILE * 45,
       "the object covers its half");
    page_free(&page);
    runs[2]--;
    OK(sheet_draw_samples(&sheet, &page) == ERR_DATA && SAYS("annotation 1", "b"),
       "an invalid mask is named");
}

static void test_caption(void)
{
    page_t *page = NULL;
    const rgb_t white = {255, 255, 255}, black = {0, 0, 0};
    bool inside = true;
    for (int64_t room = 0; room < 100; room++) {
        if (page_new(120, 20, white, &page) != ERR_OK) abort();
        caption_fitting(page, 10, 5, room, (text_style_t){1, black}, "val/\xc3\xa9toiles/000123.png");
        for (int64_t y = 0; y < 20; y++)
            for (int64_t x = 0; x < 120; x++)
                inside = inside && (is_grey(page, x, y, 255) || (x >= 10 && x < 10 + room));
        page_free(&page);
    }
    OK(inside, "a line is never wider than its room");
}

int main(void)
{
    tap_plan(8 + 3 + 7 + 5 + 6 + 1 + 1);
    source_t *source = make_source();
    test_survey(source);
    test_pick(source);
    test_sheet(source);
    test_beside(source);
    test_samples();
    test_caption();
    source_close(&source);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    if (system(command) != 0) abort();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
