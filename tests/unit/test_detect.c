/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Regions, detections and pasted masks, against the numbers of torchvision 0.29.2 that tests/unit/detect_torch.py
 * prints for the same inputs; ties, limits, and inputs that are not finite. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "train/detect/postprocess.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

/* A hash that the numbers below were made with. */
static uint32_t word(uint32_t i)
{
    uint32_t x = i * 2654435761u + 12345u;
    x = (x ^ x >> 16) * 0x45d9f3bu;
    return x ^ x >> 16;
}

static float *values(int64_t first, int64_t n, float low, float high)
{
    float *out = NULL;
    ASSERT(mem_new_array(n, sizeof *out, "values", &out) == ERR_OK);
    for (int64_t i = 0; i < n; i++)
        out[i] = low + (high - low) * ((float)(word((uint32_t)(first + i)) >> 8) / (1 << 24));
    return out;
}

enum { LISTED = 4, COLUMNS = 6 };

/* A list of boxes: four of them, and sums over i + 1 times the numbers of row i. */
typedef struct expected {
    int64_t n, index[LISTED];
    double row[LISTED][COLUMNS], sum[COLUMNS];
} expected_t;

static bool agrees(const expected_t *e, double (*rows)[COLUMNS], int64_t n, int n_columns)
{
    double sum[COLUMNS] = {0};
    bool same = n == e->n;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < n_columns; k++) sum[k] += (double)(i + 1) * rows[i][k];
    for (int i = 0; same && i < LISTED; i++)
        for (int k = 0; k < n_columns; k++) same = same && fabs(rows[e->index[i]][k] - e->row[i][k]) < 1e-4;
    for (int k = 0; k < n_columns; k++) same = same && fabs(sum[k] - e->sum[k]) <= 1e-6 * e->sum[k];
    if (!same)
        printf("# %lld rows, sums %.6f %.6f %.6f %.6f\n", (long long)n, sum[0], sum[1], sum[2], sum[3]);
    return same;
}

static const int64_t cells[PROPOSALS_LEVELS][2] = {{40, 56}, {20, 28}, {10, 14}, {5, 7}, {3, 4}};
static const map_size_t canvas = {160, 224}, image = {150, 213};

typedef struct rpn {
    proposals_level_t levels[PROPOSALS_LEVELS];
    float *logits[PROPOSALS_LEVELS], *deltas[PROPOSALS_LEVELS];
} rpn_t;

static rpn_t make_rpn(float scale)
{
    rpn_t out;
    int64_t first = 0;
    for (int i = 0; i < PROPOSALS_LEVELS; i++) {
        const int64_t n = cells[i][0] * cells[i][1];
        out.logits[i] = values(first, 3 * n, -scale, scale);
        out.deltas[i] = values(first + 3 * n, 12 * n, -1, 1);
        out.levels[i] = (proposals_level_t){cells[i][0], cells[i][1], out.logits[i], out.deltas[i]};
        first += 15 * n;
    }
    return out;
}

static void free_rpn(rpn_t *rpn)
{
    for (int i = 0; i < PROPOSALS_LEVELS; i++) mem_free(&rpn->logits[i]), mem_free(&rpn->deltas[i]);
}

enum { BEFORE = 300, AFTER = 200 };

static bool proposals_agree(float scale, const expected_t *e)
{
    rpn_t rpn = make_rpn(scale);
    proposals_t p;
    box_t boxes[AFTER];
    double rows[AFTER][COLUMNS];
    ASSERT(proposals_new(&(proposals_options_t){BEFORE, AFTER, 0.7, false}, 40 * 56, &p) == ERR_OK);
    const int64_t before = mem_count(), n = proposals_find(&p, rpn.levels, canvas, image, boxes);
    bool allocates = mem_count() != before;
    for (int64_t i = 0; i < n; i++) {
        const double row[COLUMNS] = {boxes[i].x1, boxes[i].y1, boxes[i].x2, boxes[i].y2};
        memcpy(rows[i], row, sizeof row);
    }
    proposals_free(&p);
    free_rpn(&rpn);
    return agrees(e, rows, n, 4) && !allocates;
}

