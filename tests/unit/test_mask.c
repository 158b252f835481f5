/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Outlines as masks: shapes that can be counted, runs plain and compressed, what is refused, and every
 * annotation of coco_tiny and some hundred random ones against pycocotools, bit for bit. */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/annotation/mask.h"
#include "data/coco/coco.h"
#include "tests/tap.h"

enum { SIDE = 32, MAX_POINTS = 16, N_RANDOM = 900, FIRST_ODD_ID = 601 };

static uint8_t mask[SIDE * SIDE];

/* A mask of SIDE × SIDE with one polygon; the error. */
static err_t draw(const float *points, int32_t n_points)
{
    annotation_t a = {
        .segmentation = SEGMENTATION_POLYGONS, .n_polygons = 1, .n_points = &n_points, .points = points};
    return mask_draw(&a, SIDE, SIDE, mask);
}

/* Whether exactly the pixels of the rectangle are inside. */
static bool is_rectangle(int left, int top, int right, int foot)
{
    bool same = true;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            same &= mask[y * SIDE + x] == (x >= left && x < right && y >= top && y < foot);
    return same;
}

static void test_polygons(void)
{
    const float square[] = {10, 8, 20, 8, 20, 22, 10, 22}, back[] = {10, 22, 20, 22, 20, 8, 10, 8};
    const float closed[] = {10, 8, 20, 8, 20, 8, 20, 22, 10, 22, 10, 8};
    const float beyond[] = {-5, -7, 100, -7, 100, 90, -5, 90}, corner[] = {25, -3, 40, -3, 40, 9, 25, 9};
    const float outside[] = {40, 1, 50, 1, 50, 9}, below[] = {3, 40, 9, 40, 9, 50},
                line[] = {3, 3, 20, 3, 9, 3};
    OK(draw(square, 4) == ERR_OK && is_rectangle(10, 8, 20, 22), "a rectangle");
    OK(draw(back, 4) == ERR_OK && is_rectangle(10, 8, 20, 22), "walked the other way round");
    OK(draw(closed, 6) == ERR_OK && is_rectangle(10, 8, 20, 22),
       "with a corner twice and the first again at its end");
    OK(draw(beyond, 4) == ERR_OK && is_rectangle(0, 0, SIDE, SIDE), "larger than the image: all of it");
    OK(draw(corner, 4) == ERR_OK && is_rectangle(25, 0, SIDE, 9), "beyond a corner: cut");
    OK(draw(outside, 3) == ERR_OK && is_rectangle(0, 0, 0, 0), "to the right of the image: nothing");
    OK(draw(below, 3) == ERR_OK && is_rectangle(0, 0, 0, 0), "below the image: nothing");
    OK(draw(line, 3) == ERR_OK && is_rectangle(0, 0, 0, 0), "without a surface: nothing");

    const float two[] = {2, 2, 12, 2, 12, 12, 2, 12, 6, 2, 20, 2, 20, 12, 6, 12};
    const int32_t n_points[] = {4, 4};
    annotation_t a = {
        .segmentation = SEGMENTATION_POLYGONS, .n_polygons = 2, .n_points = n_points, .points = two};
    OK(mask_draw(&a, SIDE, SIDE, mask) == ERR_OK && is_rectangle(2, 2, 20, 12),
       "two that overlap are united");
    a = (annotation_t){.box = {3, 4, 5, 6}};
    OK(mask_draw(&a, SIDE, SIDE, mask) == ERR_OK && is_rectangle(3, 4, 8, 10),
       "without an segmentation: the box");
}

