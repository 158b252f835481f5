/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Augmentation: maps whose result is known exactly, random maps against a reference in double precision that
 * goes the other way round (forward matrices composed, then inverted), and what is drawn for whom. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/transform/map.h"
#include "tests/tap.h"

static const random_affine_t nothing = {.zoom_rows = 1, .zoom_cols = 1};
/* With a seed of its own. */
typedef struct keyed {
    random_affine_ranges_t ranges;
    uint64_t seed;
} keyed_t;
static const keyed_t everything = {{30, .2, 20, .3, true}, 77};

static const struct {
    int64_t height, width, channels;
} shapes[] = {{28, 28, 1}, {5, 9, 3}, {7, 4, 2}, {1, 1, 1},  {1, 1, 3},
              {1, 6, 1},   {6, 1, 4}, {2, 2, 1}, {33, 17, 3}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MAX_FLOATS = 33 * 28 * 4 };

static float image[MAX_FLOATS], result[MAX_FLOATS];

static void apply(const random_affine_t *drawn, const float *in, int64_t height, int64_t width,
                  int64_t channels, float *out)
{
    affine_t map = random_affine_matrix(drawn, height, width);
    warp_pixels(&map, in, height, width, channels, out);
}

/* n normalised values, about ± 3; what lies behind them must not be read, even with a weight of 0. */
static void paint(uint64_t which, int64_t n)
{
    rng_t rng = rng_new(5, RNG_TEST, which);
    for (int i = 0; i < MAX_FLOATS; i++)
        image[i] = i < n ? (float)(6 * rng_uniform(&rng) - 3) : NAN, result[i] = NAN;
}

