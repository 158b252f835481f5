/* SPDX-License-Identifier: MIT */
/* Boxes, anchors, choices and matching, against numbers that torchvision 0.29.2 gives for the same boxes. */
#include <math.h>

#include "base/rng.h"
#include "compute/boxes/boxes.h"
#include "tests/tap.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

/* A hash that the numbers below were made with. */
static uint32_t word(uint32_t i)
{
    uint32_t x = i * 2654435761u + 12345u;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

static void make_boxes(box_t *out, uint32_t n, uint32_t first, uint32_t span, uint32_t size)
{
    for (uint32_t i = 0, k = first; i < n; i++, k += 4) {
        uint32_t x = word(k) % span, y = word(k + 1) % span, w = 1 + word(k + 2) % size,
                 h = 1 + word(k + 3) % size;
        out[i] = (box_t){(float)x / 4, (float)y / 4, (float)(x + 4 * w) / 4, (float)(y + 4 * h) / 4};
    }
}

static bool same_box(box_t a, float x1, float y1, float x2, float y2)
{
    return memcmp(&a, &(box_t){x1, y1, x2, y2}, sizeof a) == 0;
}

static bool close_to(float a, double b)
{
    return fabs(a - b) <= 2e-6 * fmax(fabs(b), 1);
}

static void test_anchors(void)
{
    static const float ratios[] = {0.5f, 1, 2};
    static const struct level {
        int64_t height, width, n;
        float size;
        box_t first, last, middle;
    } levels[] = {
        {200, 272, 163200, 32, {-23, -11, 23, 11}, {1073, 773, 1095, 819}, {-23, 389, 23, 411}},
        {100, 136, 40800, 64, {-45, -23, 45, 23}, {1057, 747, 1103, 837}, {-45, 377, 45, 423}},
        {50, 68, 10200, 128, {-91, -45, 91, 45}, {1027, 693, 1117, 875}, {-91, 355, 91, 445}},
        {25, 34, 2550, 256, {-181, -91, 181, 91}, {965, 587, 1147, 949}, {363, 293, 725, 475}},
        {13, 17, 663, 512, {-362, -181, 362, 181}, {843, 370, 1205, 1094}, {256, 110, 768, 622}},
    };
    bool same = true;
    for (int64_t i = 0; i < COUNT(levels); i++) {
        const struct level *l = &levels[i];
        anchor_grid_t g = anchor_grid(800, 1088, l->height, l->width, l->size, ratios, 3, true);
        box_t first = anchor_at(&g, 0), last = anchor_at(&g, l->n - 1), middle = anchor_at(&g, l->n / 2);
        same = same && anchor_count(&g) == l->n && memcmp(&first, &l->first, sizeof first) == 0 &&
               memcmp(&last, &l->last, sizeof last) == 0 && memcmp(&middle, &l->middle, sizeof middle) == 0;
    }
    OK(same, "anchors of five levels of 800x1088, the last one with a stride of 61");
}

static void test_coding(void)
{
    static const struct coded {
        box_weights_t weights;
        double delta[3][4], boxes[2][4];
    } cases[] = {
        {{1, 1, 1, 1},
         {{0.356382966, -2.47619057, 0.383958876, -1.65822804},
          {-0.3828125, 0.725000024, 0.87806952, 1.56861591},
          {-0.618749976, 0.881578922, -0.620826483, 1.26025367}},
         {{67.7783203125, -587.2500610351562, 131.2216796875, 725.2500610351562},
          {37.953407287597656, 77.9741439819336, 39.546592712402344, 89.0258560180664}}},
        {{10, 10, 5, 5},
         {{3.5638299, -24.7619057, 1.91979432, -8.29114056},
          {-3.828125, 7.25, 4.39034748, 7.84307957},
          {-6.1875, 8.81578922, -3.10413241, 6.30126858}},
         {{56.680206298828125, -587.2500610351562, 142.31979370117188, 725.2500610351562},
          {38.7103385925293, 77.39299011230469, 38.7896614074707, 89.60700988769531}}},
    };
    box_t objects[6], from[6];
    make_boxes(objects, 6, 2000, 300, 80);
    make_boxes(from, 6, 3000, 300, 80);
    for (int64_t c = 0; c < COUNT(cases); c++) {
        box_weights_t w = cases[c].weights;
        bool encoded = true, inverse = true;
        for (int i = 0; i < 3; i++) {
            box_delta_t d = box_encode(objects[i], from[i], w);
            const double *want = cases[c].delta[i];
            encoded = encoded && close_to(d.dx, want[0]) && close_to(d.dy, want[1]) &&
                      close_to(d.dw, want[2]) && close_to(d.dh, want[3]);
            box_t back = box_decode(d, from[i], w);
            inverse =
                inverse && fabsf(back.x1 - objects[i].x1) < 1e-4f && fabsf(back.y2 - objects[i].y2) < 1e-4f;
        }
        OK(encoded, "encoded with weights %g and %g", (double)w.x, (double)w.w);
        OK(inverse, "decoded again");
        const box_delta_t given[] = {{0.5f * w.x, -0.25f * w.x, 0.3f * w.x, 9 * w.x},
                                     {-1 * w.x, 2 * w.x, -3 * w.x, 0.1f * w.x}};
        bool decoded = true;
        for (int i = 0; i < 2; i++) {
            box_t b = box_decode(given[i], from[i], w);
            const double *want = cases[c].boxes[i];
            decoded = decoded && close_to(b.x1, want[0]) && close_to(b.y1, want[1]) &&
                      close_to(b.x2, want[2]) && close_to(b.y2, want[3]);
        }
        OK(decoded, "decoded, with a height at its limit");
    }
    OK(same_box(box_clip((box_t){-3, 2, 50, 41}, 40, 30), 0, 2, 30, 40), "cut to the image");
    OK(same_box(box_clip((box_t){35, -9, 50, -2}, 40, 30), 30, 0, 30, 0), "outside: nothing is left");
    OK(!box_is_at_least((box_t){30, 0, 30, 9}, 1e-3f) && box_is_at_least((box_t){0, 0, 1, 1}, 1),
       "too narrow");
}

static void test_levels(void)
{
    static const struct side {
        float width, height;
        int level;
    } sides[] = {{1, 1, 2},     {111.9f, 112, 2}, {112, 112, 3}, {224, 224, 4}, {223.9f, 224, 3},
                 {447, 449, 4}, {448, 448, 5},    {900, 900, 5}, {50, 890, 3},  {0, 9, 2}};
    bool same = true;
    for (int64_t i = 0; i < COUNT(sides); i++)
        same = same && box_level((box_t){0, 0, sides[i].width, sides[i].height}, 2, 5) == sides[i].level;
    OK(same, "levels of a pyramid");
}

static void test_select(void)
{
    enum { N = 60, MANY = 20000 };
    static const int64_t best[] = {23, 31, 30, 14, 28, 50, 51, 7,  0,  4,  35, 9,  10, 27, 17,
                                   24, 8,  15, 29, 46, 26, 55, 32, 54, 49, 52, 48, 12, 39, 3,
                                   21, 6,  18, 2,  16, 57, 19, 22, 47, 40, 43, 11, 33, 13, 38,
                                   1,  45, 44, 53, 59, 41, 20, 42, 5,  37, 56, 25, 34, 58, 36};
    static const int64_t left[] = {0,  1,  2,  3,  5,  6,  8,  10, 11, 13, 14, 15, 16, 17, 18,
                                   19, 20, 21, 22, 24, 25, 29, 30, 31, 32, 33, 34, 35, 36, 38,
                                   39, 40, 41, 42, 43, 44, 47, 49, 50, 51, 52, 53, 54, 57};
    static box_t boxes[N], sorted[N];
    static float scores[MANY];
    static uint64_t keys[MANY];
    static int64_t index[MANY], taken[N];
    make_boxes(boxes, N, 0, 160, 60);
    for (uint32_t i = 0; i < N; i++) scores[i] = (float)(word(1000 + i) % 64) / 64;
    int64_t n = select_top(scores, N, N + 5, keys, index);
    OK(n == N && memcmp(index, best, sizeof best) == 0, "all, by descending score");
    for (int i = 0; i < N; i++) sorted[i] = boxes[index[i]];
    n = select_nms(sorted, NULL, N, 0.5, N, taken);
    OK(n == COUNT(left) && memcmp(taken, left, sizeof left) == 0, "suppression leaves %lld", (long long)n);
    OK(select_nms(sorted, NULL, N, 0.5, 3, taken) == 3 && taken[2] == left[2], "at most 3");
    int32_t classes[N];
    for (int i = 0; i < N; i++) classes[i] = i;
    OK(select_nms(sorted, classes, N, 0.5, N, taken) == N, "boxes of different classes do not overlap");
    const box_t halves[] = {{0, 0, 2, 1}, {0, 0, 1, 1}};
    OK(select_nms(halves, NULL, 2, 0.5, 2, taken) == 2, "an IoU of exactly the limit stays");

    for (uint32_t i = 0; i < MANY; i++) scores[i] = (float)((int)(word(i) % 200) - 100);
    scores[7] = NAN, scores[8] = INFINITY, scores[9] = -INFINITY, scores[10] = -0.0f;
    bool sound = true;
    for (int64_t k = 1; k < MANY; k = 3 * k + 1) {
        n = select_top(scores, MANY, k, keys, index);
        sound = sound && n == k && index[0] == 8;
        for (int64_t i = 1; i < k; i++) {
            float a = scores[index[i - 1]], b = scores[index[i]];
            sound = sound && (a > b || (a >= b && index[i - 1] < index[i]));
        }
        /* No other one is better than the last. */
        int64_t better = 0;
        for (int64_t i = 0; i < MANY; i++) better += scores[i] > scores[index[k - 1]];
        sound = sound && better < k;
    }
    OK(sound, "the best k of 20,000 with ties, infinities and NaN; ties by index");
    select_top(scores, MANY, MANY, keys, index);
    OK(index[MANY - 1] == 7 && index[MANY - 2] == 9, "NaN is worse than any number");
}

static void test_sample(void)
{
    enum { N = 1000, ROUNDS = 400, KEPT = 20 };
    static int32_t labels[N], again[N];
    static uint64_t keys[N];
    static int hits[N];
    uint64_t key = rng_key(5, RNG_SAMPLE);
    bool counts = true, others = true;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int64_t n_kept = 0;
        for (int i = 0; i < N; i++) labels[i] = i % 2;
        counts = counts && select_sample(labels, N, 1, KEPT, -2, key, round, 0, keys) == KEPT;
        for (int i = 0; i < N; i++) {
            hits[i] += labels[i] == 1;
            n_kept += labels[i] == 1;
            others = others && (i % 2 ? labels[i] != 0 : labels[i] == 0);
        }
        counts = counts && n_kept == KEPT;
    }
    /* Each of 500 is kept 16 times on average, with a standard deviation of 3.9. */
    int least = ROUNDS, most = 0;
    for (int i = 1; i < N; i += 2)
        least = hits[i] < least ? hits[i] : least, most = hits[i] > most ? hits[i] : most;
    OK(counts && others, "20 of 500 are kept, others keep their labels");
    OK(least >= 1 && most <= 36, "all are kept alike: %d to %d of %d times", least, most, ROUNDS);
    for (int i = 0; i < N; i++) again[i] = i % 2;
    select_sample(again, N, 1, KEPT, -2, key, ROUNDS - 1, 0, keys);
    OK(memcmp(labels, again, sizeof labels) == 0, "the same key and streams, the same sample");
    OK(select_sample(again, N, 1, KEPT, -2, key, 0, 0, keys) == KEPT &&
           select_sample(again, N, 9, 5, -2, key, 0, 0, keys) == 0,
       "no more than there are");
}

