/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Training targets of anchors, regions and masks, against the numbers of torchvision 0.29.2 that
 * tests/unit/targets_torch.py prints for the same inputs; and sampling. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "train/detect/targets.h"

enum { N_OBJECTS = 6, N_REGIONS = 300, N_ANCHORS = 8961, BLOCK = 512, ALL = 100000 };

/* A hash that the numbers below were made with. */
static uint32_t word(uint32_t i)
{
    uint32_t x = i * 2654435761u + 12345u;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

static float value(int64_t i, float low, float high)
{
    return low + (high - low) * ((float)(word((uint32_t)i) >> 8) / (1 << 24));
}

static void make_boxes(int64_t first, int64_t n, float side, box_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        const float x = value(first + 2 * i, 0, 128), y = value(first + 2 * i + 1, 0, 128);
        const int64_t size = first + 2 * n + 2 * i;
        out[i] = (box_t){x, y, x + value(size, 2, side), y + value(size + 1, 2, side)};
    }
}

static const map_size_t cells[PROPOSALS_LEVELS] = {{40, 56}, {20, 28}, {10, 14}, {5, 7}, {3, 4}};
static const map_size_t canvas = {160, 224};
static const int32_t classes[N_OBJECTS] = {3, 1, 5, 2, 2, 7};
static const targets_draw_t draw = {.seed = 5, .epoch = 2, .image = 77};
static box_t boxes[N_OBJECTS], regions[N_REGIONS];
static const targets_objects_t objects = {N_OBJECTS, boxes, classes, 0}, nothing = {0, boxes, classes, 0};

/* Of the absolute targets of objects. */
static bool has_sums(const int32_t *labels, const float *targets, int64_t n, const double *sums)
{
    double found[4] = {0};
    bool same = true;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 4 && labels[i] > 0; k++) found[k] += fabs((double)targets[4 * i + k]);
    for (int k = 0; k < 4; k++) same = same && fabs(found[k] - sums[k]) <= 1e-5 * sums[k];
    if (!same) printf("# sums %.6f %.6f %.6f %.6f\n", found[0], found[1], found[2], found[3]);
    return same;
}

static void test_anchors(void)
{
    static const double sums[] = {28.564654, 66.595911, 71.392377, 83.044696};
    targets_options_t options = targets_training;
    targets_t t;
    double places = 0, weight = 0;
    options.anchors = ALL;
    OK_CALL(targets_new(&options, N_ANCHORS, N_OBJECTS, N_REGIONS, BLOCK, &t), "targets");
    targets_find_anchors(&t, &objects, canvas, cells, &draw);
    const anchor_targets_t *a = &t.anchors;
    for (int64_t i = 0; i < N_ANCHORS; i++)
        places += (double)(i + 1) * a->labels[i], weight += (double)a->weights[i];
    OK(a->first[1] == 6720 && a->first[PROPOSALS_LEVELS] == N_ANCHORS && a->n_objects == 123 &&
           a->n_background == 8251,
       "all anchors: as many objects and background as torchvision has");
    OK(places == -2714605, "at the same places");
    OK(has_sums(a->labels, a->targets, N_ANCHORS, sums) && fabs(weight - 1) < 1e-4,
       "with the same targets; weights that make a mean");
    targets_find_anchors(&t, &nothing, canvas, cells, &draw);
    OK(a->n_objects == 0 && a->n_background == N_ANCHORS, "without objects all is background");
    targets_free(&t);
}