static void test_proposals(void)
{
    static const expected_t usual = {200,
                                     {0, 1, 100, 199},
                                     {{20.666021, 118.241180, 40.342537, 149.946350},
                                      {0.000000, 27.067589, 127.993446, 150.000000},
                                      {31.681747, 38.147274, 43.801994, 116.755051},
                                      {0.000000, 84.758881, 52.024071, 99.460861}},
                                     {1599741.744727, 1173580.047607, 2479374.934727, 1952221.543873}},
                            sure = {200,
                                    {0, 1, 100, 199},
                                    {{20.666021, 118.241180, 40.342537, 149.946350},
                                     {56.905411, 149.791351, 144.122421, 150.000000},
                                     {84.894608, 26.284306, 113.531937, 45.854191},
                                     {34.281933, 100.010185, 57.785618, 129.360550}},
                                    {1708902.452457, 1162821.626215, 2423640.118041, 1862027.356646}};
    OK(proposals_agree(4, &usual), "regions of five levels, clipped and suppressed, without allocations");
    OK(proposals_agree(64, &sure), "regions whose probability rounds to 1 come by level, then logit");

    rpn_t rpn = make_rpn(4);
    proposals_t p;
    box_t boxes[AFTER];
    bool finite = true;
    ASSERT(proposals_new(&(proposals_options_t){BEFORE, AFTER, 0.7, false}, 40 * 56, &p) == ERR_OK);
    for (int64_t i = 0; i < 40 * 56; i++) rpn.logits[0][3 * i] = NAN, rpn.deltas[0][12 * i + 5] = NAN;
    const int64_t n = proposals_find(&p, rpn.levels, canvas, image, boxes);
    for (int64_t i = 0; i < n; i++)
        finite = finite && isfinite(boxes[i].x1 + boxes[i].y1 + boxes[i].x2 + boxes[i].y2);
    OK(n > 0 && finite, "outputs that are not finite make no regions");
    proposals_free(&p);
    free_rpn(&rpn);
}

enum { REGIONS = 60, CLASSES = 7 };

typedef struct head {
    box_t regions[REGIONS];
    float *logits, *deltas;
} head_t;

static head_t make_head(void)
{
    head_t out;
    float *corner = values(0, 4 * REGIONS, 0, 128);
    for (int i = 0; i < REGIONS; i++) {
        const float *c = corner + 4 * i;
        out.regions[i] = (box_t){c[0], c[1], c[0] + 1 + c[2] / 2, c[1] + 1 + c[3] / 2};
    }
    mem_free(&corner);
    out.logits = values(240, REGIONS * CLASSES, -4, 4);
    out.deltas = values(660, REGIONS * CLASSES * 4, -4, 4);
    return out;
}

static int64_t detect(const head_t *head, detections_options_t options, int64_t n_regions, found_t *out)
{
    detections_t d;
    const detections_input_t input = {n_regions, head->regions, head->logits, head->deltas, image};
    ASSERT(detections_new(&options, CLASSES, REGIONS, &d) == ERR_OK);
    const int64_t n = detections_find(&d, &input, out);
    detections_free(&d);
    return n;
}

static bool detections_agree(const head_t *head, int64_t most, const expected_t *e)
{
    found_t found[100];
    double rows[100][COLUMNS];
    const int64_t n = detect(head, (detections_options_t){0.05, 0.5, most, NULL, false}, REGIONS, found);
    for (int64_t i = 0; i < n; i++) {
        const box_t b = found[i].box;
        const double row[COLUMNS] = {b.x1, b.y1, b.x2, b.y2, found[i].score, found[i].class};
        memcpy(rows[i], row, sizeof row);
    }
    return agrees(e, rows, n, COLUMNS);
}