static void test_match(void)
{
    enum { OBJECTS = 6, N = 48 };
    static const int32_t best_of_each[] = {-2, -1, -1, 4,  -2, -1, 1,  -1, -2, -2, -2, -1, -2, -1, 4,  3,
                                           2,  -2, -2, -2, -2, -1, -1, 1,  -1, -1, -1, -2, 4,  -2, 0,  -2,
                                           -1, -1, -2, -1, -1, -2, -1, 2,  1,  -1, -2, -1, 4,  1,  -1, -1};
    static const int32_t plain[] = {-1, -1, -1, -1, -1, -1, 1,  -1, -1, -1, -1, -1, -1, -1, 4,  -1,
                                    2,  -1, -1, -1, -1, -1, -1, 1,  -1, -1, -1, -1, 4,  -1, -1, -1,
                                    -1, -1, -1, -1, -1, -1, -1, 2,  1,  -1, -1, -1, 4,  1,  -1, -1};
    box_t objects[OBJECTS], candidates[N];
    float best[OBJECTS], iou[N];
    const match_memory_t memory = {best, iou};
    int32_t found[N];
    make_boxes(objects, OBJECTS, 2000, 300, 80);
    make_boxes(candidates, N, 3000, 300, 80);
    match_boxes(&(match_rule_t){0.4f, 0.2f, true}, objects, OBJECTS, candidates, N, &memory, found);
    OK(memcmp(found, best_of_each, sizeof found) == 0, "matches, with the best candidates of each object");
    match_boxes(&(match_rule_t){0.4f, 0.4f, false}, objects, OBJECTS, candidates, N, &memory, found);
    OK(memcmp(found, plain, sizeof found) == 0, "matches, with one limit");
    match_boxes(&(match_rule_t){0.4f, 0.2f, true}, NULL, 0, candidates, N, &memory, found);
    bool background = true;
    for (int i = 0; i < N; i++) background = background && found[i] == MATCH_BACKGROUND;
    OK(background, "no objects: everything is background");
    /* The second object's best candidate overlaps the first object more: it gets the first. */
    const box_t two[] = {{0, 0, 10, 10}, {6, 0, 30, 10}}, one[] = {{0, 0, 12, 10}};
    match_boxes(&(match_rule_t){0.95f, 0.9f, true}, two, 2, one, 1, &memory, found);
    OK(found[0] == 0, "an object's best candidate has its own best object");
    const box_t apart[] = {{100, 100, 110, 110}};
    match_boxes(&(match_rule_t){0.7f, 0.3f, true}, apart, 1, one, 1, &memory, found);
    OK(found[0] == MATCH_BACKGROUND, "an object that overlaps nothing has no candidates");
}