static int64_t inside(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* Where output pixel (i, j) of an exact map comes from. */
typedef void (*source_fn)(int64_t height, int64_t width, int64_t i, int64_t j, int64_t *row, int64_t *col);

static bool exact(const random_affine_t *map, int64_t height, int64_t width, int64_t channels,
                  source_fn source)
{
    paint(1, height * width * channels);
    apply(map, image, height, width, channels, result);
    for (int64_t i = 0; i < height; i++)
        for (int64_t j = 0; j < width; j++) {
            int64_t row, col;
            source(height, width, i, j, &row, &col);
            row = inside(row, height), col = inside(col, width);
            if (memcmp(result + (i * width + j) * channels, image + (row * width + col) * channels,
                       (size_t)channels * sizeof *result) != 0) {
                printf("# %dx%dx%d: pixel (%d, %d)\n", (int)height, (int)width, (int)channels, (int)i,
                       (int)j);
                return false;
            }
        }
    return true;
}

/* A quarter turn of an image with one odd and one even side meets half pixels: left to the reference. */
static bool exact_on_shapes(const random_affine_t *map, source_fn source, bool turns)
{
    bool all = true;
    for (int s = 0; s < N_SHAPES; s++)
        if (!turns || (shapes[s].height - shapes[s].width) % 2 == 0)
            all = exact(map, shapes[s].height, shapes[s].width, shapes[s].channels, source) && all;
    return all;
}

#define SOURCE(name, r, c)                                                                                   \
    static void name(int64_t h, int64_t w, int64_t i, int64_t j, int64_t *row, int64_t *col)                 \
    {                                                                                                        \
        (void)h, (void)w, (void)i, (void)j;                                                                  \
        *row = (r), *col = (c);                                                                              \
    }
SOURCE(same, i, j)
SOURCE(mirrored, i, w - 1 - j)
SOURCE(upside_down, h - 1 - i, w - 1 - j)
SOURCE(turned_right, (h - 1 + w - 1) / 2 - j, i + (w - h) / 2)
SOURCE(turned_left, j + (h - w) / 2, (h - 1 + w - 1) / 2 - i)
SOURCE(mirrored_turned, j + (h - w) / 2, i + (w - h) / 2)
SOURCE(up_3, i + 3, j)
SOURCE(down_2_left_5, i - 2, j + 5)
SOURCE(top_left, 0, 0)

static void test_exact(void)
{
    random_affine_t map = nothing;
    OK(exact_on_shapes(&map, same, false), "nothing to do: the same bits");
    map.flip = true;
    OK(exact_on_shapes(&map, mirrored, false), "a flip");
    map = nothing;
    map.rotate_deg = 180;
    OK(exact_on_shapes(&map, upside_down, false), "half a turn");
    map.rotate_deg = 90;
    OK(exact_on_shapes(&map, turned_right, true), "a quarter turn, clockwise");
    map.rotate_deg = -90;
    OK(exact_on_shapes(&map, turned_left, true), "… and back");
    map.rotate_deg = 90;
    map.flip = true;
    OK(exact_on_shapes(&map, mirrored_turned, true), "a turned image is mirrored, not the other way round");
    map = nothing;
    map.shift_rows = 3.0 / 28;
    OK(exact(&map, 28, 28, 1, up_3), "a shift by 3 of 28 rows");
    map.shift_rows = -2.0 / 12;
    map.shift_cols = 5.0 / 15;
    OK(exact(&map, 12, 15, 3, down_2_left_5), "… by rows and columns of an image that is not square");
    map.shift_rows = -1;
    map.shift_cols = -1;
    OK(exact_on_shapes(&map, top_left, false), "… out of the image leaves its corner");
}

static bool row_becomes(const random_affine_t *map, const float *in, const float *expected, int64_t n)
{
    apply(map, in, 1, n, 1, result);
    for (int64_t i = 0; i < n; i++)
        if (fabsf(result[i] - expected[i]) > 1e-6f) {
            printf("# column %d: %g, expected %g\n", (int)i, (double)result[i], (double)expected[i]);
            return false;
        }
    return true;
}

static void test_by_hand(void)
{
    random_affine_t map = nothing;
    map.shift_cols = .5 / 3;
    OK(row_becomes(&map, (float[]){0, 1, 4}, (float[]){.5f, 2.5f, 4}, 3), "a shift by half a pixel");
    map = nothing;
    map.zoom_cols = .5;
    OK(row_becomes(&map, (float[]){0, 1, 4, 8, 9}, (float[]){1, 2.5f, 4, 6, 8}, 5), "zoom .5 enlarges");
    map.zoom_cols = 1.5;
    OK(row_becomes(&map, (float[]){0, 1, 4, 8, 9}, (float[]){0, .5f, 4, 8.5f, 9}, 5), "… 1.5 makes smaller");

    /* The pixel left of the middle is read sin 30° lower and cos 30° to the left of it. */
    map = nothing;
    map.shear_deg = 30;
    paint(0, 9);
    apply(&map, image, 3, 3, 1, result);
    OK(fabsf(result[3] - (image[3] + image[6]) / 2 -
             (float)(1 - cos(30 * 3.14159265358979 / 180)) *
                 ((image[4] + image[7]) / 2 - (image[3] + image[6]) / 2)) < 1e-5f,
       "shear is an angle in degrees");
}

typedef struct mat {
    double at[3][3];
} mat_t;

static mat_t times(mat_t a, mat_t b)
{
    mat_t c = {{{0}}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) c.at[i][j] += a.at[i][k] * b.at[k][j];
    return c;
}

/* By cofactors; the last row is 0 0 1. */
static mat_t inverse(mat_t m)
{
    double a = m.at[0][0], b = m.at[0][1], c = m.at[1][0], d = m.at[1][1], y = m.at[0][2], x = m.at[1][2];
    double det = a * d - b * c;
    return (mat_t){
        {{d / det, -b / det, (b * x - d * y) / det}, {-c / det, a / det, (c * y - a * x) / det}, {0, 0, 1}}};
}

/* From a place (row, column, 1) in the output to one in the input: the inverse of the image's own motions,
 * which are to the centre, turn back, shift, straighten, zoom, flip, back from the centre. */
static mat_t reference_map(const random_affine_t *m, int64_t height, int64_t width)
{
    double theta = m->rotate_deg * acos(-1) / 180, phi = m->shear_deg * acos(-1) / 180;
    double ci = (double)(height - 1) / 2, cj = (double)(width - 1) / 2;
    double dy = m->shift_rows * (double)height, dx = m->shift_cols * (double)width;
    mat_t motions[] = {
        {{{1, 0, -ci}, {0, 1, -cj}, {0, 0, 1}}},
        {{{cos(theta), sin(theta), 0}, {-sin(theta), cos(theta), 0}, {0, 0, 1}}},
        {{{1, 0, -dy}, {0, 1, -dx}, {0, 0, 1}}},
        {{{1, tan(phi), 0}, {0, 1 / cos(phi), 0}, {0, 0, 1}}},
        {{{1 / m->zoom_rows, 0, 0}, {0, 1 / m->zoom_cols, 0}, {0, 0, 1}}},
        {{{1, 0, 0}, {0, m->flip ? -1 : 1, 0}, {0, 0, 1}}},
        {{{1, 0, ci}, {0, 1, cj}, {0, 0, 1}}},
    };
    mat_t all = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
    for (size_t i = 0; i < sizeof motions / sizeof *motions; i++) all = times(motions[i], all);
    return inverse(all);
}

static double reference_pixel(const mat_t *m, int64_t height, int64_t width, int64_t channels, int64_t i,
                              int64_t j, int64_t k)
{
    double row = m->at[0][0] * (double)i + m->at[0][1] * (double)j + m->at[0][2];
    double col = m->at[1][0] * (double)i + m->at[1][1] * (double)j + m->at[1][2];
    double sum = 0;
    for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
            double r = floor(row) + a, c = floor(col) + b;
            int64_t at = inside((int64_t)r, height) * width + inside((int64_t)c, width);
            sum += (1 - fabs(row - r)) * (1 - fabs(col - c)) * (double)image[at * channels + k];
        }
    return sum;
}