static void test_detections(void)
{
    static const expected_t many = {100,
                                    {0, 1, 50, 99},
                                    {{21.791224, 54.543129, 67.715256, 96.815056, 0.939054, 1},
                                     {97.614502, 21.983072, 103.465027, 30.383570, 0.924411, 1},
                                     {48.014763, 59.077923, 52.054031, 64.290428, 0.374972, 3},
                                     {107.299988, 24.482315, 160.005371, 118.259628, 0.172352, 1}},
                                    {313605.216967, 308415.621935, 513855.334587, 501430.358435, 1637.053789,
                                     17143}},
                            few = {10,
                                   {0, 1, 5, 9},
                                   {{21.791224, 54.543129, 67.715256, 96.815056, 0.939054, 1},
                                    {97.614502, 21.983072, 103.465027, 30.383570, 0.924411, 1},
                                    {100.318405, 83.624756, 111.324677, 97.637650, 0.856883, 1},
                                    {39.592937, 101.941849, 99.306473, 150.000000, 0.691554, 2}},
                                   {3140.547583, 2661.894583, 5460.254475, 4560.750483, 44.981502, 157}};
    head_t head = make_head();
    found_t found[DETECTIONS_MOST];
    OK(detections_agree(&head, 100, &many), "detections of all classes, the 100 best");
    OK(detections_agree(&head, 10, &few), "the 10 best");
    OK(detect(&head, (detections_options_t){0.05, 0.5, 100, NULL, false}, 0, found) == 0,
       "no regions, no detections");
    OK(detect(&head, (detections_options_t){1, 0.5, 100, NULL, false}, REGIONS, found) == 0,
       "no probability exceeds 1");
    const int64_t all =
        detect(&head, (detections_options_t){0, 1, DETECTIONS_MOST, NULL, false}, REGIONS, found);
    bool sorted = true, object = true;
    for (int64_t i = 0; i < all; i++) {
        sorted = sorted && (i == 0 || found[i - 1].score >= found[i].score);
        object = object && found[i].class > 0 && found[i].class < CLASSES;
    }
    OK(all > 300 && all <= REGIONS * (CLASSES - 1) && sorted && object,
       "without limits every region is a detection of each class but the background");
    for (int64_t i = 0; i < CLASSES; i++) head.logits[i] = NAN, head.logits[CLASSES + i] = 0;
    for (int64_t i = 0; i < CLASSES * 4; i++) head.deltas[4 * CLASSES + i] = 0;
    const int64_t ties = detect(&head, (detections_options_t){0.05, 0.5, 100, NULL, false}, 2, found);
    bool ascending = ties == CLASSES - 1;
    for (int64_t i = 0; i < ties; i++) ascending = ascending && found[i].class == i + 1;
    OK(ascending, "equal probabilities come by class; what is not finite makes no detections");
    mem_free(&head.logits);
    mem_free(&head.deltas);
}

static void test_masks(void)
{
    static const struct pasted {
        box_t box;
        int64_t area[4], sum[4], flips[4]; /* random probabilities, a disc; both aligned */
    } cases[] = {
        {{10.25f, 5.5f, 90.75f, 60.25f},
         {2183, 2006, 2108, 1943},
         {13699195, 12101195, 13238498, 11720780},
         {1042, 122, 1084, 122}},
        {{-0.4f, -0.4f, 30, 30}, {464, 421, 446, 410}, {881953, 764115, 823279, 708576}, {366, 46, 378, 46}},
        {{100, 60, 160, 120},
         {1785, 1672, 1735, 1576},
         {28231076, 26132524, 27453582, 24632092},
         {825, 92, 817, 88}},
        {{20, 20, 20.5f, 90}, {79, 76, 0, 0}, {188590, 181982, 0, 0}, {24, 4, 0, 0}},
        {{0, 0, 160, 120},
         {9146, 8473, 9158, 8468},
         {92864305, 81849180, 92401341, 81288566},
         {2172, 238, 2174, 240}},
        {{3, 4, 31.9f, 32.9f}, {439, 392, 416, 369}, {907611, 783020, 885053, 755893}, {358, 44, 350, 42}},
        {{40.5f, 40.5f, 41, 41}, {3, 0, 0, 0}, {14641, 0, 0, 0}, {4, 0, 0, 0}},
    };
    const map_size_t size = {120, 160};
    float *logits = values(0, PASTE_SIDE * PASTE_SIDE, -4, 4), disc[PASTE_SIDE * PASTE_SIDE][2];
    paste_t paste = {0};
    rle_t rle = {0};
    for (int i = 0; i < PASTE_SIDE * PASTE_SIDE; i++) {
        const float y = (float)(i / PASTE_SIDE) - 13.5f, x = (float)(i % PASTE_SIDE) - 13.5f;
        disc[i][1] = 10.5f - sqrtf(y * y + x * x);
    }
    for (int64_t i = 0; i < COUNT(cases); i++)
        for (int k = 0; k < 4; k++) {
            const struct pasted *c = &cases[i];
            const bool round = k % 2 == 1;
            int64_t area = 0, sum = 0, at = 0;
            paste.aligned = k >= 2;
            ASSERT(paste_mask(&paste, round ? disc[0] + 1 : logits, round ? 2 : 1, c->box, size, &rle) ==
                   ERR_OK);
            for (int32_t run = 0; run < rle.n; at += rle.runs[run++])
                for (int64_t p = at; run % 2 && p < at + rle.runs[run]; p++) area++, sum += p;
            OK(at == size.height * size.width && area == c->area[k] && sum == c->sum[k] &&
                   rle.n == c->flips[k] + 1,
               "the mask of case %d: %s%s", (int)i, round ? "a disc" : "random probabilities",
               paste.aligned ? ", aligned" : "");
            if (area != c->area[k])
                printf("# area %lld, sum %lld, %d runs\n", (long long)area, (long long)sum, rle.n);
        }
    const box_t box =
        paste_box((box_t){10.5f, 20.25f, 700.125f, 799}, (map_size_t){800, 1066}, (map_size_t){480, 640});
    OK(fabsf(box.x1 - 6.3039f) < 1e-4f && fabsf(box.y1 - 12.15f) < 1e-4f &&
           fabsf(box.x2 - 420.3377f) < 1e-3f && fabsf(box.y2 - 479.4f) < 1e-3f,
       "a box in pixels of the image");
    paste_free(&paste);
    rle_free(&rle);
    mem_free(&logits);
}