static void test_refused_polygons(void)
{
    float points[] = {1, 1, 9, 1, NAN, 9};
    OK(draw(points, 3) == ERR_DATA, "a point that is no number");
    points[4] = INFINITY;
    OK(draw(points, 3) == ERR_DATA, "an infinite one");
    points[4] = 2e9F;
    OK(draw(points, 3) == ERR_DATA && SAYS("2e+09"), "one that is far away");
    static float zigzag[2 * 64];
    for (int i = 0; i < 64; i++) zigzag[2 * i] = i % 2 ? 1e6F : -1e6F;
    OK(draw(zigzag, 64) == ERR_DATA && SAYS("longer"), "an segmentation that is walked for seconds");
    annotation_t a = {.box = {0, 0, 1e300, INFINITY}};
    OK(mask_draw(&a, SIDE, SIDE, mask) == ERR_DATA, "a box without an end");
    a.box[2] = a.box[3] = 1;
    OK(mask_draw(&a, 0, SIDE, mask) == ERR_DATA && mask_draw(&a, SIDE, -1, mask) == ERR_DATA &&
           mask_draw(&a, 1 << 20, 1 << 20, mask) == ERR_DATA,
       "images without pixels or with too many");
}

static void test_runs(void)
{
    /* 2 wide, 3 high: columns 0 1 1 and 1 0 1. */
    uint32_t runs[] = {1, 3, 1, 1};
    const uint8_t wanted[] = {0, 1, 1, 0, 1, 1};
    annotation_t a = {.segmentation = SEGMENTATION_RLE, .n_runs = 4, .runs = runs};
    OK(mask_draw(&a, 2, 3, mask) == ERR_OK && memcmp(mask, wanted, 6) == 0, "runs go down the columns");
    a.n_runs = 3;
    OK(mask_draw(&a, 2, 3, mask) == ERR_DATA && SAYS("5 pixels", "2 × 3"), "too short ones");
    a.n_runs = 4;
    runs[3] = UINT32_MAX;
    OK(mask_draw(&a, 2, 3, mask) == ERR_DATA, "too long ones");
}

/* pycocotools' string of these runs; its length. */
static size_t pack(const uint32_t *runs, int n, char *out)
{
    size_t length = 0;
    for (int i = 0; i < n; i++) {
        int64_t left = (int64_t)runs[i] - (i > 2 ? runs[i - 2] : 0);
        for (bool more = true; more;) {
            int bits = (int)(left & 31);
            left >>= 5;
            more = bits & 16 ? left != -1 : left != 0;
            out[length++] = (char)('0' + bits + (more ? 32 : 0));
        }
    }
    return length;
}

static bool unpacks(const char *text, const uint32_t *wanted, int n_wanted)
{
    uint32_t runs[64];
    int32_t n = 0;
    return rle_parse(text, strlen(text), runs, &n) == ERR_OK && n == n_wanted &&
           memcmp(runs, wanted, (size_t)n * sizeof *runs) == 0;
}

static bool refused(const char *text, const char *words)
{
    uint32_t runs[64];
    int32_t n = -1;
    return rle_parse(text, strlen(text), runs, &n) == ERR_DATA && n == -1 && SAYS(words);
}

static void test_packed_runs(void)
{
    enum { N = 2000 };
    static uint32_t runs[N], back[12 * N];
    static char text[12 * N];
    rng_t rng = rng_new(7, RNG_TEST, 0);
    for (int i = 0; i < N; i++) runs[i] = rng_below(&rng, 2u << rng_below(&rng, 31));
    size_t length = pack(runs, N, text);
    int32_t n = 0;
    OK(rle_parse(text, length, back, &n) == ERR_OK && n == N && memcmp(runs, back, sizeof runs) == 0,
       "runs of all sizes come back");
    OK(unpacks("", runs, 0), "none");
    OK(unpacks("61X13", (const uint32_t[]){6, 1, 40, 4}, 4), "the fourth is the difference from the second");
    OK(unpacks("`0", (const uint32_t[]){16}, 1), "the highest bit is the sign");
    OK(refused("6/", "character") && refused("6p", "character") && refused("6\xff", "character"),
       "characters that are none of the 64");
    OK(refused("6X", "within a number"), "the end in the middle of a number");
    OK(refused("oooooooo0", "35 bits"), "a number without an end");
    OK(refused("O", "-1") && refused("111O1O", "length -"), "a run below 0");
}

