/* SPDX-License-Identifier: MIT */
/* An RGB canvas: fills, blends, placed images and text, all clipped to the page. Its font is drawn in the source. */
#include "data/show/page.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "data/image/image.h"

enum { FIRST = ' ', LAST = '~', GLYPHS_PER_BLOCK = 8, N_BLOCKS = 12 };

/* Eight glyphs side by side a block. */
/* clang-format off */
static const char *const art[N_BLOCKS * FONT_HEIGHT] = {
    /* (blank) ! " # $ % & ' */
    "..... ..#.. .#.#. .#.#. ..#.. ##..# .##.. ..#..",
    "..... ..#.. .#.#. .#.#. .#### ##..# #..#. ..#..",
    "..... ..#.. .#.#. ##### #.#.. ...#. #.#.. ..#..",
    "..... ..#.. ..... .#.#. .###. ..#.. .#... .....",
    "..... ..#.. ..... ##### ..#.# .#... #.#.# .....",
    "..... ..... ..... .#.#. ####. #..## #..#. .....",
    "..... ..#.. ..... .#.#. ..#.. #..## .##.# .....",
    "..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... .....",
    /* ( ) * + , - . (slash) */
    "...#. .#... ..... ..... ..... ..... ..... ....#",
    "..#.. ..#.. ..#.. ..#.. ..... ..... ..... ....#",
    ".#... ...#. #.#.# ..#.. ..... ..... ..... ...#.",
    ".#... ...#. .###. ##### ..... ##### ..... ..#..",
    ".#... ...#. #.#.# ..#.. ..... ..... ..... .#...",
    ".#... ...#. ..#.. ..#.. .##.. ..... .##.. #....",
    ".#... ...#. ..... ..... .##.. ..... .##.. #....",
    "..#.. ..#.. ..... ..... ..#.. ..... ..... .....",
    "...#. .#... ..... ..... .#... ..... ..... .....",
    /* 0 1 2 3 4 5 6 7 */
    ".###. ..#.. .###. .###. ...#. ##### ..##. #####",
    "#...# .##.. #...# #...# ..##. #.... .#... ....#",
    "#...# ..#.. ....# ....# .#.#. ####. #.... ...#.",
    "#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#..",
    "#...# ..#.. ..#.. ....# ##### ....# #...# ..#..",
    "#...# ..#.. .#... #...# ...#. #...# #...# .#...",
    ".###. .###. ##### .###. ...#. .###. .###. .#...",
    "..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... .....",
    /* 8 9 : ; < = > ? */
    ".###. .###. ..... ..... ...#. ..... .#... .###.",
    "#...# #...# .##.. ..... ..#.. ..... ..#.. #...#",
    "#...# #...# .##.. .##.. .#... ##### ...#. ....#",
    ".###. .#### ..... .##.. #.... ..... ....# ...#.",
    "#...# ....# .##.. ..... .#... ##### ...#. ..#..",
    "#...# ...#. .##.. .##.. ..#.. ..... ..#.. .....",
    ".###. .##.. ..... .##.. ...#. ..... .#... ..#..",
    "..... ..... ..... ..#.. ..... ..... ..... .....",
    "..... ..... ..... .#... ..... ..... ..... .....",
    /* @ A B C D E F G */
    ".###. .###. ####. .###. ####. ##### ##### .###.",
    "#...# #...# #...# #...# #...# #.... #.... #...#",
    "#.### #...# #...# #.... #...# #.... #.... #....",
    "#.#.# ##### ####. #.... #...# ####. ####. #.###",
    "#.### #...# #...# #.... #...# #.... #.... #...#",
    "#.... #...# #...# #...# #...# #.... #.... #...#",
    ".###. #...# ####. .###. ####. ##### #.... .####",
    "..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... .....",
    /* H I J K L M N O */
    "#...# .###. ..### #...# #.... #...# #...# .###.",
    "#...# ..#.. ...#. #..#. #.... ##.## ##..# #...#",
    "#...# ..#.. ...#. #.#.. #.... #.#.# ##..# #...#",
    "##### ..#.. ...#. ##... #.... #.#.# #.#.# #...#",
    "#...# ..#.. ...#. #.#.. #.... #...# #..## #...#",
    "#...# ..#.. #..#. #..#. #.... #...# #..## #...#",
    "#...# .###. .##.. #...# ##### #...# #...# .###.",
    "..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... .....",
    /* P Q R S T U V W */
    "####. .###. ####. .###. ##### #...# #...# #...#",
    "#...# #...# #...# #...# ..#.. #...# #...# #...#",
    "#...# #...# #...# #.... ..#.. #...# #...# #...#",
    "####. #...# ####. .###. ..#.. #...# #...# #.#.#",
    "#.... #.#.# #.#.. ....# ..#.. #...# .#.#. #.#.#",
    "#.... #..#. #..#. #...# ..#.. #...# .#.#. ##.##",
    "#.... .##.# #...# .###. ..#.. .###. ..#.. #...#",
    "..... ..... ..... ..... ..... ..... ..... .....",
    "..... ..... ..... ..... ..... ..... ..... .....",
    /* X Y Z [ backslash ] ^ _ */
    "#...# #...# ##### .###. #.... .###. ..#.. .....",
    "#...# #...# ....# .#... #.... ...#. .#.#. .....",
    ".#.#. .#.#. ...#. .#... .#... ...#. #...# .....",
    "..#.. ..#.. ..#.. .#... ..#.. ...#. ..... .....",
    ".#.#. ..#.. .#... .#... ...#. ...#. ..... .....",
    "#...# ..#.. #.... .#... ....# ...#. ..... .....",
    "#...# ..#.. ##### .#... ....# ...#. ..... .....",
    "..... ..... ..... .#... ..... ...#. ..... #####",
    "..... ..... ..... .###. ..... .###. ..... .....",
    /* ` a b c d e f g */
    ".#... ..... #.... ..... ....# ..... ..##. .....",
    "..#.. ..... #.... ..... ....# ..... .#... .....",
    "...#. .###. ####. .###. .#### .###. ####. .####",
    "..... ....# #...# #...# #...# #...# .#... #...#",
    "..... .#### #...# #.... #...# ##### .#... #...#",
    "..... #...# #...# #...# #...# #.... .#... #...#",
    "..... .#### ####. .###. .#### .###. .#... .####",
    "..... ..... ..... ..... ..... ..... ..... ....#",
    "..... ..... ..... ..... ..... ..... ..... .###.",
    /* h i j k l m n o */
    "#.... ..#.. ...#. #.... .##.. ..... ..... .....",
    "#.... ..... ..... #.... ..#.. ..... ..... .....",
    "####. .##.. ..##. #..#. ..#.. ##.#. ####. .###.",
    "#...# ..#.. ...#. #.#.. ..#.. #.#.# #...# #...#",
    "#...# ..#.. ...#. ##... ..#.. #.#.# #...# #...#",
    "#...# ..#.. ...#. #.#.. ..#.. #.#.# #...# #...#",
    "#...# .###. ...#. #..#. .###. #.#.# #...# .###.",
    "..... ..... ...#. ..... ..... ..... ..... .....",
    "..... ..... .##.. ..... ..... ..... ..... .....",
    /* p q r s t u v w */
    "..... ..... ..... ..... .#... ..... ..... .....",
    "..... ..... ..... ..... .#... ..... ..... .....",
    "####. .#### #.##. .#### ####. #...# #...# #...#",
    "#...# #...# ##..# #.... .#... #...# #...# #...#",
    "#...# #...# #.... .###. .#... #...# #...# #.#.#",
    "#...# #...# #.... ....# .#..# #..## .#.#. #.#.#",
    "####. .#### #.... ####. ..##. .##.# ..#.. .#.#.",
    "#.... ....# ..... ..... ..... ..... ..... .....",
    "#.... ....# ..... ..... ..... ..... ..... .....",
    /* x y z { | } ~ (none) */
    "..... ..... ..... ...#. ..#.. .#... ..... .....",
    "..... ..... ..... ..#.. ..#.. ..#.. ..... .....",
    "#...# #...# ##### ..#.. ..#.. ..#.. .#... .....",
    ".#.#. #...# ...#. ..#.. ..#.. ..#.. #.#.# .....",
    "..#.. #...# ..#.. .#... ..#.. ...#. ...#. .....",
    ".#.#. #...# .#... ..#.. ..#.. ..#.. ..... .....",
    "#...# .#### ##### ..#.. ..#.. ..#.. ..... .....",
    "..... ....# ..... ..#.. ..#.. ..#.. ..... .....",
    "..... .###. ..... ...#. ..#.. .#... ..... .....",
};
/* clang-format on */