static double distance(const random_affine_t *map, int64_t height, int64_t width, int64_t channels)
{
    mat_t m = reference_map(map, height, width);
    double most = 0;
    apply(map, image, height, width, channels, result);
    for (int64_t i = 0; i < height; i++)
        for (int64_t j = 0; j < width; j++)
            for (int64_t k = 0; k < channels; k++) {
                double off = fabs((double)result[(i * width + j) * channels + k] -
                                  reference_pixel(&m, height, width, channels, i, j, k));
                if (off > most || isnan(off)) most = off; /* a NaN stays */
            }
    return most;
}

static void test_reference(void)
{
    static const keyed_t kinds[] = {{{180, 0, 0, 0, false}, 1},  {{0, 1, 0, 0, false}, 2},
                                    {{0, 0, 60, 0, false}, 3},   {{0, 0, 0, .9, false}, 4},
                                    {{0, 0, 0, 0, true}, 5},     {{180, 1, 60, .9, true}, 6},
                                    {{8, .08, .3, .08, true}, 7}};
    static const char *names[] = {
        "turned", "shifted", "sheared", "zoomed", "flipped", "all of it, widely", "all of it, as for MNIST"};
    for (int kind = 0; kind < 7; kind++) {
        double most = 0;
        for (int s = 0; s < N_SHAPES; s++)
            for (int64_t i = 0; i < 40; i++) {
                random_affine_t map = random_affine_draw(&kinds[kind].ranges, kinds[kind].seed, s, i);
                paint((uint64_t)(1000 * s + i), shapes[s].height * shapes[s].width * shapes[s].channels);
                double off = distance(&map, shapes[s].height, shapes[s].width, shapes[s].channels);
                if (off > most || isnan(off)) most = off;
            }
        OK(most < 1e-4, "%s: %.1e from the reference", names[kind], most);
    }
}

/* Bilinear weights sum to one. */
static void test_normalised(void)
{
    float normalised[28 * 28], after[28 * 28], most = 0;
    paint(3, 28 * 28);
    for (int i = 0; i < 28 * 28; i++) normalised[i] = (image[i] - .13f) / .31f;
    random_affine_t map = random_affine_draw(&everything.ranges, everything.seed, 0, 3);
    apply(&map, image, 28, 28, 1, result);
    apply(&map, normalised, 28, 28, 1, after);
    for (int i = 0; i < 28 * 28; i++) most = fmaxf(most, fabsf((result[i] - .13f) / .31f - after[i]));
    OK(most < 1e-4f, "normalised before or after: the same");
}

