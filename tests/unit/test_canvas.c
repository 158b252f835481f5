/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Canvases: their sizes, torchvision's sizes of resized images, the padding on COCO's shapes, refused images and
 * options; the pixels of a placed image and its map. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "data/transform/canvas.h"
#include "tests/tap.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof(array)[0]))

static canvases_t make(int64_t min_size, int64_t max_size, const char *canvas)
{
    canvases_t c;
    char text[8];
    snprintf(text, sizeof text, "%d", (int)min_size);
    const canvas_options_t options = {text, max_size, canvas};
    ASSERT(canvases_new(&options, &c) == ERR_OK);
    return c;
}

static bool lists(const canvases_t *c, const char *expected)
{
    char text[1024];
    canvases_describe(c, text, sizeof text);
    if (strcmp(text, expected) != 0) printf("# %s\n", text);
    return strcmp(text, expected) == 0;
}

static void test_lists(void)
{
    const canvases_t usual = make(800, 1333, "auto"), small = make(256, 256, "auto"),
                     some = make(800, 1333, "800x1344,1344x800,800x1344"), exact = make(800, 1333, "exact");
    OK(lists(&usual, "832x832, 800x1088, 1088x800, 800x1216, 1216x800, 800x1344, 1344x800"),
       "seven canvases for 800 and 1333");
    OK(lists(&small, "256x256"), "no side beyond --max-size");
    OK(lists(&some, "800x1344, 1344x800"), "a list, without duplicates");
    OK(exact.exact && exact.n == 0, "exact ones come with the images");

    static const char *const wrong[] = {"",          "800",       "800x",      "800x1333",
                                        "x800",      "800x0",     "800x1344,", "800 x 1344",
                                        "8192x8192", "900000x32", "-32x32",    "automatic"};
    bool refused = true;
    for (int64_t i = 0; i < COUNT(wrong); i++) {
        canvases_t c;
        const canvas_options_t options = {"800", 1333, wrong[i]};
        refused = refused && canvases_new(&options, &c) == ERR_USAGE && strstr(err_message(), "--canvas");
    }
    OK(refused, "an invalid list of sizes is refused");
    canvases_t c;
    const canvas_options_t turned = {"1000", 800, "auto"};
    OK(canvases_new(&turned, &c) == ERR_USAGE && strstr(err_message(), "--max-size 800"),
       "--min-size above --max-size is refused");
}

/* From torchvision's _resize_image_and_masks. Rounding loses a row of 334 x 500. */
static void test_sizes(void)
{
    static const int64_t sizes[][4] = {
        {480, 640, 800, 1066}, {427, 640, 800, 1199}, {640, 427, 1199, 800}, {500, 375, 1066, 800},
        {333, 500, 800, 1201}, {213, 640, 443, 1333}, {640, 100, 1333, 208}, {100, 4000, 33, 1333},
        {305, 500, 799, 1311}, {322, 500, 799, 1242}, {334, 500, 799, 1197},
    };
    /* int(side · scale + 0.5) */
    static const int64_t nearest[][2] = {{800, 1067}, {800, 1199}, {1199, 800}, {1067, 800},
                                         {800, 1201}, {444, 1333}, {1333, 208}, {33, 1333},
                                         {800, 1311}, {800, 1242}, {800, 1198}};
    canvases_t c = make(800, 1333, "auto");
    bool same = true;
    for (int64_t k = 0; k < 2 * COUNT(sizes); k++) {
        const int64_t i = k / 2, *wanted = k % 2 ? nearest[i] : sizes[i] + 2;
        canvas_place_t place;
        c.nearest = k % 2;
        const err_t err = canvas_place(&c, (map_size_t){sizes[i][0], sizes[i][1]}, "a.png", &place);
        same = same && err == ERR_OK && place.scaled.height == wanted[0] && place.scaled.width == wanted[1];
        same = same && place.canvas.height >= place.scaled.height && place.canvas.width >= place.scaled.width;
    }
    OK(same, "images get torchvision's sizes, and a canvas that holds them");
}