bool font_ink(unsigned char character, int x, int y)
{
    ASSERT(x >= 0 && x < FONT_WIDTH && y >= 0 && y < FONT_HEIGHT);
    int glyph = (character < FIRST || character > LAST ? '?' : character) - FIRST;
    const char *row = art[glyph / GLYPHS_PER_BLOCK * FONT_HEIGHT + y];
    return row[glyph % GLYPHS_PER_BLOCK * (FONT_WIDTH + 1) + x] == '#';
}

/* Characters in a row of Unicode and their spellings, between blanks. Letters lose their marks; Cyrillic is as in English
 * texts (BGN/PCGN), Greek as in passports (ELOT 743). */
typedef struct spelling {
    uint32_t first;
    const char *words;
} spelling_t;

static const spelling_t spellings[] = {
    {0x00A1, "! c GBP ? JPY | ? \" (c) a << ?"},
    {0x00AE, "(r) - ? +- 2 3 ' u ? . , 1 o >> 1/4 1/2 3/4 ?"},
    {0x00C0, "A A A A A A AE C E E E E I I I I D N O O O O O x O U U U U Y Th ss"},
    {0x00E0, "a a a a a a ae c e e e e i i i i d n o o o o o / o u u u u y th y"},
    {0x0100, "A a A a A a C c C c C c C c D d D d E e E e E e E e E e G g G g G g G g H h H h"},
    {0x0128, "I i I i I i I i I i IJ ij J j K k k L l L l L l L l L l N n N n N n n N n"},
    {0x014C, "O o O o O o OE oe R r R r R r S s S s S s S s T t T t T t"},
    {0x0168, "U u U u U u U u U u U u W w Y y Y Z z Z z Z z s"},
    {0x01A0, "O o"},
    {0x01AF, "U u"},
    {0x01CD, "A a I i O o U u U u U u U u U u"},
    {0x0218, "S s T t"},
    {0x0386, "A . E I I ? O ? Y O i"},
    {0x0391, "A V G D E Z I Th I K L M N X O P R ? S T Y F Ch Ps O I Y a e i i y"},
    {0x03B1, "a v g d e z i th i k l m n x o p r s s t y f ch ps o i y o y o"},
    {0x0400, "E Yo Dj G Ye Dz I Yi J Lj Nj C K I U Dz"},
    {0x0410, "A B V G D E Zh Z I Y K L M N O P R S T U F Kh Ts Ch Sh Shch \" Y ' E Yu Ya"},
    {0x0430, "a b v g d e zh z i y k l m n o p r s t u f kh ts ch sh shch \" y ' e yu ya"},
    {0x0450, "e yo dj g ye dz i yi j lj nj c k i u dz"},
    {0x0490, "G g"},
    {0x1E9E, "SS"},
    {0x1EA0,
     "A a A a A a A a A a A a A a A a A a A a A a A a E e E e E e E e E e E e E e E e I i I i O o O o O o O o O o"},
    {0x1ED6, "O o O o O o O o O o O o O o U u U u U u U u U u U u U u Y y Y y Y y Y y"},
    {0x2010, "- - - - - - || ? ' ' , ' \" \" ,, \" ? ? * > . .. ..."},
    {0x2032, "' \""},
    {0x2039, "< >"},
    {0x20AC, "EUR"},
    {0x2122, "TM"},
    {0x2190, "<- ^ -> v"},
    {0x2212, "-"},
};