static bool same_map(random_affine_t a, random_affine_t b)
{
    return a.rotate_deg == b.rotate_deg && a.shift_rows == b.shift_rows && a.shift_cols == b.shift_cols &&
           a.shear_deg == b.shear_deg && a.zoom_rows == b.zoom_rows && a.zoom_cols == b.zoom_cols &&
           a.flip == b.flip;
}

/* Uniform in centre ± range: within it, up to its ends, and balanced. */
static bool spread(const double *value, int n, double centre, double range)
{
    double low = value[0], high = value[0], sum = 0;
    for (int i = 0; i < n; i++) {
        low = fmin(low, value[i]);
        high = fmax(high, value[i]);
        sum += value[i] - centre;
    }
    return low >= centre - range && low < centre - .99 * range && high <= centre + range &&
           high > centre + .99 * range && fabs(sum / n) < .05 * range;
}

static void test_ranges(void)
{
    enum { N = 4000 };
    static double value[6][N];
    int n_flips = 0, n_differ = 0;
    for (int i = 0; i < N; i++) {
        random_affine_t map = random_affine_draw(&everything.ranges, everything.seed, i % 7, i);
        const double drawn[] = {map.rotate_deg, map.shift_rows, map.shift_cols,
                                map.shear_deg,  map.zoom_rows,  map.zoom_cols};
        for (int k = 0; k < 6; k++) value[k][i] = drawn[k];
        n_flips += map.flip;
        n_differ += map.shift_rows != map.shift_cols && map.zoom_rows != map.zoom_cols;
    }
    OK(spread(value[0], N, 0, 30), "angles fill ± 30°");
    OK(spread(value[1], N, 0, .2) && spread(value[2], N, 0, .2), "shifts fill ± .2");
    OK(spread(value[3], N, 0, 20), "shear fills ± 20°");
    OK(spread(value[4], N, 1, .3) && spread(value[5], N, 1, .3), "factors of zoom fill 1 ± .3");
    OK(n_differ == N, "rows and columns have values of their own");
    OK(abs(n_flips - N / 2) < N / 20, "%d of %d are flipped", n_flips, (int)N);

    keyed_t turning = {{.rotate_deg = 30}, 77}, idle = {{0}, 77};
    random_affine_t expected = nothing;
    expected.rotate_deg = random_affine_draw(&everything.ranges, everything.seed, 2, 9).rotate_deg;
    OK(same_map(random_affine_draw(&turning.ranges, turning.seed, 2, 9), expected),
       "one option alone gives the same values as among others");
    OK(same_map(random_affine_draw(&idle.ranges, idle.seed, 2, 9), nothing),
       "none gives the map that changes nothing");
}

static int compare_maps(const void *a, const void *b)
{
    return memcmp(a, b, 2 * sizeof(double));
}

static void test_keys(void)
{
    static const int64_t at[] = {
        0, 1, 2, 3, 4, 7, 8, 15, 16, 59999, 1LL << 31, 1LL << 32, (1LL << 32) + 1, 1LL << 40};
    enum { N = sizeof at / sizeof *at };
    static double drawn[N * N][2];
    keyed_t augment = {{.rotate_deg = 1, .shift = 1}, 3};
    for (int e = 0; e < N; e++)
        for (int i = 0; i < N; i++) {
            random_affine_t map = random_affine_draw(&augment.ranges, augment.seed, at[e], at[i]);
            drawn[e * N + i][0] = map.rotate_deg;
            drawn[e * N + i][1] = map.shift_rows;
        }
    qsort(drawn, N * N, sizeof *drawn, compare_maps);
    int n_same = 0;
    for (int i = 1; i < N * N; i++) n_same += compare_maps(drawn[i - 1], drawn[i]) == 0;
    OK(n_same == 0, "every epoch and sample has values of its own, also beyond 2^32");
    keyed_t other = {augment.ranges, 4};
    OK(!same_map(random_affine_draw(&augment.ranges, augment.seed, 0, 0),
                 random_affine_draw(&other.ranges, other.seed, 0, 0)),
       "another seed, other values");
}