/* RLE with runs of length 0 anywhere; no more runs than pixels, beyond which pycocotools writes past a block. */
static void write_odd_runs(FILE *file, rng_t *rng, int width, int height)
{
    int left = width * height, n = 1;
    fprintf(file, ",\"segmentation\":{\"size\":[%d,%d],\"counts\":[", height, width);
    for (; left > 0; n++) {
        int run = n + left > width * height || rng_below(rng, 3)
                      ? (int)rng_below(rng, (uint32_t)(2 * height)) + (n + left > width * height)
                      : 0;
        if (run > left || rng_below(rng, 40) == 0) run = left;
        left -= run;
        fprintf(file, "%d%s", run, left > 0 ? "," : "");
    }
    fputs(rng_below(rng, 4) || n > width * height ? "]}}" : ",0]}}", file);
}

/* A file of annotations, some without segmentation, on small images; coordinates where rounding turns among
 * them, some with more than two decimals. */
static bool write_random(const char *path)
{
    rng_t rng = rng_new(3, RNG_TEST, 1);
    FILE *file = fopen(path, "we");
    if (!file) return false;
    fputs("{\"categories\":[{\"id\":1,\"name\":\"a\"}],\"images\":["
          "{\"id\":1,\"file_name\":\"a\",\"width\":64,\"height\":48},"
          "{\"id\":2,\"file_name\":\"b\",\"width\":37,\"height\":91},"
          "{\"id\":3,\"file_name\":\"c\",\"width\":1,\"height\":5}],\"annotations\":[",
          file);
    static const int sizes[3][2] = {{37, 91}, {1, 5}, {64, 48}};
    for (int id = 1; id <= N_RANDOM; id++) {
        fprintf(file,
                "%s{\"id\":%d,\"image_id\":%d,\"category_id\":1,\"area\":1,\"bbox\":[0.5,%.2f,20.25,%.2f]",
                id > 1 ? "," : "", id, id % 3 + 1, rng_uniform(&rng), 1 + 80 * rng_uniform(&rng));
        if (id >= FIRST_ODD_ID) {
            write_odd_runs(file, &rng, sizes[(id + 2) % 3][0], sizes[(id + 2) % 3][1]);
            continue;
        }
        uint32_t n_polygons = rng_below(&rng, 4);
        bool exact = rng_below(&rng, 2);
        for (uint32_t p = 0; p < n_polygons; p++) {
            uint32_t n = 3 + rng_below(&rng, MAX_POINTS - 2);
            fputs(p ? ",[" : ",\"segmentation\":[[", file);
            double x = 0, y = 0;
            for (uint32_t i = 0; i < n; i++) {
                /* Now and then a corner again; tenths are where the grid turns. */
                double digits = rng_below(&rng, 2) ? 10 : 100;
                if (i == 0 || rng_below(&rng, 5)) x = rint(digits * (120 * rng_uniform(&rng) - 30)) / digits;
                if (i == 0 || rng_below(&rng, 5)) y = rint(digits * (140 * rng_uniform(&rng) - 30)) / digits;
                /* Beyond a float's precision beside a tenth, where the grid turns. */
                double more = exact ? 1e-9 * (rng_uniform(&rng) - .5) : 0;
                fprintf(file, exact ? "%s%.12f,%.12f" : "%s%.2f,%.2f", i ? "," : "", x + more, y - more);
            }
            fputs(p + 1 < n_polygons ? "]" : "]]", file);
        }
        fputs("}", file);
    }
    fputs("]}", file);
    return fclose(file) == 0;
}

/* What pycocotools says of an annotation's mask: pycocotools_masks.py. */
typedef struct theirs {
    struct {
        int64_t id;
        int32_t width, height;
        int64_t area;
        int32_t n_counts;
    } head;
    char *counts, *union_counts;
    uint8_t *bits;
    double box[4], iou[2];
    int32_t n_union;
} theirs_t;