/* Marks that follow their letter, and characters without width. */
static bool is_silent(uint32_t c)
{
    return (c >= 0x300 && c < 0x370) || c == 0xAD || (c >= 0x200B && c <= 0x200D) || c == 0xFEFF;
}

static uint32_t decode(const char *text, size_t n)
{
    uint32_t c = (unsigned char)text[0] & (n == 1 ? 0x7F : 0xFF >> (n + 1));
    for (size_t i = 1; i < n; i++) c = c << 6 | ((unsigned char)text[i] & 0x3F);
    return c;
}

int font_spell(const char **text, const char **out)
{
    const char *at = *text;
    const size_t n = utf8_length(at);
    *text += n ? n : 1;
    *out = at;
    if (n == 1 && *at >= FIRST && *at <= LAST) return 1;
    *out = "?";
    if (n < 2) return 1;
    const uint32_t c = decode(at, n);
    if (is_silent(c)) return 0;
    if (c == 0xA0) *out = " ";
    const spelling_t *row = NULL;
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings && spellings[i].first <= c; i++)
        row = &spellings[i];
    const char *word = row ? row->words : NULL;
    for (uint32_t i = row ? row->first : c; word && i < c; i++) {
        word = strchr(word, ' ');
        if (word) word++;
    }
    if (word) *out = word;
    return (int)strcspn(*out, " ") + (**out == ' ');
}