/* The shapes that occur more than once among 100 images of COCO, and how often. */
static void test_padding(void)
{
    static const int64_t shapes[][3] = {{480, 640, 18}, {427, 640, 12}, {640, 480, 11}, {500, 375, 5},
                                        {640, 427, 5},  {640, 425, 3},  {425, 640, 3},  {360, 640, 2},
                                        {334, 500, 2},  {428, 640, 2},  {426, 640, 2},  {375, 500, 2}};
    const canvases_t usual = make(800, 1333, "auto");
    canvases_t exact = make(800, 1333, "exact");
    double used = 0, area[2] = {0};
    bool placed = true;
    for (int64_t i = 0; i < COUNT(shapes); i++)
        ASSERT(canvases_add(&exact, (map_size_t){shapes[i][0], shapes[i][1]}, "a.png") == ERR_OK);
    for (int64_t i = 0; i < COUNT(shapes); i++)
        for (int k = 0; k < 2; k++) {
            canvas_place_t place = {0};
            placed = placed && canvas_place(k ? &exact : &usual, (map_size_t){shapes[i][0], shapes[i][1]},
                                            "a.png", &place) == ERR_OK;
            const double n = (double)shapes[i][2];
            area[k] += n * (double)(place.canvas.height * place.canvas.width);
            if (k) used += n * (double)(place.scaled.height * place.scaled.width);
            if (k) placed = placed && place.canvas.height - place.scaled.height < CANVAS_MULTIPLE;
        }
    printf("# area of canvases / of images: auto %.4f, exact %.4f\n", area[0] / used, area[1] / used);
    OK(placed && area[0] / used < 1.035, "at most 3.5 %% of area is added on COCO's shapes");
    OK(area[1] < area[0], "exact canvases have less");
}

static void test_refused(void)
{
    const canvases_t usual = make(800, 1333, "auto"), wide = make(800, 1333, "800x1344");
    canvas_place_t place;
    OK(canvas_place(&usual, (map_size_t){31, 500}, "thin.png", &place) == ERR_DATA &&
           strstr(err_message(), "thin.png") && strstr(err_message(), "at least 32"),
       "an image narrower than 32 pixels is refused");
    OK(canvas_place(&usual, (map_size_t){4001, 100}, "long.png", &place) == ERR_DATA &&
           strstr(err_message(), "long.png") && strstr(err_message(), "1:40"),
       "a shape beyond 1:40 is refused");
    OK(canvas_place(&usual, (map_size_t){4000, 100}, "long.png", &place) == ERR_OK, "1:40 is accepted");
    OK(canvas_place(&wide, (map_size_t){640, 480}, "tall.png", &place) == ERR_USAGE &&
           strstr(err_message(), "tall.png") && strstr(err_message(), "1088x800"),
       "an image that no canvas holds is refused, with one that does");
    canvases_t exact = make(800, 1333, "exact");
    err_t err = ERR_OK;
    for (int64_t i = 0; i < 60 && err == ERR_OK; i++) {
        err = canvases_add(&exact, (map_size_t){100, 100 + 4 * i}, "a.png");
        if (err == ERR_OK) err = canvases_add(&exact, (map_size_t){100 + 4 * i, 100}, "a.png");
    }
    canvases_t many = make(32, 4096, "exact");
    for (int64_t i = 0; i < 200 && err == ERR_OK; i++)
        err = canvases_add(&many, (map_size_t){32 + i, 32 * 40}, "a.png");
    OK(err == ERR_OK, "shapes of a data set need few exact canvases");
    canvases_t full = make(4096, 4096, "exact");
    for (int64_t i = 0; i < 128 && err == ERR_OK; i++)
        err = canvases_add(&full, (map_size_t){4096, 4096 - 32 * i}, "a.png");
    OK(err == ERR_USAGE && strstr(err_message(), "--canvas auto") && full.n == CANVAS_MAX,
       "more than 64 exact canvases are refused");
}