static bool read_theirs(FILE *file, theirs_t *t)
{
    *t = (theirs_t){0};
    if (fread(&t->head.id, 8, 1, file) != 1 || fread(&t->head.width, 4, 2, file) != 2 ||
        fread(&t->head.area, 8, 1, file) != 1 || fread(&t->head.n_counts, 4, 1, file) != 1 ||
        t->head.n_counts < 1)
        return false;
    size_t n_counts = (size_t)t->head.n_counts,
           n_bits = ((size_t)t->head.width * (size_t)t->head.height + 7) / 8;
    t->counts = calloc(n_counts + 1, 1);
    t->bits = malloc(n_bits);
    if (!t->counts || !t->bits) abort();
    if (fread(t->counts, 1, n_counts, file) != n_counts || fread(t->bits, 1, n_bits, file) != n_bits ||
        fread(t->box, 8, 4, file) != 4 || fread(t->iou, 8, 2, file) != 2 ||
        fread(&t->n_union, 4, 1, file) != 1 || t->n_union < 1)
        return false;
    t->union_counts = calloc((size_t)t->n_union + 1, 1);
    if (!t->union_counts) abort();
    return fread(t->union_counts, 1, (size_t)t->n_union, file) == (size_t)t->n_union;
}

static void free_theirs(theirs_t *t)
{
    free(t->counts);
    free(t->union_counts);
    free(t->bits);
}

/* Whether the runs are these as text, and come back from it. */
static bool same_text(const rle_t *rle, const char *wanted)
{
    char *text = malloc(RLE_TEXT_PER_RUN * (size_t)rle->n + 1);
    uint32_t *runs = malloc(strlen(wanted) * sizeof *runs);
    int32_t n = 0;
    if (!text || !runs) abort();
    bool same = rle_format(rle, text) == strlen(wanted) && strcmp(text, wanted) == 0 &&
                rle_parse(wanted, strlen(wanted), runs, &n) == ERR_OK && n == rle->n &&
                memcmp(runs, rle->runs, (size_t)n * sizeof *runs) == 0;
    free(text);
    free(runs);
    return same;
}

/* The mask's pixels, from polygons and again from runs, and the runs from the pixels. */
static bool same_pixels(const theirs_t *t, const annotation_t *a, const rle_t *rle)
{
    size_t n_pixels = (size_t)t->head.width * (size_t)t->head.height;
    uint8_t *drawn = malloc(n_pixels), *again = malloc(n_pixels);
    rle_t encoded = {0};
    int64_t n_wrong = 0;
    if (!drawn || !again) abort();
    bool same = mask_draw(a, t->head.width, t->head.height, drawn) == ERR_OK &&
                rle_decode(rle, t->head.width, t->head.height, again) == ERR_OK;
    for (size_t i = 0; same && i < n_pixels; i++)
        n_wrong += drawn[i] != (t->bits[i / 8] >> (7 - i % 8) & 1) || drawn[i] != again[i];
    if (n_wrong > 0) printf("# annotation %lld: %lld pixels differ\n", (long long)a->id, (long long)n_wrong);
    /* Runs of length 0 inside a mask are not encoded. */
    if (same && (a->segmentation != SEGMENTATION_RLE || a->id < FIRST_ODD_ID))
        same = rle_encode(again, t->head.width, t->head.height, &encoded) == ERR_OK &&
               same_text(&encoded, t->counts);
    rle_free(&encoded);
    free(drawn);
    free(again);
    return same && n_wrong == 0;
}