static void test_regions(void)
{
    static const double sums[] = {7.523490, 8.240940, 8.619643, 6.625783};
    targets_options_t options = targets_training;
    targets_t t;
    int64_t sum = 0;
    bool last = true;
    options.regions = ALL;
    options.object_regions = 1;
    OK_CALL(targets_new(&options, N_ANCHORS, N_OBJECTS, N_REGIONS, ALL, &t), "targets");
    targets_find_regions(&t, &objects, regions, N_REGIONS, &draw);
    const region_targets_t *r = &t.regions;
    for (int64_t i = 0; i < r->n; i++) sum += r->labels[i];
    for (int64_t i = r->n; i < BLOCK; i++) last = last && r->labels[i] == -1 && r->weights[i] == 0;
    OK(r->n == 306 && r->n_objects == 14 && sum == 32 && last,
       "all regions and the objects themselves: labels as torchvision's; the block's other rows have none");
    OK(has_sums(r->labels, r->targets, r->n, sums), "with the same targets");
    OK(r->labels[13] > 0 && r->labels[14] == 0 && classes[r->objects[0]] == r->labels[0] &&
           r->regions[0] == 0 && r->weights[0] == 1.0f / 306,
       "objects come first, and know whose they are");
    targets_find_regions(&t, &nothing, regions, N_REGIONS, &draw);
    OK(r->n == N_REGIONS && r->n_objects == 0, "without objects all are background");
    targets_free(&t);
}

/* The share of box i that lies in the ignored one. */
static bool lies_in(box_t b, box_t in)
{
    const float w = fminf(b.x2, in.x2) - fmaxf(b.x1, in.x1), h = fminf(b.y2, in.y2) - fmaxf(b.y1, in.y1);
    return w > 0 && h > 0 && w * h >= 0.5f * (b.x2 - b.x1) * (b.y2 - b.y1);
}

static void test_ignored(void)
{
    static int32_t before[N_ANCHORS];
    box_t own[N_OBJECTS + 1];
    targets_options_t options = targets_training;
    targets_t t;
    options.anchors = options.regions = ALL;
    options.object_regions = 1;
    memcpy(own, boxes, sizeof boxes);
    own[N_OBJECTS] = (box_t){20, 30, 120, 110};
    const targets_objects_t some = {N_OBJECTS, own, classes, 1};
    OK_CALL(targets_new(&options, N_ANCHORS, N_OBJECTS + 1, N_REGIONS, ALL, &t), "targets");
    targets_find_anchors(&t, &objects, canvas, cells, &draw);
    memcpy(before, t.anchors.labels, sizeof before);
    targets_find_anchors(&t, &some, canvas, cells, &draw);
    int64_t n_ignored = 0, n_wrong = 0, n = 0;
    for (int level = 0; level < PROPOSALS_LEVELS; level++) {
        const anchor_grid_t grid =
            proposals_grid(level, canvas, cells[level].height, cells[level].width, false);
        for (int64_t i = 0; i < anchor_count(&grid); i++, n++) {
            const bool inside = before[n] == 0 && lies_in(anchor_at(&grid, i), own[N_OBJECTS]);
            n_ignored += inside;
            n_wrong += t.anchors.labels[n] != (inside ? -1 : before[n]);
        }
    }
    OK(n_ignored > 1000 && n_wrong == 0, "%lld background anchors in an ignored box are not sampled",
       (long long)n_ignored);
    targets_find_regions(&t, &some, regions, N_REGIONS, &draw);
    n_wrong = 0;
    for (int64_t i = 0; i < t.regions.n; i++) {
        const float *r = t.regions.regions + i * ROI_ALIGN_VALUES;
        n_wrong += t.regions.labels[i] == 0 && lies_in((box_t){r[1], r[2], r[3], r[4]}, own[N_OBJECTS]);
    }
    OK(t.regions.n_objects == 14 && t.regions.n < 306 && n_wrong == 0, "nor are regions");
    own[0] = (box_t){0, 0, 224, 160};
    const targets_objects_t all = {0, own, classes, 1};
    targets_find_anchors(&t, &all, canvas, cells, &draw);
    targets_find_regions(&t, &all, regions, N_REGIONS, &draw);
    OK(t.regions.n > 0 && t.anchors.n_background > 0, "where nothing else is, it is background");
    targets_free(&t);
}