/* An image of one colour, and one whose pixels are where the map says. */
static void test_pixels(void)
{
    enum { W = 90, H = 60 };
    const canvases_t c = make(64, 96, "64x96,96x64");
    canvas_place_t place;
    ASSERT(canvas_place(&c, (map_size_t){H, W}, "a.png", &place) == ERR_OK);
    OK(place.scaled.height == 64 && place.scaled.width == 96 && place.index == 0, "60 x 90 fills 64 x 96");
    ASSERT(canvas_place(&c, (map_size_t){H, H}, "a.png", &place) == ERR_OK);
    const int64_t n = place.canvas.height * place.canvas.width * 3;
    uint8_t *pixels = NULL, *rgb = NULL;
    float *out = NULL;
    pixel_table_t table;
    resize_scratch_t scratch = {0};
    const pixel_norm_t norm = pixel_norm_imagenet();
    ASSERT(mem_new_array(H * H * 3, 1, "pixels", &pixels) == ERR_OK);
    ASSERT(mem_new_array(n, 1, "pixels", &rgb) == ERR_OK);
    ASSERT(mem_new_array(n, sizeof *out, "canvas", &out) == ERR_OK);
    pixel_table_make(&norm, 3, &table);
    for (int64_t i = 0; i < H * H * 3; i++) pixels[i] = i / 3 / H < H / 2 ? 200 : 100; /* upper, lower half */
    for (int64_t i = 0; i < n; i++) out[i] = NAN;
    const image_t image = {H, H, pixels};
    ASSERT(canvas_fill(&place, &image, &table, &scratch, rgb, out) == ERR_OK);
    bool inside = true, outside = true;
    for (int64_t i = 0; i < n; i++) {
        const int64_t y = i / 3 / place.canvas.width, x = i / 3 % place.canvas.width;
        if (x >= place.scaled.width || y >= place.scaled.height)
            outside = outside && out[i] == 0;
        else if (y < 30 || y > 33)
            inside = inside && out[i] == table.value[i % 3][y < 32 ? 200 : 100];
    }
    OK(inside, "the resized image is normalized at the top left");
    OK(outside, "beside it the canvas is 0 after normalization");
    const map_t map = canvas_map(&place);
    const map_point_t corner = map_point(&map, 0, 0), foot = map_point(&map, 64, 64);
    OK(fabs(corner.x) + fabs(corner.y) < 1e-9 && fabs(foot.x - H) + fabs(foot.y - H) < 1e-9,
       "the map leads from the canvas to the image");
    resize_scratch_free(&scratch);
    mem_free(&pixels), mem_free(&rgb), mem_free(&out);
}

/* What torchvision makes of images of many sizes (canvas_torch.py): the size, three values, and the mean of all values
 * weighted by 1 to 97. */