/* One annotation; `before` is the last one on its image, and becomes this one. */
static bool same_as_ours(FILE *file, const coco_image_t *image, const annotation_t *a, rle_t *before)
{
    theirs_t t;
    mask_scratch_t scratch = {0};
    rle_t rle = {0}, both = {0};
    double box[4];
    bool same = read_theirs(file, &t) && t.head.id == a->id && t.head.width == image->width &&
                t.head.height == image->height &&
                mask_encode(a, image->width, image->height, &scratch, &rle) == ERR_OK &&
                same_text(&rle, t.counts) && same_pixels(&t, a, &rle) &&
                (int64_t)rle_area(&rle) == t.head.area;
    if (same) {
        const rle_t *other = before->n > 0 ? before : &rle;
        rle_box(&rle, image->width, image->height, box);
        same = memcmp(box, t.box, sizeof box) == 0 && rle_union(&rle, other, &both) == ERR_OK &&
               same_text(&both, t.union_counts);
        double other_box[4];
        rle_box(other, image->width, image->height, other_box);
        bool meet = rle_box_iou(box, other_box, false) > 0; /* pycocotools looks at boxes first */
        for (int crowd = 0; crowd < 2; crowd++) {
            double iou = meet ? rle_iou(&rle, other, crowd) : 0;
            same = same && memcmp(&iou, &t.iou[crowd], sizeof iou) == 0;
        }
        if (!same) printf("# annotation %lld: box, union or IoU differ\n", (long long)a->id);
    }
    rle_free(before);
    *before = rle;
    rle_free(&both);
    mask_scratch_free(&scratch);
    free_theirs(&t);
    return same;
}

static void compare(const char *python, const char *path, int64_t n_wanted, const char *what)
{
    char command[3 * FS_PATH_MAX];
    coco_t *coco = NULL;
    int64_t n_same = 0;
    snprintf(command, sizeof command, "'%s' tests/unit/pycocotools_masks.py '%s'", python, path);
    FILE *theirs = popen(command, "re");
    if (!theirs) abort();
    OK_CALL(coco_read(path, NULL, NULL, &coco), "reading %s", what);
    for (int64_t i = 0; coco && i < coco->n_images; i++) {
        rle_t before = {0};
        for (int32_t k = 0; k < coco->images[i].n_annotations; k++)
            n_same += same_as_ours(theirs, &coco->images[i], &coco->images[i].annotations[k], &before);
        rle_free(&before);
    }
    bool at_end = fgetc(theirs) == EOF;
    OK(n_same == n_wanted && pclose(theirs) == 0 && at_end, "%lld masks of %s are pycocotools'",
       (long long)n_wanted, what);
    if (n_same != n_wanted) printf("# %lld are\n", (long long)n_same);
    coco_free(&coco);
}

static void test_against_pycocotools(void)
{
    char python[FS_PATH_MAX], path[FS_PATH_MAX], command[2 * FS_PATH_MAX];
    const char *venv = getenv("DPTRAIN_VENV"), *data = getenv("DPTRAIN_DATA");
    snprintf(python, sizeof python, "%s/bin/python", venv && *venv ? venv : "build/venv");
    snprintf(command, sizeof command, "'%s' -c 'import pycocotools.mask' 2>/dev/null", python);
    if (system(command) != 0) {
        for (int i = 0; i < 6; i++)
            tap_skip("there is no pycocotools; scripts/install_deps.sh --test installs it");
        return;
    }
    char random[] = "/tmp/dptrain-mask-XXXXXX";
    int fd = mkstemp(random);
    if (fd < 0 || close(fd) != 0 || !write_random(random)) abort();
    compare(python, random, N_RANDOM, "random segmentations");
    unlink(random);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/coco_tiny/annotations/instances_%s2017.json", data ? data : "",
                 i ? "val" : "train");
        if (data && fs_exists(path)) {
            compare(python, path, i ? 382 : 470, i ? "coco_tiny's val2017" : "coco_tiny's train2017");
        } else {
            tap_skip("DPTRAIN_DATA names no folder with coco_tiny");
            tap_skip("DPTRAIN_DATA names no folder with coco_tiny");
        }
    }
}

int main(void)
{
    tap_plan(10 + 6 + 3 + 8 + 6 + 1);
    test_polygons();
    test_refused_polygons();
    test_runs();
    test_packed_runs();
    test_against_pycocotools();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