/* sRGB's transfer curve (IEC 61966-2-1); colours out of gamut are clipped. */
static uint8_t srgb_encode(double linear)
{
    double x = fmin(fmax(linear, 0), 1);
    x = x <= 0.0031308 ? 12.92 * x : 1.055 * pow(x, 1 / 2.4) - 0.055;
    return (uint8_t)(255 * x + 0.5);
}

static double cube(double x)
{
    return x * x * x;
}

/* Category colours in Oklab, where equal distances look equal (B. Ottosson, "A perceptual color space for
 * image processing", 2020). Consecutive numbers differ in hue; similar hues differ in lightness or chroma,
 * with a period of eight. A search chose the constants: any two of 91 colours (COCO's ids) are at least 0.041
 * apart; 0.02 is just visible. */
rgb_t palette_colour(int32_t category)
{
    static const double lightness[] = {0.77, 0.62, 0.69, 0.84}, strength[] = {0.21, 0.09};
    static const double first = 0.94, step = 0.4199; /* turns */
    const double hue = 2 * acos(-1) * fmod(first + step * category, 1);
    const double light = lightness[category % 4], chroma = strength[category / 4 % 2];
    const double a = chroma * cos(hue), b = chroma * sin(hue);
    const double l = cube(light + 0.3963377774 * a + 0.2158037573 * b);
    const double m = cube(light - 0.1055613458 * a - 0.0638541728 * b);
    const double s = cube(light - 0.0894841775 * a - 1.2914855480 * b);
    return (rgb_t){srgb_encode(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                   srgb_encode(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                   srgb_encode(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

err_t page_new(int64_t width, int64_t height, rgb_t background, page_t **out)
{
    ASSERT(width > 0 && height > 0 && width <= INT32_MAX && height <= INT32_MAX);
    page_t *page = NULL;
    TRY(mem_new(sizeof *page, "an image", &page));
    err_t err = mem_new_array(width * height, 3, "an image", &page->rgb);
    if (err != ERR_OK) {
        mem_free(&page);
        return err;
    }
    page->width = width;
    page->height = height;
    page_fill(page, (page_box_t){0, 0, width, height}, background);
    *out = page;
    return ERR_OK;
}

void page_free(page_t **page)
{
    if (!*page) return;
    mem_free(&(*page)->rgb);
    mem_free(page);
}

static int64_t min_int64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_int64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static page_box_t clip_box(const page_t *page, page_box_t box)
{
    int64_t left = max_int64(box.x, 0), top = max_int64(box.y, 0);
    int64_t right = min_int64(box.x + box.width, page->width),
            bottom = min_int64(box.y + box.height, page->height);
    return (page_box_t){left, top, max_int64(right - left, 0), max_int64(bottom - top, 0)};
}

static uint8_t *pixel_at(page_t *page, int64_t x, int64_t y)
{
    return page->rgb + 3 * (y * page->width + x);
}

void page_fill(page_t *page, page_box_t box, rgb_t colour)
{
    page_box_t part = clip_box(page, box);
    for (int64_t y = part.y; y < part.y + part.height; y++) {
        uint8_t *to = pixel_at(page, part.x, y);
        for (int64_t x = 0; x < part.width; x++, to += 3) {
            to[0] = colour.r;
            to[1] = colour.g;
            to[2] = colour.b;
        }
    }
}

static uint8_t mix_byte(uint8_t below, uint8_t above, double share)
{
    return (uint8_t)(below + (above - below) * share + 0.5);
}

void page_mix(page_t *page, page_box_t box, rgb_t colour, double share)
{
    page_box_t part = clip_box(page, box);
    for (int64_t y = part.y; y < part.y + part.height; y++) {
        uint8_t *to = pixel_at(page, part.x, y);
        for (int64_t x = 0; x < part.width; x++, to += 3) {
            to[0] = mix_byte(to[0], colour.r, share);
            to[1] = mix_byte(to[1], colour.g, share);
            to[2] = mix_byte(to[2], colour.b, share);
        }
    }
}

void page_place(page_t *page, page_box_t box, const page_source_t *image)
{
    ASSERT(image->width > 0 && image->height > 0 && image->channels > 0);
    page_box_t part = clip_box(page, box);
    for (int64_t y = part.y; y < part.y + part.height; y++) {
        int64_t row = (y - box.y) * image->height / box.height;
        for (int64_t x = part.x; x < part.x + part.width; x++) {
            int64_t column = (x - box.x) * image->width / box.width;
            const uint8_t *from = image->values + (row * image->width + column) * image->channels;
            uint8_t *to = pixel_at(page, x, y);
            for (int c = 0; c < 3; c++) to[c] = from[image->channels == 3 ? c : 0];
        }
    }
}

static void draw_character(page_t *page, int64_t x, int64_t y, text_style_t style, unsigned char character)
{
    for (int row = 0; row < FONT_HEIGHT; row++)
        for (int column = 0; column < FONT_WIDTH; column++)
            if (font_ink(character, column, row))
                page_fill(
                    page,
                    (page_box_t){x + column * style.scale, y + row * style.scale, style.scale, style.scale},
                    style.colour);
}

int64_t page_text(page_t *page, int64_t x, int64_t y, text_style_t style, const char *text)
{
    ASSERT(style.scale > 0);
    while (*text) {
        const char *spelled;
        const int n = font_spell(&text, &spelled);
        for (int i = 0; i < n; i++, x += FONT_ADVANCE * style.scale)
            draw_character(page, x, y, style, (unsigned char)spelled[i]);
    }
    return x;
}

int64_t page_text_width(int scale, const char *text)
{
    int64_t n = 0;
    const char *spelled;
    while (*text) n += font_spell(&text, &spelled);
    return n > 0 ? (n * FONT_ADVANCE - (FONT_ADVANCE - FONT_WIDTH)) * scale : 0;
}

err_t page_write_png(const page_t *page, const char *path)
{
    const image_t image = {page->width, page->height, page->rgb};
    return png_file_write(path, &image);
}