static const struct {
    map_size_t image, scaled;
    double value[3], mean;
} interpolated[] = {
    {{320, 192}, {320, 192}, {-0.8277310, -0.1486709, -0.5253019}, 0.115221315},
    {{192, 192}, {192, 192}, {0.7829133, -0.5146840, -1.5870366}, 0.116698133},
    {{96, 96}, {192, 192}, {0.7074142, 1.3121134, 0.2142735}, 0.112429490},
    {{33, 55}, {192, 320}, {-0.1203697, 1.7280449, 0.6308584}, 0.123330443},
    {{384, 640}, {192, 320}, {0.1832983, 0.2739871, 0.8746468}, 0.114218707},
    {{1600, 1200}, {256, 192}, {-0.5829066, -0.6854357, 0.3799020}, 0.113544089},
    {{37, 192}, {61, 320}, {-0.1134516, 0.2967225, -0.3953700}, 0.117274753},
    {{250, 324}, {192, 248}, {1.4869987, 1.4205781, 1.1157380}, 0.114433108},
    {{241, 142}, {320, 188}, {0.0240673, 0.7170627, 0.5789413}, 0.113905318},
    {{172, 126}, {262, 192}, {0.5639269, 1.0846177, 1.7877277}, 0.114767815},
    {{1316, 561}, {320, 136}, {1.2249746, 1.0291642, 0.5826206}, 0.115835150},
    {{448, 130}, {320, 92}, {0.0896489, 1.0193567, -0.8720782}, 0.114533577},
    {{194, 58}, {320, 95}, {0.1870799, -0.4095950, -0.1991124}, 0.111546840},
    {{418, 758}, {176, 320}, {0.0806673, 1.0822853, 0.6045223}, 0.115463556},
    {{174, 55}, {320, 101}, {0.0122335, 0.6600488, -0.9230033}, 0.114852554},
    {{40, 147}, {87, 320}, {0.4834661, -0.6887606, -0.7669001}, 0.116914089},
    {{1098, 2035}, {172, 320}, {0.1188328, 0.3891177, -0.6426281}, 0.115368355},
    {{185, 50}, {320, 86}, {-0.5818833, 1.6775417, 0.1898153}, 0.113979560},
    {{135, 41}, {320, 97}, {-0.9282954, 1.5660335, -0.8425109}, 0.111901071},
    {{243, 185}, {252, 192}, {-0.4723256, 1.6545144, -0.0139572}, 0.114429152},
    {{167, 56}, {320, 107}, {0.4849102, 0.6688808, 0.1457640}, 0.113547835},
    {{164, 48}, {320, 93}, {0.5648522, -0.2927599, -0.3865662}, 0.114676481},
    {{555, 476}, {223, 192}, {1.3981175, 0.9424186, -0.6604791}, 0.113106655},
    {{437, 174}, {320, 127}, {1.1673750, 0.6560528, -0.8611871}, 0.114152209},
    {{74, 151}, {156, 320}, {0.4913477, -1.5355265, -0.0110313}, 0.114247415},
    {{766, 1583}, {154, 320}, {0.7765007, 0.7010984, -0.5851771}, 0.115210784},
    {{613, 917}, {191, 287}, {1.1099228, -1.2880423, 0.1169395}, 0.114415668},
    {{339, 175}, {320, 165}, {-0.1127476, 1.0796856, 0.5088302}, 0.114635324},
    {{241, 93}, {320, 123}, {-0.5968717, -0.7146400, -0.3024886}, 0.114860157},
    {{89, 49}, {320, 176}, {-0.0108487, 0.2367521, 0.1887722}, 0.114300675},
    {{170, 58}, {320, 109}, {-0.0079436, -0.2503667, 0.6865179}, 0.114528253},
    {{1333, 1704}, {192, 245}, {1.2001470, -0.7394120, 0.0048883}, 0.116198616},
    {{150, 54}, {320, 115}, {-0.1368332, -0.1199970, -1.1563224}, 0.114135563},
    {{102, 84}, {233, 192}, {-0.2174203, -0.3253880, -0.5560429}, 0.113287568},
    {{355, 828}, {137, 320}, {-0.0182146, -1.5291442, -0.1522427}, 0.114870793},
    {{653, 291}, {320, 142}, {0.2105767, 0.4902253, 0.3265350}, 0.112870970},
    {{42, 40}, {201, 192}, {1.0548984, 2.2949841, 0.5510417}, 0.120859055},
    {{73, 55}, {254, 192}, {0.0479242, -0.1489609, 0.5459986}, 0.117292962},
    {{460, 399}, {221, 192}, {-0.9920928, 2.1900475, 0.9543897}, 0.114070494},
    {{39, 133}, {93, 320}, {-0.2545979, 1.5896289, -0.0079999}, 0.115906053},
    {{817, 1210}, {192, 284}, {-0.1250978, -0.3258062, -0.9950281}, 0.113239651},
    {{226, 106}, {320, 150}, {-0.5272352, 0.0857088, -0.8218991}, 0.115934914},
    {{478, 415}, {221, 192}, {1.4328518, -0.8468448, 1.8520160}, 0.114333011},
    {{823, 246}, {320, 95}, {-1.1501528, 1.0007831, -0.0885558}, 0.113451402},
    {{144, 409}, {112, 320}, {-0.3812160, -0.0899938, 0.0086127}, 0.115130600},
    {{263, 102}, {320, 124}, {0.3464090, -0.3032786, 0.5251810}, 0.114698057},
    {{213, 104}, {320, 156}, {-0.6544834, 0.8656945, 1.0998440}, 0.114581234},
    {{375, 780}, {153, 320}, {0.6767026, -1.1450409, -0.1947114}, 0.116299617},
    {{328, 273}, {230, 192}, {1.6824594, 0.1266280, 0.5327437}, 0.113971505},
    {{298, 101}, {320, 108}, {0.7559804, -0.2107017, 0.8260221}, 0.115710767},
};