enum { N_THREADS = 4, N_IMAGES = 97, IMAGE = 12 * 10 };
static float by_thread[N_THREADS][N_IMAGES][IMAGE];

/* Every thread goes over the images with another stride. */
static void *work(void *argument)
{
    static const int strides[N_THREADS] = {1, 96, 5, 31};
    int thread = *(int *)argument;
    for (int n = 0, i = thread; n < N_IMAGES; n++, i = (i + strides[thread]) % N_IMAGES) {
        random_affine_t map = random_affine_draw(&everything.ranges, everything.seed, 1, i);
        apply(&map, image + i, 12, 10, 1, by_thread[thread][i]);
    }
    return NULL;
}

static void test_threads(void)
{
    pthread_t thread[N_THREADS];
    int number[N_THREADS];
    paint(8, MAX_FLOATS);
    for (int i = 0; i < N_THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, work, &number[i]) != 0) abort();
    }
    for (int i = 0; i < N_THREADS; i++) pthread_join(thread[i], NULL);
    bool same_result = true;
    for (int i = 1; i < N_THREADS; i++)
        same_result = same_result && memcmp(by_thread[0], by_thread[i], sizeof by_thread[0]) == 0;
    OK(same_result, "threads at the same time, in any order: the same images");
    OK(memcmp(by_thread[0][0], by_thread[0][1], sizeof by_thread[0][0]) != 0, "… and not all alike");
}

static void test_options(void)
{
    random_affine_ranges_t options;
    opt_group_t group = {"Augmentation", random_affine_option_table, n_random_affine_options, &options, 0};
    memset(&options, 0x55, sizeof options);
    OK_CALL(opt_defaults(&group, 1), "defaults");
    OK(!random_affine_active(&options), "… change no image");
    char *all[] = {"--augment-rotate", "8",    "--augment-shift=.07", "--augment-shear", "0.3",
                   "--augment-zoom",   "0.09", "--augment-flip"};
    OK_CALL(opt_parse(&group, 1, 8, all, NULL, 0, NULL), "all of them given");
    OK(options.rotate_deg == 8 && options.shift == .07 && options.shear_deg == .3 && options.zoom == .09 &&
           options.flip,
       "… arrive where they belong");
    static const random_affine_ranges_t single[] = {
        {.rotate_deg = 1e-9}, {.shift = 1e-9}, {.shear_deg = 1e-9}, {.zoom = 1e-9}, {.flip = true}};
    bool active = true;
    for (int i = 0; i < 5; i++) active = active && random_affine_active(&single[i]);
    OK(active, "each of them alone is active");
    static const char *const wrong[][2] = {{"--augment-rotate", "181"}, {"--augment-rotate", "-1"},
                                           {"--augment-shift", "1.5"},  {"--augment-shear", "61"},
                                           {"--augment-zoom", "1"},     {"--augment-zoom", "8%"}};
    for (int i = 0; i < 6; i++)
        OK(opt_parse(&group, 1, 2, (char *[]){(char *)wrong[i][0], (char *)wrong[i][1]}, NULL, 0, NULL) ==
                   ERR_USAGE &&
               strstr(err_message(), wrong[i][0]),
           "refused: %s %s", wrong[i][0], wrong[i][1]);
}

int main(void)
{
    tap_plan(9 + 4 + 7 + 1 + 8 + 2 + 2 + 11 + 1);
    int64_t n_blocks = mem_count();
    test_exact();
    test_by_hand();
    test_reference();
    test_normalised();
    test_ranges();
    test_keys();
    test_threads();
    OK(mem_count() == n_blocks, "nothing was allocated");
    test_options();
    return tap_done();
}