static void test_sampling(void)
{
    static int32_t first[N_ANCHORS];
    targets_options_t options = targets_training;
    targets_t t;
    options.regions = 32;
    OK_CALL(targets_new(&options, N_ANCHORS, N_OBJECTS, N_REGIONS, BLOCK, &t), "targets");
    targets_find_anchors(&t, &objects, canvas, cells, &draw);
    const anchor_targets_t *a = &t.anchors;
    memcpy(first, a->labels, sizeof first);
    OK(a->n_objects == 123 && a->n_background == 133, "256 anchors: all 123 objects, the rest background");
    targets_draw_t other = draw;
    targets_find_anchors(&t, &objects, canvas, cells, &other);
    OK(memcmp(first, a->labels, sizeof first) == 0, "the same draw, the same sample");
    other.epoch++;
    targets_find_anchors(&t, &objects, canvas, cells, &other);
    OK(memcmp(first, a->labels, sizeof first) != 0, "another one in the next epoch");
    targets_find_regions(&t, &objects, regions, N_REGIONS, &draw);
    OK(t.regions.n == 32 && t.regions.n_objects == 8, "32 regions: at most a quarter of them objects");
    targets_free(&t);
}

/* An ellipse, cut to its box. */
static void make_mask(uint8_t *inside, mask_cut_t *out)
{
    *out = (mask_cut_t){31, 19, 59, 43, inside};
    for (int64_t y = 0; y < out->height; y++)
        for (int64_t x = 0; x < out->width; x++) {
            const int64_t dx = out->x + x - 60, dy = out->y + y - 40;
            inside[y * out->width + x] = dx * dx + 2 * dy * dy < 30 * 30;
        }
}

static void test_masks(void)
{
    static const struct {
        box_t region;
        double sum[2], place[2], square[2]; /* not aligned, aligned */
    } expected[] = {
        {{40, 20.5f, 150.25f, 120},
         {395.639764, 395.526801},
         {146837.0853, 148393.1466},
         {383.576122, 383.987071}},
        {{100, 60, 108, 140}, {426.222198, 431.333273}, {91113.5452, 93334.3069}, {421.382706, 424.587252}},
        {{0, 0, 213, 150}, {135.793631, 135.82208}, {47770.6867, 48151.658}, {128.432463, 128.526647}},
        {{150.3f, 70.1f, 151, 70.9f}, {0, 22.400085}, {0, 8538.6324}, {0, 2.975032}},
        {{-20, 50, 80, 170}, {74.635466, 73.840185}, {11270.5525, 11256.0664}, {72.312956, 71.118557}}};
    enum { CASES = sizeof expected / sizeof *expected };
    static uint8_t inside[59 * 43];
    static float out[MASK_TARGET_SIDE * MASK_TARGET_SIDE];
    mask_cut_t mask;
    mask_target_t t = {.aligned = false};
    make_mask(inside, &mask);
    for (int k = 0; k < 2 * CASES; k++) {
        const int i = k % CASES, aligned = k / CASES;
        double sum = 0, place = 0, square = 0;
        t.aligned = aligned;
        err_t err = mask_target_make(&t, &mask, (map_size_t){90, 128}, (map_size_t){150, 213},
                                     expected[i].region, out);
        for (int p = 0; p < MASK_TARGET_SIDE * MASK_TARGET_SIDE; p++) {
            sum += (double)out[p], place += (p + 1) * (double)out[p];
            square += (double)out[p] * (double)out[p];
        }
        OK(err == ERR_OK && fabs(sum - expected[i].sum[aligned]) < 1e-3 &&
               fabs(place - expected[i].place[aligned]) < 0.5 &&
               fabs(square - expected[i].square[aligned]) < 1e-3,
           "mask of region %d%s: sum %.6f, by place %.4f, of squares %.6f", i, aligned ? ", aligned" : "",
           sum, place, square);
    }
    mask_target_free(&t);
}

int main(void)
{
    make_boxes(0, N_OBJECTS, 90, boxes);
    make_boxes(500, N_REGIONS, 80, regions);
    tap_plan(5 + 5 + 5 + 5 + 4 + 5 + 1);
    test_anchors();
    test_regions();
    test_ignored();
    test_sampling();
    test_masks();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