static void test_interpolated(void)
{
    const canvases_t c = make(192, 320, "320x320");
    const pixel_norm_t norm = pixel_norm_imagenet();
    pixel_table_t table;
    uint8_t *pixels = NULL;
    float *out = NULL;
    bool sizes = true, values = true, beside = true;
    pixel_table_make(&norm, 3, &table);
    ASSERT(mem_new_array(3 << 22, 1, "pixels", &pixels) == ERR_OK);
    ASSERT(mem_new_array(3 * 320 * 320, sizeof *out, "canvas", &out) == ERR_OK);
    for (int64_t i = 0; i < COUNT(interpolated); i++) {
        const map_size_t size = interpolated[i].image;
        canvas_place_t place;
        for (int64_t k = 0; k < 3 * size.height * size.width; k++) {
            const int64_t x = k / 3 % size.width, y = k / 3 / size.width;
            pixels[k] = (uint8_t)((37 * x + 101 * y + 59 * (k % 3) + x * y % 251) % 256);
        }
        const image_t image = {size.width, size.height, pixels};
        ASSERT(canvas_place(&c, size, "a.png", &place) == ERR_OK);
        sizes = sizes && place.scaled.height == interpolated[i].scaled.height &&
                place.scaled.width == interpolated[i].scaled.width;
        for (int64_t k = 0; k < 3 * 320 * 320; k++) out[k] = NAN;
        canvas_interpolate(&place, &image, &table, out);
        const int64_t n = 3 * place.scaled.height * place.scaled.width, row = 3 * place.scaled.width;
        double sum = 0, off = 0;
        for (int64_t k = 0; k < n; k++) sum += (double)out[k / row * 960 + k % row] * (double)(1 + k % 97);
        for (int k = 0; k < 3; k++) {
            const int64_t at = (k + 1) * INT64_C(2654435761) % n;
            off = fmax(off, fabs((double)out[at / row * 960 + at % row] - interpolated[i].value[k]));
        }
        off = fmax(off, fabs(sum / (double)n / 97 - interpolated[i].mean));
        if (!(off <= 1e-6)) printf("# %dx%d: off by %g\n", (int)size.height, (int)size.width, off);
        values = values && off <= 1e-6;
        for (int64_t k = 0; k < 3 * 320 * 320; k++)
            beside =
                beside && (k / 960 < place.scaled.height && k % 960 < row ? isfinite(out[k]) : out[k] == 0);
    }
    OK(sizes && COUNT(interpolated) == 50, "50 images have torchvision's sizes");
    OK(values, "... and its values to 1e-6");
    OK(beside, "... and beside them 0");
    mem_free(&pixels), mem_free(&out);
}

/* Training draws one of several sizes; evaluation has the largest. */
static void test_several(void)
{
    canvases_t c;
    canvas_place_t place;
    ASSERT(canvases_new(&(canvas_options_t){"800,640", 1333, "auto"}, &c) == ERR_OK);
    OK(c.n_min_sizes == 2 && c.min_sizes[0] == 640 && c.min_size == 800 &&
           lists(&c, "672x672, 640x864, 864x640, 640x960, 960x640, 832x832, 640x1344, 1344x640, 800x1088, "
                     "1088x800, 800x1216, 1216x800, 800x1344, 1344x800"),
       "canvases for every size, smallest first");
    OK(canvas_place_at(&c, 640, (map_size_t){480, 640}, "a.png", &place) == ERR_OK &&
           place.scaled.height == 640 && place.scaled.width == 853 && place.canvas.width == 864 &&
           canvas_place(&c, (map_size_t){480, 640}, "a.png", &place) == ERR_OK && place.scaled.width == 1066,
       "an image of each size");
    ASSERT(canvases_new(&(canvas_options_t){"64,96", 200, "exact"}, &c) == ERR_OK);
    OK(canvases_add(&c, (map_size_t){100, 100}, "a.png") == ERR_OK && lists(&c, "64x64, 96x96"),
       "exact canvases of every size");
    static const char *const wrong[] = {"",
                                        "31",
                                        "800,",
                                        ",800",
                                        "640 800",
                                        "5000",
                                        "32,33,34,35,36,37,38,39,40,"
                                        "41,42,43,44,45,46,47,48",
                                        "480,512,544,576,608,640,672,704,736,768,800"};
    bool refused = true;
    for (int64_t i = 0; i < COUNT(wrong); i++)
        refused = refused && canvases_new(&(canvas_options_t){wrong[i], 1333, "auto"}, &c) == ERR_USAGE &&
                  strstr(err_message(), "--min-size");
    OK(refused, "an invalid list of sizes is refused, and too many: %s", err_message());
}

int main(void)
{
    tap_plan(27);
    test_lists();
    test_several();
    test_interpolated();
    test_sizes();
    test_padding();
    test_refused();
    test_pixels();
    OK(mem_live() == 0, "nothing leaks");
    return tap_done();
}