/* Many objects, each pair looked at. */
static void test_match_pairs(void)
{
    enum { OBJECTS = 40, N = 3000 };
    const match_rule_t rule = {0.5f, 0.3f, true};
    static box_t objects[OBJECTS], candidates[N];
    static float best[OBJECTS], iou[N], most[OBJECTS];
    static int32_t found[N];
    make_boxes(objects, OBJECTS, 2100, 300, 60);
    make_boxes(candidates, N, 3100, 300, 60);
    objects[7] = objects[3], candidates[11] = objects[5], candidates[12] = candidates[13];
    match_boxes(&rule, objects, OBJECTS, candidates, N, &(match_memory_t){best, iou}, found);
    for (int k = 0; k < OBJECTS; k++)
        for (int i = 0; i < N; i++) most[k] = fmaxf(most[k], box_iou(objects[k], candidates[i]));
    int n_low = 0;
    bool same = true;
    for (int i = 0; i < N; i++) {
        int at = 0;
        bool is_best = false;
        for (int k = 0; k < OBJECTS; k++) {
            const float one = box_iou(objects[k], candidates[i]);
            if (one > box_iou(objects[at], candidates[i])) at = k;
            is_best = is_best || (one > 0 && one >= most[k]);
        }
        const float own = box_iou(objects[at], candidates[i]);
        const int32_t expected = own >= 0.5f || is_best ? at : own < 0.3f ? MATCH_BACKGROUND : MATCH_IGNORED;
        same = same && found[i] == expected;
        n_low += is_best && own < 0.5f;
    }
    OK(same && n_low > 0, "as comparing every pair, %d best ones below the limit", n_low);
}

int main(void)
{
    tap_plan(28);
    test_anchors();
    test_coding();
    test_levels();
    test_select();
    test_sample();
    test_match();
    test_match_pairs();
    return tap_done();
}