/* A mask that is inside everywhere, with boxes that end at, within and beyond the image. */
static void test_runs(bool aligned)
{
    static const box_t boxes[] = {
        {-9, -9, 50, 50}, {0, 0, 20, 10}, {5, 2, 15, 8}, {-5, 3, 9, 30}, {3, -5, 30, 6}};
    const map_size_t size = {10, 20};
    float logits[PASTE_SIDE * PASTE_SIDE];
    uint8_t mask[10 * 20];
    paste_t paste = {.aligned = aligned};
    rle_t rle = {0}, again = {0};
    bool same = true;
    for (int i = 0; i < PASTE_SIDE * PASTE_SIDE; i++) logits[i] = 9;
    for (int64_t i = 0; i < COUNT(boxes); i++) {
        ASSERT(paste_mask(&paste, logits, 1, boxes[i], size, &rle) == ERR_OK);
        same = same && rle_decode(&rle, 20, 10, mask) == ERR_OK &&
               rle_encode(mask, 20, 10, &again) == ERR_OK && rle.n == again.n &&
               memcmp(rle.runs, again.runs, (size_t)rle.n * sizeof *rle.runs) == 0;
        const box_t b = boxes[i];
        for (int y = 0; same && y < 10; y++)
            for (int x = 0; x < 20; x++) {
                const float fx = (float)x + .5f, fy = (float)y + .5f;
                const bool well_in = fx > b.x1 + 1 && fx < b.x2 - 1 && fy > b.y1 + 1 && fy < b.y2 - 1,
                           well_out = fx < b.x1 - 1 || fx > b.x2 + 1 || fy < b.y1 - 1 || fy > b.y2 + 1;
                if ((well_in && !mask[y * 20 + x]) || (well_out && mask[y * 20 + x])) same = false;
            }
    }
    OK(same, "runs across columns and at the image's edges are those of the bitmap%s",
       aligned ? ", aligned" : "");
    paste_free(&paste);
    rle_free(&rle);
    rle_free(&again);
}

/* P6 of a canvas of 160 × 224 pixels has 3 × 4 cells, 53 × 56 pixels apart, or 64 pixels. */
static void test_grid(void)
{
    const anchor_grid_t whole = proposals_grid(4, canvas, 3, 4, false),
                        exact = proposals_grid(4, canvas, 3, 4, true);
    const box_t a = anchor_at(&whole, anchor_count(&whole) - 1),
                b = anchor_at(&exact, anchor_count(&exact) - 1);
    OK(whole.stride_y == 53 && whole.stride_x == 56 && a.x1 == 168 - 181 && a.y2 == 106 + 362 &&
           exact.stride_y == 64 && exact.stride_x == 64 && fabsf(b.x1 - (192 - 181.01934f)) < 1e-4f &&
           fabsf(b.y2 - (128 + 362.03867f)) < 1e-4f,
       "anchors of whole numbers, and aligned ones");
}

int main(void)
{
    tap_plan(26 + 14 + 1 + 1);
    test_proposals();
    test_detections();
    test_masks();
    test_runs(false), test_runs(true);
    test_grid();
    OK(mem_live() == 0, "nothing leaks");
    return tap_done();
}
